"""Sequential k-means (MacQueen): each sample moves the nearest centre a little towards itself."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.kernels.arrays import COUNT_LIMIT, count, first_equal, namespace, slots, squares
from icvi_jax.spec import one_of, spec, static, whole
from icvi_jax.types import Array, Event, Prototypes, Shown


class KMeansState(NamedTuple):
    """Centres (k, p, *streams), members so far (k, *streams), and whether evaluation has begun (*streams)."""

    centers: Array
    counts: Array
    ready: Array

    @property
    def active(self) -> Array:
        """Slots that have a centre."""
        return self.counts > 0


@spec
class SequentialKMeans(Clusterer):
    """Sequential k-means: the first k samples are the centres, later ones move the nearest.

    .. math:: i = \\arg\\min_i ‖x − v_i‖, \\quad n_i ← n_i + 1, \\quad v_i ← v_i + (x − v_i)/n_i

    Ties go to the lowest slot. Values of indices start at sample k + 1.

    Parameters
    ----------
    k : number of clusters.
    seeding : "first" takes the first k samples, as the paper does. Real sensors repeat readings, and equal seeds never
        separate: "distinct" takes the first k distinct ones; a repeat joins the seed it equals.
    warmup : "exact" sends the first k samples through the statistics like any other, so that incremental values equal
        the batch definition; "paper" starts evaluation with zero dispersion and a mass of k in every cluster.

    References
    ----------
    MacQueen, J. (1967). Some methods for classification and analysis of multivariate observations.
    """

    k: int = static()
    seeding: str = static("first")
    warmup: str = static("exact")
    crisp = True

    def __post_init__(self):
        whole("SequentialKMeans", "k", self.k)
        one_of("SequentialKMeans", "seeding", self.seeding, ("first", "distinct"))
        one_of("SequentialKMeans", "warmup", self.warmup, ("exact", "paper"))

    @property
    def slots(self):
        return self.k

    def least(self, features):
        return self.k

    def init(self, features, streams, xp, dtype):
        return KMeansState(
            xp.zeros((self.k, features, *streams), dtype=dtype),
            xp.zeros((self.k, *streams), dtype=xp.int32),
            xp.zeros(streams, dtype=xp.bool),
        )

    def step(self, state, x, seen):
        xp = namespace(x)
        v, n, ready = state
        active = n > 0
        full = active[-1, ...]  # slots fill in order
        e = x - v
        d = squares(e, 1)
        if self.seeding == "distinct":
            d = xp.where(d == 0, xp.full_like(d, -2.0), d)
        d = xp.where(active, d, xp.full_like(d, -1.0))  # below all distances: the first free slot is the nearest
        nearest = xp.min(d, axis=0)
        slot = first_equal(d, xp.where(seen, nearest, xp.full_like(nearest, -3.0)))  # k where the sample is missing
        hit = slot == slots(d, self.k)
        n = n + xp.astype(hit & (n < COUNT_LIMIT), n.dtype)
        u = xp.astype(hit, x.dtype)
        rate = u / xp.astype(xp.where(n > 0, n, xp.ones_like(n)), x.dtype)
        new = KMeansState(v + rate[:, None, ...] * e, n, xp.where(seen, full, ready))
        none = xp.zeros_like(seen)
        paper = self.warmup == "paper"
        label = xp.where(slot < self.k, slot, xp.full_like(slot, -1))
        event = Event(
            x=x,
            u=u,
            before=Prototypes(v, active),
            after=Prototypes(new.centers, new.active),
            seen=seen,
            ready=new.ready,
            shown=Shown(label, count(new.active), none, none, label, surprise(e, active, seen)),
            begin=seen & full & ~ready if paper else None,
            begin_mass=xp.astype(xp.sum(state.counts, axis=0, dtype=xp.int32), x.dtype) if paper else None,
        )
        return new, event
