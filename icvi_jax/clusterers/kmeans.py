"""Sequential k-means (MacQueen): each sample moves the nearest centre a little towards itself."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.numerics.arrays import COUNT_LIMIT, cast, count, larger, namespace, seat, slots, squares
from icvi_jax.spec import above, one_of, required, spec, static, whole
from icvi_jax.types import Array, Diagnostics, DType, Event, Namespace, Prototypes


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
    """k centres, each the mean of its members; with a finite memory they follow, and indices jump at changes.

    Sequential k-means: the first k samples are the centres, later ones move the nearest.

    .. math:: i = \\arg\\min_i ‖x − v_i‖, \\quad n_i ← n_i + 1, \\quad v_i ← v_i + \\max(1/n_i, 1/memory) (x − v_i)

    Ties go to the lowest slot. Values of indices start at sample k + 1.

    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=None)
    >>> int(icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.k[-1])
    3

    Parameters
    ----------
    k : number of clusters.
    memory : samples of a cluster that its centre remembers; infinity, the default, is the mean of all of them. With a
        finite memory centres follow their clusters; 50 suits real sensors, with k = 3 and seeding="distinct".
    seeding : "first" takes the first k samples, as the paper does. Real sensors repeat readings, and equal seeds never
        separate: "distinct" takes the first k distinct ones; a repeat joins the seed it equals.
    warmup : "exact" sends the first k samples through the statistics like any other, so that incremental values equal
        the batch definition; "paper" starts evaluation with zero dispersion and a mass of k in every cluster.

    References
    ----------
    MacQueen, J. (1967). Some methods for classification and analysis of multivariate observations.
    """

    k: int = required()
    memory: float = float("inf")
    seeding: str = static("first")
    warmup: str = static("exact")
    name: ClassVar = "sk-means"
    crisp: ClassVar = True
    forgets: ClassVar = "nothing; with memory=, each centre only remembers so many of the last members of its cluster."
    avoid: ClassVar = (
        "Where the partition itself must be right and k is not known; without memory= where clusters move."
    )

    def __post_init__(self) -> None:
        whole("SequentialKMeans", "k", self.k)
        above("SequentialKMeans", "memory", self.memory, 1)
        one_of("SequentialKMeans", "seeding", self.seeding, ("first", "distinct"))
        one_of("SequentialKMeans", "warmup", self.warmup, ("exact", "paper"))

    @property
    def local(self) -> bool:
        return self.warmup != "paper"  # which begins the statistics of all slots anew

    def least(self, features: int) -> int:
        return self.k

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> KMeansState:
        return KMeansState(
            xp.zeros((self.k, features, *streams), dtype=dtype),
            xp.zeros((self.k, *streams), dtype=xp.int32),
            xp.zeros(streams, dtype=xp.bool),
        )

    def step(self, state: KMeansState, x: Array, seen: Array) -> tuple[KMeansState, Event]:
        return self.advance(state, x, seen, None, cast(self.memory, x))

    def advance(
        self, state: KMeansState, x: Array, seen: Array, sizes: Array | None, memory: Array
    ) -> tuple[KMeansState, Event]:
        """A step with a memory and, unless None, a number of clusters (*streams) for each stream; k is the largest."""
        xp = namespace(x)
        v, n, ready = state
        active = n > 0
        full = active[-1, ...] if sizes is None else count(active) == sizes  # slots fill in order
        e = x - v
        d = squares(e, 1)
        free = None if sizes is None else slots(d, self.k) < sizes
        slot = seat(d, active, seen, self.seeding == "distinct", free)  # k where the sample is missing
        hit = slot == slots(d, self.k)
        n = n + xp.astype(hit & (n < COUNT_LIMIT), n.dtype)
        u = xp.astype(hit, x.dtype)
        rate = larger(u / xp.astype(xp.where(n > 0, n, 1), x.dtype), u * (1 / memory))
        new = KMeansState(v + rate[:, None, ...] * e, n, xp.where(seen, full, ready))
        none = xp.zeros_like(seen)
        paper = self.warmup == "paper"
        label = xp.where(slot < self.k, slot, -1)
        event = Event(
            x=x,
            u=u,
            before=Prototypes(v, active),
            after=Prototypes(new.centers, new.active),
            seen=seen,
            ready=new.ready,
            shown=Diagnostics(label, count(new.active), none, none, label, surprise(e, active, seen)),
            begin=seen & full & ~ready if paper else None,
            begin_mass=xp.astype(xp.sum(state.counts, axis=0, dtype=xp.int32), x.dtype) if paper else None,
            moved=None if paper else (hit,),
        )
        return new, event
