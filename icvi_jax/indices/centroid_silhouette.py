"""Centroid silhouette: members nearer to their own centre than to the next?      mean_i (b_i − a_i) / max(a_i, b_i)"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Comparison, divide, given
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Count, Dispersion, Separation, Stats
from icvi_jax.types import Array


@spec
class CentroidSilhouette(Comparison):
    r"""Mean over clusters of how much nearer the members are to their own centre than to the next; large is good.

    .. math:: csil = \frac1k Σ_i \frac{b_i − a_i}{\max(a_i, b_i)}, \quad a_i = Q_{ii}, \quad b_i = \min_{j≠i} Q_{ij},
              \quad Q_{ij} = S_i/M_i + ‖m_i − v_j‖²

    Q_ij is the mean squared distance of cluster i's members, of mean m_i, from the centre v_j. NaN with fewer than two
    clusters, with an active cluster that has no members, and where a_i = b_i = 0. Coincident centres: 0 for those.

    Parameters
    ----------
    peer : take b_i over Q_ji, the other clusters' members from this centre, as the package cvi does.

    References
    ----------
    Rousseeuw, P. J. (1987). Silhouettes: a graphical aid to the interpretation and validation of cluster analysis.
    Rawashdeh, M. and Ralescu, A. (2012). Center-wise intra-inter silhouettes.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.CentroidSilhouette(),))
    >>> values = icvi.validate(panel, [[0.0], [4.0], [1.0], [5.0], [0.5], [4.2]], labels=[0, 1, 0, 1, 0, 1])
    >>> print("%.3g" % values["csil"][-1])
    0.989
    """

    name: str = static("csil")
    peer: bool = static(False)
    goal: ClassVar = "max"
    range: ClassVar = (-1.0, 1.0)
    positive: ClassVar = False
    needs: ClassVar = (Count, Dispersion, Separation)

    def compare(self, stats: Stats, forgetting: Array) -> Array:
        xp, pairs = stats.xp, stats[Separation].pairs
        mean, scatter = stats[Dispersion].mean, stats[Dispersion].scatter
        if self.peer:
            others = pairs.ordered(lambda _, sj: sj, scatter)
            b = pairs.row_least([s + d for s, d in zip(others, pairs.across(stats.centers, mean))])
        else:
            b = scatter + pairs.row_least(pairs.across(mean, stats.centers))
        a = stats[Dispersion].level
        each = divide(b - a, xp.where(stats.active, xp.maximum(a, b), xp.ones_like(a)), xp.nan)
        return given(stats[Dispersion].empty == 0, divide(stats.over_slots(each), stats.k, xp.nan))
