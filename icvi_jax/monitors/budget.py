"""Budget: the false alarms a user accepts, for all streams together, turned into a rate per sample.

A threshold learned from a few hundred samples cannot be certain about what happens once in a million. Down to 1e-3 per
sample the rate is kept on all kinds of streams that were tried; at 1e-4 it is a range; far below it is not known.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from icvi_jax.monitors.base import Listener
from icvi_jax.spec import changed, number, one_of, whole

M = TypeVar("M", bound=Listener)

PROMISED = 1e-4
"""Down to this rate a budget is said as a promise. Down to 1e-3 it is kept; at 1e-4 it may be a few times as many."""

LEAST = 1e-5
"""No rate below this is accepted."""

RANGE = 6.0, 25.0
"""The most that rates of 1e-4 and of 1e-5 turned out to be, as multiples of them; the least is 0 for both. See
benchmarks/false_alarms.py: a recording that breaks down now and then does so whatever was promised.

Measured for `Change()` as it is. With its options `slower`, `jumps` or `season` there may be more, about twice as many
at 1e-5: docs/results has the tables."""

SECONDS = {"hour": 3600.0, "day": 86400.0}


class Budget(NamedTuple):
    """A budget divided over streams.

    Attributes
    ----------
    rate : false alarms per sample, for each stream and all its monitors together.
    per : "sample", "hour" or "day".
    streams : how many share the budget.
    samples : of all streams together in that time; 1 with `per` "sample".

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> icvi.Budget.of(10 / 10_000).rate
    0.001
    """

    rate: float
    per: str
    streams: int
    samples: float

    @property
    def promised(self) -> bool:
        """Whether the rate is kept, and not a range."""
        return self.rate >= PROMISED

    @property
    def expected(self) -> tuple[float, float]:
        """Fewest and most false alarms to expect in the time `per`; in ten thousand samples with `per` "sample"."""
        total = self.rate * (1e4 if self.per == "sample" else self.samples)
        if self.promised:
            return 0.0, total
        small, tiny = RANGE
        return 0.0, total * small * (tiny / small) ** math.log10(PROMISED / self.rate)

    def __str__(self) -> str:
        _, high = self.expected
        time = "in 10,000 samples" if self.per == "sample" else f"{'an' if self.per == 'hour' else 'a'} {self.per}"
        over = "" if self.streams == 1 else f" over {self.streams:,} nodes"
        if self.promised:
            return f"at most about {high:.3g} false alarm{'' if high == 1 else 's'} {time}{over}"
        return (
            f"between 0 and {high:.2g} false alarms {time}{over}: so small a rate, {self.rate:.1g} a sample, cannot be "
            f"promised, and this is what it turned out to be on recordings"
        )

    def over(self, monitors: Mapping[str, M]) -> dict[str, M]:
        """The monitors with the rate divided over those that take one.

        Examples
        --------
        >>> import icvi_jax as icvi
        >>> shared = icvi.Budget.of(20, per="day", streams=340, interval=600).over({"change": icvi.Change()})
        >>> shared["change"].false_alarms
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

    def among(self, streams: int) -> Budget:
        """The same rate over another number of streams."""
        share = 1.0 if self.per == "sample" else streams / self.streams
        return self._replace(streams=streams, samples=self.samples * share)

    def measured(self, alarms: int, samples: int) -> str:
        """How many alarms there were, in the unit of the budget; `samples` are those of all streams together.

        Examples
        --------
        >>> Budget.of(20, per="day", streams=340, interval=600).measured(31, 3 * 340 * 144)
        '31 alarms, 10.3 a day'
        """
        many = f"{alarms:,} alarm{'' if alarms == 1 else 's'}"
        if self.per == "sample":
            return f"{many}, {1e4 * alarms / max(samples, 1):.3g} in 10,000 samples"
        return f"{many}, {alarms * self.samples / max(samples, 1):.3g} {'an' if self.per == 'hour' else 'a'} {self.per}"

    @classmethod
    def parse(cls, text: str, streams: int = 1, interval: float | None = None) -> Budget:
        """The budget from a text: "10/10000" samples, "2/hour" or "20/day".

        Examples
        --------
        >>> Budget.parse("10/10000").rate, Budget.parse("20/day", streams=340, interval=600).per
        (0.001, 'day')
        """
        found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(?:/\s*(hour|day|[0-9._eE+]+)\s*)?", text)
        try:
            alarms, over = (float(found[1]), found[2] or "1") if found else (0.0, "")
            per = over if over in SECONDS else "sample"
            alarms = alarms if per != "sample" else alarms / float(over)
        except (ValueError, ZeroDivisionError):
            alarms = 0.0
        if not 0 < alarms < float("inf"):
            raise ValueError(f"{text!r}: expected false alarms such as 10/10000 (samples), 2/hour or 20/day")
        return cls.of(alarms, per, streams, interval)

    @classmethod
    def of(cls, alarms: float, per: str = "sample", streams: int = 1, interval: float | None = None) -> Budget:
        """Divide `alarms` false alarms.

        Parameters
        ----------
        alarms : how many there may be in that time, over all streams together.
        per : "sample" (of any stream), "hour" or "day".
        streams : how many streams there are.
        interval : seconds between two samples of a stream; needed for hours and days.

        Examples
        --------
        >>> print(Budget.of(20, per="day", streams=340, interval=600))
        at most about 20 false alarms a day over 340 nodes
        >>> Budget.of(10 / 10_000).rate
        0.001
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
        if rate < LEAST:
            raise ValueError(
                f"Budget(alarms={alarms:g}, per={per!r}): {rate:.1g} false alarms a sample are fewer than can be "
                f"learned: one in {samples / alarms:,.0f} samples, and a threshold is learned from a few hundred. "
                f"Ask for at least {LEAST:g} a sample{_least(per, samples)}, or take means over several samples first"
            )
        return cls(rate, per, streams, samples)


def rate_of(monitor: Listener) -> float | None:
    """The false-alarm rate of a monitor, None if it has none."""
    fields = {field.name for field in dataclasses.fields(monitor)}  # type: ignore[arg-type]  # every monitor is a spec
    rate: float | None = getattr(monitor, "false_alarms") if "false_alarms" in fields else None  # noqa: B009
    return rate


def _least(per: str, samples: float) -> str:
    return "" if per == "sample" else f", {LEAST * samples:.3g} {'an' if per == 'hour' else 'a'} {per}"
