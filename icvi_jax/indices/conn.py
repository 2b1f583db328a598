"""CONN: are the prototypes of a cluster connected, and are clusters separate?"""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.indices.base import Index, divide, given
from icvi_jax.numerics.arrays import cast, larger, namespace, slots
from icvi_jax.spec import spec, static
from icvi_jax.statistics import Connections, Count, Stats
from icvi_jax.statistics.groups import homes
from icvi_jax.types import Array


@spec
class CONN(Index):
    r"""Connectivity of prototypes; large is good. For clusterers with several prototypes per cluster.

    CADJ_ij counts the samples whose nearest prototype is i and whose second nearest is j, CONN = CADJ + CADJᵀ.

    .. math:: \mathrm{intra}_k = \frac{Σ_{i,j∈C_k} CADJ_{ij}}{Σ_{i∈C_k, j} CADJ_{ij}}, \quad
              \mathrm{inter}_{kl} = \frac{Σ_{i∈P, j∈C_l} CONN_{ij}}
              {Σ_{i∈P, j∈C_k∪C_l} CONN_{ij} − ½ Σ_{i,j∈P} CONN_{ij}}

    with P the prototypes of C_k that are connected to C_l, and the value is the mean of intra times one minus the mean
    of each cluster's largest inter. It is right where indices of distance fail, as for clusters that wind around each
    other, but two clusters taken as one cost it little: use it to check prototypes, not to choose k. NaN with one
    cluster and where the clusters of the prototypes are not known.

    Parameters
    ----------
    epsilon : with forgetting, connections up to this share of all counts do not count.

    References
    ----------
    Taşdemir, K. and Merényi, E. (2011). A validity index for prototype-based clustering of data sets with complex
    cluster structures.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.MergeSplit(slots=8), panel=icvi.Panel(indices=(icvi.CONN(),)))
    >>> value = icvi.run(pipe, icvi.streams.s3(seed=0).x).readings.values["conn"][-1]
    >>> bool(0 <= value <= 1)
    True
    """

    name: str = static("conn")
    epsilon: float = 1e-3
    goal: ClassVar = "max"
    needs: ClassVar = (Count, Connections)
    range: ClassVar = (0.0, 1.0)
    positive: ClassVar = False
    scattered: ClassVar = False
    grouped: ClassVar = True

    def value(self, stats: Stats, forgetting: Array) -> Array:
        xp, prototypes = stats.xp, stats.slots
        counts = stats[Connections].counts
        k = counts.shape[0]
        if prototypes.names is None or k == 1:
            return given(stats.k < 0, stats.k)  # always NaN
        home = homes(prototypes)
        here = prototypes.active
        total = xp.sum(counts, axis=(0, 1))
        epsilon = xp.where(forgetting < 1, cast(self.epsilon, counts), 0.0)
        conn = counts + xp.moveaxis(counts, 0, 1)
        conn = xp.where(conn <= epsilon * total, 0.0, conn)
        same = home[:, None, ...] == home[None, ...]
        inside = xp.where(same, conn, 0.0)
        within = _sum_by_cluster(home, here, xp.sum(xp.where(same, counts, 0.0), axis=1))
        intra = divide(within, _sum_by_cluster(home, here, xp.sum(counts, axis=1)), 0.0)

        own = xp.sum(inside, axis=1)
        worst = xp.zeros_like(intra)
        for g in range(k):
            other = here & (home == g)
            out = xp.sum(xp.where(other[None, ...], conn, 0.0), axis=1)  # from each slot to cluster g
            border = (out > 0) & here & ~other
            fold = xp.sum(xp.where(border[None, ...], inside, 0.0), axis=1)
            whole = _sum_by_cluster(home, border, own + out - fold / 2)
            worst = larger(worst, divide(_sum_by_cluster(home, border, out), whole, 0.0))
        there = here & (home == slots(home, k))
        n = xp.sum(xp.astype(there, counts.dtype), axis=0)
        means = [divide(xp.sum(xp.where(there, a, 0.0), axis=0), n, 0.0) for a in (intra, worst)]
        known = xp.all(~here | (prototypes.names >= 0), axis=0)
        return given((n > 1) & known, means[0] * (1 - means[1]))


def _sum_by_cluster(home: Array, mask: Array, a: Array) -> Array:
    """The sums of `a` (k, *streams) over the slots of each cluster, where `mask`: (k, *streams), by lowest slot."""
    xp = namespace(a)
    a = xp.where(mask, a, 0.0)
    return xp.stack([xp.sum(xp.where(home == g, a, 0.0), axis=0) for g in range(a.shape[0])])
