"""Feed: the samples of many streams on their way to a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Done = Callable[[int], None]
"""Is told how many samples, of all streams together, are done."""


class Feed(NamedTuple):
    """What a program is given.

    Attributes
    ----------
    X : (N, T, p), the samples.
    origin : (N, p), float64, what they are relative to.
    elapsed : (T,) or (N, T), the time since the sample before; None: one unit each.
    every : each `every`-th output is kept.
    phase : samples that have passed since the last one that was kept.
    done : told of progress; None: nobody asks.
    """

    X: np.ndarray
    origin: np.ndarray
    elapsed: np.ndarray | None = None
    every: int = 1
    phase: int = 0
    done: Done | None = None

    @property
    def rows(self) -> int:
        """Outputs that are kept, for each stream."""
        steps: int = self.X.shape[1]
        return (self.phase + steps) // self.every
