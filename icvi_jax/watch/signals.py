"""Ctrl-C and SIGTERM between batches only: a sample half taken in would be lost, or counted twice after a restart."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TypeVar

Batch = TypeVar("Batch")


class Interrupts:
    """Takes over both signals until `close`; asked a second time, the process ends at once, as by a kill."""

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
        """Give the batches; KeyboardInterrupt is raised only while the next one is waited for."""
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
        """For how many seconds the present batch has been worked on; 0 while the next one is waited for."""
        return 0.0 if self.waiting else time.monotonic() - self._since

    def close(self) -> None:
        """Give the signals back."""
        for number, handler in self.before.items():
            signal.signal(number, handler)
