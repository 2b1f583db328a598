"""How good alarms are, given the changes: matched, tallied, and compared with controls that see no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Score(NamedTuple):
    """What :func:`match` found."""

    precision: float  #: matched alarms over alarms; NaN without alarms: a detector without alarms must not look perfect
    recall: float  #: matched changes over changes; NaN without changes
    f1: float  #: `2 TP / (2 TP + FP + FN)`: 0 if only one of alarms and changes is empty, NaN if both are
    delay: float  #: median of alarm − change over the matched pairs, in samples; NaN without any
    false_per_1000: float  #: false alarms per thousand samples of the stream
    matched: list[tuple[int, int]]  #: pairs (change, alarm)
    missed: list[int]  #: changes without an alarm
    false: list[int]  #: alarms without a change


def match(alarms: Sequence[int], changes: Sequence[int], tolerance: int, samples: int) -> Score:
    """Match alarms to true changes, one to one.

    An alarm in ``[change, change + tolerance]`` matches the change; an earlier one is false. Each change takes the
    earliest alarm in its window that no earlier change has taken; no other way gives more pairs. Any further alarm in
    the window is false, unless it is also in the window of another change and matches that one.

    Parameters
    ----------
    alarms, changes : sample numbers, in any order; changes are all different.
    tolerance : largest delay that counts, in samples.
    samples : length of the stream.

    Examples
    --------
    >>> score = match([510, 520, 690, 715], [500, 700], tolerance=50, samples=1000)
    >>> score.matched, score.false, score.missed
    ([(500, 510), (700, 715)], [520, 690], [])
    >>> score.precision, score.recall, score.delay, score.false_per_1000
    (0.5, 1.0, 12.5, 2.0)
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    if tolerance < 0:
        raise ValueError(f"tolerance must be at least 0, got {tolerance}")
    left, truth = sample_numbers("alarms", alarms, samples), sample_numbers("changes", changes, samples)
    if len(set(truth)) < len(truth):
        raise ValueError(f"changes must be all different, got {truth}")
    total = len(left)
    matched = _take_pairs(left, [(change, change + tolerance) for change in truth])
    hits = len(matched)
    return Score(
        precision=_ratio(hits, total),
        recall=_ratio(hits, len(truth)),
        f1=_ratio(2 * hits, total + len(truth)),
        delay=_median([alarm - change for change, alarm in matched]),
        false_per_1000=1000 * len(left) / samples,
        matched=matched,
        missed=sorted(set(truth) - {change for change, _ in matched}),
        false=left,
    )


def _take_pairs(alarms: list[int], windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs (first, alarm) of windows and alarms, both in order; the alarms are removed from the list."""
    pairs = []
    for first, last in windows:
        alarm = next((a for a in alarms if first <= a <= last), None)
        if alarm is not None:
            alarms.remove(alarm)
            pairs.append((first, alarm))
    return pairs


def metronome(samples: int, interval: int) -> list[int]:
    """Raise an alarm every ``interval`` samples, whatever happens: the score to beat.

    Examples
    --------
    >>> metronome(samples=1000, interval=300)
    [300, 600, 900]
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    if interval < 1:
        raise ValueError(f"interval must be at least 1, got {interval}")
    return list(range(interval, samples, interval))


def sample_numbers(field: str, values: Sequence[int], samples: int) -> list[int]:
    """Sort sample numbers; raises ValueError for other values."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{field} must be a list of sample numbers, got {array.dtype} of shape {array.shape}")
    for value in array.tolist():
        if not 0 <= value < samples:
            raise ValueError(f"{field} must be from 0 to {samples - 1}, got {value}")
    return sorted(array.tolist())


FALSE_COST = 0.11
"""Cost of a false alarm in the score of the Numenta benchmark, where a hit is worth 1 and a miss costs 1."""


class Trial(NamedTuple):
    """One labelled stream.

    >>> Trial.of("pump", samples=1000, changes=[500, 700], tolerance=50).windows
    ((500, 550), (700, 750))
    """

    name: str  #: its name
    samples: int  #: how many there are
    #: (first, last) sample in which an alarm counts for each change, both included, in order
    windows: tuple[tuple[int, int], ...]
    start: int = 0  #: alarms and changes before this sample are left out
    merge: int = 0  #: an alarm within so many samples after the last one that was kept is a repetition and left out

    @classmethod
    def of(
        cls, name: str, samples: int, changes: Sequence[int], tolerance: int, start: int = 0, merge: int | None = None
    ) -> Trial:
        """A trial: an alarm up to `tolerance` samples after a change counts; alarms within half of that are one."""
        if tolerance < 0:
            raise ValueError(f"tolerance must be at least 0, got {tolerance}")
        kept = [c for c in sample_numbers("changes", changes, samples) if c >= start]
        windows = tuple((c, min(c + tolerance, samples - 1)) for c in kept)
        return cls(name, samples, windows, start, tolerance // 2 if merge is None else merge)

    def heard(self, alarms: Sequence[int]) -> list[int]:
        """The alarms that count: from `start` on, and repetitions left out."""
        kept: list[int] = []
        for alarm in sample_numbers("alarms", alarms, self.samples):
            if alarm >= self.start and (not kept or alarm > kept[-1] + self.merge):
                kept.append(alarm)
        return kept

    @property
    def quiet(self) -> int:
        """How many samples are outside all windows."""
        busy = np.zeros(self.samples, bool)
        busy[: self.start] = True
        for first, last in self.windows:
            busy[first : last + 1] = True
        return int((~busy).sum())


class Tally(NamedTuple):
    """The result of alarms on one stream, to be added up over streams."""

    hits: int  #: matched one to one
    alarms: int  #: raised
    changes: int  #: true ones
    delays: tuple[int, ...]  #: of the hits, in samples after the window opened
    false: int  #: alarms outside all windows
    quiet: int  #: samples outside all windows
    points: float  #: Numenta score
    best: float  #: that of a perfect detector
    none: float  #: that of one without alarms
    covering: float  #: times the samples
    samples: int  #: from the start of the trial on


def tally(alarms: Sequence[int], trial: Trial) -> Tally:
    """Score the alarms of one stream.

    Examples
    --------
    >>> trial = Trial.of("pump", samples=1000, changes=[500, 700], tolerance=50)
    >>> got = tally([510, 515, 900], trial)
    >>> got.hits, got.alarms, got.changes, got.delays, got.false
    (1, 2, 2, (10,), 1)
    """
    kept = trial.heard(alarms)
    pairs = _take_pairs(list(kept), trial.windows)
    delays = tuple(alarm - first for first, alarm in pairs)
    false = sum(not any(first <= a <= last for first, last in trial.windows) for a in kept)
    span = trial.samples - trial.start
    counts = len(pairs), len(kept), len(trial.windows), delays, false, trial.quiet
    return Tally(*counts, *numenta(kept, trial), covering(kept, trial) * span, span)


def numenta(alarms: Sequence[int], trial: Trial) -> tuple[float, float, float]:
    """The points of the Numenta benchmark's standard profile, and those of a perfect and of a silent detector.

    The first alarm in a window is worth up to 1, more if it is earlier; a window without one costs 1; a false alarm
    costs up to 0.11, more if it is further behind the last window.
    """
    points, left = 0.0, list(alarms)
    for first, last in trial.windows:
        inside = [a for a in left if first <= a <= last]
        width = max(last - first, 1)
        points += _sigmoid((inside[0] - last) / width) / _sigmoid(-1.0) if inside else -1.0
        left = [a for a in left if a not in inside]
    for alarm in left:
        behind = [(alarm - last) / max(last - first, 1) for first, last in trial.windows if last < alarm]
        points += FALSE_COST * (_sigmoid(min(behind)) if behind else -1.0)
    changes = float(len(trial.windows))
    return points, changes, -changes


def _sigmoid(y: float) -> float:
    return -1.0 if y > 3 else 2 / (1 + math.exp(5 * y)) - 1


def covering(alarms: Sequence[int], trial: Trial) -> float:
    """How well the stretches between alarms cover those between changes, in (0, 1].

    It is `Σ |A| max_B |A ∩ B| / |A ∪ B| / n` over the stretches A between changes and B between alarms.

    Examples
    --------
    >>> trial = Trial.of("pump", samples=100, changes=[50], tolerance=10)
    >>> covering([50], trial), covering([], trial)
    (1.0, 0.5)
    """
    changes = [first for first, _ in trial.windows]
    true, found = (_stretches(cuts, trial.start, trial.samples) for cuts in (changes, alarms))
    total = 0.0
    for a, b in true:
        overlaps = ((min(b, d) - max(a, c), max(b, d) - min(a, c)) for c, d in found)
        total += (b - a) * max(common / whole for common, whole in overlaps)
    return total / (trial.samples - trial.start)


def _stretches(cuts: Sequence[int], start: int, end: int) -> list[tuple[int, int]]:
    edges = sorted({start, end, *(c for c in cuts if start < c < end)})
    return list(zip(edges, edges[1:]))


class Outcome(NamedTuple):
    """Scores of one detector over a set of streams."""

    f1: float  #: as precision and recall of alarms matched one to one, over all streams together; NaN for 0 / 0
    precision: float
    recall: float
    delay: float  #: median over the hits, in samples
    false_per_10000: float  #: alarms outside all windows, per ten thousand samples outside all windows
    nab: float  #: score of the Numenta benchmark: 0 for silence, 100 for a perfect detector
    covering: float  #: see `icvi_jax.evaluation.covering`, mean over samples
    alarms: int  #: how many were raised


class Row(NamedTuple):
    """The outcome of a detector, with controls that raise the same number of alarms."""

    outcome: Outcome  #: of the detector
    low: float  #: of the 90 % bootstrap interval of its F1 over streams; NaN with a single stream
    high: float
    metronome: Outcome  #: outcome of alarms at equal distances, the same number in each stream
    random: float  #: mean F1 of alarms at random samples, the same number in each stream


def outcome(tallies: Sequence[Tally]) -> Outcome:
    """The scores of several streams together."""
    hits, alarms, changes = (sum(getattr(t, field) for t in tallies) for field in ("hits", "alarms", "changes"))
    delays = [d for t in tallies for d in t.delays]
    points, best, none = (sum(getattr(t, field) for t in tallies) for field in ("points", "best", "none"))
    return Outcome(
        f1=_ratio(2 * hits, alarms + changes),
        precision=_ratio(hits, alarms),
        recall=_ratio(hits, changes),
        delay=_median(delays),
        false_per_10000=_ratio(1e4 * sum(t.false for t in tallies), sum(t.quiet for t in tallies)),
        nab=100 * _ratio(points - none, best - none),
        covering=_ratio(sum(t.covering for t in tallies), sum(t.samples for t in tallies)),
        alarms=alarms,
    )


def judge(trials: Sequence[Trial], alarms: Sequence[Sequence[int]], draws: int = 200, seed: int = 0) -> Row:
    """Score the alarms of a detector, a list for each trial, with as many alarms of a metronome and at random.

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


def _even(trial: Trial, alarms: int) -> list[int]:
    span = trial.samples - trial.start
    return [trial.start + int((i + 1) * span / (alarms + 1)) for i in range(alarms)]


def _random(trial: Trial, alarms: int, rng: np.random.Generator) -> list[int]:
    span = trial.samples - trial.start
    return [int(t) for t in trial.start + rng.choice(span, min(alarms, span), replace=False)]


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _median(delays: Sequence[int]) -> float:
    return float(np.median(delays)) if delays else float("nan")
