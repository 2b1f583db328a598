"""Threshold: how far above its level a quiet index gets, learned, so that what is beyond has a promised rate."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.monitors import gumbel_tail as tail
from icvi_jax.numerics.arrays import advance, cast, larger, namespace, smaller
from icvi_jax.types import Array, Namespace

FLOOR = 0.1
"""Least spread of the largest values of blocks, on the log scale."""

MEMORY, FEED = 200, 6.0
"""Indices come in bursts: more maxima are remembered than of columns, and large ones count nearly as they are."""

DROP = 1.5
"""A maximum counts as at most so many spreads below their mean: an index that falls back says nothing about peaks."""

TRUSTED = 0.5
"""The factor sets the threshold where it is lower than the learned one, but not below this share of that."""

BACK, MOST = 0.4, 1.5
"""What a lone sample that raised an alarm adds to that share, and the most that they add."""

NEARLY, ALONE = 0.95, 1.5
"""A value beyond the threshold counts if it is not below the one before and that one had this share of the threshold;
a lone value must be so many times the learned threshold."""

EASED = 0.6
"""That share during distress, where a little is enough: nothing is added to it, and nothing is learned from it."""

SEEN, LEVEL, SPREAD = 4, 0.6, 0.4
"""The tail begins as if so many maxima of this mean and spread had been seen, so that no first value sets it alone."""

LIMIT = 1 / tail.BLOCK
"""Rates of false alarms are below this: there is at most one alarm a block."""


class Threshold(NamedTuple):
    """What is known of one index; each field (*streams)."""

    tail: tail.Tail  # of the distance d of the index above its level
    open: Array  # values in the open block
    ready: Array  # a block was closed since the last alarm
    reserve: Array  # κ, which rises with every lone sample that raised an alarm, and falls as fast as is promised
    last: Array  # the value before, on the log scale; ∞ before any


def start(streams: tuple[int, ...], xp: Namespace, dtype: object) -> Threshold:
    """Nothing is known yet."""
    none = xp.zeros(streams, dtype=xp.int32)
    begun = tail.start(streams, xp, dtype, SEEN, LEVEL, SPREAD)
    zero = xp.zeros(streams, dtype=dtype)
    return Threshold(begun._replace(blocks=none + tail.BLOCKS), none, none == 0, zero, zero + xp.inf)


def read(
    state: Threshold,
    y: Array,
    level: Array,
    plain: Array,
    false_alarms: Array,
    floor: Array | None,
    distress: Array,
) -> tuple[Array, Array, Array]:
    """The threshold of y above its level, the chance that a quiet block gets as high (NaN while unknown), and whether
    y may fire.

    `plain` is the threshold that a factor sets: it holds where it is lower than the learned one, down to a share of
    that, which is fixed during `distress`. Two values must agree: a lone sample lifts an index at once, which then
    falls, and at a change it goes on rising.
    """
    xp, d, before = namespace(y), y - level, state.last - level
    floor = xp.full_like(d, FLOOR) if floor is None else floor
    known = state.tail.learned >= SEEN + 2
    theta = larger(tail.threshold(state.tail, false_alarms * tail.BLOCK, floor), floor)
    share = xp.where(distress, xp.full_like(d, EASED), TRUSTED + state.reserve)
    whole = larger(share, xp.ones_like(share)) * theta
    theta = smaller(whole, larger(plain, share * theta))
    agreed = (d >= before) & (before >= NEARLY * theta)
    p = tail.chance(tail.rarity(state.tail, d, floor))
    return theta, xp.where(known, p, xp.full_like(p, xp.nan)), known & state.ready & (agreed | (d > ALONE * whole))


def update(
    state: Threshold,
    y: Array,
    level: Array,
    ok: Array,
    heard: Array,
    fires: Array,
    passed: Array,
    peak: Array,
    false_alarms: Array,
    distress: Array,
) -> Threshold:
    """What is known after the value y, where it is `ok`; the block gets it where it was `heard`; `fires` where it
    raised an alarm.

    An alarm teaches nothing at first. Where it has `passed` soon it was a lone sample, and its `peak` is learned as
    that of a quiet block; one that stays was a change. The first block after an alarm is still falling: it teaches
    nothing.
    """
    xp, d = namespace(y), y - level
    counted = heard & ~fires
    opened = advance(state.open, counted)
    closes = counted & (opened >= tail.BLOCK)
    quiet = tail.heard(state.tail, xp.where(state.ready, d, xp.full_like(d, -xp.inf)), counted)
    fallen = -DROP * xp.sqrt(state.tail.square)
    quiet = quiet._replace(peak=xp.where(quiet.peak > -xp.inf, larger(quiet.peak, quiet.level + fallen), quiet.peak))
    new = tail.learn(quiet, passed, tail.fed(state.tail, peak, FEED), closes, cast(MEMORY, d), FEED)
    over = fires | closes
    opened = xp.where(over, xp.zeros_like(opened), opened)
    less = larger(state.reserve - BACK * tail.BLOCK * false_alarms, xp.zeros_like(d))
    reserve = xp.where(
        closes, less, xp.where(passed & ~distress, smaller(state.reserve + BACK, xp.full_like(d, MOST)), state.reserve)
    )
    ready = (state.ready & ~fires) | closes
    return Threshold(tail.opened(new, over), opened, ready, reserve, xp.where(ok, y, state.last))
