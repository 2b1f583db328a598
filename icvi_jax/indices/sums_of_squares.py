"""Indices of the sums of squares W within clusters and B between them."""

from __future__ import annotations

import math
from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given, log, root
from icvi_jax.spec import is_number, one_of, spec, static
from icvi_jax.statistics import Count, Dispersion, Overall, Stats
from icvi_jax.types import Array


class _PerFreedom(Comparison):
    """An index that divides W by n − k, or by n for `dof="none"`."""

    dof: str

    def __post_init__(self) -> None:
        one_of(type(self).__name__, "dof", self.dof, ("faded", "none"))

    def freedom(self, stats: Stats) -> Array:
        """n − k, which may be negative, or n."""
        return stats.n if self.dof == "none" else stats.n - stats.k

    def cautions(self, forgetting: float, k: int) -> tuple[str, ...]:
        """A warning if the memory is too short for k clusters: ω < 1/(1 − λ) ≤ k, so n − k is never positive."""
        if self.dof == "none" or not is_number(forgetting) or forgetting == 1 or (1 - forgetting) * k < 1:
            return ()
        return (
            f"{type(self).__name__}: with forgetting={forgetting} the panel remembers {1 / (1 - forgetting):.3g} "
            f"samples, so that n − k is negative with k = {k} clusters, and values are NaN. Use dof='none' or a longer "
            "memory.",
        )


@spec
class CalinskiHarabasz(_PerFreedom):
    r"""Variance ratio of between to within; large is good.

    .. math:: CH = \frac{B / (k − 1)}{W / (n − k)}, \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    n is ω = Σ λ^(n−j), the faded number of samples, and μ the faded mean of all of them. NaN with fewer than two
    clusters, where W = 0 and where n ≤ k: with forgetting ω stays below 1/(1 − λ), so that must exceed k. All centres
    in one place: 0, the worst value. Equals scikit-learn's for crisp labels without forgetting.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.CalinskiHarabasz(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["ch"][-1])
    32

    Parameters
    ----------
    dof : "faded" divides W by n − k, "none" by n.

    References
    ----------
    Caliński, T. and Harabasz, J. (1974). A dendrite method for cluster analysis.
    """

    name: str = static("ch")
    dof: str = static("faded")
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Dispersion, Overall)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        within = divide(stats[Dispersion].total, self.freedom(stats), 0.0)
        return divide(divide(stats[Overall].between, stats.k - 1, 0.0), within, stats.xp.nan)


@spec
class WB(Comparison):
    r"""Within over between, times the number of clusters; small is good.

    .. math:: WB = k W / B, \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    NaN with fewer than two clusters and where B = 0, which is all centres on the faded mean μ of all samples.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.WB(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["wb"][-1])
    0.125

    References
    ----------
    Zhao, Q. and Fränti, P. (2014). WB-index: a sum-of-squares based index for cluster validity.
    """

    name: str = static("wb")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Overall)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return divide(stats.k * stats[Dispersion].total, stats[Overall].between, stats.xp.nan)


@spec
class Hartigan(Comparison):
    r"""Logarithm of the sum of squares between clusters over that within; large is good.

    .. math:: H = \log(B / W), \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    clusterCrit's Log_SS_Ratio. NaN with fewer than two clusters, where W = 0 and where B = 0 (centres in one place).

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.Hartigan(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["hartigan"][-1])
    2.77

    References
    ----------
    Hartigan, J. A. (1975). Clustering algorithms.
    """

    name: str = static("hartigan")
    goal: ClassVar = "max"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion, Overall)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return log(divide(stats[Overall].between, stats[Dispersion].total, 0.0))


@spec
class RSquared(Comparison):
    r"""Share of the scatter that the clusters explain; large is good.

    .. math:: R² = B / (B + W), \quad W = Σ_i C_i, \quad B = Σ_i M_i ‖v_i − μ‖²

    NaN with fewer than two clusters and where B + W = 0 (constant data). All centres on the mean: 0, the worst value.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RSquared(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["r2"][-1])
    0.941

    References
    ----------
    Sharma, S. (1996). Applied multivariate techniques.
    """

    name: str = static("r2")
    goal: ClassVar = "max"
    range: ClassVar = (0.0, 1.0)
    needs: ClassVar = (Count, Dispersion, Overall)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        B, W = stats[Overall].between, stats[Dispersion].total
        return divide(B, B + W, stats.xp.nan)


@spec
class RMSSTD(_PerFreedom):
    r"""Root mean square standard deviation of the features within clusters; small is good.

    .. math:: RMSSTD = \sqrt{W / (p (n − k))}, \quad W = Σ_i C_i

    n is ω = Σ λ^(n−j), the faded number of samples. It does not measure separation, so equal centres have no effect.
    NaN with fewer than two clusters, where n ≤ k (with forgetting ω stays below 1/(1 − λ), so that must exceed k), and
    where all samples and centres are in one place, so that constant data do not get the best value.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RMSSTD(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["rmsstd"][-1])
    0.707

    Parameters
    ----------
    dof : "faded" divides W by n − k, "none" by n.

    References
    ----------
    Sharma, S. (1996). Applied multivariate techniques.
    """

    name: str = static("rmsstd")
    dof: str = static("faded")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion)
    degree: ClassVar = 1

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        n = self.freedom(stats)
        mean = divide(stats[Dispersion].total, stats.centers.shape[1] * n, 0.0)
        return given((n > 0) & ~stats.constant, root(mean))


@spec
class BallHall(Comparison):
    r"""Mean over clusters of the mean squared distance from the centre; small is good.

    .. math:: BH = \frac1k Σ_i C_i / M_i

    It does not measure separation, so equal centres have no effect. An active cluster without members counts as 0. NaN
    with fewer than two clusters, and where all samples and centres are in one place, so that constant data do not get
    the best value.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.BallHall(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["bh"][-1])
    0.25

    References
    ----------
    Ball, G. H. and Hall, D. J. (1965). ISODATA: a novel method of data analysis and pattern classification.
    """

    name: str = static("bh")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion)
    degree: ClassVar = 2

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return given(~stats.constant, divide(stats.over_slots(stats[Dispersion].level), stats.k, stats.xp.nan))


@spec
class Xu(Comparison):
    r"""Logarithm of the spread within clusters plus that of their number; small is good.

    .. math:: Xu = p \log \sqrt{W / (p n²)} + \log k, \quad W = Σ_i C_i

    n is ω = Σ λ^(n−j), the faded number of samples. NaN with fewer than two clusters and where W = 0, whose logarithm
    would be the best value of all. It does not measure separation, so equal centres have no effect.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.Xu(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["xu"][-1])
    -0.693

    References
    ----------
    Xu, L. (1997). Bayesian Ying-Yang machine, clustering and number of clusters.
    """

    name: str = static("xu")
    goal: ClassVar = "min"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        p = stats.centers.shape[1]
        return p / 2 * log(divide(stats[Dispersion].total, p * stats.n * stats.n, 0.0)) + log(stats.k)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value + features * math.log(by)
