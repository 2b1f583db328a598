"""Detectors compared with controls that see no data: a score alone says little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.evaluation.trial import Tally, Trial, tally

Alarms = Sequence[Sequence[int]]
"""Sample numbers of alarms, one list per trial."""


class Outcome(NamedTuple):
    """Scores of one detector over a set of streams.

    Attributes
    ----------
    f1, precision, recall : of alarms matched one to one, over all streams together; NaN for 0 / 0.
    delay : median over the hits, in samples.
    false_per_10000 : alarms outside all windows, per ten thousand samples outside all windows.
    nab : score of the Numenta benchmark: 0 for silence, 100 for a perfect detector.
    covering : see `icvi_jax.evaluation.covering`, mean over samples.
    alarms : how many were raised.
    """

    f1: float
    precision: float
    recall: float
    delay: float
    false_per_10000: float
    nab: float
    covering: float
    alarms: int


class Row(NamedTuple):
    """The outcome of a detector, with controls that raise the same number of alarms.

    Attributes
    ----------
    outcome : of the detector.
    low, high : 90 % bootstrap interval of its F1 over streams; NaN with a single stream.
    metronome : outcome of alarms at equal distances, the same number in each stream.
    random : mean F1 of alarms at random samples, the same number in each stream.
    """

    outcome: Outcome
    low: float
    high: float
    metronome: Outcome
    random: float


def outcome(tallies: Sequence[Tally]) -> Outcome:
    """The scores of several streams together."""
    hits, alarms, changes = (sum(getattr(t, field) for t in tallies) for field in ("hits", "alarms", "changes"))
    delays = [d for t in tallies for d in t.delays]
    points, best, none = (sum(getattr(t, field) for t in tallies) for field in ("points", "best", "none"))
    return Outcome(
        f1=_ratio(2 * hits, alarms + changes),
        precision=_ratio(hits, alarms),
        recall=_ratio(hits, changes),
        delay=float(np.median(delays)) if delays else float("nan"),
        false_per_10000=_ratio(1e4 * sum(t.false for t in tallies), sum(t.quiet for t in tallies)),
        nab=100 * _ratio(points - none, best - none),
        covering=_ratio(sum(t.covering for t in tallies), sum(t.samples for t in tallies)),
        alarms=alarms,
    )


def judge(trials: Sequence[Trial], alarms: Alarms, draws: int = 200, seed: int = 0) -> Row:
    """Score the alarms of a detector, with a metronome and random alarms of the same number for comparison.

    Examples
    --------
    >>> trial = Trial.of("pump", samples=1000, changes=[500, 700], tolerance=50)
    >>> row = judge([trial], [[510, 720]])
    >>> row.outcome.f1, row.metronome.f1, row.random < 0.2
    (1.0, 0.0, True)
    """
    if len(trials) != len(alarms):
        raise ValueError(f"judge(alarms=…): expected one list per trial, {len(trials)}, got {len(alarms)}")
    rng = np.random.default_rng(seed)
    tallies = [tally(a, t) for a, t in zip(alarms, trials)]
    counts = [t.alarms for t in tallies]
    blind = [outcome([tally(_random(t, n, rng), t) for t, n in zip(trials, counts)]).f1 for _ in range(draws)]
    low, high = bootstrap(tallies, lambda some: outcome(some).f1, draws, rng)
    even = outcome([tally(_even(t, n), t) for t, n in zip(trials, counts)])
    return Row(outcome(tallies), low, high, even, float(np.mean(blind)))


def bootstrap(
    tallies: Sequence[Tally], score: Callable[[Sequence[Tally]], float], draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """5 % and 95 % quantiles of a score over streams drawn with replacement; NaN with fewer than two streams."""
    if len(tallies) < 2:
        return float("nan"), float("nan")
    picks = rng.integers(0, len(tallies), (draws, len(tallies)))
    low, high = np.quantile([score([tallies[i] for i in pick]) for pick in picks], (0.05, 0.95))
    return float(low), float(high)


def clock(trials: Sequence[Trial]) -> list[int]:
    """The samples at which a clock that sees no data should raise alarms, given trials with known changes.

    It takes the earliest sample that hits a change of most trials, leaves those changes out, and continues as long as
    a sample hits at least half of the trials.

    Examples
    --------
    >>> clock([Trial.of("a", 900, [400, 450], 60), Trial.of("b", 900, [410, 460], 60)])
    [410, 460]
    """
    left = [list(t.windows) for t in trials]
    strikes: list[int] = []
    while True:
        votes = np.zeros(max(t.samples for t in trials), int)
        for windows in left:
            hit = np.zeros(len(votes), int)
            for first, last in windows:
                hit[first : last + 1] = 1
            votes += hit
        for s in strikes:  # alarms too close together would count as one
            gap = max(t.merge for t in trials)
            votes[max(0, s - gap) : s + gap + 1] = 0
        best = int(np.argmax(votes))
        if votes[best] < max(1, len(trials) / 2):
            return sorted(strikes)
        strikes.append(best)
        for windows in left:
            hit_window = next((w for w in windows if w[0] <= best <= w[1]), None)
            if hit_window is not None:
                windows.remove(hit_window)


def strike(strikes: Sequence[int], trials: Sequence[Trial]) -> list[list[int]]:
    """The alarms of such a clock on each trial."""
    return [[s for s in strikes if s < t.samples] for t in trials]


def _even(trial: Trial, alarms: int) -> list[int]:
    span = trial.samples - trial.start
    return [trial.start + int((i + 1) * span / (alarms + 1)) for i in range(alarms)]


def _random(trial: Trial, alarms: int, rng: np.random.Generator) -> list[int]:
    span = trial.samples - trial.start
    return [int(t) for t in trial.start + rng.choice(span, min(alarms, span), replace=False)]


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")
