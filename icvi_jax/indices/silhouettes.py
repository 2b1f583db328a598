"""Silhouettes: are samples nearer to their own centre than to the next?"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, Index, divide, given
from icvi_jax.numerics.pairs import Terms
from icvi_jax.spec import one_of, spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Silhouettes, Stats
from icvi_jax.types import Array


@spec
class CentroidSilhouette(Comparison):
    r"""Mean over clusters of how much nearer the members are to their own centre than to the next; large is good.

    .. math:: csil = \frac1k Σ_i \frac{b_i − a_i}{\max(a_i, b_i)}, \quad a_i = Q_{ii}, \quad b_i = \min_{j≠i} Q_{ij},
              \quad Q_{ij} = S_i/M_i + ‖m_i − v_j‖²

    Q_ij is the mean squared distance of cluster i's members, of mean m_i, from the centre v_j. NaN with fewer than two
    clusters, with an active cluster that has no members, and where a_i = b_i = 0. Coincident centres: 0 for those.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.CentroidSilhouette(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["csil"][-1])
    0.985

    Parameters
    ----------
    peer : take b_i over Q_ji, the other clusters' members from this centre, as the package cvi does.

    References
    ----------
    Rousseeuw, P. J. (1987). Silhouettes: a graphical aid to the interpretation and validation of cluster analysis.
    Rawashdeh, M. and Ralescu, A. (2012). Center-wise intra-inter silhouettes.
    """

    name: str = static("csil")
    peer: bool = static(False)
    goal: ClassVar = "max"
    range: ClassVar = (-1.0, 1.0)
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion, Separation)

    def kept(self) -> tuple[str, ...]:
        return ("distances",) if self.peer else ("distances", "across")

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, pairs = stats.xp, stats[Separation].pairs
        mean, scatter = stats[Dispersion].mean, stats[Dispersion].scatter
        if self.peer:
            others = pairs.ordered(lambda _, sj: sj, scatter)
            b = pairs.row_least([s + d for s, d in zip(others, pairs.across(stats.centers, mean))])
        else:
            b = scatter + pairs.row_least(self._across(stats))
        a = stats[Dispersion].level
        each = divide(b - a, xp.where(stats.active, xp.maximum(a, b), 1.0), xp.nan)
        return given(stats[Dispersion].empty == 0, divide(stats.over_slots(each), stats.k, xp.nan))

    def _across(self, stats: Stats) -> Terms:
        """‖m_i − v_j‖² for all i and j."""
        pairs, m, v = stats[Separation].pairs, stats[Dispersion].mean, stats.centers
        if "across" not in stats.memo:
            return pairs.across(m, v)
        full = lambda: stats.xp.concat(pairs.across(m, v))  # noqa: E731
        both = stats.memo.of("across", full, lambda old, moved: pairs.renewed_across(old, moved, m, v))
        half = both.shape[0] // 2
        return [both[:half, ...], both[half:, ...]]


@spec
class OnlineSilhouette(Index):
    r"""Mean over samples of how much nearer they were to their own centre than to the next; large is good.

    .. math:: \frac{b − a}{\max(a, b)}, \quad a = ‖x − v_{own}‖, \quad b = \min_{i ≠ own} \sqrt{‖x − v_i‖² + S_i/M_i}

    with centres and spreads *before* the sample, which are what the clusterer knew when it decided. Samples that start
    a cluster, and samples while there is no other cluster, are left out. NaN until a sample counts.

    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.OnlineSilhouette(),))
    >>> print("%.3g" % icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0]], [0, 1, 0, 1])["osil"][-1])
    0.723

    Parameters
    ----------
    noise : samples of no cluster: "skip" leaves them out, "zero" counts them with 0.

    References
    ----------
    Rousseeuw, P. J. (1987). Silhouettes: a graphical aid to the interpretation and validation of cluster analysis. The
    form for streams is our own.
    """

    name: str = static("osil")
    noise: str = static("skip")
    goal: ClassVar = "max"
    needs: ClassVar = (Silhouettes,)
    range: ClassVar = (-1.0, 1.0)
    positive: ClassVar = False
    scattered: ClassVar = False

    def __post_init__(self) -> None:
        one_of("OnlineSilhouette", "noise", self.noise, ("skip", "zero"))

    def value(self, stats: Stats, forgetting: Array) -> Array:
        state = stats[Silhouettes]
        skip = self.noise == "skip"
        mean, weight = (state.mean, state.weight) if skip else (state.noisy_mean, state.noisy_weight)
        return given(weight > 0, mean)
