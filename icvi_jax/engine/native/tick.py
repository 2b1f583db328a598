"""Ticks: one step a call, everything that a call needs made ready before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from icvi_jax.engine.native.threads import Call, together


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
