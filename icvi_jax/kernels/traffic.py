"""Traffic: how often two slots were the nearest and second nearest of a sample, in counts (k, k, *streams)."""

from __future__ import annotations

from icvi_jax.array_api import Array
from icvi_jax.kernels.arrays import count, namespace, smallest, squares


def nearest_two(x: Array, centers: Array, active: Array) -> tuple[Array, Array]:
    """Masks (k, *streams) of the nearest and second nearest active centre, the lowest on ties; all False below two."""
    xp = namespace(x)
    d = squares(x - centers, 1)
    d = xp.where(active, d, xp.full_like(d, xp.inf))
    enough = active & (count(active) > 1)
    first = smallest(d)
    second = smallest(xp.where(first, xp.full_like(d, xp.inf), d))
    return first & enough, second & enough


def moved(counts: Array, merge: tuple[Array, Array]) -> Array:
    """The counts after the second slot of the masks `merge` became part of the first."""
    xp = namespace(counts)
    zero = xp.zeros_like(counts)
    into, gone = merge
    row = xp.sum(xp.where(gone[:, None, ...], counts, zero), axis=0)
    counts = counts + xp.where(into[:, None, ...], row[None, ...], zero)
    column = xp.sum(xp.where(gone[None, ...], counts, zero), axis=1)
    counts = counts + xp.where(into[None, ...], column[:, None, ...], zero)
    return xp.where((gone[:, None, ...] | gone[None, ...]) | (into[:, None, ...] & into[None, ...]), zero, counts)


def cut(counts: Array, born: Array) -> Array:
    """The counts without those of the slots `born` (k, *streams)."""
    return namespace(born).where(born[:, None, ...] | born[None, ...], 0 * counts, counts)


def between(first: Array, second: Array) -> Array:
    """True at a pair of slots, given by two masks (k, *streams), in both orders: (k, k, *streams)."""
    return (first[:, None, ...] & second[None, ...]) | (second[:, None, ...] & first[None, ...])
