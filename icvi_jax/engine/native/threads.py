"""Native code on several threads: a share of the streams each; and a fleet's tick, whose call is prepared once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np


class Call(NamedTuple):
    """A native function, its context and the scratch memory the context points to."""

    function: Callable[[int], None]
    context: np.ndarray
    scratch: np.ndarray


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if "sched_getaffinity" in dir(os) else os.cpu_count() or 1


def shares(groups: int, threads: int | None = None) -> list[tuple[int, int]]:
    """Groups of streams from … to …, one range a thread, none larger than another by more than one."""
    n = max(1, min(cores() if threads is None else threads, groups))
    cuts = [groups * i // n for i in range(n + 1)]
    return list(zip(cuts, cuts[1:]))


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), "icvi")


def together(calls: Sequence[Call]) -> None:
    """Make the calls at the same time, the first in this thread."""
    others = [_pool(os.getpid()).submit(call.function, call.context.ctypes.data) for call in calls[1:]]
    calls[0].function(calls[0].context.ctypes.data)
    for other in others:
        other.result()


class Ticker:
    """Call it to take in what is in `x`; the readings are in `out` then, and the words have moved on.

    Attributes
    ----------
    x : (N, p), to be written before each call.
    elapsed : (N,), likewise, where the step takes elapsed times; 1 until something else is written.
    out : arrays (N, …), one a leaf of the outputs; overwritten by each call.
    tick : the call itself, without a Python function around it where one thread does it.
    """

    def __init__(
        self,
        x: np.ndarray,
        elapsed: np.ndarray,
        out: list[np.ndarray],
        calls: Sequence[Call],
        held: tuple[np.ndarray | None, ...],
    ) -> None:
        self.x, self.elapsed, self.out = x, elapsed, out
        self._held = held, calls  # memory that the addresses point to
        first = calls[0]
        alone = partial(first.function, first.context.ctypes.data)
        self.tick: Callable[[], None] = alone if len(calls) == 1 else partial(together, calls)

    def __call__(self) -> list[np.ndarray]:
        """One step."""
        self.tick()
        return self.out
