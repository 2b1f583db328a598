r"""Tail: how large quiet values get, learned from the maxima of blocks, so that a threshold is a false-alarm rate.

Maxima of B values follow a Gumbel law nearly whatever the values are. With mean μ and spread s of the n maxima so far:

.. math:: σ = 0.7797\, \max(s, \text{floor})\, (1 + 2/n), \qquad P(y) = 1 − \exp(−e^{a}), \quad a = −(y − μ)/σ − 0.5772

is the probability that a quiet block gets as high as y. A maximum that is e above μ is learned from with the gain
:math:`g = \max(1/n, 1/\text{memory})`, n counting it:

.. math:: μ ← μ + g e, \qquad s^2 ← (1 − g)(s^2 + g e^2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from icvi_jax.numerics.arrays import advance, cast, larger, namespace, smaller
from icvi_jax.types import Array, Namespace

EULER = 0.5772
GUMBEL = 0.7797
FEED = 4.0
"""A maximum counts as at most so many spreads away from the mean; otherwise one change would hide the next."""

BLOCK = 15
"""Values in a block."""

BLOCKS = 6
"""The first blocks are learned from without a limit, and there is no threshold before them."""

MEMORY = 40
"""How many maxima are remembered."""

CERTAIN = 4.0
"""Where a is above this, P is 1 to the last digit of float64."""


class Tail(NamedTuple):
    """Channels of one stream or of a fleet, each field of one shape."""

    learned: Array  # n, number of maxima learned from; a given start counts as some
    level: Array  # μ
    square: Array  # s²
    blocks: Array  # complete blocks among the maxima, counted up to `BLOCKS`
    peak: Array  # the largest value of the open block; −inf where it has none


def start(
    shape: tuple[int, ...], xp: Namespace, dtype: object, n: int = 0, level: float = 0.0, spread: float = 0.0
) -> Tail:
    """A tail as if `n` maxima of that level and spread had been seen."""
    zero = xp.zeros(shape, dtype=dtype)
    none = xp.zeros(shape, dtype=xp.int32)
    return Tail(none + n, zero + level, zero + spread * spread, none, zero - xp.inf)


def rarity(tail: Tail, y: Array, floor: Array) -> Array:
    """The number a of P(y): the smaller, the rarer."""
    n, s = _scale(tail, floor)
    return -(y - tail.level) * n / s - EULER


def chance(a: Array) -> Array:
    """P from a; 0 where it is too small for a float."""
    xp = namespace(a)
    return -xp.expm1(-xp.exp(smaller(a, cast(CERTAIN, a))))


def log_chance(a: Array, p: Array) -> Array:
    """log P from a and P; finite where P itself is too small for a float."""
    xp = namespace(a)
    tiny = p < 1e-30
    return xp.where(tiny, a, xp.log(xp.where(tiny, xp.ones_like(p), p)))


def threshold(tail: Tail, chance: Array, floor: Array) -> Array:
    """The y whose P(y) is `chance`."""
    xp = namespace(tail.level)
    n, s = _scale(tail, floor)
    return tail.level - s / n * (xp.log(-xp.log1p(-chance)) + EULER)


def fed(tail: Tail, y: Array, feed: float = FEED) -> Array:
    """How far y is above μ, as a value that raised an alarm is learned: at most `feed` spreads."""
    return smaller(y - tail.level, feed * namespace(y).sqrt(tail.square))


def heard(tail: Tail, y: Array, where: Array) -> Tail:
    """The tail after the value y went into the open block."""
    return tail._replace(peak=namespace(y).where(where, larger(tail.peak, y), tail.peak))


def learn(tail: Tail, fires: Array, e: Array, closes: Array, memory: Array, feed: float = FEED) -> Tail:
    """The tail after alarms and the ends of blocks.

    Where it `fires` it learns from `e`, which is `fed` beforehand; where the block `closes`, from the largest value.
    """
    xp = namespace(tail.level)
    closes = closes & (tail.peak > -xp.inf)
    gap = xp.where(closes, tail.peak, tail.level) - tail.level
    reach = feed * xp.sqrt(tail.square)
    clipped = smaller(larger(gap, -reach), reach)
    e = xp.where(closes, xp.where(tail.blocks >= BLOCKS, clipped, gap), e)
    learns = fires | closes
    n = advance(tail.learned, learns)
    g = larger(1 / xp.astype(larger(n, xp.ones_like(n)), e.dtype), 1 / memory)
    return Tail(
        learned=n,
        level=xp.where(learns, tail.level + g * e, tail.level),
        square=xp.where(learns, (1 - g) * (tail.square + g * e * e), tail.square),
        blocks=xp.where(closes & (tail.blocks < BLOCKS), tail.blocks + 1, tail.blocks),
        peak=tail.peak,
    )


def opened(tail: Tail, where: Array) -> Tail:
    """The tail with a new block begun."""
    xp = namespace(tail.peak)
    return tail._replace(peak=xp.where(where, xp.full_like(tail.peak, -math.inf), tail.peak))


def _scale(tail: Tail, floor: Array) -> tuple[Array, Array]:
    """n and n σ, with the scale σ of the Gumbel law."""
    xp = namespace(tail.level)
    n = xp.astype(larger(tail.learned, xp.ones_like(tail.learned)), tail.level.dtype)
    return n, GUMBEL * larger(xp.sqrt(tail.square), floor) * (n + 2)
