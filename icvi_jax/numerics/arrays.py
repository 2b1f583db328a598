"""Small array helpers that every layer shares."""

from __future__ import annotations

from collections.abc import Callable

import array_api_compat
import numpy as np

from icvi_jax.array_api import Array, DType, Namespace

UNROLL = 16
"""With at most so many slots, loops over slots are unrolled for fleets; with more, compiling would take too long."""

LARGEST = 1e15
"""The largest magnitude of a value: the square of a larger one is near the limit of float32. No sensor measures it."""

COUNT_LIMIT = 2**31 - 1
"""Counters stop here instead of turning negative."""

COMPLETE = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""From 2.1 on, NumPy has all functions itself: array_api_compat.numpy, which takes long to import, is not needed."""


def namespace(*arrays: Array) -> Namespace:
    """The array-API namespace of `arrays`."""
    if COMPLETE and all(isinstance(a, (np.ndarray, np.generic)) for a in arrays):
        return np
    return array_api_compat.array_namespace(*arrays)


def library(xp: Namespace) -> Namespace:
    """The array-API form of a module such as `numpy` or `torch`."""
    return namespace(xp.asarray(0.0))


def cast(value: Array | float, like: Array) -> Array:
    """`value` as an array of `like`'s type: a float64 number beside a float32 state would break the carry."""
    xp = namespace(like)
    return xp.asarray(
        value, dtype=like.dtype, device=None if array_api_compat.is_jax_array(like) else array_api_compat.device(like)
    )


def count(mask: Array) -> Array:
    """How many are True along the first axis, as an integer array."""
    xp = namespace(mask)
    return xp.sum(xp.astype(mask, xp.int32), axis=0, dtype=xp.int32)


def squares(a: Array, axis: int = 0) -> Array:
    """Sum of squares along `axis`."""
    return namespace(a).sum(a * a, axis=axis)


def usable(x: Array) -> Array:
    """Which values of `x` count: they are finite, and small enough to be squared and summed. The others are missing.

    The one definition, for samples, memberships and centres. It is the same for float32 and float64, so that the
    precision of a state does not decide what is missing.
    """
    return namespace(x).abs(x) <= LARGEST


def reach(dtype: DType, xp: Namespace) -> float:
    """The largest length that kernels compute with: its square times 10⁶ samples is still finite."""
    return 1e15 if xp.finfo(dtype).bits <= 32 else 1e140


def far(dtype: DType, xp: Namespace) -> float:
    """A squared distance larger than all real ones, with a finite, non-zero inverse."""
    return 1e33 if xp.finfo(dtype).bits <= 32 else 1e290


def advance(counter: Array, by: Array) -> Array:
    """`counter + by` for a boolean `by`, stopping at the largest integer."""
    xp = namespace(counter)
    return xp.where(by & (counter < COUNT_LIMIT), counter + 1, counter)


def slots(like: Array, axis_length: int) -> Array:
    """0, 1, … as a column that broadcasts against `(k, *streams)` arrays such as `like`."""
    xp = namespace(like)
    index = xp.arange(axis_length, dtype=xp.int32)
    return xp.reshape(index, (axis_length,) + (1,) * (like.ndim - 1))


def smaller(a: Array, b: Array | float) -> Array:
    """The smaller of two arrays without NaN: one machine instruction, while `minimum` must also check for NaN."""
    return namespace(a).where(a < b, a, b)


def larger(a: Array, b: Array | float) -> Array:
    """The larger of two arrays without NaN."""
    return namespace(a).where(a > b, a, b)


def median3(a: Array, b: Array, c: Array) -> Array:
    """The middle one of three."""
    return larger(smaller(a, b), smaller(larger(a, b), c))


def extreme(pick: Callable[[Array, Array], Array], a: Array) -> Array:
    """The `smaller` or `larger` of all rows of `a` (n, …), two by two; `min` and `max` would also look for NaN."""
    while a.shape[0] > 1:
        half = a.shape[0] // 2
        both = pick(a[:half, ...], a[half : 2 * half, ...])
        a = namespace(a).concat([both, a[2 * half :, ...]]) if a.shape[0] % 2 else both
    return a[0, ...]


def selected(a: Array, onehot: Array) -> Array:
    """The row of `a` (k, …, *streams) that the one-hot `onehot` (k, *streams) points at; any row where it is all False.

    Rows are compared two by two: one selection for each row but one, and no sum.
    """
    xp, mask = namespace(a), widened(onehot, a)
    while a.shape[0] > 1:
        half = a.shape[0] // 2
        right = mask[half : 2 * half, ...]
        both = xp.where(right, a[half : 2 * half, ...], a[:half, ...])
        some = mask[:half, ...] | right
        odd = a.shape[0] % 2
        a = xp.concat([both, a[2 * half :, ...]]) if odd else both
        mask = xp.concat([some, mask[2 * half :, ...]]) if odd else some
    return a[0, ...]


def widened(mask: Array, a: Array) -> Array:
    """`mask` (k, *streams) as (k, 1, …, *streams), to broadcast against `a` (k, …, *streams)."""
    return namespace(mask).reshape(mask, (mask.shape[0],) + (1,) * (a.ndim - mask.ndim) + tuple(mask.shape[1:]))


def first_equal(d: Array, target: Array) -> Array:
    """The lowest slot where `d` (k, *streams) equals `target` (*streams), k where none does; as an integer array."""
    xp = namespace(d)
    index = slots(d, d.shape[0])
    return xp.min(xp.where(d == target, index, d.shape[0]), axis=0)


def smallest(d: Array) -> Array:
    """One-hot (boolean) of the smallest of `d` (k, *streams) along axis 0, the lowest slot on ties."""
    return slots(d, d.shape[0]) == first_equal(d, namespace(d).min(d, axis=0))


def position(onehot: Array) -> Array:
    """The slot a boolean one-hot (k, *streams) points at; −1 where it is all False."""
    xp = namespace(onehot)
    return xp.sum(xp.where(onehot, slots(onehot, onehot.shape[0]) + 1, 0), axis=0, dtype=xp.int32) - 1


def pointed(a: Array, onehot: Array) -> Array:
    """The slot of `a` (k, …, *streams) that a mask (k, *streams) points at; 0 for none, the sum for several."""
    xp = namespace(a)
    return xp.sum(xp.where(widened(onehot, a), a, 0), axis=0, dtype=a.dtype)


def seat(d: Array, active: Array, seen: Array, distinct: bool, free: Array | None = None) -> Array:
    """The slot (*streams) of a sample: the first free one while there is one, then the nearest; k if not `seen`.

    d (k, *streams) are squared distances from the centres, and slots fill in order. `distinct`: a sample that equals a
    centre gets its slot instead of a free one. `free`: slots that may be used at all, None for all of them.
    """
    xp = namespace(d)
    if distinct:
        d = xp.where(d == 0, -2.0, d)
    d = xp.where(active, d, -1.0)  # below all distances: the first free slot is the nearest
    d = d if free is None else xp.where(free, d, xp.inf)
    nearest = xp.min(d, axis=0)
    return first_equal(d, xp.where(seen, nearest, -3.0))
