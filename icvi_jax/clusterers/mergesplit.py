"""A quantiser that merges and splits its slots, with links from slots to clusters: it finds k."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.numerics import links, quantiser
from icvi_jax.numerics import traffic as traffic_of
from icvi_jax.numerics.arrays import advance, cast, count, far, larger, namespace, position, slots, smaller, smallest
from icvi_jax.numerics.arrays import squares as sum_of_squares
from icvi_jax.numerics.ward import cheapest, pointed
from icvi_jax.spec import above, finite, number, spec, static, whole
from icvi_jax.types import Array, DType, Event, Merge, Namespace, Prototypes, Shown


class MergeSplitState(NamedTuple):
    """The state of the quantiser.

    Attributes
    ----------
    centers : (K, p, *streams).
    mass : (K, *streams), the faded number of members.
    radius : (K, *streams), the mean squared distance of recent members.
    active : (K, *streams), slots in use; they fill in order and are never freed.
    names : (K, *streams), integer: the persistent name of each slot's cluster; −1 in slots never used.
    linked : (K, *streams), integer: bit e of word c says that slots c and e are linked.
    spread : (*streams), a running mean of squared distances from the nearest centre.
    samples : (*streams), integer: samples seen.
    fresh : (*streams), integer: the next new name.
    traffic : (K, K, *streams), the faded number of samples whose two nearest slots these were; None where links do not
        look at it.
    """

    centers: Array
    mass: Array
    radius: Array
    active: Array
    names: Array
    linked: Array
    spread: Array
    samples: Array
    fresh: Array
    traffic: Array | None = None

    @property
    def prototypes(self) -> Prototypes:
        """The prototypes of the last event."""
        return Prototypes(self.centers, self.active, self.names, self.mass)


@spec
class MergeSplit(Clusterer):
    r"""Finds and follows the number of clusters, of any shape, and gives them names that last.

    Small prototypes cover the stream, several of them to a cluster.

    A sample far from all prototypes becomes a new one, and so does one at the edge of a prototype that is too wide.
    When all slots are used, the pair that is cheapest to merge (Ward) is merged. Prototypes whose radii nearly touch
    are linked, and connected prototypes are a cluster. A cluster keeps its name as long as its heaviest prototype does.
    `Reading.label` is the prototype, `Reading.cluster` the name of the cluster, `Reading.k` how many clusters there
    are. Indices see prototypes, or clusters with ``Panel(of="clusters")``.

    No prototype is ever removed: one without new members is the cheapest to merge when a slot is needed.

    Parameters
    ----------
    slots : number of prototypes, 2 to 31.
    memory : samples of a prototype that its centre and radius remember.
    mass_memory : samples of the stream from which masses and the scale of distances are learned.
    far : a sample this many times the usual distance from the nearest prototype becomes a new cluster.
    gain : how many times the cost of the cheapest merge a split must gain.
    traffic : what two linked prototypes need between them: samples that have one of them as the nearest and the other
        as the second nearest, as a share of the lighter one's mass or of the busiest connection of either, whichever is
        less; half of it keeps a link. 0, the default, looks at distances alone, and takes clusters that touch for one;
        0.5 sees the thin place between them.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.MergeSplit(slots=8), panel=None)
    >>> int(icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.k[-1])
    8
    """

    slots: int = static(16)
    memory: float = 100.0
    mass_memory: float = 500.0
    far: float = 3.0
    gain: float = 20.0
    traffic: float = static(0.0)
    name: ClassVar = "merge-split"
    crisp: ClassVar = True
    grouped: ClassVar = True
    size: ClassVar = "slots"
    usual: ClassVar = 16
    finds_k: ClassVar = True
    cost: ClassVar = "k² p: about five times k-means with as many slots"
    forgets: ClassVar = (
        "each prototype remembers `memory` members, masses `mass_memory` samples; no prototype is removed."
    )
    avoid: ClassVar = (
        "Where clusters overlap and drift together: they become one, and so do clusters that touch, unless traffic= is "
        "given. An index of its slots hardly sees a change."
    )

    def __post_init__(self) -> None:
        whole("MergeSplit", "slots", self.slots, 2)
        fits = f"at most {links.MOST}: links are the bits of one word"
        number("MergeSplit", "slots", self.slots, self.slots <= links.MOST, fits)
        above("MergeSplit", "memory", self.memory, 1)
        above("MergeSplit", "mass_memory", self.mass_memory, 1)
        finite("MergeSplit", "far", self.far, 0)
        finite("MergeSplit", "gain", self.gain, 0)
        wanted = "a finite number of at least 0"
        number("MergeSplit", "traffic", self.traffic, 0 <= self.traffic < float("inf"), wanted)

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> MergeSplitState:
        K = self.slots
        flat, none = xp.zeros((K, *streams), dtype=dtype), xp.zeros((K, *streams), dtype=xp.int32)
        return MergeSplitState(
            centers=xp.zeros((K, features, *streams), dtype=dtype),
            mass=flat,
            radius=flat,
            active=xp.zeros((K, *streams), dtype=xp.bool),
            names=none - 1,
            linked=none,
            spread=xp.zeros(streams, dtype=dtype),
            samples=xp.zeros(streams, dtype=xp.int32),
            fresh=xp.zeros(streams, dtype=xp.int32),
            traffic=xp.zeros((K, K, *streams), dtype=dtype) if self.traffic else None,
        )

    def step(self, state: MergeSplitState, x: Array, seen: Array) -> tuple[MergeSplitState, Event]:
        xp, K = namespace(x), self.slots
        v, q, active, spread = state.centers, state.radius, state.active, state.spread
        once = 1 / cast(self.mass_memory, x)
        n = xp.where(active & seen, larger((1 - once) * state.mass, cast(1e-12, x)), state.mass)
        e = x - v
        d = sum_of_squares(e, 1)
        d = xp.where(active, d, xp.full_like(d, far(d.dtype, xp)))
        hit = active & seen & smallest(d)
        some, full = active[0, ...], active[-1, ...]  # slots fill in order
        d = xp.where(some, xp.min(d, axis=0), xp.zeros_like(spread))

        cost, first, second = cheapest(v, xp.where(active, n, xp.ones_like(n)))
        cost = xp.where(full, cost, xp.zeros_like(cost))
        mass, radius = pointed(n, hit), pointed(q, hit)
        apart = ~some | ((d > cast(self.far, x) ** 2 * spread) & (d > 0))
        spared = ~full | ~xp.any(hit & (first | second), axis=0)
        fat = some & (mass >= 3) & (d > radius) & (mass * radius / 2 > cast(self.gain, x) * cost) & spared
        born, split = seen & (apart | fat), seen & fat & ~apart

        heavier = pointed(n, first) >= pointed(n, second)
        into, gone = (heavier & first) | (~heavier & second), (heavier & second) | (~heavier & first)
        merge = Merge(into & (full & born), gone & (full & born))
        new = born & ((full & gone) | (~full & (slots(hit, K) == count(active))))
        joins = hit & ~born
        v, n, q = quantiser.absorbed((v, n, q), e, d, joins, 1 / cast(self.memory, x))
        v, n, q = quantiser.merged((v, n, q), merge)
        v, n, q = quantiser.placed((v, n, q), x, new, hit & split)
        names = xp.where(new, xp.where(split, pointed(state.names, hit), state.fresh), state.names)
        fresh = advance(state.fresh, born & ~split)

        samples = advance(state.samples, seen)
        rate = larger(1 / xp.astype(larger(samples, xp.ones_like(samples)), x.dtype), once)
        capped = xp.where(born & (samples > 2 * K), smaller(d, 9 * spread), d)
        spread = xp.where(seen, spread + rate * (capped - spread), spread)
        traffic, busy = state.traffic, None
        if traffic is not None:
            two = traffic_of.nearest_two(x, state.centers, active & seen)
            keep = xp.where(seen, 1 - once, xp.ones_like(once))
            pairs, terms = traffic_of.followed(traffic, keep, two, merge, (hit & split, new), pointed(n, new))
            traffic, busy = pairs.matrix(terms, 0.0), traffic_of.busy(pairs, terms, n, self.traffic)
        linked, home = quantiser.grouped((v, n, q), active | new, spread, links.without(state.linked, new), busy)
        names, fresh, k = links.named(home, n, names, active | new, fresh)

        made = MergeSplitState(v, n, q, active | new, names, linked, spread, samples, fresh, traffic)
        given = new | joins
        name, none = pointed(names, given), xp.zeros_like(seen)
        name = xp.where(seen, name, xp.full_like(name, -1))
        event = Event(
            x=x,
            u=xp.astype(given, x.dtype),
            before=state.prototypes,
            after=made.prototypes,
            seen=seen,
            ready=xp.ones_like(seen),
            shown=Shown(position(given), k, none, none, name, surprise(e, active, seen)),
            born=new,
            merge=merge,
        )
        return made, event
