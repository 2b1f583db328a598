"""The alarm codes of one stream, in sentences."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Episode(NamedTuple):
    """One thing that happened: something new arrived, or distress.

    Attributes
    ----------
    kind : "arrival" (a spike) or "distress".
    start : sample that raised it.
    end : sample at which it was over; None if it was not over at the end of the record, or if this is not known.
    samples : how many samples were seen from `start` to `end`, or to the end of the record.
    outcome : of an arrival "learned", "distress" (patience ran out), "open" (the record ends before either) or
        "unknown" (no code says: while distress stands, and from monitors that only raise spikes); of distress "over" or
        "standing".
    within : whether distress stood when an arrival began.
    """

    kind: str
    start: int
    end: int | None
    samples: int
    outcome: str
    within: bool


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


def story(
    codes: ArrayLike,
    times: Sequence[object] | NDArray[np.generic] | None = None,
    seen: ArrayLike | None = None,
    open_ends: bool = True,
) -> list[str]:
    """The meaning of the alarm codes of one stream in sentences; an empty list if nothing happened.

    Parameters
    ----------
    codes : (T,), as in `Alarm.code`.
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
     'at sample 3 distress: the clusters do not fit the new data; over at sample 5, after 2 samples']
    """
    if times is not None and len(times) != len(np.asarray(codes)):
        raise ValueError(f"story(times=…): expected one entry per code, {len(np.asarray(codes))}, got {len(times)}")

    def at(t: int) -> str:
        return f"sample {t}" if times is None else clock(times[t])

    sentences = []
    for episode in episodes(codes, seen):
        lasted = f"{episode.samples} sample" + ("" if episode.samples == 1 else "s")
        if episode.kind == "distress":
            text = f"at {at(episode.start)} distress: the clusters do not fit the new data; "
            text += f"over at {at(episode.end)}, after {lasted}" if episode.end is not None else "not over yet"
        else:
            text = f"at {at(episode.start)} something new arrived"
            text += ", during distress" if episode.within else ""
            if episode.outcome == "learned":
                text += f"; learned after {lasted}"
            elif episode.outcome == "distress":
                text += f"; not learned after {lasted}"
            elif episode.outcome == "open" and open_ends:
                text += f"; not learned yet, {lasted} later"
        sentences.append(text)
    return sentences


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
