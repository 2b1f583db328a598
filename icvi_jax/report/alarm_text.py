"""Alarms in words: the one place for the terminal, the report, notebooks, JSON lines and the live page.

A sentence about a change is made from what was known at its row: a watch that prints it at once and a command that
reads the file a year later say the same.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icvi_jax.monitors.gumbel_tail import BLOCK
from icvi_jax.report.result import CHANGE, CODES, COLUMN_ALARMS, STUCK, Result, alarm_rows, columns_of, listeners
from icvi_jax.run import Run
from icvi_jax.terminal_text import counted
from icvi_jax.types import Alarm

RECENT = 61
"""Rows of a node that a sentence needs: the one that raised the alarm and 60 before it."""

LATE, NEAR_ROWS, FAR_ROWS = 20, 5, 10
"""An alarm comes some rows after the change: the level before it is the median without the last 20 rows, the level now
that of the last 5, unless one of the last 10 is much further away: then that row is what was seen."""

OFTEN = 3
"""With at least this many alarms of a column, their observed rate is reported if it is higher than chance."""

NEAR = 50
"""An alarm of a column and one of an index that are at most so many rows apart are taken as one event."""

USUAL, FEW, FAR, ROBUST = 60, 8, 4.0, 1.4826
"""How many samples show what is usual, how many are needed at least, how far from their median is unusual, and what
makes a median absolute deviation a standard deviation."""

MEANING = {
    "spike": "something new has arrived",
    "recovered": "recovered: the index is back at its usual values",
    "distress": "distress: the index stayed far from its usual values",
}


class AlarmText(NamedTuple):
    """An alarm of a column in numbers and words."""

    # before, now: the level of the column before the alarm and at it; NaN where unknown
    before: float
    now: float
    # how rare that is: by chance once in so many rows, or as often as it really came; None: not known
    once_in_rows: float | None
    text: str  # the sentence, without the time


def alarm_word(monitor: str, code: int) -> str:
    """The word for an alarm: `change` and `stuck` for alarms of columns, otherwise `spike`, `recovered`, `distress`."""
    return monitor if monitor in COLUMN_ALARMS and code else CODES[code]


def describe(
    monitor: str, column: str, recent: NDArray[np.float64], p: float, times: int = 0, rows: int = 0
) -> AlarmText:
    """What an alarm of a column says, from the values of that column in the last rows of the node (oldest first, up to
    the one that raised the alarm), `Alarm.p`, and how many alarms the column had before, in how many rows.

    Examples
    --------
    >>> describe("change", "flow", np.array([3.0] * 40 + [9.0]), 1e-4).text
    'flow rose from about 3 to 9 (by chance once in about 150,000 rows)'
    """
    column = f"column {column}" if column.isdecimal() else column
    if monitor == STUCK:
        return _describe_stuck(column, recent, p)
    chance = BLOCK / p if p > 0 else math.inf if p == 0 else math.nan
    once = float(f"{chance:.2g}") if math.isfinite(chance) and chance < 1e9 else None
    sure = "surely not by chance" if once is None else f"by chance once in about {once:,.0f} rows"
    if times + 1 >= OFTEN and rows / (times + 1) < chance:
        once = float(f"{rows / (times + 1):.2g}")
        sure = f"alarm {times + 1} of this column: about one in {once:,.0f} rows"
    if not column:
        return AlarmText(math.nan, math.nan, once, f"something changed ({sure})")
    before, now = levels(recent)
    if not (math.isfinite(before) and math.isfinite(now)) or before == now:
        return AlarmText(before, now, once, f"{column} changed ({sure})")
    moved, (was, is_now) = "rose" if now > before else "fell", told_apart(before, now)
    return AlarmText(before, now, once, f"{column} {moved} from about {was} to {is_now} ({sure})")


def told_apart(a: float, b: float) -> tuple[str, str]:
    """Two different numbers as text, with four digits, or as many as it takes to see that they differ.

    Examples
    --------
    >>> told_apart(4.9633, 6.17421), told_apart(101325.0, 101331.4), told_apart(5.00123e6, 6.2e6)
    (('4.963', '6.174'), ('101325', '101331.4'), ('5001000', '6200000'))
    """
    digits = min(15, max(4, 2 + math.ceil(math.log10(max(abs(a), abs(b)) / abs(b - a)))))
    first, second = (f"{float(f'{number:.{digits}g}'):.{max(7, digits)}g}" for number in (a, b))
    return first, second


def _describe_stuck(column: str, recent: NDArray[np.float64], p: float) -> AlarmText:
    known = recent[np.isfinite(recent)]
    value = float(known[-1]) if known.size else math.nan
    same = int(np.argmax(known[::-1] != value)) if (known != value).any() else known.size
    more = "more than " if same == known.size else ""
    rows = float(f"{1 / p:.2g}") if p > 1e-9 else None
    text = f"{column} is stuck at {value:.12g}: the same value in {more}{same} rows, as never before"
    return AlarmText(value, value, rows, text)


def levels(recent: NDArray[np.float64]) -> tuple[float, float]:
    """The level of a column before an alarm and at it, from its last rows.

    Examples
    --------
    >>> levels(np.array([5.0] * 50 + [7.0] * 8)), levels(np.array([33.44] * 60 + [9.09]))
    ((5.0, 7.0), (33.44, 9.09))
    """
    known = recent[np.isfinite(recent)]
    if not known.size:
        return math.nan, math.nan
    before = float(np.median(known[: max(1, len(known) - LATE)]))
    near, last = float(np.median(known[-NEAR_ROWS:])), known[-FAR_ROWS:]
    furthest = float(last[np.argmax(np.abs(last - before))])
    return before, near if 3 * abs(near - before) >= abs(furthest - before) else furthest


def unusual_reading(x: NDArray[np.float64], features: Sequence[str], units: Mapping[str, str]) -> str:
    """Which reading of the last sample of x (n, p) is furthest from what was usual before; empty if none is far.

    Usual is the median, and distances are in median absolute deviations: a single extreme sample changes neither.

    Examples
    --------
    >>> x = np.array([[20.0, 3.1], [20.5, 3.0], [19.5, 3.2]] * 5 + [[26.0, 3.1]])
    >>> unusual_reading(x, ["celsius", "bar"], {"celsius": "°C"})
    'celsius is 26 °C, usually about 20 °C'
    """
    past, last = x[-USUAL - 1 : -1], x[-1]
    if np.isfinite(past).sum(axis=0).min(initial=len(past)) < FEW:
        return ""
    middle = np.nanmedian(past, axis=0)
    spread = ROBUST * np.nanmedian(np.abs(past - middle), axis=0)
    far = np.nan_to_num(np.abs(last - middle) / np.maximum(spread, 1e-9 * np.maximum(1, np.abs(middle))))
    column = int(np.argmax(far))
    if far[column] < FAR:
        return ""
    unit = f" {units[features[column]]}" if features[column] in units else ""
    now, usual = told_apart(float(last[column]), float(middle[column]))
    return f"{features[column]} is {now}{unit}, usually about {usual}{unit}"


def at(times: Sequence[object] | NDArray[np.generic] | None, sample: int) -> str:
    """The time of a sample."""
    return f"sample {sample}" if times is None else clock(times[sample])


def alarm_sentences(result: Result, node: int, names: Sequence[str]) -> list[tuple[int, str, str]]:
    """A sentence for each alarm of some monitors of a node, with its sample and its monitor, in time order."""
    found = [
        (t, name, text)
        for name in names
        for t, text in _sentences(
            name, alarm_of(result, node, name), result.x[node], result.features, result.times, result.seen[node]
        )
    ]
    return sorted(found, key=lambda one: one[0])


def _sentences(
    name: str,
    alarm: Alarm,
    x: NDArray[np.float64] | None,
    features: Sequence[str],
    times: Sequence[object] | NDArray[np.generic] | None,
    seen: NDArray[np.bool_] | None,
) -> list[tuple[int, str]]:
    """A sentence for each alarm of one monitor of one stream, with its sample."""
    if name not in COLUMN_ALARMS:
        return [(one.start, _episode_text(one, times, True)) for one in episodes(alarm.code, seen)]
    told = []
    for t, one in changes(name, alarm, x, features):
        over = x is not None and name == CHANGE and _is_soon_over(x[t + 1 :, int(alarm.cause[t])], one)
        told.append((t, f"at {at(times, t)} {one.text}{', soon over' if over else ''}"))
    return told


def _is_soon_over(after: NDArray[np.float64], one: AlarmText) -> bool:
    """What only a recording can add to a sentence: whether the column was back soon after."""
    after = after[np.isfinite(after)][:LATE]
    gone = one.before != one.now and after.size == LATE
    return bool(gone and abs(np.median(after) - one.before) < abs(one.now - one.before) / 2)


def alarm_of(result: Result, node: int, name: str) -> Alarm:
    """The alarms of one monitor of a node, (T,) each."""
    fields = (result.codes, result.score, result.standing, result.causes, result.chances)
    return Alarm(*(field[name][node] for field in fields))


def changes(
    name: str, alarm: Alarm, x: NDArray[np.float64] | None, features: Sequence[str]
) -> list[tuple[int, AlarmText]]:
    """The alarms of columns of one stream: the sample of each, and what it says; `x` (T, p) tells from what to what."""
    # rows without a reading do not count: a watch has none
    there = np.arange(len(alarm.code)) if x is None else np.flatnonzero(np.isfinite(x).any(axis=1))
    found, before = [], dict[int, int]()
    for t in np.flatnonzero(alarm.code).tolist():
        j, row = int(alarm.cause[t]), int(np.searchsorted(there, t, side="right"))
        known = "" if j < 0 else features[j] if features else str(j)
        recent = x[there[max(0, row - RECENT) : row], j] if x is not None and j >= 0 else np.zeros(0)
        found.append((t, describe(name, known, recent, float(alarm.p[t]), before.get(j, 0), row)))
        before[j] = before.get(j, 0) + 1
    return found


def count_alarms(codes: Mapping[str, NDArray[np.int8]]) -> tuple[int, int]:
    """How many alarms were raised, and how many times distress came after a spike: the same alarm once more.

    This is the one definition of a number of alarms: spikes, changes of columns, stuck columns, and distress that no
    spike began. Recovered is not an alarm.
    """
    alarms = sum(len(alarm_rows(node)) for one in codes.values() for node in one[one.any(axis=1)])
    return alarms, sum(int(np.isin(one, (1, 3)).sum()) for one in codes.values()) - alarms


def became_distress(later: int) -> str:
    """What to say of the second number of `count_alarms`; empty for none."""
    return f"{counted(later, 'spike')} became distress, counted once" if later else ""


def indices_add(result: Result, node: int) -> str:
    """What the alarms of indices add to those of columns, in one sentence; empty where they add nothing."""
    listening, columns = listeners(result), columns_of(result)
    if not listening or not columns or result.k[node].max() <= 1:
        return ""
    name = listening[0]
    changes = np.flatnonzero(result.codes[columns[0]][node])
    spikes, standing = np.flatnonzero(result.codes[name][node] == 1), result.standing[name][node]
    both = sum(bool(standing[t] or (np.abs(spikes - t) <= NEAR).any()) for t in changes)
    own = sum(not (np.abs(changes - t) <= NEAR).any() for t in spikes)
    parts = []
    if both:
        parts.append(f"{_of(both, changes.size)} came with an alarm of the index: the clusters changed too")
    if changes.size > both:
        kept = _of(changes.size - both, changes.size)
        parts.append(f"{kept} left the index as it was: levels moved, not clusters")
    if own:
        times = "once" if own == 1 else f"{own} times"
        parts.append(
            f"{times} {name} raised an alarm where no column did: the shape of the clusters changed, or columns were "
            f"not judged there (at the start, soon after an alarm)"
        )
    if result.standing[name][node, -1]:
        parts.append("at the end the index is still far from its usual values")
    if not parts:
        parts.append("nothing: neither columns nor clusters changed")
    return f"what {name} adds: {'; '.join(parts)}"


def _of(some: int, all_: int) -> str:
    if some == all_:
        return "the change of a column" if some == 1 else f"all {some} changes of columns"
    return f"{some} of {all_} changes of columns"


class Episode(NamedTuple):
    """One thing that happened: something new arrived, or distress."""

    kind: str  # "arrival" (a spike) or "distress"
    start: int  # sample that raised it
    # sample at which it was over; None if it was not over at the end of the record, or if this is not known
    end: int | None
    samples: int  # how many samples were seen from `start` to `end`, or to the end of the record
    # of an arrival "learned", "distress" (patience ran out), "open" (the record ends before either) or "unknown" (no
    # code says: while distress stands, and from monitors that only raise spikes); of distress "over" or "standing"
    outcome: str
    within: bool  # whether distress stood when an arrival began


def episodes(codes: ArrayLike, seen: ArrayLike | None = None) -> list[Episode]:
    """The episodes in the codes of one stream, by their start.

    Parameters
    ----------
    codes : (T,), 0 quiet, 1 spike, 2 recovered, 3 distress, one a sample.
    seen : (T,), False where a sample was missing: it does not count in `Episode.samples`.

    Examples
    --------
    >>> [(e.kind, e.start, e.outcome) for e in episodes([0, 1, 0, 2, 0, 1, 0, 3, 0, 2])]
    [('arrival', 1, 'learned'), ('arrival', 5, 'distress'), ('distress', 7, 'over')]
    """
    codes = np.asarray(codes)
    if codes.ndim != 1:
        raise ValueError(f"episodes(codes=…): expected codes of one stream, (T,), got shape {codes.shape}")
    present = np.ones(len(codes), bool) if seen is None else np.asarray(seen, bool)
    if present.shape != codes.shape:
        raise ValueError(f"episodes(seen=…): expected shape {codes.shape} as codes, got {present.shape}")
    past = np.concatenate([[0], np.cumsum(present)])  # samples seen before each
    found: list[Episode] = []

    def close(start: int | None, end: int | None, kind: str, outcome: str, within: bool = False) -> None:
        if start is not None:
            last = len(codes) - 1 if end is None else end
            found.append(Episode(kind, start, end, int(past[last + 1] - past[start + 1]), outcome, within))

    spike: int | None = None
    distress: int | None = None
    within = False
    for t in np.flatnonzero(codes).tolist():
        code = int(codes[t])
        if code == 2 and distress is not None:
            close(spike, None, "arrival", "unknown", within)
            close(distress, t, "distress", "over")
            spike = distress = None
        elif code == 2:
            close(spike, t, "arrival", "learned")
            spike = None
        else:
            outcome = "distress" if code == 3 else "unknown"
            close(spike, t if code == 3 else None, "arrival", outcome, within)
            spike = t if code == 1 else None
            within = distress is not None
            distress = t if code == 3 and distress is None else distress
    close(spike, None, "arrival", "unknown" if within else "open", within)
    close(distress, None, "distress", "standing")
    return sorted(found, key=lambda e: e.start)


def _story_of_run(run: Run, times: Sequence[object] | NDArray[np.generic] | None) -> list[str]:
    sentences = []
    x = None if run.samples is None else np.asarray(run.samples, np.float64)
    seen = None if run.readings.seen is None else np.asarray(run.readings.seen)
    for name, alarm in (run.readings.alarms or {}).items():
        if np.ndim(alarm.code) != 1:
            raise ValueError("story: expected the run of one stream; of a fleet take the codes of one: alarm.code[n]")
        told = _sentences(name, Alarm(*map(np.asarray, alarm)), x, run.features, times, seen)
        sentences += [text if name in COLUMN_ALARMS else f"{name}: {text}" for _, text in told]
    return sentences


def story(
    codes: ArrayLike | Run,
    times: Sequence[object] | NDArray[np.generic] | None = None,
    seen: ArrayLike | None = None,
    open_ends: bool = True,
) -> list[str]:
    """The meaning of the alarm codes of one stream in sentences; an empty list if nothing happened.

    Parameters
    ----------
    codes : (T,), as in `Alarm.code`; or the run of one stream: then all its monitors are told.
    times : (T,), when each sample was taken: datetimes, or anything that `str` makes readable. None: sample numbers.
    seen : (T,), False where a sample was missing: it does not count in "after … samples".
    open_ends : False for a monitor that only raises spikes and never says how they ended.

    Examples
    --------
    >>> when = np.datetime64("2007-10-18T06:40") + 10 * np.arange(6)
    >>> for sentence in story([1, 0, 2, 0, 0, 0], when):
    ...     print(sentence)
    at 2007-10-18 06:40 something new arrived; learned after 2 samples
    >>> story([0, 1, 0, 3, 0, 2])
    ['at sample 1 something new arrived; not learned after 2 samples',
     'at sample 3 distress: the index stayed far from its usual values; over at sample 5, after 2 samples']
    """
    if isinstance(codes, Run):
        return _story_of_run(codes, times)
    if times is not None and len(times) != len(np.asarray(codes)):
        raise ValueError(f"story(times=…): expected one entry per code, {len(np.asarray(codes))}, got {len(times)}")

    return [_episode_text(episode, times, open_ends) for episode in episodes(codes, seen)]


def _episode_text(episode: Episode, times: Sequence[object] | NDArray[np.generic] | None, open_ends: bool) -> str:
    lasted = f"{episode.samples} sample" + ("" if episode.samples == 1 else "s")
    if episode.kind == "distress":
        over = "not over yet" if episode.end is None else f"over at {at(times, episode.end)}, after {lasted}"
        return f"at {at(times, episode.start)} distress: the index stayed far from its usual values; {over}"
    ends = {"learned": f"; learned after {lasted}", "distress": f"; not learned after {lasted}"}
    if open_ends:
        ends["open"] = f"; not learned yet, {lasted} later"
    within = ", during distress" if episode.within else ""
    return f"at {at(times, episode.start)} something new arrived{within}{ends.get(episode.outcome, '')}"


def clock(time: object) -> str:
    """A time in short form: seconds only if they are not 0, only the date if there is no time of day.

    Examples
    --------
    >>> clock(np.datetime64("2007-10-18T06:40:00")), clock(np.datetime64("2007-10-18")), clock(12.5)
    ('2007-10-18 06:40', '2007-10-18', '12.5')
    """
    if isinstance(time, (np.datetime64, datetime.datetime)):
        text = str(time).replace("T", " ")
        if "+" not in text:  # a time zone stays as it is
            head, dot, fraction = text.partition(".")
            text = head if not fraction.strip("0") else f"{head}{dot}{fraction.rstrip('0')}"
        return text[:-3] if text.count(":") == 2 and text.endswith(":00") else text
    return f"{time:.12g}" if isinstance(time, float) else str(time)  # 59.9, not 59.900000000000006
