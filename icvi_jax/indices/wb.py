"""WB: the sum of squares within clusters over that between them, times k.      WB = k W / B"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Overall, Stats
from icvi_jax.types import Array


@spec
class WB(Comparison):
    r"""Within over between, times the number of clusters; small is good.

    .. math:: WB = k W / B, \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    NaN with fewer than two clusters and where B = 0, which is all centres on the faded mean μ of all samples.

    References
    ----------
    Zhao, Q. and Fränti, P. (2014). WB-index: a sum-of-squares based index for cluster validity.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.WB(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["wb"][-1])
    0.0929
    """

    name: str = static("wb")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Overall)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return divide(stats.k * stats[Dispersion].total, stats[Overall].between, stats.xp.nan)
