"""Ward's cost: by how much merging two clusters would raise the sum of squares.      n_c n_e / (n_c + n_e) D_ce"""

from __future__ import annotations

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import namespace, smallest, squares
from icvi_jax.numerics.pairs import Pairs


def cost(n_c: Array, n_e: Array, D: Array) -> Array:
    """The cost, from the masses and the squared distance."""
    return n_c * n_e / (n_c + n_e) * D


def cheapest(v: Array, n: Array) -> tuple[Array, Array, Array]:
    """The smallest cost (*streams) of all pairs, and the pair as two one-hot masks (k, *streams), the lower slot first.

    Parameters
    ----------
    v : (k, p, *streams), centres.
    n : (k, *streams), masses, all positive.
    """
    xp = namespace(v)
    pairs = Pairs(xp.ones_like(n, dtype=xp.bool))
    terms = pairs.each(lambda a, na, b, nb: cost(na, nb, pairs.inner((a - b) * (a - b))), v, n)
    rows = pairs.row_least(pairs.keep(terms, xp.inf))
    first = smallest(rows)
    center, mass = pointed(v, first), pointed(n, first)
    row = cost(mass, n, squares(center - v, 1))
    second = smallest(xp.where(first, xp.full_like(row, xp.inf), row))
    return xp.min(rows, axis=0), first, second


def pointed(a: Array, onehot: Array) -> Array:
    """The slot of `a` (k, …, *streams) that a mask (k, *streams) points at; 0 for none."""
    xp = namespace(a)
    wide = onehot if a.ndim == onehot.ndim else onehot[:, None, ...]
    return xp.sum(xp.where(wide, a, xp.zeros_like(a)), axis=0, dtype=a.dtype)
