"""From lines to samples: a bad line is counted and skipped, with a message at most once per minute."""

from __future__ import annotations

import time
from collections.abc import Iterable

from icvi_jax.terminal_text import say
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.sample import Sample

COMPLAINT_SECONDS, FIRST_LINES = 60.0, 20
"""How often to complain, and after how many lines to say that most of them are bad."""


class Complaints:
    """Prints what is wrong, at most once per minute, with the number of messages left out."""

    def __init__(self) -> None:
        self._at, self._unsaid = -COMPLAINT_SECONDS, 0

    def say(self, text: str) -> None:
        """Print this text, or count it."""
        now = time.monotonic()
        if now - self._at < COMPLAINT_SECONDS:
            self._unsaid += 1
            return
        say(text + (f" ({self._unsaid:,} others since the last such message)" if self._unsaid else ""))
        self._at, self._unsaid = now, 0


class Decoder:
    """Turns lines into samples, one after another.

    Parameters
    ----------
    reader : understands a line.
    complaints : prints messages about bad lines.

    Attributes
    ----------
    bad : how many lines were not valid samples.
    last : what was wrong with the last one of them.
    """

    def __init__(self, reader: Reader, complaints: Complaints | None = None):
        self.reader, self.bad, self.last = reader, 0, ""
        self._lines = 0
        self._complaints = complaints or Complaints()

    def samples(self, lines: Iterable[tuple[bytes, str]]) -> list[Sample]:
        """The samples in lines, each with a node name to use if it has none."""
        found: list[Sample] = []
        read = self.reader.read_all
        for line, node in lines:
            self._lines += 1
            if self._lines == FIRST_LINES and 2 * self.bad > self._lines:
                say(f"{self.bad} of the first {self._lines} lines are not valid samples; the last one: {self.last}")
            try:
                found += read(line, node)
            except ValueError as error:
                self.bad += 1
                self.last = str(error)
                self._complaints.say(f"line {self.reader.count}: {error}: skipped")
        return found
