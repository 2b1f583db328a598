"""All pairs of slots, in the best form for the arrays: each pair once for fleets, otherwise rows or a square."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import TypeAlias

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import UNROLL, far, larger, namespace, pointed, slots, smaller, smallest, squares

Terms: TypeAlias = list[Array]
"""Values for each pair, in one array or several: see `Pairs`."""

Function: TypeAlias = Callable[..., Array]
"""A function of arrays, element by element or along an axis."""


class Pairs:
    """Pairs of the `k` slots of arrays `(k, …, *streams)`, and reductions over them.

    `each` makes the terms f(i, j) of a symmetric f, `ordered` those of any f. `keep` replaces the terms of pairs that
    are not both active. `least`, `most` and `total` reduce over all pairs, `row_least` and `row_most` over the
    partners j of each slot i.

    There are three forms with the same meaning, chosen by shape. A fleet with few slots gets a triangle: slot i with
    those after it, each pair once, one term for each i (the fast form). A fleet with many slots gets each slot with
    all, so that the code grows with k and not k². One stream gets a `(k, k)` square.

    Parameters
    ----------
    active : (k, *streams), boolean.
    """

    def __init__(self, active: Array) -> None:
        self.xp = namespace(active)
        self.active = active
        self.k = active.shape[0]
        self.rank = active.ndim - 1
        self.square = self.rank == 0
        self.triangle = not self.square and self.k <= UNROLL

    def _sides(self, a: Array, ordered: bool) -> list[tuple[Array, Array]]:
        if self.triangle:
            sides = [(a[i, ...], a[i + 1 :, ...]) for i in range(self.k - 1)]
            return sides + [(right, left) for left, right in sides] if ordered else sides
        if self.square:
            return [(a[:, None, ...], a[None, ...])]
        return [(a[i, ...], a) for i in range(self.k)]

    def ordered(self, f: Function, *arrays: Array) -> Terms:
        """Terms f(a_i, b_i, …, a_j, b_j, …), for (i, j) and for (j, i)."""
        return self._terms(f, arrays, ordered=True)

    def each(self, f: Function, *arrays: Array) -> Terms:
        """Terms f(a_i, b_i, …, a_j, b_j, …) of a symmetric f."""
        return self._terms(f, arrays, ordered=False)

    def _terms(self, f: Function, arrays: Sequence[Array], ordered: bool) -> Terms:
        sides = zip(*(self._sides(a, ordered) for a in arrays))
        return [f(*(left for left, _ in pair), *(right for _, right in pair)) for pair in sides]

    @cached_property
    def both(self) -> Terms:
        """Terms that say whether two different slots are both active."""
        terms = self.each(lambda a, b: a & b, self.active)
        if self.triangle:
            return terms
        index = slots(self.active, self.k)
        if self.square:
            return [terms[0] & (index[:, None] != index[None, :])]
        return [term & (index != i) for i, term in enumerate(terms)]

    def keep(self, terms: Terms, other: float) -> Terms:
        """`terms`, with the number `other` where not both slots are active."""
        both = self.both * (len(terms) // max(len(self.both), 1))
        return [self.xp.where(ok, t, self.xp.full_like(t, other)) for ok, t in zip(both, terms)]

    def inner(self, a: Array) -> Array:
        """Sum of the terms' feature axis, the last before the streams."""
        return self.xp.sum(a, axis=a.ndim - self.rank - 1)

    def distances(self, v: Array) -> Terms:
        """Squared distances of the centres `v` (k, p, *streams); larger than all real ones unless both are active."""
        if self.triangle:
            return self.each(self._apart, self._parked(v))
        return self.keep(self.each(self._apart, v), far(v.dtype, self.xp))

    def across(self, a: Array, b: Array) -> Terms:
        """Squared distances ‖a_i − b_j‖² of points (k, p, *streams), as `ordered` terms; inactive ones as above."""
        ends = (self._parked(a), self._parked(b)) if self.triangle else (a, b)
        terms = self.ordered(lambda ai, _bi, _aj, bj: self._apart(ai, bj), *ends)
        return terms if self.triangle else self.keep(terms, far(a.dtype, self.xp))

    def _apart(self, a: Array, b: Array) -> Array:
        return self.inner((a - b) * (a - b))

    def _parked(self, v: Array) -> Array:
        """`v` with inactive centres far away, each at another place: one selection per slot instead of one per pair."""
        xp = self.xp
        place = xp.astype(slots(v, self.k) + 1, v.dtype) * (1.01 * far(v.dtype, xp) ** 0.5)
        return xp.where(self.active[:, None, ...], v, xp.broadcast_to(place, v.shape))

    def _all(self, terms: Terms, pick: Callable[[Array, Array], Array], over: Function) -> Array:
        axes = (0, 1) if self.square else (0,)
        return reduce(pick, [over(t, axis=axes) for t in terms])

    def least(self, terms: Terms) -> Array:
        """The smallest term of all pairs."""
        return self._all(terms, smaller, self.xp.min)

    def most(self, terms: Terms) -> Array:
        """The largest term of all pairs."""
        return self._all(terms, larger, self.xp.max)

    def total(self, terms: Terms) -> Array:
        """The sum of all terms of a symmetric f, each pair once; terms not both active must be 0."""
        whole = self._all(terms, lambda a, b: a + b, self.xp.sum)
        return whole if self.triangle else whole / 2

    def _rows(self, terms: Terms, pick: Callable[[Array, Array], Array], over: Function) -> Array:
        if self.square:
            return over(terms[0], axis=1)
        if not self.triangle:
            return self.xp.stack([over(t, axis=0) for t in terms])
        after, before = terms[: self.k - 1], terms[-(self.k - 1) :]  # the same terms if f is symmetric
        rows = []
        for i in range(self.k):
            row = [t[i - j - 1, ...] for j, t in enumerate(before[:i])]
            if i < self.k - 1:
                row += [after[i][j, ...] for j in range(self.k - 1 - i)]
            rows.append(reduce(pick, row))
        return self.xp.stack(rows)

    def matrix(self, terms: Terms, diagonal: float) -> Array:
        """The terms of a symmetric f as one array (k, k, *streams), with the number `diagonal` on its diagonal."""
        xp = self.xp
        if not self.triangle:
            whole = terms[0] if self.square else xp.stack(terms)
            index = slots(whole, self.k)
            return xp.where(index == xp.moveaxis(index, 0, 1), xp.full_like(whole, diagonal), whole)
        first = terms[0][:1, ...]
        fill = [xp.broadcast_to(xp.full_like(first, diagonal), (i + 1, *first.shape[1:])) for i in range(self.k)]
        upper = xp.stack([xp.concat([a, t]) for a, t in zip(fill, terms)] + fill[-1:])
        index = slots(upper, self.k)
        return xp.where(index < xp.moveaxis(index, 0, 1), upper, xp.moveaxis(upper, 0, 1))

    def terms(self, matrix: Array) -> Terms:
        """The terms of a symmetric f from the array (k, k, *streams) that `matrix` makes of them."""
        if self.square:
            return [matrix]
        return [matrix[i, i + 1 :, ...] if self.triangle else matrix[i, ...] for i in range(self.k - self.triangle)]

    def row_total(self, terms: Terms) -> Array:
        """The sum of the terms of each slot's pairs: (k, *streams)."""
        return self._rows(terms, lambda a, b: a + b, self.xp.sum)

    def row_least(self, terms: Terms) -> Array:
        """The smallest term of each slot's pairs: (k, *streams)."""
        return self._rows(terms, smaller, self.xp.min)

    def row_most(self, terms: Terms) -> Array:
        """The largest term of each slot's pairs: (k, *streams)."""
        return self._rows(terms, larger, self.xp.max)


def ward_cost(n_c: Array, n_e: Array, D: Array) -> Array:
    """The cost, from the masses and the squared distance."""
    return n_c * n_e / (n_c + n_e) * D


def cheapest_merge(v: Array, n: Array) -> tuple[Array, Array, Array]:
    """The smallest cost (*streams) of all pairs, and the pair as two one-hot masks (k, *streams), the lower slot first.

    Parameters
    ----------
    v : (k, p, *streams), centres.
    n : (k, *streams), masses, all positive.
    """
    xp = namespace(v)
    pairs = Pairs(xp.ones_like(n, dtype=xp.bool))
    terms = pairs.each(lambda a, na, b, nb: ward_cost(na, nb, pairs.inner((a - b) * (a - b))), v, n)
    rows = pairs.row_least(pairs.keep(terms, xp.inf))
    first = smallest(rows)
    center, mass = pointed(v, first), pointed(n, first)
    row = ward_cost(mass, n, squares(center - v, 1))
    second = smallest(xp.where(first, xp.full_like(row, xp.inf), row))
    return xp.min(rows, axis=0), first, second
