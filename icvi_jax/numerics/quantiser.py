"""Changes of the slots of a quantiser that merges and splits: centres v, masses n and mean squared radii q."""

from __future__ import annotations

import math
from typing import TypeAlias

from icvi_jax.array_api import Array
from icvi_jax.numerics import links
from icvi_jax.numerics.arrays import count, larger, namespace, squares
from icvi_jax.numerics.pairs import Pairs, Terms
from icvi_jax.numerics.ward import pointed

Slots: TypeAlias = tuple[Array, Array, Array]
"""Centres v (k, p, *streams), masses n and mean squared radii q (k, *streams)."""

NEAR, NARROW = 1.25, 1.04
"""Slots touch within NEAR times the sum of their radii; NARROW √(3/p) times, where that is more: p = 1 or 2."""


def absorbed(slots: Slots, e: Array, d: Array, hit: Array, least: Array) -> Slots:
    """The slot `hit` gets a sample at a difference of `e` (k, p, *streams) and squared distance d; it moves by 1/n, at
    least by `least`.
    """
    xp = namespace(e)
    v, n, q = slots
    n = n + xp.astype(hit, n.dtype)
    g = larger(1 / xp.where(n > 0, n, xp.ones_like(n)), least)
    g = xp.where(hit, g, xp.zeros_like(g))
    return v + g[:, None, ...] * e, n, (1 - g) * (q + g * d)


def merged(slots: Slots, merge: tuple[Array, Array]) -> Slots:
    """Merge two slots: the slot of the first mask of `merge` gets the members of both."""
    xp = namespace(slots[0])
    (va, na, qa), (vb, nb, qb) = (tuple(pointed(a, mask) for a in slots) for mask in merge)
    m = xp.where(na > 0, na + nb, xp.ones_like(na))
    v = (na * va + nb * vb) / m
    q = (na * qa + nb * qb) / m + na * nb * squares(va - vb) / (m * m)
    old_v, old_n, old_q = slots
    into, _ = merge
    return (
        xp.where(into[:, None, ...], v, old_v),
        xp.where(into, m, old_n),
        xp.where(into, q, old_q),
    )


def placed(slots: Slots, x: Array, new: Array, split: Array) -> Slots:
    """The slot `new` begins at the sample: with half of the slot `split`, or with mass 1 and radius 0."""
    xp = namespace(x)
    v, n, q = slots
    half = xp.where(split, xp.full_like(n, 0.5), xp.ones_like(n))
    n, q = half * n, half * q
    mass = pointed(n, split)  # 0 where none was split
    return (
        xp.where(new[:, None, ...], x, v),
        xp.where(new, larger(mass, xp.ones_like(mass)), n),
        xp.where(new, pointed(q, split), q),
    )


def grouped(
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
    strong = active & (n >= 0.2 * xp.sum(n, axis=0) / larger(number, xp.ones_like(number)))
    r = xp.sqrt(larger(q, spread / 4))

    pairs = Pairs(active)
    D = pairs.distances(v)
    reach = pairs.each(lambda a, b: (a + b) * (a + b), r)
    own = links.bits(linked) + xp.zeros_like(linked)
    old = pairs.each(lambda row, _a, _b, bit: (row & bit) != 0, linked, own)
    both = pairs.each(lambda a, b: a & b, strong)
    close = [d <= wide * wide * s for d, s in zip(D, reach)]
    start = [d <= near * near * s for d, s in zip(D, reach)]
    stay = [was & c for was, c in zip(old, close)]
    if busy is not None:
        start, stay = ([ok & much for ok, much in zip(*two)] for two in zip((start, stay), busy))
    linked = links.packed(pairs.matrix([ok & (a | b) for ok, a, b in zip(both, start, stay)], False))
    home = links.components(linked)
    return linked, links.adopted(home, active & ~strong, strong, pairs.matrix(D, 0.0), pairs.matrix(close, False))
