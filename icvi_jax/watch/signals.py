"""Ctrl-C and SIGTERM act between batches only: otherwise a sample could be lost, or counted twice after a restart."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TypeVar

Batch = TypeVar("Batch")


class Interrupts:
    """Handles both signals until `close`; a second signal ends the process at once, like a kill."""

    def __init__(self) -> None:
        self.asked = self.waiting = False
        self._since = time.monotonic()
        self.before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and not self.waiting:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.asked = True
        if self.waiting:
            raise KeyboardInterrupt

    def between(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches; KeyboardInterrupt is raised only while waiting for the next one."""
        batches = iter(batches)
        while True:
            self.waiting = True
            try:
                if self.asked:
                    raise KeyboardInterrupt
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._since, self.waiting = time.monotonic(), False
            yield batch

    def busy(self) -> float:
        """How many seconds the present batch has taken so far; 0 while waiting for the next one."""
        return 0.0 if self.waiting else time.monotonic() - self._since

    def close(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self.before.items():
            signal.signal(number, handler)
