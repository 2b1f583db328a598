"""Anchor: the origin that is subtracted from every sample, so that digits are not lost far from zero.

Every index is translation invariant. In float32 the numbers 1,000,000.25 and 1,000,000.27 are equal; their distances
from the first sample are not. An anchor has two words, `high + low`, which together have twice the digits: enough for a
Unix time in seconds (1.7e9) with its fraction.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import NamedTuple

from icvi_jax.numerics.arrays import namespace
from icvi_jax.types import Array, Namespace


class Anchor(NamedTuple):
    """The origin of one stream, or of each stream of a fleet.

    Attributes
    ----------
    high, low : (p, *streams), the origin is high + low; 0 where there is none yet.
    set : (p, *streams), boolean: the column has an origin, its first usable value.
    """

    high: Array
    low: Array
    set: Array


def no_anchor(features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> Anchor:
    """The anchor before any sample."""
    high, low, known = (xp.zeros((features, *streams), dtype=kind) for kind in (dtype, dtype, xp.bool))
    return Anchor(high, low, known)


ERROR_CODES = 2147483647.0, 2147483648.0, -2147483648.0, 4294967295.0, 4294967296.0
"""Values that stand for a missing one and may not be an origin: next to them float32 has no digits for real values."""


def is_error_code(x: Array) -> Array:
    """Whether a value is one of the error codes that must not be an origin."""
    return reduce(operator.or_, (x == code for code in ERROR_CODES))


def set_anchor(anchor: Anchor, x: Array, there: Array) -> Anchor:
    """Make the value of `x` (p, *streams) the origin of each column that has none yet, where it is `there`."""
    xp = namespace(x)
    there = there & ~is_error_code(x)
    fresh = there & ~anchor.set
    return Anchor(xp.where(fresh, x, anchor.high), anchor.low, anchor.set | there)


def about(anchor: Anchor, x: Array) -> Array:
    """Coordinates `x` (…, p, *streams) relative to the anchor."""
    return (x - anchor.high) - anchor.low


def back(anchor: Anchor, z: Array) -> Array:
    """Coordinates relative to the anchor `z` (…, p, *streams), in the units of the samples."""
    return (z + anchor.low) + anchor.high
