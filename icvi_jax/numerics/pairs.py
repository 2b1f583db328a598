"""All pairs of slots, in the best form for the arrays: each pair once where that pays, otherwise rows or a square."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, reduce
from typing import TypeAlias

from icvi_jax.array_api import Array
from icvi_jax.numerics.arrays import (
    UNROLL,
    extreme,
    far,
    larger,
    namespace,
    pointed,
    selected,
    slots,
    smaller,
    smallest,
    squares,
)

Terms: TypeAlias = list[Array]
"""Values for each pair, in one array or several: see `Pairs`."""

Function: TypeAlias = Callable[..., Array]
"""A function of arrays, element by element or along an axis."""


ROWS = 64
"""With at most so many slots, pairs of native code, which is traced for one stream as one of many, are made row by row:
code grows with k, and first calls with it."""


class Pairs:
    """Pairs of the `k` slots of arrays `(k, …, *streams)`, and reductions over them.

    `each` makes the terms f(i, j) of a symmetric f, `ordered` those of any f. `keep` replaces the terms of pairs that
    are not both active. `least`, `most` and `total` reduce over all pairs, `row_least` and `row_most` over the
    partners j of each slot i.

    There are four forms with the same meaning. Terms that are kept from step to step are a list: one array of all
    pairs i < j, row by row (see `renewed`). Otherwise the shape decides. Few slots get a triangle: slot i with those
    after it, each pair once, one term for each i (the fast form, of which a value is used as soon as it is there). With
    many slots one stream as one of many, which is how native code is traced, gets the list, and a fleet gets each slot
    with all (XLA is slow at lists): code then grows with k and not k². One stream gets a `(k, k)` square.

    Parameters
    ----------
    active : (k, *streams), boolean.
    kept : whether terms are kept from step to step.
    """

    def __init__(self, active: Array, kept: bool = False) -> None:
        self.xp = namespace(active)
        self.active = active
        self.k = active.shape[0]
        self.rank = active.ndim - 1
        self.lone = tuple(active.shape[1:]) == (1,)
        self.list = kept or (self.lone and self.k > ROWS)
        self.square = self.rank == 0 and not kept
        self.triangle = not self.square and not self.list and self.k <= (ROWS if self.lone else UNROLL)
        self.once = self.triangle or self.list

    def _take(self, a: Array, rows: tuple[int, ...]) -> Array:
        return self.xp.take(a, self.xp.asarray(rows), axis=0)

    def _sides(self, a: Array, ordered: bool) -> list[tuple[Array, Array]]:
        if self.triangle:
            sides = [(a[i, ...], a[i + 1 :, ...]) for i in range(self.k - 1)]
            return sides + [(right, left) for left, right in sides] if ordered else sides
        if self.list:
            left, right = (self._take(a, ends) for ends in ends_of(self.k))
            return [(left, right), (right, left)] if ordered else [(left, right)]
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
        if self.once:
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
        if self.once:
            return self.each(self._apart, self._parked(v))
        return self.keep(self.each(self._apart, v), far(v.dtype, self.xp))

    def across(self, a: Array, b: Array) -> Terms:
        """Squared distances ‖a_i − b_j‖² of points (k, p, *streams), as `ordered` terms; inactive ones as above."""
        ends = (self._parked(a), self._parked(b)) if self.once else (a, b)
        terms = self.ordered(lambda ai, _bi, _aj, bj: self._apart(ai, bj), *ends)
        return terms if self.once else self.keep(terms, far(a.dtype, self.xp))

    def renewed_distances(self, old: Array, moved: Sequence[Array], v: Array, of: Function | None = None) -> Array:
        """The list of `distances`, or of a function of them, after the slots `moved` changed, from the one before."""
        f = self._apart if of is None else lambda a, b: of(self._apart(a, b))
        return self.renewed([old], moved, f, self._parked(v))[0]

    def renewed_across(self, old: Array, moved: Sequence[Array], a: Array, b: Array) -> Array:
        """The lists of `across`, one behind the other, after the slots `moved` changed, from those before."""
        ends, half = (self._parked(a), self._parked(b)), old.shape[0] // 2
        parts = old[:half, ...], old[half:, ...]
        return self.xp.concat(self.renewed(parts, moved, lambda ai, _bi, _aj, bj: self._apart(ai, bj), *ends))

    def renewed(self, old: Sequence[Array], moved: Sequence[Array], f: Function, *arrays: Array) -> Terms:
        """Terms f of all pairs, of which only those of the slots `moved`, one-hot masks, differ from `old`.

        One term in `old`: f is symmetric. Two: f(i, j) and f(j, i), as `ordered` has them. Each slot costs k terms and
        two selections a pair, whatever f costs.
        """
        xp, (left, right) = self.xp, ends_of(self.k)
        terms = list(old)
        for hit in moved:
            mine = [selected(a, hit)[None, ...] for a in arrays]
            rows = [f(*mine, *arrays)]
            if len(terms) > 1:
                rows.append(f(*arrays, *mine))
            i, j = self._take(hit, left), self._take(hit, right)
            for n, term in enumerate(terms):  # rows: f(hit, ·) and f(·, hit)
                out, into = rows[n], rows[len(rows) - 1 - n]
                terms[n] = xp.where(i, self._take(out, right), xp.where(j, self._take(into, left), term))
        return terms

    def _apart(self, a: Array, b: Array) -> Array:
        return self.inner((a - b) * (a - b))

    def _parked(self, v: Array) -> Array:
        """`v` with inactive centres far away, each at another place: one selection per slot instead of one per pair."""
        xp = self.xp
        place = xp.astype(slots(v, self.k) + 1, v.dtype) * (1.01 * far(v.dtype, xp) ** 0.5)
        return xp.where(self.active[:, None, ...], v, xp.broadcast_to(place, v.shape))

    def _all(self, terms: Terms, pick: Callable[[Array, Array], Array], over: Function) -> Array:
        if self.once and over is not self.xp.sum:
            return reduce(pick, [extreme(pick, t) for t in terms])
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
        return whole if self.once else whole / 2

    def _rows(self, terms: Terms, pick: Callable[[Array, Array], Array], over: Function) -> Array:
        if self.square:
            return over(terms[0], axis=1)
        if self.list:
            whole = terms[0] if len(terms) == 1 else self.xp.concat(terms)
            partners = self._take(whole, partners_of(self.k, len(terms) > 1))
            partners = self.xp.reshape(partners, (self.k - 1, self.k, *whole.shape[1:]))
            return self.xp.sum(partners, axis=0) if over is self.xp.sum else extreme(pick, partners)
        if not self.triangle:
            return self.xp.stack([over(t, axis=0) for t in terms])
        after, before = terms[: self.k - 1], terms[-(self.k - 1) :]  # the same terms if f is symmetric
        if self.lone:
            rows, best = [extreme(pick, after[0])], before[0]  # `best`: of the slots behind those that are done
            for t, more in zip(after[1:], before[1:]):
                rows.append(pick(best[0, ...], extreme(pick, t)))
                best = pick(best[1:, ...], more)
            return self.xp.stack([*rows, best[0, ...]])
        rows = []  # XLA would compute what `best` is made of again and again
        for i in range(self.k):
            row = [t[i - j - 1, ...] for j, t in enumerate(before[:i])]
            if i < self.k - 1:
                row += [after[i][j, ...] for j in range(self.k - 1 - i)]
            rows.append(reduce(pick, row))
        return self.xp.stack(rows)

    def matrix(self, terms: Terms, diagonal: float) -> Array:
        """The terms of a symmetric f as one array (k, k, *streams), with the number `diagonal` on its diagonal."""
        xp = self.xp
        if self.list:
            whole = xp.concat([terms[0], xp.full_like(terms[0][:1, ...], diagonal)])
            return xp.reshape(self._take(whole, square_of(self.k)), (self.k, self.k, *whole.shape[1:]))
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
        if self.list:
            rows = self.xp.reshape(matrix, (self.k * self.k, *matrix.shape[2:]))
            return [self._take(rows, tuple(i * self.k + j for i, j in zip(*ends_of(self.k))))]
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


@lru_cache(maxsize=64)
def ends_of(k: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first and the second slot of each pair in a list."""
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return tuple(i for i, _ in pairs), tuple(j for _, j in pairs)


@lru_cache(maxsize=64)
def square_of(k: int) -> tuple[int, ...]:
    """Where in a list each element of a `(k, k)` square is; the diagonal is behind the list."""
    place = {pair: n for n, pair in enumerate(zip(*ends_of(k)))}
    return tuple(place.get((min(i, j), max(i, j)), len(place)) for i in range(k) for j in range(k))


@lru_cache(maxsize=64)
def partners_of(k: int, ordered: bool) -> tuple[int, ...]:
    """Where in a list the pairs of each slot are: k − 1 rows of k places, one for each slot.

    In a list of `ordered` terms all (j, i) are behind all (i, j).
    """
    square, pairs = square_of(k), k * (k - 1) // 2
    steps = ((i, (i + by) % k) for by in range(1, k) for i in range(k))
    return tuple(square[k * i + j] + pairs * (ordered and j < i) for i, j in steps)
