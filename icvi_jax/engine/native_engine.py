"""Native code of a step, as an engine: what `icvi_jax.engine.native` compiles, on states and samples of the host."""

from __future__ import annotations

import numpy as np

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.native.program import compile_step
from icvi_jax.engine.sample_batch import Feed
from icvi_jax.engine.xla import Step, precise
from icvi_jax.types import State

__all__ = ["Native", "Unsupported"]

PIECE = 2**21
"""Stream-samples between two calls of `progress`."""


class Native:
    """A step as native code. Words are changed where they are; `platforms.Program` says what the methods do."""

    name = "llvm"

    def __init__(
        self,
        step: Step,
        model: object,
        state: object,
        dtype: np.dtype,
        features: int,
        timed: bool,
        lanes: int | None = None,
    ) -> None:
        with precise(dtype):
            self.code = compile_step(step, model, state, features, dtype, timed, lanes)
        self._dtype = dtype

    def place(self, state: object, room: int) -> np.ndarray:
        """The words of a state; code is the same for any number of streams, so none is kept free."""
        return self.code.words(state)

    def fetch(self, words: np.ndarray, streams: int) -> object:
        """The states as arrays; words of their type are not copied."""
        return self.code.state(words, streams)

    def run(self, model: State, words: State, feed: Feed) -> tuple[State, State]:
        """Process samples, in one piece if nobody asks for progress."""
        X, origin, elapsed, every, phase, done = feed
        N, T, _ = X.shape
        numbers = self.code.numbers(model)
        if X.dtype == np.float32 and (origin.astype(np.float32) != origin).any():
            X = X.astype(np.float64)  # the origin has more digits than these samples
        elapsed = None if elapsed is None else np.ascontiguousarray(elapsed, self._dtype)
        out = self.code.outputs(N, feed.rows)
        size = T if done is None else max(1, PIECE // N)
        for lo in range(0, T, size):
            hi, begun = min(lo + size, T), (phase + lo) // every
            rows = [a[:, begun : (phase + hi) // every] for a in out]
            gaps, since = None if elapsed is None else elapsed[..., lo:hi], (phase + lo) % every
            self.code.run(words, numbers, X[:, lo:hi], origin=origin, elapsed=gaps, every=every, phase=since, out=rows)
            if done is not None:
                done(N * (hi - lo))
        return words, self.code.tree(out)
