"""Hartigan: logarithm of between over within.      H = log(B / W)"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, log
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Overall, Stats
from icvi_jax.types import Array


@spec
class Hartigan(Comparison):
    r"""Logarithm of the sum of squares between clusters over that within; large is good.

    .. math:: H = \log(B / W), \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    clusterCrit's Log_SS_Ratio. NaN with fewer than two clusters, where W = 0 and where B = 0 (centres in one place).

    References
    ----------
    Hartigan, J. A. (1975). Clustering algorithms.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.Hartigan(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["hartigan"][-1])
    3.07
    """

    name: str = static("hartigan")
    goal: ClassVar = "max"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion, Overall)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return log(divide(stats[Overall].between, stats[Dispersion].total, 0.0))
