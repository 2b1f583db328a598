"""Indices of the spread of clusters against the distances between their centres."""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, Index, divide, given, root
from icvi_jax.numerics.arrays import far, larger, smaller
from icvi_jax.numerics.pairs import Terms
from icvi_jax.spec import one_of, spec, static
from icvi_jax.statistics import AnyStatistic, Count, Dispersion, FadedReach, Overall, Separation, Stats
from icvi_jax.types import Array


@spec
class XieBeni(Index):
    """Compactness over separation; small is good.

    .. math:: XB = J / (N h), \\quad XB_λ = (1 − λ) J / h, \\quad J = Σ_i C_i, \\quad h = \\min_{i≠j} ‖v_i − v_j‖²

    k = 1: h is the largest squared distance from the single centre to a sample so far, unless `lone` is different.
    Equal centres, h = 0: +inf.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["xb"][-1])
    0.0156

    Parameters
    ----------
    normalizer : "paper" multiplies J by 1 − λ if λ < 1, which does not tend to XB as λ → 1. "exact" divides by
        ω = Σ λ^(n−j), which does: use it for gradients in λ, and with long memories.
    lone : h while there is one cluster. "paper": the largest distance ever, so that the index *improves* when a stream
        breaks, since h then stays large. "faded": distances fade with λ like everything else. "nan": no value.

    References
    ----------
    Xie, X. L. and Beni, G. (1991). A validity measure for fuzzy clustering.
    Moshtaghi, M., Bezdek, J. C., Erfani, S. M., Leckie, C. and Bailey, J. Online cluster validity indices for
    streaming data.
    """

    name: str = static("xb")
    normalizer: str = static("paper")
    lone: str = static("paper")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Separation)
    keeps: ClassVar = ("distances",)

    def __post_init__(self) -> None:
        one_of("XieBeni", "normalizer", self.normalizer, ("paper", "exact"))
        one_of("XieBeni", "lone", self.lone, ("paper", "faded", "nan"))

    def statistics(self) -> tuple[type[AnyStatistic], ...]:
        return (*self.needs, FadedReach) if self.lone == "faded" else self.needs

    def value(self, stats: Stats, forgetting: Array) -> Array:
        xp = stats.xp
        J, h = stats[Dispersion].total, stats[Separation].smallest
        n = stats.n
        if self.normalizer == "paper":
            fades = forgetting < 1
            n = xp.where(fades, 1 / xp.where(fades, 1 - forgetting, xp.ones_like(forgetting)), stats.samples)
        if self.lone == "faded":
            h = xp.where(stats.k > 1, h, stats[FadedReach].reach)
        value = divide(J, n * h, xp.inf)
        return given(stats.k > 1, value) if self.lone == "nan" else value


@spec
class Kwon(Comparison):
    r"""Dispersion plus the spread of the centres, over the smallest separation; small is good.

    .. math:: K = \frac{J + \frac1k Σ_i ‖v_i − \bar v‖²}{h}, \quad J = Σ_i C_i, \quad h = \min_{i≠j} ‖v_i − v_j‖²

    with v̄ the plain mean of the centres. A sum and not a mean: it grows with the number of samples that are remembered.
    NaN with fewer than two clusters. Coincident centres, h = 0: +inf.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.Kwon(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["kwon"][-1])
    0.312

    References
    ----------
    Kwon, S. H. (1998). Cluster validity index for fuzzy clustering.
    """

    name: str = static("kwon")
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Separation)
    keeps: ClassVar = ("distances",)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        spread = divide(stats.over_slots(stats.from_mean_center), stats.k, stats.xp.nan)
        return divide(stats[Dispersion].total + spread, stats[Separation].smallest, stats.xp.inf)


@spec
class DaviesBouldin(Index):
    """Mean over clusters of the worst ratio of spread to distance; small is good.

    .. math:: DB = \\frac1k Σ_i \\max_{j≠i} \\frac{L_i + L_j}{‖v_i − v_j‖²}, \\quad
              L_i = C_i/M_i \\;(λ = 1), \\quad C_i/\\max(1, M_i) \\;(λ < 1)

    This is the squared form of Araki, as in the paper. k = 1: L_1 / h, with h as in `XieBeni`. Equal centres: +inf.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.DaviesBouldin(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["db"][-1])
    0.0312

    Parameters
    ----------
    root : Davies and Bouldin's own form with p = q = 2: (√L_i + √L_j) / √D_ij.

    References
    ----------
    Davies, D. L. and Bouldin, D. W. (1979). A cluster separation measure.
    """

    name: str = static("db")
    root: bool = static(False)
    goal: ClassVar = "min"
    needs: ClassVar = (Count, Dispersion, Separation)

    def kept(self) -> tuple[str, ...]:
        return ("distances", "inverse_root" if self.root else "inverse")

    def value(self, stats: Stats, forgetting: Array) -> Array:
        xp = stats.xp
        mass, pairs = stats[Dispersion].mass, stats[Separation].pairs
        one = xp.ones_like(mass)
        level = stats[Dispersion].level
        L = xp.where(forgetting < 1, level * smaller(mass, one), level)
        h = stats[Separation].smallest
        if self.root:
            L, h = root(L), root(h)
        alone = divide(stats.over_slots(L), h, xp.inf)
        if pairs.k == 1:
            return alone
        spread = pairs.each(lambda a, b: a + b, L)
        worst = pairs.row_most([s * r for s, r in zip(spread, self._inverse(stats))])
        many = divide(stats.over_slots(worst), xp.where(h > 0, stats.k, xp.zeros_like(h)), xp.inf)
        return xp.where(stats.k > 1, many, alone)

    def _inverse(self, stats: Stats) -> Terms:
        """1 / D_ij, or 1 / √D_ij; anything where it is 0. A list that is kept needs a division a slot, not a pair."""
        xp, pairs, distances = stats.xp, stats[Separation].pairs, stats[Separation].distances

        def inverse(d: Array) -> Array:
            d = root(d) if self.root else d
            return 1 / xp.where(d > 0, d, xp.ones_like(d))

        if not pairs.list:
            return [inverse(d) for d in distances]
        v = stats.centers
        renew = lambda old, moved: pairs.renewed_distances(old, moved, v, inverse)  # noqa: E731
        return [stats.memo.of(self.kept()[-1], lambda: inverse(distances[0]), renew)]


@spec
class GeneralizedDunn43(Comparison):
    r"""Smallest distance between centres over twice the largest spread; large is good.

    .. math:: GD_{43} = \frac{\min_{i≠j} ‖v_i − v_j‖}{2 \max_i C_i / M_i}

    This is the form of other packages, a distance over a squared distance: it changes with the unit of the samples. NaN
    with fewer than two clusters and where no cluster has any spread. Coincident centres: 0, the worst value.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.GeneralizedDunn43(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["gd43"][-1])
    8

    Parameters
    ----------
    root : divide by √(C_i / M_i) instead, which makes the value free of units.

    References
    ----------
    Bezdek, J. C. and Pal, N. R. (1998). Some new indexes of cluster validity.
    """

    name: str = static("gd43")
    root: bool = static(False)
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Dispersion, Separation)
    keeps: ClassVar = ("distances",)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        widest = stats[Dispersion].widest
        return divide(root(stats[Separation].smallest), 2 * (root(widest) if self.root else widest), stats.xp.nan)

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        return value if self.root else value / by


@spec
class GeneralizedDunn53(Comparison):
    r"""Smallest joint spread of two clusters over twice the largest spread of one; large is good.

    .. math:: GD_{53} = \frac{\min_{i≠j} (C_i + C_j) / (M_i + M_j)}{2 \max_i C_i / M_i}

    It does not see how far apart the centres are. NaN with fewer than two clusters, where no cluster has any spread,
    and with two active clusters that have no members.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.GeneralizedDunn53(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["gd53"][-1])
    0.5

    References
    ----------
    Bezdek, J. C. and Pal, N. R. (1998). Some new indexes of cluster validity.
    """

    name: str = static("gd53")
    goal: ClassVar = "max"
    range: ClassVar = (0.0, 0.5)
    needs: ClassVar = (Count, Dispersion, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, pairs = stats.xp, stats[Separation].pairs
        C, M = stats[Dispersion].each, stats[Dispersion].mass
        M = larger(M, float(xp.finfo(M.dtype).smallest_normal))  # no pair has none
        joint = pairs.each(lambda ci, mi, cj, mj: (ci + cj) / (mi + mj), C, M)
        least = pairs.least(pairs.keep(joint, far(C.dtype, xp)))
        return given(stats[Dispersion].empty < 2, divide(least, 2 * stats[Dispersion].widest, xp.nan))


@spec
class PBM(Comparison):
    r"""Scatter of all samples over scatter within clusters, times the largest separation over k; large is good.

    .. math:: PBM = \Bigl(\frac{S_0}{W} \frac{\max_{ij} ‖v_i − v_j‖²}{k}\Bigr)²

    with S0 the faded scatter of all samples about their mean. All distances are squared, unlike in clusterCrit's PBM.
    NaN with fewer than two clusters and where W = 0. All centres in one place: 0, the worst value.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PBM(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["pbm"][-1])
    1.85e+04

    References
    ----------
    Pakhira, M. K., Bandyopadhyay, S. and Maulik, U. (2004). Validity index for crisp and fuzzy clusters.
    """

    name: str = static("pbm")
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Dispersion, Overall, Separation)
    degree: ClassVar = 4
    keeps: ClassVar = ("distances",)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        W = stats[Dispersion].total
        a = divide(stats[Overall].scatter, W, 0.0) * divide(stats[Separation].largest, stats.k, 0.0)
        return given(W > 0, a * a)


@spec
class PartitionSeparation(Comparison):
    r"""Relative mass of each cluster minus its closeness to the next, summed; large is good.

    .. math:: PS = Σ_i \Bigl[ \frac{M_i}{\max_l M_l} − \exp\Bigl(−\min_{j≠i} \frac{‖v_i − v_j‖²}{β}\Bigr) \Bigr],
              \quad β = \frac1k Σ_i ‖v_i − \bar v‖²

    with v̄ the plain mean of the centres. It does not use dispersion, so clusters of one sample each have a value. NaN
    with fewer than two clusters, with all centres in one place (β = 0) and without any member.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.PartitionSeparation(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["ps"][-1])
    1.96

    References
    ----------
    Yang, M.-S. and Wu, K.-L. (2001). A new validity index for fuzzy clustering.
    """

    name: str = static("ps")
    goal: ClassVar = "max"
    range: ClassVar = (-float("inf"), float("inf"))
    positive: ClassVar = False
    scattered: ClassVar = False
    needs: ClassVar = (Count, Dispersion, Separation)
    keeps: ClassVar = ("distances",)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp = stats.xp
        beta = divide(stats.over_slots(stats.from_mean_center), stats.k, xp.nan)
        nearest = stats[Separation].pairs.row_least(stats[Separation].distances)
        nearest = xp.where(stats.active, nearest, 0.0)  # the value of an unused slot would overflow
        mass = stats[Dispersion].mass
        fullest = xp.max(mass, axis=0)
        ok = (beta > 0) & (fullest > 0)
        terms = mass / xp.where(ok, fullest, 1.0) - xp.exp(-nearest / xp.where(ok, beta, 1.0))
        return given(ok, stats.over_slots(terms))
