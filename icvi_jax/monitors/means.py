"""Fading means and the variances about them, for contrasts of a feature."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.numerics.arrays import advance, larger, namespace, smaller
from icvi_jax.types import Array

SURE = 20
"""Samples a variance must be learned from."""

FREE = 30
"""A variance learns from so many samples as they are; a later one counts as at most `OUTLYING` variances."""

OUTLYING = 16.0


class Mean(NamedTuple):
    """A fading mean m with its weight W and the sum of squared weights Q, each (p, *streams)."""

    weight: Array
    squares: Array
    mean: Array


class Variance(NamedTuple):
    """A variance, and the number of values it was learned from."""

    value: Array
    learned: Array


def follow(mean: Mean, x: Array, where: Array, fade: Array) -> tuple[Mean, Array]:
    """The mean after one more value, and how far from it the value was."""
    xp = namespace(x)
    weight = xp.where(where, fade * mean.weight + 1, mean.weight)
    e = xp.where(where, x - mean.mean, xp.zeros_like(x))
    squares = xp.where(where, fade * fade * mean.squares + 1, mean.squares)
    return Mean(weight, squares, mean.mean + e * _inverse(weight)), e


def learn(variance: Variance, square: Array, where: Array, fade: Array, outlying: float = OUTLYING) -> Variance:
    """The variance after one more square."""
    xp = namespace(square)
    v, learned = variance.value, advance(variance.learned, where)
    square = xp.where(learned <= FREE, square, smaller(square, outlying * v))
    gain = larger(1 / (xp.astype(learned, square.dtype) + 1), 1 - fade)
    return Variance(xp.where(where, v + gain * (square - v), v), learned)


def share(mean: Mean) -> Array:
    """Q/W²: the variance of the mean over that of a value; 0 of an empty mean."""
    inverse = _inverse(mean.weight)
    return mean.squares * (inverse * inverse)


def _inverse(weight: Array) -> Array:
    """1/W, the same expression in both places, so that compiled code divides once; a weight is 0 or at least 1."""
    return 1 / larger(weight, namespace(weight).ones_like(weight))


def blank(mean: Mean, where: Array) -> Mean:
    """An empty mean."""
    xp = namespace(mean.weight)
    return Mean(*(xp.where(where, xp.zeros_like(a), a) for a in mean))
