"""R²: the share of the sum of squares that lies between clusters.      R² = B / (B + W)"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Overall, Stats
from icvi_jax.types import Array


@spec
class RSquared(Comparison):
    r"""Share of the scatter that the clusters explain; large is good.

    .. math:: R² = B / (B + W), \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    NaN with fewer than two clusters and where B + W = 0 (constant data). All centres on the mean: 0, the worst value.

    References
    ----------
    Sharma, S. (1996). Applied multivariate techniques.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RSquared(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["r2"][-1])
    0.956
    """

    name: str = static("r2")
    goal: ClassVar = "max"
    range: ClassVar = (0.0, 1.0)
    needs: ClassVar = (Count, Dispersion, Overall)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        B, W = stats[Overall].between, stats[Dispersion].total
        return divide(B, B + W, stats.xp.nan)
