"""All pairs of slots, in the form that suits the arrays: each pair once for fleets, rows or a square otherwise."""

from __future__ import annotations

from functools import cached_property, reduce

from icvi_jax.kernels.arrays import UNROLL, far, namespace, slots


class Pairs:
    """Pairs of the `k` slots of arrays `(k, …, *streams)`, and reductions over them.

    `each` makes the terms f(i, j) of a symmetric f, `ordered` those of any f. `keep` replaces the terms of pairs that
    are not both active. `least`, `most` and `total` reduce over all pairs, `row_least` and `row_most` over the
    partners j of each slot i.

    One meaning in three forms, chosen by shape alone: a fleet with few slots gets a Python loop, each pair once, each
    term `(*streams)` (the fast one); a fleet with many slots one row against all, so that the program grows with k and
    not k²; one stream a `(k, k)` square.

    Parameters
    ----------
    active : (k, *streams), boolean.
    """

    def __init__(self, active):
        self.xp = namespace(active)
        self.active = active
        self.k = active.shape[0]
        self.rank = active.ndim - 1
        self.square = self.rank == 0
        self.loop = not self.square and self.k <= UNROLL
        self.once = [(i, j) for i in range(self.k) for j in range(i + 1, self.k)] if self.loop else []

    def _sides(self, a, ordered):
        if self.loop:
            spots = self.once + [(j, i) for i, j in self.once] if ordered else self.once
            return [(a[i, ...], a[j, ...]) for i, j in spots]
        if self.square:
            return [(a[:, None, ...], a[None, ...])]
        return [(a[i, ...], a) for i in range(self.k)]

    def ordered(self, f, *arrays):
        """Terms f(a_i, b_i, …, a_j, b_j, …), for (i, j) and for (j, i)."""
        return self._terms(f, arrays, ordered=True)

    def each(self, f, *arrays):
        """Terms f(a_i, b_i, …, a_j, b_j, …) of a symmetric f."""
        return self._terms(f, arrays, ordered=False)

    def _terms(self, f, arrays, ordered):
        sides = zip(*(self._sides(a, ordered) for a in arrays))
        return [f(*(left for left, _ in pair), *(right for _, right in pair)) for pair in sides]

    @cached_property
    def both(self):
        """Terms that say whether two different slots are both active."""
        terms = self.each(lambda a, b: a & b, self.active)
        if self.loop:
            return terms
        index = slots(self.active, self.k)
        if self.square:
            return [terms[0] & (index[:, None] != index[None, :])]
        return [term & (index != i) for i, term in enumerate(terms)]

    def keep(self, terms, other):
        """`terms`, with the number `other` where not both slots are active."""
        both = self.both * (len(terms) // len(self.both)) if self.loop and self.both else self.both
        return [self.xp.where(ok, t, self.xp.full_like(t, other)) for ok, t in zip(both, terms)]

    def inner(self, a):
        """Sum of the terms' feature axis, the last before the streams."""
        return self.xp.sum(a, axis=a.ndim - self.rank - 1)

    def distances(self, v):
        """Squared distances of the centres `v` (k, p, *streams); beyond all real ones unless both are active."""
        return self.keep(self.each(lambda a, b: self.inner((a - b) * (a - b)), v), far(v.dtype, self.xp))

    def _all(self, terms, pick, over):
        axes = {"loop": (), "square": (0, 1), "rows": (0,)}["loop" if self.loop else "square" if self.square else "rows"]
        return reduce(pick, [over(t, axis=axes) if axes else t for t in terms])

    def least(self, terms):
        """The smallest term of all pairs."""
        return self._all(terms, self.xp.minimum, self.xp.min)

    def most(self, terms):
        """The largest term of all pairs."""
        return self._all(terms, self.xp.maximum, self.xp.max)

    def total(self, terms):
        """The sum of all terms of a symmetric f, each pair once; terms not both active must be 0."""
        whole = self._all(terms, lambda a, b: a + b, self.xp.sum)
        return whole if self.loop else whole / 2

    def _rows(self, terms, pick, over):
        if self.square:
            return over(terms[0], axis=1)
        if not self.loop:
            return self.xp.stack([over(t, axis=0) for t in terms])
        rows = [[] for _ in range(self.k)]
        spots = self.once + [(j, i) for i, j in self.once] if len(terms) > len(self.once) else self.once
        for (i, j), term in zip(spots, terms):
            rows[i].append(term)
            if len(terms) == len(self.once):
                rows[j].append(term)
        return self.xp.stack([reduce(pick, row) for row in rows])

    def row_least(self, terms):
        """The smallest term of each slot's pairs: (k, *streams)."""
        return self._rows(terms, self.xp.minimum, self.xp.min)

    def row_most(self, terms):
        """The largest term of each slot's pairs: (k, *streams)."""
        return self._rows(terms, self.xp.maximum, self.xp.max)
