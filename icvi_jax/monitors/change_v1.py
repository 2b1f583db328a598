"""Change as 0.2 defined it (`Change(version=1)`), kept for one version, for checkpoints and comparisons.

Each feature has one number, the fourth root of the Calinski–Harabasz index of the partition {before, now} of its recent
past: "now" a mean m_f that forgets quickly, "before" one, m_s, that forgets slowly and is `LAG` rows late:
CH = (m_f − m_s)² / (v (Q_f/W_f² + Q_s/W_s²)), W and Q the sums of weights and of their squares, v the variance of a
value about the mean before it. Options add views: slower means, distances |x − m_s|, and the gap between the last two
values and the two before; the largest counts. Tails are learned from block maxima (`icvi_jax.monitors.gumbel_tail`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

from icvi_jax.monitors import gumbel_tail as tail
from icvi_jax.monitors import seasons
from icvi_jax.monitors.base import IndexValue
from icvi_jax.monitors.log_scale import read_indices
from icvi_jax.numerics.arrays import advance, cast, larger, namespace, position, smaller, smallest
from icvi_jax.types import Alarm, Array, Namespace

LAG, APART, SEEN, SILENT = 20, 5, 6, 200
"""Rows by which "before" is late, rows between two alarms, blocks of white noise at the start, rows without alarms."""

FAST, SLOW, STEADY, FLOOR, MUTE = 0.9, 0.99, 0.999, 0.1, 0.8
"""Forgetting of now, of before and of the variance; least spread of maxima; the share of repeats that mutes."""

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


def learn(variance: Variance, square: Array, where: Array, fade: Array) -> Variance:
    """The variance after one more square."""
    xp = namespace(square)
    v, learned = variance.value, advance(variance.learned, where)
    square = xp.where(learned <= FREE, square, smaller(square, OUTLYING * v))
    gain = larger(1 / (xp.astype(learned, square.dtype) + 1), 1 - fade)
    return Variance(xp.where(where, v + gain * (square - v), v), learned)


def share(mean: Mean) -> Array:
    """Q/W²: the variance of the mean over that of a value; 0 of an empty mean."""
    inverse = _inverse(mean.weight)
    return mean.squares * (inverse * inverse)


def _inverse(weight: Array) -> Array:
    """1/W, the same expression in both places, so that compiled code divides once; a weight is 0 or at least 1."""
    return 1 / larger(weight, namespace(weight).ones_like(weight))


LEAST_MOVE = 0.03
"""Smallest u as a share of v: in a signal that hardly ever moves, a small move is not a jump."""

BACK = 3
"""Rows before this one that are used."""


def _leap(
    rough: Variance, x: Array, ring: Array, able: Array, moves: Array, v: Array, steady: Array
) -> tuple[Variance, Array, Array, Array]:
    """The view of jumps after a row x: `rough`, y and where it is known as of `_take`, and the factor for other views.

    `rough` is half the mean square of differences; `moves` is where the last two rows of the ring are of one regime of
    a feature that is alive, `able` where there may be a contrast; v is 0 while unknown.
    """
    xp = namespace(x)
    first, second, third = (ring[-k, ...] for k in range(1, BACK + 1))
    zero, one = xp.zeros_like(x), xp.ones_like(x)
    moves = moves & ~xp.isnan(first + second)
    step = xp.where(moves, first - second, zero)
    rough = learn(rough, step * step / 2, moves, steady)

    sure = (rough.learned >= SURE) & (v > 0)
    known = able & sure & ~xp.isnan(first + second + third)
    u = xp.where(sure, larger(rough.value, LEAST_MOVE * v), one)
    rise = smaller(x, first) - larger(second, third)
    fall = smaller(second, third) - larger(x, first)
    gap = xp.where(known, larger(larger(rise, fall), zero), zero)

    r = xp.where(sure, smaller(u / xp.where(sure, v, one), one), one)
    root = xp.sqrt(xp.sqrt(r / (2 - r)))
    return rough, xp.sqrt(gap / xp.sqrt(u)), known, root * xp.sqrt(root)


SETTLED = 10
"""Samples that "before" must have, or could have, before the two are compared."""

WEIGHTY = 5.0
"""The variance is learned when "before" weighs more than this."""

SLOWEST = 0.002
"""The share of repeated values is a mean over about 500 samples."""

SLOWER = 0.97, 0.997
"""λ_f and λ_s of the slower view, and of the view of distances."""

FAR = 4.0
"""A distance counts as at most so many spreads."""

WHITE = {
    (False, False, False): (1.235, 0.225), (True, False, False): (1.257, 0.212),
    (False, True, False): (1.300, 0.200), (True, True, False): (1.315, 0.196),
    (False, False, True): (1.275, 0.206), (True, False, True): (1.291, 0.202),
    (False, True, True): (1.321, 0.193), (True, True, True): (1.333, 0.190),
}  # fmt: skip
"""Where the tails of features begin, by slower means, distances and jumps: mean and spread of the largest of 15
contrasts of white noise."""


class View(NamedTuple):
    """Two means, and the variance v of a value about the earlier one with the number of values it was learned from."""

    now: Mean
    before: Mean
    variance: Array
    learned: Array


class ContrastState(NamedTuple):
    """What is known of each feature, (p, *streams)."""

    views: tuple[View, ...]  # the feature itself; where asked for, the slower view and that of distances
    age: Array  # rows since the feature's regime began
    last: Array  # NaN: none yet
    repeats: Array  # the share of values that repeat the one before
    constant: Array  # all were the same so far
    ring: Array  # (lag, p, *streams), the last rows, the oldest first; NaN in holes
    rough: Variance | None = None  # what jumps are measured by


class Settings(NamedTuple):
    """Forgetting of now, of before and of the variance; a feature of which more values are repeats has no contrast."""

    fast: Array
    slow: Array
    steady: Array
    mute: Array


def _start(options: Options, shape: tuple[int, ...], xp: Namespace, dtype: object) -> ContrastState:
    """The state before any sample."""
    zero, none = (xp.zeros(shape, dtype=one) for one in (dtype, xp.int32))
    mean = Mean(zero, zero, zero)
    views = (View(mean, mean, zero, none),) * (1 + options.slower + options.spread)
    rough = Variance(zero, none) if options.jumps else None
    ring = xp.zeros((LAG, *shape), dtype=dtype)
    return ContrastState(views, none, zero + xp.nan, zero, none == 0, ring, rough)


def _take(
    state: ContrastState,
    x: Array,
    there: Array,
    time: Array,
    fresh: Array,
    settings: Settings,
    options: Options,
) -> tuple[ContrastState, Array, Array]:
    """The state after a row; the fourth root of CH (p, *streams), 0 where unknown; and where it is known.

    `there` is False in holes, `time` counts the rows before; where it is `fresh`, a regime began with the row before.
    """
    xp = namespace(x)
    row = xp.any(there, axis=0)

    # Repeated values of a counter that rarely changes do not count; a constant feature begins with its first change.
    same = there & (x == state.last)
    gain = larger(1 / xp.astype(larger(time, xp.ones_like(time)), x.dtype), xp.full_like(x[0, ...], SLOWEST))
    turned = there & (time >= 1)
    repeats = xp.where(turned, state.repeats + gain * (xp.astype(same, x.dtype) - state.repeats), state.repeats)
    wakes = row & state.constant & (time >= LAG)
    constant = state.constant & ~(there & ((x < state.last) | (x > state.last)))
    none = xp.zeros_like(state.age)
    age = xp.where(wakes, none, xp.where(fresh, none + 1, state.age))

    z = state.ring[0, ...]
    late = there & (age >= LAG) & ~xp.isnan(z)
    z = xp.where(late, z, xp.zeros_like(z))
    old = [_blank(view, wakes | fresh) for view in state.views]
    quick, calm = (xp.full_like(x, fade) for fade in SLOWER)
    slow = settings._replace(fast=quick, slow=calm)
    views = [_look(old[0], x, z, there, late, settings)]
    if options.slower:
        views.append(_look(old[1], x, z, there, late, slow))
    if options.spread:
        first = views[0]
        scale = xp.sqrt(xp.where(first.variance > 0, first.variance, xp.ones_like(x)))
        far, ago = (smaller(xp.abs(a - first.before.mean) / scale, xp.full_like(x, FAR)) for a in (x, z))
        sure = (first.before.weight > WEIGHTY) & (first.variance > 0)
        views.append(_look(old[-1], far, ago, there & sure, late & sure, slow))

    able = there & (age >= LAG + SETTLED) & ~(repeats > settings.mute)
    y, known = zip(*(_contrast(view, able) for view in views))
    contrast, some, rough = reduce(larger, y), reduce(lambda a, b: a | b, known), state.rough
    if rough is not None:
        moves, v = there & ~constant & (age >= BACK), views[0].variance
        rough, leap, leaps, scale = _leap(rough, x, state.ring, able, moves, v, settings.steady)
        contrast, some = larger(contrast * scale, leap), some | leaps
    pushed = xp.concat([state.ring[1:, ...], xp.where(there, x, xp.full_like(x, xp.nan))[None, ...]], axis=0)
    ring, last = xp.where(row, pushed, state.ring), xp.where(there, x, state.last)
    return ContrastState(tuple(views), advance(age, row), last, repeats, constant, ring, rough), contrast, some


def _look(view: View, x: Array, z: Array, there: Array, late: Array, settings: Settings) -> View:
    """The view after the value x, and after z for the mean before, where they are."""
    now, _ = follow(view.now, x, there, settings.fast)
    before, e = follow(view.before, z, late, settings.slow)
    listens = late & (before.weight > WEIGHTY)
    return View(now, before, *learn(Variance(view.variance, view.learned), e * e, listens, settings.steady))


def _contrast(view: View, able: Array) -> tuple[Array, Array]:
    """The fourth root of CH, 0 where there is none, and where there is one."""
    xp = namespace(view.variance)
    v, one = view.variance, xp.ones_like(view.variance)
    known = able & (view.learned >= SURE) & (v > 0) & (view.before.weight > 0)
    of_means = share(view.now) + share(view.before)
    contrast = (view.now.mean - view.before.mean) ** 2 / xp.where(known, v * of_means, one)
    return xp.where(known, xp.sqrt(xp.sqrt(contrast)), xp.zeros_like(v)), known


def _blank(view: View, where: Array) -> View:
    """The view with empty means; its variance is kept."""
    xp = namespace(view.variance)
    now, before = (Mean(*(xp.where(where, xp.zeros_like(a), a) for a in mean)) for mean in (view.now, view.before))
    return view._replace(now=now, before=before)


class Options(NamedTuple):
    """The options of 0.2."""

    slower: bool
    spread: bool
    jumps: bool
    season: int
    q: int


class FirstState(NamedTuple):
    """O(p) numbers per stream and a ring of rows; with seasons also a ring of one season."""

    time: Array  # rows so far with at least one value
    since: Array  # rows since the last firing; means are emptied in the row after one
    ready: Array  # a block was closed since
    open: Array  # values in the open block
    contrast: ContrastState
    tail: tail.Tail  # (p + q, *streams): the features, then the indices
    armed: Array | None  # (q, *streams): the index may fire
    season: seasons.SeasonState | None = None


def start(options: Options, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> FirstState:
    """The state before any sample."""
    none = xp.zeros(streams, dtype=xp.int32)
    tails = tail.start((features, *streams), xp, dtype, SEEN, *WHITE[options.slower, options.spread, options.jumps])
    if options.q:
        others = tail.start((options.q, *streams), xp, dtype)
        tails = tail.Tail(*(xp.concat(pair, axis=0) for pair in zip(tails, others)))
    return FirstState(
        time=none,
        since=none + APART,
        ready=none == 0,
        open=none,
        contrast=_start(options, (features, *streams), xp, dtype),
        tail=tails,
        armed=xp.ones((options.q, *streams), dtype=xp.bool) if options.q else None,
        season=seasons.start(options.season, features, streams, xp, dtype) if options.season else None,
    )


def step(
    options: Options,
    rate: float,
    silent: int,
    state: FirstState,
    x: Array,
    there: Array,
    heard: Mapping[str, IndexValue],
) -> tuple[FirstState, Alarm]:
    """Process a row: see `SampleMonitor.step`."""
    xp, t, old, season = namespace(x), state.time, state.tail, state.season
    if season is not None:
        season, x, there = seasons.take(season, x, there)
    floor, memory, alpha = (cast(value, x) for value in (FLOOR, tail.MEMORY, rate))
    settings = Settings(*(cast(value, x) for value in (FAST, SLOW, STEADY, MUTE)))
    none, row = xp.zeros_like(t), xp.any(there, axis=0)
    now, y, known = _take(state.contrast, x, there, t, state.since == 1, settings, options)
    p, tested, armed = x.shape[0], known, state.armed
    if options.q:
        more, ok = read_indices(heard, row, x[0, ...])
        armed = xp.zeros_like(ok) if armed is None else armed
        armed = armed | (ok & (more < old.level[p:, ...]))
        warm = old.learned[p:, ...] >= tail.BLOCKS
        tested = xp.concat([known, ok & warm & armed], axis=0)
        y, known = xp.concat([y, more], axis=0), xp.concat([known, ok], axis=0)

    # Test: the least likely channel, as a logarithm: small numbers underflow.
    logarithm, chance, culprit = _test(options.q, tail.rarity(old, y, floor), tested, p)
    sure = xp.any(tested, axis=0)
    late = state.since >= APART
    fires = sure & state.ready & late & (chance < alpha * tail.BLOCK)

    # Learn: from the alarm, or from the largest values of a block that is full.
    counted = ~fires & late & xp.any(known, axis=0)
    opened = advance(state.open, counted)
    closes = counted & (opened >= tail.BLOCK)
    new = tail.learn(tail.heard(old, y, counted & known), fires & culprit, tail.fed(old, y), closes, memory)
    if options.q and armed is not None:
        armed = armed & ~(fires & ok & (more > new.level[p:, ...]))
    said = fires & (xp.astype(t, x.dtype) >= cast(silent, x))
    cause = position(culprit[:p, ...])
    state = FirstState(
        time=advance(t, row),
        since=xp.where(fires, none + 1, advance(state.since, row)),
        ready=(state.ready & ~fires) | closes,
        open=xp.where(fires | closes, none, opened),
        contrast=now,
        tail=tail.opened(new, fires | closes),
        armed=armed,
        season=season,
    )
    return state, Alarm(
        code=xp.astype(said, xp.int32),
        score=xp.where(sure, logarithm * (-1 / math.log(10)), xp.zeros_like(chance)),
        standing=xp.zeros_like(said),
        cause=xp.where(said, cause, none - 1),
        p=xp.where(sure, chance, xp.full_like(chance, xp.nan)),
    )


def _test(q: int, a: Array, tested: Array, features: int) -> tuple[Array, Array, Array]:
    """The p-value's logarithm (0 where nothing is tested), itself, and which channel has it: (p + q, *streams)."""
    xp = namespace(a)
    a = xp.where(tested, a, xp.full_like(a, tail.CERTAIN))
    ways = 2 if q else 1
    parts = []
    for group in (slice(0, features), slice(features, None))[:ways]:
        some = a[group, ...]
        least, times = xp.min(some, axis=0), ways * some.shape[0]
        chance = tail.chance(least)
        logarithm = tail.log_chance(least, chance) + math.log(times)
        one = xp.ones_like(chance)
        parts.append((smaller(logarithm, one * 0), smaller(times * chance, one), smallest(some)))
    if not q:
        return parts[0]
    (first, p, column), (second, other_p, index) = parts
    other = second < first
    culprit = xp.concat([column & ~other, index & other], axis=0)
    return smaller(first, second), xp.where(other, other_p, p), culprit
