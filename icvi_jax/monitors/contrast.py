r"""Contrast: the Calinski–Harabasz index of the partition {before, now} of each feature of a stream.

For one feature and two groups that index is the square of the two-sample t statistic: free of units, with no number of
clusters to choose and no clusterer. "Now" is a mean that forgets quickly (λ_f), "before" one that forgets slowly (λ_s)
and is `lag` samples late, so that the two do not overlap:

.. math:: CH = \frac{(m_f − m_s)^2}{v\,(Q_f/W_f^2 + Q_s/W_s^2)},
   \qquad W = Σ λ^{n−j}, \quad Q = Σ λ^{2(n−j)}, \quad m = Σ λ^{n−j} x_j / W,

with v the variance of a sample about the mean before it.
"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.kernels.arrays import advance, larger, namespace, smaller
from icvi_jax.types import Array, Namespace

SETTLED = 10
"""Samples that "before" must have heard, or could have, before the two are compared."""

SURE = 20
"""Samples the variance must be learned from."""

FREE = 30
"""The variance learns from so many samples as they are; a later one counts as at most `OUTLYING` variances."""

OUTLYING = 16.0
WEIGHTY = 5.0
"""The variance listens once "before" weighs more than this."""

SLOWEST = 0.002
"""The share of repeated values is a mean over about 500 samples."""


class Mean(NamedTuple):
    """A fading mean m with its weight W and the sum of squared weights Q, each (p, *streams)."""

    weight: Array
    squares: Array
    mean: Array


class ContrastState(NamedTuple):
    """What is known of each feature.

    Attributes
    ----------
    now, before : the two means.
    age : (p, *streams), rows since the feature's regime began.
    variance, learned : (p, *streams), v, and how many samples it was learned from.
    last, repeats, constant : (p, *streams), the last value (NaN: none yet), the share of values that repeat the one
        before, and whether all were the same so far.
    ring : (lag, p, *streams), the last rows, the oldest first; NaN in holes.
    """

    now: Mean
    before: Mean
    age: Array
    variance: Array
    learned: Array
    last: Array
    repeats: Array
    constant: Array
    ring: Array


def start(lag: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> ContrastState:
    """The state before any sample."""
    zero = xp.zeros((features, *streams), dtype=dtype)
    none = xp.zeros((features, *streams), dtype=xp.int32)
    mean = Mean(zero, zero, zero)
    ring = xp.zeros((lag, features, *streams), dtype=dtype)
    return ContrastState(mean, mean, none, zero, none, zero + xp.nan, zero, none == 0, ring)


def take(
    state: ContrastState, x: Array, there: Array, time: Array, fades: tuple[Array, Array, Array], mute: Array
) -> tuple[ContrastState, Array, Array]:
    """Take in a row.

    Parameters
    ----------
    x, there : (p, *streams), the values, and False in holes; a row without any value changes nothing.
    time : (*streams), integer: rows before this one.
    fades : λ_f, λ_s and λ_v, which the variance forgets with.
    mute : a feature of which a larger share of values are repeats has no contrast.

    Returns
    -------
    state
    y : (p, *streams), the fourth root of CH; 0 where it has none.
    known : (p, *streams), whether it has one.
    """
    xp = namespace(x)
    fast, slow, long = fades
    lag, row = state.ring.shape[0], xp.any(there, axis=0)

    # A counter that rarely moves says nothing by not moving; a feature that never moved begins when it does.
    same = there & (x == state.last)
    gain = larger(1 / xp.astype(larger(time, xp.ones_like(time)), x.dtype), xp.full_like(x[0, ...], SLOWEST))
    turned = there & (time >= 1)
    repeats = xp.where(turned, state.repeats + gain * (xp.astype(same, x.dtype) - state.repeats), state.repeats)
    wakes = row & state.constant & (time >= lag)
    constant = state.constant & (same | ~there | xp.isnan(state.last))
    age = xp.where(wakes, xp.zeros_like(state.age), state.age)
    now, before = _blank(state.now, wakes), _blank(state.before, wakes)

    now, _ = _follow(now, x, there, fast)
    z = state.ring[0, ...]
    late = there & (age >= lag) & ~xp.isnan(z)
    before, e = _follow(before, xp.where(late, z, xp.zeros_like(z)), late, slow)
    listens = late & (before.weight > WEIGHTY)
    learned, v = advance(state.learned, listens), state.variance
    error = xp.where(learned <= FREE, e * e, smaller(e * e, OUTLYING * v))
    v = xp.where(listens, v + larger(1 / (xp.astype(learned, x.dtype) + 1), 1 - long) * (error - v), v)

    known = there & (age >= lag + SETTLED) & (learned >= SURE) & (v > 0) & ~(repeats > mute) & (before.weight > 0)
    one = xp.ones_like(v)
    share = _share(now, known) + _share(before, known)
    contrast = (now.mean - before.mean) ** 2 / (xp.where(known, v, one) * xp.where(known, share, one))
    y = xp.where(known, xp.sqrt(xp.sqrt(contrast)), xp.zeros_like(v))
    new = ContrastState(
        now,
        before,
        advance(age, row),
        v,
        learned,
        xp.where(there, x, state.last),
        repeats,
        constant,
        _pushed(state.ring, xp.where(there, x, xp.full_like(x, xp.nan)), row),
    )
    return new, y, known


def begin(state: ContrastState, where: Array) -> ContrastState:
    """The state where a new regime has begun with the row just taken in: variances and the ring are kept."""
    xp = namespace(state.age)
    return state._replace(
        now=_blank(state.now, where),
        before=_blank(state.before, where),
        age=xp.where(where, xp.ones_like(state.age), state.age),
    )


def _follow(mean: Mean, x: Array, where: Array, fade: Array) -> tuple[Mean, Array]:
    """The mean after one more value, and how far from it the value was."""
    xp = namespace(x)
    weight = xp.where(where, fade * mean.weight + 1, mean.weight)
    e = xp.where(where, x - mean.mean, xp.zeros_like(x))
    squares = xp.where(where, fade * fade * mean.squares + 1, mean.squares)
    return Mean(weight, squares, mean.mean + e / larger(weight, xp.ones_like(weight))), e


def _share(mean: Mean, where: Array) -> Array:
    """Q/W²: the variance of the mean over that of a value."""
    xp = namespace(mean.weight)
    return mean.squares / xp.where(where, mean.weight * mean.weight, xp.ones_like(mean.weight))


def _blank(mean: Mean, where: Array) -> Mean:
    """The mean of nothing yet."""
    xp = namespace(mean.weight)
    return Mean(*(xp.where(where, xp.zeros_like(a), a) for a in mean))


def _pushed(ring: Array, row: Array, where: Array) -> Array:
    """The ring with a row more and the oldest gone."""
    xp = namespace(ring)
    return xp.where(where, xp.concat([ring[1:, ...], row[None, ...]], axis=0), ring)
