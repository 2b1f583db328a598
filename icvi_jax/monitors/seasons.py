"""Seasons: the usual value of a feature at this hour of the day, subtracted before anything is compared.

The profile has one value for each row of a season: the mean over the seasons at first, later with nine tenths kept a
season. A step enters it season by season, so its echo is small; one in the first few seasons may raise another alarm a
season later.

`season="auto"` finds the season while rows come, among the usual ones (`LENGTHS`). D_j is the mean squared step over j
rows, in spreads, and D̄_m its mean over all lags up to m. Noise, drifts and random walks have D_m ≥ D̄_m; where a season
of m rows explains a share of the variance, D_m falls short of D̄_m by that share (de Cheveigné & Kawahara's YIN), and
so do D_2m and D_4m, unless it was another length nearby.
"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.numerics.arrays import advance, first_equal, larger, namespace, pointed, slots, smaller
from icvi_jax.types import Array, Namespace

SLOWEST = 0.1
"""Gain of the profile from the tenth season on."""

LENGTHS = 4, 6, 7, 8, 12, 14, 15, 20, 21, 24, 28, 30, 42, 48, 56, 60, 72, 84, 96, 120, 144, 168, 288, 336
"""The seasons that are looked for: apart enough that none is taken for another."""

LONGEST = 2 * LENGTHS[-1]
"""Rows that are kept."""

LAGS = tuple(sorted({1, 2, 3} | {k * m for m in LENGTHS for k in (1, 2, 4) if k * m <= LONGEST}))

PERIODS, SHARE, NEARLY = 10, 0.3, 0.05
"""Seasons that must have been seen; the share of the variance that one must explain; how much better twice its length
may be: two jobs a day are one day, not two half days."""

WORSE = 0.0, 0.1, 0.2
"""… and how much worse one, two and four times its length may be than one: 310 rows are not 288."""

CLIP, MEMORY = 6.0, 8192.0
"""A step counts as at most so many spreads; after so many rows older ones begin to count half."""


class SeasonState(NamedTuple):
    """The profile, (season, p, *streams), the phase that comes next first and NaN where unknown; and rows so far."""

    profile: Array
    rows: Array


class AutoState(NamedTuple):
    """What finds a season, and then knows it."""

    ring: Array  # (672, p, *streams), the last values, the oldest first; a profile since a season was found
    rows: Array  # (*streams), rows so far
    heard: Array  # (p, *streams), values whose steps were measured
    steps: Array  # (lags, p, *streams), sums of the squared steps
    held: Array  # (lengths, *streams), rows since each length looks like the season
    period: Array  # (*streams), rows of the season, 0 while unknown
    known: Array  # (*streams), rows since it is known


def seek(features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> AutoState:
    """The state before any sample, of a season that is to be found."""
    none = xp.zeros(streams, dtype=xp.int32)
    return AutoState(
        ring=xp.full((LONGEST, features, *streams), xp.nan, dtype=dtype),
        rows=none,
        heard=xp.zeros((features, *streams), dtype=dtype),
        steps=xp.zeros((len(LAGS), features, *streams), dtype=dtype),
        held=xp.zeros((len(LENGTHS), *streams), dtype=xp.int32),
        period=none,
        known=none,
    )


def follow(
    state: AutoState, x: Array, there: Array, square: Array, muted: Array
) -> tuple[AutoState, Array, Array, Array]:
    """As `take`, while the season is looked for too; and where it begins to be taken out with this row.

    `square` and `muted` (p, *streams) are the variance of the columns (0 where unknown), and which have no say.
    """
    xp, dtype = namespace(x), x.dtype
    row, ring = xp.any(there, axis=0), state.ring
    past = {lag: ring[LONGEST - lag, ...] for lag in LAGS}
    seasonal, none = state.period > 0, xp.zeros_like(state.rows)

    # What the season says, once it is known: as `take`, its first season being the rows before it was.
    lengths = slots(state.held, len(LENGTHS)) * 0
    for i, m in enumerate(LENGTHS):
        lengths = lengths + xp.where(slots(lengths, len(LENGTHS)) == i, m, 0)
    usual = pointed(xp.stack([past[m] for m in LENGTHS]), lengths == state.period)
    known = there & ~xp.isnan(usual)
    left = xp.where(known, x - usual, xp.zeros_like(x))
    seasons = xp.astype(state.known // larger(state.period, none + 1) + 2, dtype)
    gain = larger(1 / seasons, xp.full_like(seasons, SLOWEST))
    learned = xp.where(known, usual + gain * left, xp.where(there, x, usual))
    value = xp.where(seasonal, learned, xp.where(there, x, xp.full_like(x, xp.nan)))
    pushed = xp.concat([ring[1:, ...], value[None, ...]], axis=0)

    # While it is not: the steps of this row, and the lengths that look like a season.
    measured = there & (square > 0) & ~seasonal
    inverse = 1 / xp.sqrt(xp.where(square > 0, square, xp.ones_like(x)))
    steps, means = [], []
    heard = xp.where(measured, state.heard + 1, state.heard)
    for i, lag in enumerate(LAGS):
        step = (x - past[lag]) * inverse
        size = smaller(step * step, xp.full_like(x, CLIP * CLIP))
        steps.append(state.steps[i, ...] + xp.where(measured & ~xp.isnan(step), size, xp.zeros_like(x)))
        means.append(steps[i] / larger(heard - lag, xp.ones_like(x)))
    area, average = means[0], {}
    for i, lag in enumerate(LAGS[1:], start=1):
        area = area + (lag - LAGS[i - 1]) * (means[i] + means[i - 1]) / 2
        average[lag] = larger(area / lag, xp.full_like(x, 1e-6))
    mean = dict(zip(LAGS, means))
    alike = []
    for m in LENGTHS:
        some = ~muted & (heard >= PERIODS * m) & (mean[m] < mean[2 * m] + NEARLY * average[m])
        for lag, worse in zip((m, 2 * m, 4 * m), WORSE):
            if lag in mean:
                some = some & (mean[lag] < (1 - SHARE) * average[m]) & (mean[lag] <= mean[m] + worse * average[m])
        alike.append(xp.any(some, axis=0))
    held = xp.where(row, xp.where(xp.stack(alike), state.held + 1, 0), state.held)
    found = (held >= lengths) & row & ~seasonal
    begins = xp.any(found, axis=0)
    length = pointed(lengths, slots(held, len(LENGTHS)) == first_equal(xp.astype(found, xp.int32), none + 1))
    half = xp.where(heard >= MEMORY, xp.full_like(x, 0.5), xp.ones_like(x))
    new = AutoState(
        ring=xp.where(row, pushed, ring),
        rows=advance(state.rows, row),
        heard=heard * half,
        steps=xp.stack(steps) * half,
        held=held,
        period=xp.where(begins, length, state.period),
        known=advance(state.known, row & seasonal),
    )
    return new, xp.where(seasonal, left, x), xp.where(seasonal, known, there), begins


def start(season: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> SeasonState:
    """The state before any sample."""
    profile = xp.full((season, features, *streams), xp.nan, dtype=dtype)
    return SeasonState(profile, xp.zeros(streams, dtype=xp.int32))


def take(state: SeasonState, x: Array, there: Array) -> tuple[SeasonState, Array, Array]:
    """The state after a row, its values minus the profile, and where they exist: nowhere in the first season.

    x and `there` are (p, *streams), `there` is False for missing values; a row without any value changes nothing.
    """
    xp = namespace(x)
    profile, row = state.profile, xp.any(there, axis=0)
    usual = profile[0, ...]
    known = there & ~xp.isnan(usual)
    left = xp.where(known, x - usual, xp.zeros_like(x))
    seasons = xp.astype(state.rows // profile.shape[0] + 1, x.dtype)
    gain = larger(1 / seasons, xp.full_like(seasons, SLOWEST))
    new = xp.where(known, usual + gain * left, xp.where(there, x, usual))
    pushed = xp.concat([profile[1:, ...], new[None, ...]], axis=0)
    return SeasonState(xp.where(row, pushed, profile), advance(state.rows, row)), left, known
