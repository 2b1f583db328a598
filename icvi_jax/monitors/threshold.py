"""Threshold: how far above its level a quiet index gets, learned, so that what is beyond has a promised rate."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.monitors import tail
from icvi_jax.numerics.arrays import advance, cast, larger, namespace
from icvi_jax.types import Array, Namespace

FLOOR = 0.1
"""Least spread of the largest values of blocks, on the log scale."""

MEMORY, FEED = 200, 6.0
"""Indices come in bursts: more maxima are remembered than of columns, and large ones count nearly as they are."""

SEEN, LEVEL, SPREAD = 4, 0.6, 0.4
"""The tail begins as if so many maxima of this mean and spread had been seen, so that no first value sets it alone."""

LIMIT = 1 / tail.BLOCK
"""Rates of false alarms are below this: there is at most one alarm a block."""


class Threshold(NamedTuple):
    """What is known of one index; each field (*streams).

    Attributes
    ----------
    tail : of the distance d of the index above its level.
    open : values in the open block.
    ready : a block was closed since the last alarm.
    """

    tail: tail.Tail
    open: Array
    ready: Array


def start(streams: tuple[int, ...], xp: Namespace, dtype: object) -> Threshold:
    """Nothing is known yet."""
    none = xp.zeros(streams, dtype=xp.int32)
    begun = tail.start(streams, xp, dtype, SEEN, LEVEL, SPREAD)
    return Threshold(begun._replace(blocks=none + tail.BLOCKS), none, none == 0)


def read(state: Threshold, d: Array, false_alarms: Array, floor: Array | None) -> tuple[Array, Array, Array]:
    """The threshold of d, the chance that a quiet block gets as high (NaN while unknown), and whether it may fire."""
    xp = namespace(d)
    floor = xp.full_like(d, FLOOR) if floor is None else floor
    known = state.tail.learned >= SEEN + 2
    theta = larger(tail.threshold(state.tail, false_alarms * tail.BLOCK, floor), floor)
    p = tail.chance(tail.rarity(state.tail, d, floor))
    return theta, xp.where(known, p, xp.full_like(p, xp.nan)), known & state.ready


def update(state: Threshold, d: Array, heard: Array, fires: Array, theta: Array) -> Threshold:
    """What is known after the value d, where it was `heard`; `fires` where it raised an alarm.

    What is beyond the threshold is suspected and teaches nothing but that it was reached: an alarm is learned as the
    threshold itself, and a value that could not raise one, as no value.
    """
    xp = namespace(d)
    counted = heard & ~fires
    opened = advance(state.open, counted)
    closes = counted & (opened >= tail.BLOCK)
    quiet = tail.heard(state.tail, d, counted & (d <= theta))
    reached = tail.fed(state.tail, xp.where(d < theta, d, theta), FEED)
    new = tail.learn(quiet, fires, reached, closes, cast(MEMORY, d), FEED)
    over = fires | closes
    opened = xp.where(over, xp.zeros_like(opened), opened)
    return Threshold(tail.opened(new, over), opened, (state.ready & ~fires) | closes)
