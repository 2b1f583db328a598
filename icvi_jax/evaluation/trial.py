"""A trial: one labelled stream, and the scores of alarms on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.evaluation.matching import sample_numbers

FALSE_COST = 0.11
"""Cost of a false alarm in the score of the Numenta benchmark, where a hit is worth 1 and a miss costs 1."""


class Trial(NamedTuple):
    """One labelled stream.

    Attributes
    ----------
    name : its name.
    samples : how many there are.
    windows : (first, last) sample in which an alarm counts for each change, both included, in order.
    start : alarms and changes before this sample are left out.
    merge : an alarm within so many samples after the last one that was kept is a repetition and left out.

    Examples
    --------
    >>> trial = Trial.of("pump", samples=1000, changes=[500, 700], tolerance=50)
    >>> trial.windows
    ((500, 550), (700, 750))
    """

    name: str
    samples: int
    windows: tuple[tuple[int, int], ...]
    start: int = 0
    merge: int = 0

    @classmethod
    def of(
        cls, name: str, samples: int, changes: Sequence[int], tolerance: int, start: int = 0, merge: int | None = None
    ) -> Trial:
        """A trial in which an alarm up to `tolerance` samples after a change counts; alarms within half of that are
        one."""
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
    """The result of alarms on one stream, to be added up over streams.

    Attributes
    ----------
    hits, alarms, changes : matched one to one, raised, true.
    delays : of the hits, in samples after the window opened.
    false, quiet : alarms outside all windows, and samples outside all windows.
    points, best, none : the Numenta score, that of a perfect detector and that of one without alarms.
    covering, samples : the covering times the samples, and the samples.
    """

    hits: int
    alarms: int
    changes: int
    delays: tuple[int, ...]
    false: int
    quiet: int
    points: float
    best: float
    none: float
    covering: float
    samples: int


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
    left, delays = list(kept), []
    for first, last in trial.windows:
        hit = next((a for a in left if first <= a <= last), None)
        if hit is not None:
            left.remove(hit)
            delays.append(hit - first)
    false = sum(not any(first <= a <= last for first, last in trial.windows) for a in kept)
    points, best, none = numenta(kept, trial)
    spans = trial.samples - trial.start
    return Tally(
        len(delays),
        len(kept),
        len(trial.windows),
        tuple(delays),
        false,
        trial.quiet,
        points,
        best,
        none,
        covering(kept, trial) * spans,
        spans,
    )


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
    changes = len(trial.windows)
    return points, float(changes), -float(changes)


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
    true, found = (
        _stretches(cuts, trial.start, trial.samples) for cuts in ([first for first, _ in trial.windows], alarms)
    )
    total = 0.0
    for a, b in true:
        overlaps = ((min(b, d) - max(a, c), max(b, d) - min(a, c)) for c, d in found)
        total += (b - a) * max(common / whole for common, whole in overlaps)
    return total / (trial.samples - trial.start)


def _stretches(cuts: Sequence[int], start: int, end: int) -> list[tuple[int, int]]:
    edges = sorted({start, end, *(c for c in cuts if start < c < end)})
    return list(zip(edges, edges[1:]))
