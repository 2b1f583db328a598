"""Indices of the sums of squares W within clusters and B between them."""

from __future__ import annotations

import math
from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given, log, root
from icvi_jax.spec import is_number, one_of, spec, static
from icvi_jax.statistics import Count, Dispersion, Overall, Stats
from icvi_jax.types import Array


def freedom(stats: Stats, dof: str) -> Array:
    """ω − k, which may be negative; ω for `dof="none"`."""
    return stats.n if dof == "none" else stats.n - stats.k


def caution(owner: str, dof: str, forgetting: float, k: int) -> tuple[str, ...]:
    """A warning if the memory is too short for k clusters: ω < 1/(1 − λ) ≤ k, so n − k is never positive."""
    if dof == "none" or not is_number(forgetting) or forgetting == 1 or (1 - forgetting) * k < 1:
        return ()
    return (
        f"{owner}: with forgetting={forgetting} the panel remembers {1 / (1 - forgetting):.3g} samples, so that n − k "
        f"is negative with k = {k} clusters, and values are NaN. Use dof='none' or a longer memory.",
    )


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


@spec
class RMSSTD(Comparison):
    r"""Root mean square standard deviation of the features within clusters; small is good.

    .. math:: RMSSTD = \sqrt{W / (p (n − k))}, \quad W = Σ_i C_i

    n is ω = Σ λ^(n−j), the faded number of samples. It does not measure separation, so equal centres have no effect.
    NaN with fewer than two clusters, where n ≤ k (with forgetting ω stays below 1/(1 − λ), so that must exceed k), and
    where all samples and centres are in one place, so that constant data do not get the best value.

    Parameters
    ----------
    dof : "faded" divides W by n − k, "none" by n.

    References
    ----------
    Sharma, S. (1996). Applied multivariate techniques.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.RMSSTD(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["rmsstd"][-1])
    0.515
    """

    name: str = static("rmsstd")
    dof: str = static("faded")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion)

    def __post_init__(self) -> None:
        one_of("RMSSTD", "dof", self.dof, ("faded", "none"))

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        n = freedom(stats, self.dof)
        mean = divide(stats[Dispersion].total, stats.centers.shape[1] * n, 0.0)
        return given((n > 0) & ~stats.constant, root(mean))

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value * by

    def cautions(self, forgetting: float, k: int) -> tuple[str, ...]:
        return caution("RMSSTD", self.dof, forgetting, k)


@spec
class BallHall(Comparison):
    r"""Mean over clusters of the mean squared distance from the centre; small is good.

    .. math:: BH = \frac1k Σ_i C_i / M_i

    It does not measure separation, so equal centres have no effect. An active cluster without members counts as 0. NaN
    with fewer than two clusters, and where all samples and centres are in one place, so that constant data do not get
    the best value.

    References
    ----------
    Ball, G. H. and Hall, D. J. (1965). ISODATA: a novel method of data analysis and pattern classification.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.BallHall(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["bh"][-1])
    0.177
    """

    name: str = static("bh")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        return given(~stats.constant, divide(stats.over_slots(stats[Dispersion].level), stats.k, stats.xp.nan))

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value * by**2


@spec
class Xu(Comparison):
    r"""Logarithm of the spread within clusters plus that of their number; small is good.

    .. math:: Xu = p \log \sqrt{W / (p n²)} + \log k, \quad W = Σ_i C_i

    n is ω = Σ λ^(n−j), the faded number of samples. NaN with fewer than two clusters and where W = 0, whose logarithm
    would be the best value of all. It does not measure separation, so equal centres have no effect.

    References
    ----------
    Xu, L. (1997). Bayesian Ying-Yang machine, clustering and number of clusters.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.Xu(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["xu"][-1])
    -1.07
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
