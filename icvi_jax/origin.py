"""Anchor: the origin that is subtracted from every sample, so that digits are not lost far from zero.

Every index is translation invariant. In float32 the numbers 1,000,000.25 and 1,000,000.27 are equal; their distances
from the first sample are not. An anchor has two words, `high + low`, which together have twice the digits: enough for a
Unix time in seconds (1.7e9) with its fraction. On the host the sum of both, in float64, is the origin (`Origin`), which
is subtracted in the precision of the samples.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import NamedTuple

import numpy as np

from icvi_jax.numerics.arrays import namespace, usable
from icvi_jax.types import Array, Namespace


class Anchor(NamedTuple):
    """The origin of one stream, or of each stream of a fleet: (p, *streams)."""

    high: Array  # the origin is high + low; 0 where there is none yet
    low: Array
    set: Array  # boolean: the column has an origin, its first usable value


def no_anchor(features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> Anchor:
    """The anchor before any sample."""
    high, low, known = (xp.zeros((features, *streams), dtype=kind) for kind in (dtype, dtype, xp.bool))
    return Anchor(high, low, known)


ERROR_CODES = (
    2147483647.0, 2147483648.0, -2147483648.0, 4294967295.0, 4294967296.0,
    *(sign * (10.0**digits - 1) for digits in range(7, 13) for sign in (1, -1)), 1e10, -1e10, 1e12, -1e12,
)  # fmt: skip
"""Values that stand for a missing one and may not be an origin: next to them float32 has no digits for real values."""


def may_be_origin(x: Array) -> Array:
    """Whether a value may be the origin of its column: usable, and no error code."""
    return usable(x) & ~reduce(operator.or_, (x == code for code in ERROR_CODES))


def set_anchor(anchor: Anchor, x: Array, seen: Array | None = None, by_column: bool = False) -> Anchor:
    """Make the values of `x` (p, *streams) the origins of columns that have none yet, where the sample is `seen`.

    All values of a row must be fit for it, unless `by_column`.
    """
    xp = namespace(x)
    good = may_be_origin(x)
    there = good if by_column else good & xp.all(good, axis=0)
    there = there if seen is None else there & seen
    fresh = there & ~anchor.set
    return Anchor(xp.where(fresh, x, anchor.high), anchor.low, anchor.set | there)


def first_origin(x: Array, rows: Array) -> Array:
    """The origin (p,) that `set_anchor` finds in x (T, p), where only some rows are `seen`."""
    xp = namespace(x)
    fit = rows & xp.all(may_be_origin(x), axis=1)
    first: Array = x[xp.argmax(xp.astype(fit, xp.int32)), :]
    return xp.where(xp.any(fit), first, xp.zeros_like(first))


def about(anchor: Anchor, x: Array) -> Array:
    """Coordinates `x` (…, p, *streams) relative to the anchor."""
    return (x - anchor.high) - anchor.low


def back(anchor: Anchor, z: Array) -> Array:
    """Coordinates relative to the anchor `z` (…, p, *streams), in the units of the samples."""
    return (z + anchor.low) + anchor.high


class Origin:
    """The origins of N streams of p columns, `value` (N, p) in float64; `settled` where none is missing.

    As in `set_anchor`, only a row without holes counts, unless `by_column`.
    """

    def __init__(self, anchor: Anchor, by_column: bool) -> None:
        self._by_column = by_column
        high, low, there = (np.asarray(a).T for a in anchor)
        self.dtype = np.dtype(high.dtype)
        self._set = np.array(there, bool, order="C")
        known = self._set.any()
        self.value = np.ascontiguousarray(high, np.float64) + low if known else np.zeros(high.shape)
        self.settled = bool(self._set.all())

    @property
    def anchor(self) -> Anchor:
        """The origins as a state keeps them, (p, N)."""
        high, low = self._words(self.value)
        return Anchor(high.T, low.T, self._set.T.copy())

    def meet(self, X: np.ndarray) -> None:
        """Make the first usable value of each column of X (N, T, p) its origin, where it has none yet."""
        if self.settled:
            return
        first = np.ascontiguousarray(X[:, 0])
        if not self._set.any() and np.asarray(may_be_origin(first)).all():  # the common case
            self.value = self._rounded(first)
            self._set[...] = self.settled = True
            return
        for lo, hi in zip((0, *range(1, X.shape[1], 64)), range(1, X.shape[1] + 64, 64)):  # most are there at once
            open_rows = np.flatnonzero(~self._set.all(axis=1))
            if len(open_rows) == 0:
                break
            part = X[open_rows, lo:hi]
            good = np.asarray(may_be_origin(part))
            if not self._by_column:
                good &= good.all(axis=2, keepdims=True)
            value = np.take_along_axis(part, good.argmax(axis=1)[:, None, :], axis=1)[:, 0]
            new = good.any(axis=1) & ~self._set[open_rows]
            self.value[open_rows] = np.where(new, self._rounded(np.where(new, value, 0)), self.value[open_rows])
            self._set[open_rows] |= new
        self.settled = bool(self._set.all())

    def _rounded(self, value: np.ndarray) -> np.ndarray:
        """Values as two words of the state have them."""
        if value.dtype == self.dtype:
            return value.astype(np.float64)
        high, low = self._words(value.astype(np.float64))
        both: np.ndarray = high.astype(np.float64) + low
        return both

    def fits(self, dtype: np.dtype) -> bool:
        """Whether this type has all digits of the origins."""
        return bool((self.value.astype(dtype) == self.value).all())

    def back(self, centers: np.ndarray, like: np.dtype) -> np.ndarray:
        """Centres (N, …, k, p) in the units of the samples: in float64 where the samples were, else in place."""
        k, p = centers.shape[-2:]
        if centers.size == 0:
            return centers
        wide = centers.reshape(len(centers), -1, k * p)  # rows of all slots: many short ones would be slow
        out = None if like == np.float64 else wide
        made: np.ndarray = np.add(wide, np.tile(self.value, (1, k))[:, None, :], out=out, casting="same_kind")
        return made.reshape(centers.shape)

    def _words(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high = value.astype(self.dtype)
        return high, (value - high).astype(self.dtype)


def subtract(X: np.ndarray, origin: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """X (N, t, p) minus the origin (N, p), as `dtype`; what overflows is infinite, which means missing."""
    with np.errstate(over="ignore", invalid="ignore"):
        moved: np.ndarray = np.subtract(X, origin[:, None, :])
    return moved.astype(dtype, copy=False)
