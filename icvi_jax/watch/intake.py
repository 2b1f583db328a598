"""From lines to samples: a bad line is counted, named once a minute at most, and skipped."""

from __future__ import annotations

import time
from collections.abc import Iterable

from icvi_jax.text import say
from icvi_jax.watch.lines import Reader
from icvi_jax.watch.sample import Sample

COMPLAINT_SECONDS = 60.0


class Complaints:
    """Says what is wrong, once a minute at most, and then how many others there were."""

    def __init__(self) -> None:
        self._at, self._unsaid = -COMPLAINT_SECONDS, 0

    def say(self, text: str) -> None:
        """Say this, or count it."""
        now = time.monotonic()
        if now - self._at < COMPLAINT_SECONDS:
            self._unsaid += 1
            return
        say(text + (f" ({self._unsaid:,} others since the last such message)" if self._unsaid else ""))
        self._at, self._unsaid = now, 0


class Intake:
    """Understands lines one after another.

    Parameters
    ----------
    reader : what a line means.
    complaints : where bad lines are named.

    Attributes
    ----------
    bad : how many lines were no sample.
    """

    def __init__(self, reader: Reader, complaints: Complaints | None = None):
        self.reader, self.bad = reader, 0
        self._complaints = complaints or Complaints()

    def samples(self, lines: Iterable[tuple[bytes, str]]) -> list[Sample]:
        """The samples in lines, each with a name for a node that has none."""
        found = []
        read = self.reader.read
        for line, node in lines:
            try:
                sample = read(line, node)
            except ValueError as error:
                self.bad += 1
                self._complaints.say(f"line {self.reader.count}: {error}: skipped")
                continue
            if sample is not None:
                found.append(sample)
        return found
