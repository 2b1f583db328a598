"""Calinski–Harabasz: variance between clusters over variance within.      CH = (B / (k − 1)) / (W / (n − k))"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide
from icvi_jax.indices.freedom import caution, freedom
from icvi_jax.spec import one_of, spec, static
from icvi_jax.statistics import Count, Dispersion, Overall, Stats
from icvi_jax.types import Array


@spec
class CalinskiHarabasz(Comparison):
    r"""Variance ratio of between to within; large is good.

    .. math:: CH = \frac{B / (k − 1)}{W / (n − k)}, \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    n is ω = Σ λ^(n−j), the faded number of samples, and μ the faded mean of all of them. NaN with fewer than two
    clusters, where W = 0 and where n ≤ k: with forgetting ω stays below 1/(1 − λ), so that must exceed k. All centres
    in one place: 0, the worst value. Equals scikit-learn's for crisp labels without forgetting.

    Parameters
    ----------
    dof : "faded" divides W by n − k, "none" by n.

    References
    ----------
    Caliński, T. and Harabasz, J. (1974). A dendrite method for cluster analysis.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.CalinskiHarabasz(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["ch"][-1])
    86.1
    """

    name: str = static("ch")
    dof: str = static("faded")
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Dispersion, Overall)

    def __post_init__(self) -> None:
        one_of("CalinskiHarabasz", "dof", self.dof, ("faded", "none"))

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        within = divide(stats[Dispersion].total, freedom(stats, self.dof), 0.0)
        return divide(divide(stats[Overall].between, stats.k - 1, 0.0), within, stats.xp.nan)

    def cautions(self, forgetting: float, k: int) -> tuple[str, ...]:
        return caution("CalinskiHarabasz", self.dof, forgetting, k)
