"""Alarms against true changes, one to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Score(NamedTuple):
    """What :func:`match` found.

    Attributes
    ----------
    precision
        Matched alarms over alarms; NaN without alarms: a detector without alarms must not look perfect.
    recall
        Matched changes over changes; NaN without changes.
    f1
        ``2 TP / (2 TP + FP + FN)``: 0 if only one of alarms and changes is empty, NaN if both are.
    delay
        Median of alarm − change over the matched pairs, in samples; NaN without any.
    false_per_1000
        False alarms per thousand samples of the stream.
    matched
        Pairs (change, alarm).
    missed
        Changes without an alarm.
    false
        Alarms without a change.

    Examples
    --------
    >>> match([510, 900], [500, 700], tolerance=50, samples=1000).false
    [900]
    """

    precision: float
    recall: float
    f1: float
    delay: float
    false_per_1000: float
    matched: list[tuple[int, int]]
    missed: list[int]
    false: list[int]


def match(alarms: Sequence[int], changes: Sequence[int], tolerance: int, samples: int) -> Score:
    """Match alarms to true changes, one to one.

    An alarm in ``[change, change + tolerance]`` matches the change; an earlier one is false. Each change takes the
    earliest alarm in its window that no earlier change has taken; no other way gives more pairs. Any further alarm in
    the window is false, unless it is also in the window of another change and matches that one.

    Parameters
    ----------
    alarms
        Sample numbers, in any order.
    changes
        Sample numbers, in any order, all different.
    tolerance
        Largest delay that counts, in samples.
    samples
        Length of the stream.

    Returns
    -------
    Score
        `Score` says what empty lists give.

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

    matched: list[tuple[int, int]] = []
    missed: list[int] = []
    total = len(left)
    for change in truth:
        # Windows are equally long, so taking the earliest change with the earliest alarm gives the most pairs.
        alarm = next((a for a in left if change <= a <= change + tolerance), None)
        if alarm is None:
            missed.append(change)
        else:
            left.remove(alarm)
            matched.append((change, alarm))
    hits, either = len(matched), total + len(truth)
    return Score(
        precision=hits / total if total else float("nan"),
        recall=hits / len(truth) if truth else float("nan"),
        f1=2 * hits / either if either else float("nan"),
        delay=float(np.median([alarm - change for change, alarm in matched])) if matched else float("nan"),
        false_per_1000=1000 * len(left) / samples,
        matched=matched,
        missed=missed,
        false=left,
    )


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
