r"""Links: which slots form one cluster, and which cluster keeps which name.

Slots are linked in pairs; connected slots are a component, numbered by its lowest slot. Links are stored as bits: bit e
of word c says that slots c and e are linked, so that one operation works on all links of a slot.
"""

from __future__ import annotations

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import namespace, slots

MOST = 31
"""Most slots whose links fit into the bits of one word, without its sign."""


def bits(like: Array) -> Array:
    """The word of each slot alone, 1, 2, 4, …: (k, 1, …), to broadcast against `like` (k, *streams)."""
    xp = namespace(like)
    words = xp.asarray([1 << c for c in range(like.shape[0])], dtype=xp.int32)
    return xp.reshape(words, (like.shape[0],) + (1,) * (like.ndim - 1))


def packed(matrix: Array) -> Array:
    """The words (k, *streams) of a symmetric boolean matrix (k, k, *streams)."""
    xp = namespace(matrix)
    each = (xp.astype(matrix[:, e, ...], xp.int32) * (1 << e) for e in range(matrix.shape[0]))
    return sum(each, start=xp.zeros_like(matrix[:, 0, ...], dtype=xp.int32))


def without(words: Array, gone: Array) -> Array:
    """The words with all links of the slots `gone` (k, *streams) cut."""
    xp = namespace(words)
    zero = xp.zeros_like(words)
    word = xp.sum(xp.where(gone, bits(words) + zero, zero), axis=0, dtype=xp.int32)
    return xp.where(gone, zero, words & ~word)


def components(words: Array) -> Array:
    """The component (k, *streams) of each slot, as the word of the lowest slot that it is connected with.

    After round e everything that can be reached through slots 0 … e is known (Warshall).
    """
    xp = namespace(words)
    reached = words | bits(words)
    for e in range(words.shape[0]):
        through = (reached & (1 << e)) != 0
        reached = xp.where(through, reached | reached[e, ...], reached)
    return reached & -reached  # only the lowest bit


def adopted(home: Array, weak: Array, strong: Array, distance: Array, close: Array) -> Array:
    """`home` with each weak slot in the component of its nearest strong one, if they are close, else in its own.

    Parameters
    ----------
    home : (k, *streams), components of the strong slots, as words.
    weak, strong : (k, *streams), boolean.
    distance, close : (k, k, *streams), distances of slots, and whether two are close enough.
    """
    xp = namespace(home)
    own = bits(home) + xp.zeros_like(home)
    nearest, found = xp.full_like(distance[:, 0, ...], xp.inf), own
    for e in range(home.shape[0]):
        nearer = strong[e, ...] & (distance[:, e, ...] < nearest)
        nearest = xp.where(nearer, distance[:, e, ...], nearest)
        found = xp.where(nearer, xp.where(close[:, e, ...], home[e, ...] + xp.zeros_like(own), own), found)
    return xp.where(weak, found, home)


def named(home: Array, mass: Array, names: Array, active: Array, fresh: Array) -> tuple[Array, Array, Array]:
    """Persistent names: a component claims the name of its heaviest slot; of several claims the heaviest wins.

    Parameters
    ----------
    home : (k, *streams), the component of each slot, as the word of its lowest slot.
    mass, names, active : (k, *streams), of the slots.
    fresh : (*streams), the next new name: the others get it and those that follow, in the order of their numbers.

    Returns
    -------
    names (k, *streams), the next new name, and how many components there are (*streams).
    """
    xp, k = namespace(home), home.shape[0]
    zero, own = xp.zeros_like(mass), bits(home)
    total, heaviest = zero, zero
    claim = xp.zeros_like(names) - 2 - slots(names, k)  # a unique claim where there is no component
    for c in range(k):
        member = active[c, ...] & (home[c, ...] == own)
        heavier = member & (mass[c, ...] > heaviest)
        heaviest = xp.where(heavier, mass[c, ...] + zero, heaviest)
        claim = xp.where(heavier, names[c, ...] + xp.zeros_like(claim), claim)
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
        kept = xp.where(home == 1 << g, name + kept * 0, kept)
    components = xp.sum(xp.astype(heaviest > 0, xp.int32), axis=0, dtype=xp.int32)
    return xp.where(active, kept, names), fresh, components
