"""Budget: the false alarms a user accepts, for all streams together, turned into a rate per sample.

What happens once in a million cannot be learned from a few hundred samples. Down to 1e-4 per sample and stream the rate
is kept within `KEPT` on everything that was tried. With a smaller budget the monitors stay at 1e-4, and what is
promised are *incidents*: rows at which more streams raise an alarm than quiet ones would (see `agreement.py`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icvi_jax.monitors.agreement import Agreement
from icvi_jax.monitors.base import Listener
from icvi_jax.spec import changed, number, one_of, whole

M = TypeVar("M", bound=Listener)

PROMISED = 1e-4
"""Down to this rate single alarms are promised; smaller budgets are kept by agreement."""

KEPT = 5.0
"""The most that a rate of 1e-4 turned out to be, as its multiple (benchmarks/alarms.py); agreement counts on it."""

SECONDS = {"hour": 3600.0, "day": 86400.0, "week": 604800.0, "month": 2629746.0}
"""A month is a twelfth of a year."""


def amount(text: str) -> tuple[float, str]:
    """How many false alarms a text names, and in what, such as (20.0, "day")."""
    found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(?:/\s*(hour|day|week|month|[0-9._eE+]+)\s*)?", str(text))
    try:
        alarms, over = (float(found[1]), found[2] or "1") if found else (0.0, "")
        per = over if over in SECONDS else "sample"
        alarms = alarms if per != "sample" else alarms / float(over)
    except (ValueError, ZeroDivisionError):
        alarms = 0.0
    if not 0 < alarms < float("inf"):
        raise ValueError(
            f"{text!r}: expected false alarms such as 10/10000 (samples), 2/hour, 20/day, 1/week or 2/month"
        )
    return alarms, per


class Budget(NamedTuple):
    """A budget divided over streams.

    Attributes
    ----------
    rate : false alarms per sample, for each stream and all its monitors together.
    per : "sample", "hour", "day", "week" or "month".
    streams : how many share the budget.
    samples : of all streams together in that time; 1 with `per` "sample".
    agree : how many streams that raise an alarm in one row are an incident, whatever was before; 1: every alarm counts.
    outside : names of monitors that take no rate: nothing is promised for their alarms.
    rows : rows between two false incidents, at least on average; 0 where every alarm counts.

    Examples
    --------
    >>> print(Budget.of(10 / 10_000))
    at most about 10 false alarms in 10,000 samples
    """

    rate: float
    per: str
    streams: int
    samples: float
    agree: int = 1
    outside: tuple[str, ...] = ()
    rows: float = 0.0

    @property
    def expected(self) -> float:
        """The most false alarms, or incidents, to expect in the time `per`; in 10,000 samples with `per` "sample"."""
        total = 1e4 if self.per == "sample" else self.samples
        return total * (self.rate if self.agree == 1 else 1 / (self.rows * self.streams))

    def __str__(self) -> str:
        time = "in 10,000 samples" if self.per == "sample" else f"{_a(self.per)} {self.per}"
        over = "" if self.streams == 1 else f" over {self.streams:,} nodes"
        rest = f"; nothing is promised for alarms of {', '.join(self.outside)}" if self.outside else ""
        if self.agree == 1:
            many = self.expected
            return f"at most about {many:.3g} false alarm{'' if many == 1 else 's'} {time}{over}{rest}"
        few = f"{self.expected:.2g}"
        return (
            f"at most {few} false incident{'' if few == '1' else 's'} {time}{over}, where quiet nodes do not depend "
            f"on each other: an incident is {self.agree} nodes that raise an alarm in one row, or somewhat more than "
            f"usual in many rows; single alarms come up to {self.rate:g} times a sample{rest}"
        )

    @property
    def agreement(self) -> Agreement | None:
        """What tells incidents, row by row; None where every alarm counts."""
        return None if self.agree == 1 else _agreement(self.streams, self.rows)

    def incidents(self, raised: ArrayLike) -> NDArray[np.bool_]:
        """Rows (T,) at which an incident begins, from whether each stream raised an alarm (N, T).

        Examples
        --------
        >>> import numpy as np, icvi_jax as icvi
        >>> budget = icvi.Budget.parse("1/month", streams=100, interval=600)
        >>> raised = np.zeros((100, 50), bool)
        >>> raised[:30, 20] = True
        >>> budget.agree, np.flatnonzero(budget.incidents(raised)).tolist()
        (4, [20])
        """
        counts, agreement = np.asarray(raised, bool).sum(axis=0), self.agreement
        if agreement is None:
            return np.asarray(counts > 0)
        return np.array([agreement.add(t, int(alarms)) for t, alarms in enumerate(counts)], bool)

    def over(self, monitors: Mapping[str, M]) -> dict[str, M]:
        """The monitors with the rate divided over those that take one.

        >>> import icvi_jax as icvi
        >>> Budget.of(20, per="day", streams=340, interval=600).over({"change": icvi.Change()})["change"].false_alarms
        0.000408...
        """
        taking = sum(rate_of(monitor) is not None for monitor in monitors.values())
        if not taking:
            raise ValueError(
                "Budget: no monitor here takes false alarms; add Change(), or give Distress a false_alarms of its own"
            )
        return {
            name: monitor if rate_of(monitor) is None else changed(monitor, false_alarms=self.rate / taking)
            for name, monitor in monitors.items()
        }

    def leaving_out(self, monitors: Mapping[str, Listener]) -> Budget:
        """This budget, which names the monitors that take no rate.

        >>> import icvi_jax as icvi
        >>> Budget.of(1e-3).leaving_out({"change": icvi.Change(), "xb": icvi.Distress()}).outside
        ('xb',)
        """
        return self._replace(outside=tuple(name for name, monitor in monitors.items() if rate_of(monitor) is None))

    def among(self, streams: int) -> Budget:
        """The same rate over another number of streams."""
        share = 1.0 if self.per == "sample" else streams / self.streams
        among = self._replace(streams=streams, samples=self.samples * share)
        if self.agree == 1:
            return among
        rows = self.rows * self.streams / streams
        return among._replace(agree=_agreement(streams, rows).needed, rows=rows)

    def measured(self, alarms: int, samples: int) -> str:
        """How many alarms there were, in the unit of the budget; `samples` are those of all streams together.

        >>> Budget.of(20, per="day", streams=340, interval=600).measured(31, 3 * 340 * 144)
        '31 alarms, 10.3 a day'
        """
        many = f"{alarms:,} alarm{'' if alarms == 1 else 's'}"
        if self.per == "sample":
            return f"{many}, {1e4 * alarms / max(samples, 1):.3g} in 10,000 samples"
        return f"{many}, {alarms * self.samples / max(samples, 1):.3g} {_a(self.per)} {self.per}"

    @classmethod
    def parse(cls, text: str, streams: int = 1, interval: float | None = None) -> Budget:
        """The budget from a text: "10/10000" samples, "2/hour", "20/day", "1/week" or "2/month".

        >>> Budget.parse("10/10000").rate, Budget.parse("20/day", streams=340, interval=600).per
        (0.001, 'day')
        """
        return cls.of(*amount(text), streams, interval)

    @classmethod
    def of(cls, alarms: float, per: str = "sample", streams: int = 1, interval: float | None = None) -> Budget:
        """Divide `alarms` false alarms.

        Parameters
        ----------
        alarms : how many there may be in that time, over all streams together.
        per : "sample" (of any stream), "hour", "day", "week" or "month".
        streams : how many streams there are.
        interval : seconds between two samples of a stream; needed for all but samples.

        Examples
        --------
        >>> print(Budget.of(20, per="day", streams=340, interval=600))
        at most about 20 false alarms a day over 340 nodes
        """
        number("Budget", "alarms", alarms, 0 < alarms < float("inf"), "a positive number")
        one_of("Budget", "per", per, ("sample", *SECONDS))
        whole("Budget", "streams", streams)
        samples = 1.0
        if per != "sample":
            if interval is None or not 0 < interval < float("inf"):
                raise ValueError(
                    f"Budget(interval={interval!r}): alarms per {per} need the seconds between two samples of a stream"
                )
            samples = streams * SECONDS[per] / interval
        rate = alarms / samples
        if rate >= 1 / 15:
            raise ValueError(
                f"Budget(alarms={alarms:g}, per={per!r}): that is an alarm every {samples / alarms:.3g} samples; "
                f"at most one in 15 can be asked for"
            )
        if rate >= PROMISED:
            return cls(rate, per, streams, samples)
        rows = 1 / (rate * streams)
        agree = max(_agreement(streams, rows).needed, 2)
        if agree > streams:
            raise ValueError(
                f"Budget(alarms={alarms:g}, per={per!r}): {rate:.1g} false alarms a sample are fewer than can be "
                f"learned, and {streams:,} stream{'' if streams == 1 else 's'} cannot agree on so rare an incident. "
                f"Ask for at least {PROMISED:g} a sample{_least(per, samples)}, or take means over several samples"
            )
        return cls(PROMISED, per, streams, samples, agree, rows=rows)


def rate_of(monitor: Listener) -> float | None:
    """The false-alarm rate of a monitor, None if it has none."""
    fields = {field.name for field in dataclasses.fields(monitor)}  # type: ignore[arg-type]  # every monitor is a spec
    rate: float | None = getattr(monitor, "false_alarms") if "false_alarms" in fields else None  # noqa: B009
    return rate


def _agreement(streams: int, rows: float) -> Agreement:
    return Agreement(KEPT * PROMISED * streams, rows)


def _a(per: str) -> str:
    return "an" if per == "hour" else "a"


def _least(per: str, samples: float) -> str:
    return "" if per == "sample" else f", {PROMISED * samples:.3g} {_a(per)} {per}"
