"""Neighbour counts: how often two slots were the nearest and second nearest of a sample, (k, k, *streams).

`MergeSplit` links slots with enough of this traffic between them, and `CONN` is made of it.
"""

from __future__ import annotations

from typing import TypeAlias

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import count, larger, namespace, pointed, smaller, smallest, squares
from icvi_jax.numerics.pairs import Pairs, Terms

Masks: TypeAlias = tuple[Array, Array]
"""Two masks (k, *streams) that point at one slot each, or at none."""


def nearest_two(x: Array, centers: Array, active: Array) -> tuple[Array, Array]:
    """Masks (k, *streams) of the nearest and second nearest active centre, the lowest on ties; all False below two."""
    xp = namespace(x)
    d = squares(x - centers, 1)
    d = xp.where(active, d, xp.inf)
    enough = active & (count(active) > 1)
    first = smallest(d)
    second = smallest(xp.where(first, xp.inf, d))
    return first & enough, second & enough


def merge_counts(counts: Array, merge: tuple[Array, Array]) -> Array:
    """The counts after the second slot of the masks `merge` became part of the first."""
    xp, (into, gone) = namespace(counts), merge
    row = pointed(counts, gone)
    counts = counts + xp.where(into[:, None, ...], row[None, ...], 0.0)
    column = xp.sum(xp.where(gone[None, ...], counts, 0.0), axis=1)
    counts = counts + xp.where(into[None, ...], column[:, None, ...], 0.0)
    return xp.where((gone[:, None, ...] | gone[None, ...]) | (into[:, None, ...] & into[None, ...]), 0.0, counts)


def drop_counts(counts: Array, born: Array) -> Array:
    """The counts without those of the slots `born` (k, *streams)."""
    return namespace(born).where(born[:, None, ...] | born[None, ...], 0 * counts, counts)


def update_counts(
    counts: Array, keep: Array, two: Masks, merge: Masks, halves: Masks, mass: Array
) -> tuple[Pairs, Terms]:
    """The counts in both orders after a sample, as terms of pairs of slots.

    Parameters
    ----------
    counts : (k, k, *streams), symmetric.
    keep : (*streams), by how much the old counts fade.
    two : the nearest and second nearest slot of the sample.
    merge : the slot that gets the counts of another, and that other.
    halves : a slot that was split, all False if none was, and the slot born. The half takes over the neighbours of the
        whole: that nothing has passed yet between it and them is no sign that they are apart.
    mass : (*streams), the count between the two halves, which are one until shown otherwise.
    """
    xp = namespace(counts)
    (into, gone), (whole, new) = merge, halves
    pairs = Pairs(new)
    passed = pairs.each(lambda f, s, other_f, other_s: (f & other_s) | (s & other_f), *two)
    terms = [keep * term + xp.astype(ok, term.dtype) for ok, term in zip(passed, pairs.terms(counts))]
    lost = _row_of(pairs, terms, gone, into)
    gained = pairs.each(lambda a, row, b, other: xp.where(a, other, xp.where(b, row, 0 * row)), into, lost)
    terms = [term + more for term, more in zip(terms, gained)]
    start = xp.where(whole, mass, _row_of(pairs, terms, whole, new))
    begun = pairs.each(lambda a, row, b, other: xp.where(a, other, row), new, start)
    either = pairs.each(lambda a, b: a | b, new)
    return pairs, [xp.where(ok, first, term) for ok, first, term in zip(either, begun, terms)]


def _row_of(pairs: Pairs, terms: Terms, slot: Array, but: Array) -> Array:
    """The counts (k, *streams) of one slot with all others; 0 with itself, with `but`, and where `slot` is none."""
    xp = pairs.xp
    either = pairs.each(lambda a, b: a | b, slot)
    row = pairs.row_total([xp.where(ok, term, 0 * term) for ok, term in zip(either, terms)])
    return xp.where(slot | but, 0 * row, row)


def is_busy(pairs: Pairs, terms: Terms, n: Array, share: float) -> tuple[Terms, Terms]:
    """Whether there is enough traffic between two slots for a new link, and for an old one, which needs half as much.

    Enough is a share of the lighter one's mass, or of the busiest connection that either of them has: with many
    features a slot has many neighbours, and each gets little.
    """
    most = pairs.row_most(terms)
    enough = pairs.each(lambda a, top, b, other: smaller(smaller(a, b), larger(top, other)), n, most)
    new = [term >= share * bar for term, bar in zip(terms, enough)]
    return new, [term >= share / 2 * bar for term, bar in zip(terms, enough)]
