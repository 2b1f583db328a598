"""A quantiser that merges and splits its slots, with links from slots to clusters: it finds k.

Slots have centres v, masses n and mean squared radii q."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple, TypeAlias

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.numerics import neighbour_counts
from icvi_jax.numerics.arrays import (
    advance,
    cast,
    count,
    far,
    larger,
    namespace,
    pointed,
    position,
    slots,
    smaller,
    smallest,
    squares,
)
from icvi_jax.numerics.pairs import Pairs, Terms, cheapest_merge
from icvi_jax.spec import above, finite, number, spec, static, whole
from icvi_jax.types import Array, Diagnostics, DType, Event, Merge, Namespace, Prototypes


class MergeSplitState(NamedTuple):
    """The state of the quantiser."""

    centers: Array  # (K, p, *streams)
    mass: Array  # (K, *streams), the faded number of members
    radius: Array  # (K, *streams), the mean squared distance of recent members
    active: Array  # (K, *streams), slots in use; they fill in order and are never freed
    names: Array  # (K, *streams), integer: the persistent name of each slot's cluster; −1 in slots never used
    linked: Array  # (K, *streams), integer: bit e of word c says that slots c and e are linked
    spread: Array  # (*streams), a running mean of squared distances from the nearest centre
    samples: Array  # (*streams), integer: samples seen
    fresh: Array  # (*streams), integer: the next new name
    # (K, K, *streams), the faded number of samples whose two nearest slots these were; None where links do not look at
    # it
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

    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.MergeSplit(slots=8), panel=None)
    >>> int(icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.k[-1])
    8

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
        fits = f"at most {MOST_SLOTS}: links are the bits of one word"
        number("MergeSplit", "slots", self.slots, self.slots <= MOST_SLOTS, fits)
        above("MergeSplit", "memory", self.memory, 1)
        above("MergeSplit", "mass_memory", self.mass_memory, 1)
        finite("MergeSplit", "far", self.far, 0)
        finite("MergeSplit", "gain", self.gain, 0)
        wanted = "a finite number of at least 0"
        number("MergeSplit", "traffic", self.traffic, 0 <= self.traffic < float("inf"), wanted)

    @property
    def local(self) -> bool:
        return True

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
        n = xp.where(active & seen, larger((1 - once) * state.mass, 1e-12), state.mass)
        e = x - v
        d = squares(e, 1)
        d = xp.where(active, d, far(d.dtype, xp))
        hit = active & seen & smallest(d)
        some, full = active[0, ...], active[-1, ...]  # slots fill in order
        d = xp.where(some, xp.min(d, axis=0), 0.0)

        cost, first, second = cheapest_merge(v, xp.where(active, n, 1.0))
        cost = xp.where(full, cost, 0.0)
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
        v, n, q = absorb_sample((v, n, q), e, d, joins, 1 / cast(self.memory, x))
        v, n, q = merge_slots((v, n, q), merge)
        v, n, q = place_slot((v, n, q), x, new, hit & split)
        names = xp.where(new, xp.where(split, pointed(state.names, hit), state.fresh), state.names)
        fresh = advance(state.fresh, born & ~split)

        samples = advance(state.samples, seen)
        rate = larger(1 / xp.astype(larger(samples, 1), x.dtype), once)
        capped = xp.where(born & (samples > 2 * K), smaller(d, 9 * spread), d)
        spread = xp.where(seen, spread + rate * (capped - spread), spread)
        traffic, busy = state.traffic, None
        if traffic is not None:
            two = neighbour_counts.nearest_two(x, state.centers, active & seen)
            keep = xp.where(seen, 1 - once, 1.0)
            pairs, terms = neighbour_counts.update_counts(
                traffic, keep, two, merge, (hit & split, new), pointed(n, new)
            )
            traffic, busy = pairs.matrix(terms, 0.0), neighbour_counts.is_busy(pairs, terms, n, self.traffic)
        linked, home = group_slots((v, n, q), active | new, spread, drop_links(state.linked, new), busy)
        names, fresh, k = name_components(home, n, names, active | new, fresh)

        made = MergeSplitState(v, n, q, active | new, names, linked, spread, samples, fresh, traffic)
        given = new | joins
        name, none = pointed(names, given), xp.zeros_like(seen)
        name = xp.where(seen, name, -1)
        event = Event(
            x=x,
            u=xp.astype(given, x.dtype),
            before=state.prototypes,
            after=made.prototypes,
            seen=seen,
            ready=xp.ones_like(seen),
            shown=Diagnostics(position(given), k, none, none, name, surprise(e, active, seen)),
            born=new,
            merge=merge,
            moved=(given, merge.into),
        )
        return made, event


Slots: TypeAlias = tuple[Array, Array, Array]
"""Centres v (k, p, *streams), masses n and mean squared radii q (k, *streams)."""

NEAR, NARROW = 1.25, 1.04
"""Slots touch within NEAR times the sum of their radii; NARROW √(3/p) times, where that is more: p = 1 or 2."""


def absorb_sample(slots: Slots, e: Array, d: Array, hit: Array, least: Array) -> Slots:
    """The slot `hit` gets a sample at a difference of `e` (k, p, *streams) and squared distance d; it moves by 1/n, at
    least by `least`.
    """
    xp = namespace(e)
    v, n, q = slots
    n = n + xp.astype(hit, n.dtype)
    g = larger(1 / xp.where(n > 0, n, 1.0), least)
    g = xp.where(hit, g, 0.0)
    return v + g[:, None, ...] * e, n, (1 - g) * (q + g * d)


def merge_slots(slots: Slots, merge: tuple[Array, Array]) -> Slots:
    """Merge two slots: the slot of the first mask of `merge` gets the members of both."""
    xp = namespace(slots[0])
    (va, na, qa), (vb, nb, qb) = (tuple(pointed(a, mask) for a in slots) for mask in merge)
    m = xp.where(na > 0, na + nb, 1.0)
    v = (na * va + nb * vb) / m
    q = (na * qa + nb * qb) / m + na * nb * squares(va - vb) / (m * m)
    old_v, old_n, old_q = slots
    into, _ = merge
    return (xp.where(into[:, None, ...], v, old_v), xp.where(into, m, old_n), xp.where(into, q, old_q))


def place_slot(slots: Slots, x: Array, new: Array, split: Array) -> Slots:
    """The slot `new` begins at the sample: with half of the slot `split`, or with mass 1 and radius 0."""
    xp = namespace(x)
    v, n, q = slots
    n, q = (xp.where(split, 0.5 * a, a) for a in (n, q))
    mass = pointed(n, split)  # 0 where none was split
    return (
        xp.where(new[:, None, ...], x, v),
        xp.where(new, larger(mass, 1.0), n),
        xp.where(new, pointed(q, split), q),
    )


def group_slots(
    slots: Slots, active: Array, spread: Array, linked: Array, busy: tuple[Terms, Terms] | None = None
) -> tuple[Array, Array]:
    """Links, as words of bits, and the component (k, *streams) each slot belongs to.

    Slots with a fifth of the mean mass or more are linked when their radii nearly touch, and stay so until they are a
    fifth further apart. The others go with the nearest of these, if it is near enough. `busy` says for every pair
    whether there is traffic enough for a new link, and for an old one; None: no matter.
    """
    xp = namespace(slots[0])
    v, n, q = slots
    near = max(NEAR, NARROW * math.sqrt(3 / v.shape[1]))
    wide = 1.2 * near
    number = xp.astype(count(active), n.dtype)
    strong = active & (n >= 0.2 * xp.sum(n, axis=0) / larger(number, 1.0))
    r = xp.sqrt(larger(q, spread / 4))

    pairs = Pairs(active)
    D = pairs.distances(v)
    reach = pairs.each(lambda a, b: (a + b) * (a + b), r)
    own = slot_bits(linked) + xp.zeros_like(linked)
    old = pairs.each(lambda row, _a, _b, bit: (row & bit) != 0, linked, own)
    both = pairs.each(lambda a, b: a & b, strong)
    close = [d <= wide * wide * s for d, s in zip(D, reach)]
    start = [d <= near * near * s for d, s in zip(D, reach)]
    stay = [was & c for was, c in zip(old, close)]
    if busy is not None:
        start, stay = ([ok & much for ok, much in zip(*two)] for two in zip((start, stay), busy))
    linked = pack_links(pairs.matrix([ok & (a | b) for ok, a, b in zip(both, start, stay)], False))
    home = find_components(linked)
    return linked, adopt_weak(home, active & ~strong, strong, pairs.matrix(D, 0.0), pairs.matrix(close, False))


MOST_SLOTS = 31
"""Most slots whose links fit into the bits of one word, without its sign: bit e of word c says that slots c and e are
linked. Connected slots are a component, numbered by its lowest slot."""


def slot_bits(like: Array) -> Array:
    """The word of each slot alone, 1, 2, 4, …: (k, 1, …), to broadcast against `like` (k, *streams)."""
    xp = namespace(like)
    words = xp.asarray([1 << c for c in range(like.shape[0])], dtype=xp.int32)
    return xp.reshape(words, (like.shape[0],) + (1,) * (like.ndim - 1))


def pack_links(matrix: Array) -> Array:
    """The words (k, *streams) of a symmetric boolean matrix (k, k, *streams)."""
    xp = namespace(matrix)
    each = (xp.astype(matrix[:, e, ...], xp.int32) * (1 << e) for e in range(matrix.shape[0]))
    return sum(each, start=xp.zeros_like(matrix[:, 0, ...], dtype=xp.int32))


def drop_links(words: Array, gone: Array) -> Array:
    """The words with all links of the slots `gone` (k, *streams) cut."""
    xp = namespace(words)
    return xp.where(gone, 0, words & ~pointed(slot_bits(words), gone))


def find_components(words: Array) -> Array:
    """The component (k, *streams) of each slot, as the word of the lowest slot that it is connected with.

    After round e everything that can be reached through slots 0 … e is known (Warshall).
    """
    xp = namespace(words)
    reached = words | slot_bits(words)
    for e in range(words.shape[0]):
        through = (reached & (1 << e)) != 0
        reached = xp.where(through, reached | reached[e, ...], reached)
    return reached & -reached  # only the lowest bit


def adopt_weak(home: Array, weak: Array, strong: Array, distance: Array, close: Array) -> Array:
    """Components `home` where each weak slot joins that of its nearest strong slot if they are close, else its own."""
    xp = namespace(home)
    own = slot_bits(home) + xp.zeros_like(home)
    nearest, found = xp.full_like(distance[:, 0, ...], xp.inf), own
    for e in range(home.shape[0]):
        nearer = strong[e, ...] & (distance[:, e, ...] < nearest)
        nearest = xp.where(nearer, distance[:, e, ...], nearest)
        found = xp.where(nearer, xp.where(close[:, e, ...], home[e, ...], own), found)
    return xp.where(weak, found, home)


def name_components(home: Array, mass: Array, names: Array, active: Array, fresh: Array) -> tuple[Array, Array, Array]:
    """Persistent names: a component claims the name of its heaviest slot; of several claims the heaviest wins.

    `home` has the component of each slot as the word of its lowest slot. The others get `fresh` (*streams), the next
    new name, and those that follow, in the order of their numbers. Returns names, the next new name, and how many
    components there are (*streams).
    """
    xp, k = namespace(home), home.shape[0]
    own, total, heaviest = slot_bits(home), xp.zeros_like(mass), xp.zeros_like(mass)
    claim = xp.zeros_like(names) - 2 - slots(names, k)  # a unique claim where there is no component
    for c in range(k):
        member = active[c, ...] & (home[c, ...] == own)
        heavier = member & (mass[c, ...] > heaviest)
        heaviest = xp.where(heavier, mass[c, ...], heaviest)
        claim = xp.where(heavier, names[c, ...], claim)
        total = xp.where(member, total + mass[c, ...], total)
    # Of g and a rival h below it, h wins unless g is heavier; of g and one above it, g wins unless h is heavier.
    same = claim[:, None, ...] == claim[None, ...]
    heavier = total[None, ...] > total[:, None, ...]
    number = slots(same, k)
    below, other = xp.moveaxis(number, 0, 1) < number, xp.moveaxis(number, 0, 1) != number
    loses = same & xp.where(below, ~xp.moveaxis(heavier, 0, 1), heavier) & other
    beaten = xp.any(loses, axis=1)
    kept = xp.zeros_like(names)
    for g in range(k):
        name = xp.where(beaten[g, ...], fresh, claim[g, ...])
        fresh = fresh + xp.astype(beaten[g, ...], fresh.dtype)
        kept = xp.where(home == 1 << g, name, kept)
    components = xp.sum(xp.astype(heaviest > 0, xp.int32), axis=0, dtype=xp.int32)
    return xp.where(active, kept, names), fresh, components
