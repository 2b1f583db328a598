"""The clock of a node: times that run backwards, jump years ahead, or change their unit.

One wrong time in 2099 must not make all later samples old. So a time far ahead is believed once a second sample agrees
with it; until then its sample waits. Seconds, milli-, micro- and nanoseconds since 1970 may follow each other. The hour
that comes twice when local clocks are set back is kept in its order. The rules only use the past: a recording and a
live stream are read alike.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.table import Times

GAPS, DAY, YEAR, HOUR = 1000, 86_400.0, 31_557_600.0, 3_600.0
"""A jump of more than so many usual intervals, and of more than a day, is far; before an interval is known, of a
year."""
UNITS = (1.0, 1e3, 1e6, 1e9)
SMOOTH = 0.2


class Verdict(Enum):
    """What to do with a sample: NEW counts, AGAIN counts in the hour that comes twice, OLD does not, FAR waits."""

    NEW, AGAIN, OLD, FAR = range(4)


def unit_of(when: float) -> float:
    """Units per second of a time since 1970, from 1980 to 2100; 0 for other numbers."""
    return next((unit for unit in UNITS if 3.2e8 * unit <= when < 4.1e9 * unit), 0.0)


class Clock:
    """What is known of the times of one node; its slots are what a restart needs.

    Attributes
    ----------
    last : the latest time, in the unit of the first one; None: no sample yet.
    gap : the usual time between two samples, or None.
    back : the last time within the hour that comes twice, or None.
    """

    __slots__ = ("_limit", "back", "gap", "last", "unit")

    def __init__(self, last: float | None = None, gap: float | None = None, back: float | None = None):
        self.last, self.gap, self.back = last, gap, back
        self.unit = 0.0 if last is None else unit_of(last)
        self._set_limit()

    def _set_limit(self) -> None:
        day = DAY * self.unit
        self._limit = max(GAPS * self.gap, day) if self.gap else YEAR * self.unit if self.unit else np.inf

    def aligned(self, when: float) -> float:
        """A time in the unit of this clock."""
        if not self.unit or 3.2e8 * self.unit <= when < 4.1e9 * self.unit:
            return when
        other = unit_of(when)
        return when * (self.unit / other) if other else when

    def judge(self, when: float, local: bool = False) -> Verdict:
        """What a time means; `local`: it is a date without a time zone, so that clocks may have been set back."""
        last = self.last
        if last is None:
            return Verdict.NEW
        step = when - last
        if 0 < step <= self._limit:
            return Verdict.NEW
        if step > 0:
            return Verdict.FAR
        if self.gap is None and self.unit and -step > DAY * self.unit:
            return Verdict.NEW  # the first time was the wrong one
        if local and self._comes_twice(when):
            return Verdict.AGAIN
        return Verdict.OLD

    def agrees(self, first: float, second: float) -> bool:
        """Whether a second far time confirms the first one."""
        return 0 < second - first <= self._limit

    def advance(self, when: float, verdict: Verdict) -> None:
        """Count a sample."""
        if verdict is Verdict.AGAIN:
            self.back = when
            return
        if self.last is None or (self.gap is None and when < self.last):
            self.last, self.unit = when, unit_of(when)
        elif when > self.last:
            step = when - self.last
            if step <= self._limit:
                self.gap = step if self.gap is None else (1 - SMOOTH) * self.gap + SMOOTH * step
            self.last, self.back = when, None
        self._set_limit()

    def _comes_twice(self, when: float) -> bool:
        """Whether this is the hour after local clocks were set back."""
        if self.last is None or self.gap is None or not self.unit:
            return False
        if self.back is not None:
            return self.back < when <= self.last
        expected = self.last + self.gap - HOUR * self.unit
        return abs(when - expected) <= 1.5 * self.gap < HOUR * self.unit and ends_summer(self.last / self.unit)


def ends_summer(seconds: float) -> bool:
    """Whether local clocks may be set back in this night: a Sunday at the end of October or the start of November or
    April.

    Examples
    --------
    >>> ends_summer(datetime(2024, 10, 27, 2, 50, tzinfo=UTC).timestamp())
    True
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    day = (moment.month == 10 and moment.day >= 25) or (moment.month in (4, 11) and moment.day <= 7)
    return day and moment.weekday() == 6 and moment.hour <= 3


def believed_rows(times: Times) -> tuple[NDArray[np.bool_], Times, list[str]]:
    """Which rows of a recording have a time that can be believed, the times, and notes. In the hour that comes twice
    the times are those of its end and some microseconds, so that they run forward.

    Examples
    --------
    >>> when = np.datetime64("2024-01-01T00:00", "us") + np.arange(5) * np.timedelta64(600, "s")
    >>> when[2] = np.datetime64("2099-01-01")
    >>> believed_rows(when)[0].tolist()
    [True, True, False, True, True]
    """
    keep = np.ones(len(times), bool)
    dates = times.dtype.kind == "M"
    number = times.astype("datetime64[us]").astype(np.int64).astype(float) if dates else times.astype(float)
    step = np.diff(number)
    if not step.size or (step.min() > 0 and step.max() <= max(GAPS * np.median(step), DAY * unit_of(number[0]))):
        return keep, times, []
    clock, waiting, again, late = Clock(), -1, 0, 0
    fixed = number.copy()
    for row, when in enumerate(number.tolist()):
        verdict = clock.judge(when, dates)
        if verdict is Verdict.FAR:
            if waiting >= 0 and clock.agrees(number[waiting], when):
                clock.advance(number[waiting], Verdict.NEW)
                clock.advance(when, Verdict.NEW)
                waiting = -1
            else:
                keep[max(waiting, 0)] &= waiting < 0
                waiting = row
            continue
        if waiting >= 0 and verdict is not Verdict.OLD:
            keep[waiting], waiting = False, -1
        late = late + 1 if verdict is Verdict.AGAIN else 0
        if late:
            fixed[row], again = (clock.last or 0) + late, again + 1
        if verdict is not Verdict.OLD:
            clock.advance(when, verdict)
    if waiting >= 0:
        keep[waiting] = False
    notes = []
    if not keep.all():
        first = int(np.argmin(keep))
        many = "1 row has a time" if (~keep).sum() == 1 else f"{int((~keep).sum()):,} rows have times"
        notes.append(f"{many} far ahead that no other row agrees with, such as {times[first]}: left out")
    if again:
        notes.append(f"{again:,} rows are in the hour that came twice when clocks were set back: kept in their order")
    return keep, np.round(fixed).astype(np.int64).astype("datetime64[us]") if dates and again else times, notes
