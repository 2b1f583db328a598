"""The results to show: plain arrays with their names, for one stream or a fleet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.evaluation import Score, match
from icvi_jax.report.health_text import Trust
from icvi_jax.tables.table import Times
from icvi_jax.terminal_text import counted

CODES = ("quiet", "spike", "recovered", "distress")
CHANGE, STUCK = "change", "stuck"
COLUMN_ALARMS = (CHANGE, STUCK)
"""Names of alarms of columns; all others are of indices."""
TOLERANCE, DRAWS = 50, 200
"""An alarm finds a change that is at most so many samples before it; so many times alarms are drawn at random."""
GOOD = {"min": "small", "max": "large"}
"""Which values of an index are good, by its goal."""
ONE_CLUSTER = "only one cluster all the time: the indices have nothing to compare"


class About(NamedTuple):
    """The meaning of an index, for users."""

    title: str  # its full name
    goal: str  # "min" or "max": which values are good
    positive: bool  # whether all values are positive, so that a logarithmic scale can be used
    meaning: str  # a sentence


class Result(NamedTuple):
    """Readings of N streams over T samples; a single stream is a fleet of one."""

    name: str  # name of the source
    nodes: tuple[str, ...]  # name of each stream
    features: tuple[str, ...]  # name of each of the p columns
    times: Times | None  # time of each sample (T,), or None: samples are counted
    time_name: str  # name of the time column, or empty
    x: NDArray[np.float64]  # samples (N, T, p)
    values: dict[str, NDArray[np.float32]]  # index values by name, (N, T) each
    about: dict[str, About]  # what each index means, by name
    label: NDArray[np.int32]  # persistent name of each sample's cluster (N, T), −1 for none
    k: NDArray[np.int32]  # number of clusters (N, T)
    # alarm codes by the name of the index that raised them, or "change" for alarms of columns, (N, T) each: 0 quiet, 1
    # spike, 2 recovered, 3 distress
    codes: dict[str, NDArray[np.int8]]
    standing: dict[str, NDArray[np.bool_]]  # whether a node is in distress, by the same names, (N, T) each
    # how strong the alarm is, by the same names, (N, T) each; 0 is quiet, comparable across nodes
    score: dict[str, NDArray[np.float32]]
    seen: NDArray[np.bool_]  # false where a sample was missing, (N, T)
    # outlier, overflow: the sample fits no cluster; a new cluster was needed and there was no room, (N, T)
    outlier: NDArray[np.bool_]
    overflow: NDArray[np.bool_]
    snapshots: NDArray[np.int64]  # samples at which the centres were noted, (S,)
    centers: NDArray[np.float64]  # centres at these samples, (N, S, k, p); NaN for clusters that do not exist
    truth: NDArray[np.int64] | None = None  # true class of each sample (T,), or None; −1 where unknown
    settings: tuple[tuple[str, str], ...] = ()  # pairs of a name and a value: which clusterer, which forgetting
    notes: tuple[str, ...] = ()  # sentences about what was done when the file was read
    marks: bool = False  # whether the truth is 0 or 1 and marks events
    # squared distance from the nearest centre before the sample (N, T), or None
    surprise: NDArray[np.float32] | None = None
    # causes, chances: which column raised an alarm (−1: none), and its probability by chance, by the names of alarms
    causes: dict[str, NDArray[np.int32]] = {}
    chances: dict[str, NDArray[np.float32]] = {}
    # how far the clusters of each node can be trusted at the end, or none where `Health` was not computed
    trust: tuple[Trust, ...] = ()
    # the scores of all nodes, where these are only the worst of them; or None
    everyone: NDArray[np.float64] | None = None


def distress_score(result: Result) -> NDArray[np.float64]:
    """How bad each node is, (N,): the mean score of its first index, over its complete rows, and of its columns, over
    rows with any reading."""
    total = np.zeros(len(result.nodes))
    for name in (*listeners(result)[:1], *columns_of(result)):
        rows = present(result) if name in COLUMN_ALARMS else result.seen
        total += (result.score[name] * rows).sum(axis=1, dtype=np.float64) / np.maximum(rows.sum(axis=1), 1)
    return total


def in_short(values: NDArray[np.floating], goal: str) -> tuple[float, ...]:
    """The first, median, worst and last of the values that are known; nothing where there is none."""
    known = values[np.isfinite(values)]
    worst = np.max if goal == "min" else np.min
    return (known[0], np.median(known), worst(known), known[-1]) if known.size else ()


def present(result: Result) -> NDArray[np.bool_]:
    """Rows of each node with any reading, (N, T); the others are only there since nodes share a time axis."""
    return np.asarray(np.isfinite(result.x).any(axis=2), np.bool_)


def missing_share(result: Result) -> NDArray[np.float64]:
    """The share of samples of each node that are missing or incomplete, from its first reading to its last, (N,)."""
    there = present(result)
    first, last = there.argmax(axis=1), there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    whole = [float(1 - seen[a : b + 1].mean()) for seen, a, b in zip(result.seen, first, last)]
    return np.where(there.any(axis=1), whole, 1.0)


def listeners(result: Result) -> list[str]:
    """Names of the alarms of indices."""
    return [name for name in result.codes if name not in COLUMN_ALARMS]


def columns_of(result: Result) -> list[str]:
    """Names of the alarms of columns: changes first."""
    return [name for name in COLUMN_ALARMS if name in result.codes]


def worst_first(result: Result) -> NDArray[np.int64]:
    """Order of the nodes: most distress first, ties as in the file."""
    return np.argsort(-distress_score(result), kind="stable")


def alarm_rows(codes: NDArray[np.int8]) -> NDArray[np.int64]:
    """Samples of one stream with an alarm: not recovered, nor distress after a spike, which is the same alarm again."""
    events = np.flatnonzero(codes)
    before = np.concatenate([[0], codes[events][:-1]])
    return np.asarray(events[(codes[events] == 1) | ((codes[events] == 3) & (before != 1))], np.int64)


def judged_by_truth(result: Result) -> tuple[tuple[str, str], ...]:
    """What the alarms of one stream are worth where the true changes are known: hits, delays, false alarms, and what as
    many alarms at random samples would get; a setting for each monitor."""
    if not true_changes(result).size:
        return ()
    raised = {name: alarm_rows(codes[0]) for name, codes in result.codes.items() if name != STUCK or codes.any()}
    return tuple((f"truth, {name}", _worth(result, rows)) for name, rows in raised.items())


def _worth(result: Result, rows: NDArray[np.int64]) -> str:
    found, rng, steps = by_truth(result, rows), np.random.default_rng(0), result.label.shape[1]
    text = f"{len(found.matched)} of {counted(len(true_changes(result)), 'true change')} found"
    if not rows.size:
        return f"{text}: no alarm"
    late = sorted({alarm - change for change, alarm in found.matched})
    text += f" within {TOLERANCE} rows"
    if late:
        ends = f"{late[0]} to {late[-1]}" if late[1:] else f"{late[0]}"
        text += f", {ends} rows after (median {found.delay:g})"
    draws = [by_truth(result, np.sort(rng.choice(steps, rows.size, replace=False))) for _ in range(DRAWS)]
    hits, wrong = (float(np.mean([len(one) for one in some])) for some in zip(*((d.matched, d.false) for d in draws)))
    false = f"{counted(len(found.false), 'false alarm')} ({found.false_per_1000:.2g} in 1,000 rows)"
    return f"{text}; {false}; as many alarms at random: {hits:.2g} found, {wrong:.3g} false"


def true_changes(result: Result) -> NDArray[np.int64]:
    """Samples at which the true class changes, or a marked event begins; none where the truth is not known."""
    if result.truth is None:
        return np.zeros(0, np.int64)
    steps = np.diff(result.truth, prepend=0 if result.marks else result.truth[:1])
    return np.flatnonzero(steps > 0 if result.marks else steps)


def by_truth(result: Result, rows: NDArray[np.int64]) -> Score:
    """Alarms in some rows (in time order) compared with the true changes; late ones during a marked event or at its end
    are neither found nor false."""
    starts = true_changes(result)
    if result.marks and result.truth is not None:
        ends = np.flatnonzero(np.diff(result.truth, append=0) < 0)
        for start, end in zip(starts, ends):
            rows = rows[(rows <= start + TOLERANCE) | (rows > end + TOLERANCE)]
    return match(rows.tolist(), starts.tolist(), TOLERANCE, result.label.shape[1])
