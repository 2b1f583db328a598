"""The states of many streams, and the compiled program that advances them; used by `run`, `run_fleet` and `Live`."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh

from icvi_jax.engine.native_engine import Native
from icvi_jax.engine.origin import Origin
from icvi_jax.engine.platforms import devices_for, program_for
from icvi_jax.engine.sample_batch import Done, Feed
from icvi_jax.engine.scan import only
from icvi_jax.engine.ticks import Ticks
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Reading, State

NO_ORIGIN: State = None
"""The anchor of a state whose origins the host keeps, in double precision: `Pipeline.advance` does not read it."""


@dataclass(frozen=True)
class Advance:
    """The step of a pipeline for samples relative to the anchor, on its state without the anchor; some fields of
    readings are kept. Compared by value."""

    keep: tuple[str, ...]

    def __call__(
        self, pipe: Pipeline, state: PipelineState, z: Array, elapsed: Array | None = None
    ) -> tuple[PipelineState, Reading]:
        """Process one sample z (p, *streams)."""
        state, reading = pipe.advance(state, z, elapsed)
        return state, only(reading, self.keep)


class Engine:
    """The states of many streams.

    The program works on coordinates relative to the origin of each stream; origins are kept in double precision.

    Parameters
    ----------
    pipe, keep : the pipeline, and the fields of its readings that are wanted.
    state : (…, N), of NumPy arrays; not consumed.
    room : streams to have room for.
    mesh : devices on one axis "streams", to run only there. None: the GPUs or TPUs of JAX for a fleet that is large
        enough, otherwise the cores of this machine.

    Attributes
    ----------
    streams : N.
    quick : functions that process one sample of every stream, by its type; empty until `tick` has seen every column.
    """

    def __init__(
        self, pipe: Pipeline, state: PipelineState, keep: tuple[str, ...], room: int = 0, mesh: Mesh | None = None
    ) -> None:
        self._pipe, self._keep = pipe, keep
        # decided once: streams that join later do not move the others to another device, where last bits differ
        self._mesh = devices_for(max(room, state.anchor.high.shape[-1])) if mesh is None else mesh
        self._phase, self._timed = 0, False
        self.quick: dict[np.dtype, Ticks] = {}
        self.place(state, room)

    def place(self, state: PipelineState, room: int = 0) -> None:
        """Set the streams, with room for `room` of them."""
        self.features, self.streams = state.anchor.high.shape
        self._origin = Origin(state.anchor, self._pipe.by_column)
        self._room = max(room, self.streams)
        self._load(state._replace(anchor=NO_ORIGIN))

    def _load(self, rest: State) -> None:
        dtype = self._origin.dtype
        one = jax.tree.map(lambda a: np.empty(a.shape[:-1], a.dtype), rest)
        self.program = program_for(
            Advance(self._keep), self._pipe, one, dtype, self.features, self._timed, self._room, self._mesh
        )
        self._words = self.program.place(rest, self._room)
        self.quick = {}

    @property
    def state(self) -> PipelineState:
        """The states of all streams, new NumPy arrays (…, N)."""
        new: PipelineState = jax.tree.map(np.array, self.end())
        return new

    def end(self) -> PipelineState:
        """The states of all streams, without a copy where it can be: for an engine that is not used any more."""
        found: PipelineState = self.program.fetch(self._words, self.streams)._replace(anchor=self._origin.anchor)
        return found

    def tick(self, x: np.ndarray) -> Reading:
        """Process one sample x (N, p) of every stream; the first axis of the reading is (N,)."""
        self._origin.meet(x[:, None])
        if self._timed or not self._origin.settled or not isinstance(self.program, Native):
            first: Reading = jax.tree.map(lambda a: a[:, 0], self.advance(x[:, None]))
            return first
        dtype = x.dtype if self._origin.fits(x.dtype) else np.dtype(np.float64)
        self.quick[x.dtype] = Ticks(self.program, self._pipe, self._words, self._origin.value, x.dtype, dtype)
        return self.quick[x.dtype](x)

    def advance(
        self, X: np.ndarray, elapsed: np.ndarray | None = None, every: int = 1, done: Done | None = None
    ) -> Reading:
        """Take in X (N, t, p), with elapsed (t,) or (N, t); the readings (N, rows, …) of each `every`-th sample."""
        if self._timed != (elapsed is not None):
            rest = self.program.fetch(self._words, self.streams)
            self._timed = not self._timed
            self._load(rest)
        self._origin.meet(X)
        reading: Reading
        feed = Feed(X, self._origin.value, elapsed, every, self._phase, done)
        self._words, reading = self.program.run(self._pipe, self._words, feed)
        self._phase = (self._phase + X.shape[1]) % every
        if reading.centers is None:
            return reading
        return reading._replace(centers=self._origin.back(np.asarray(reading.centers), X.dtype))


def fresh(pipe: Pipeline, features: int, streams: int, dtype: np.dtype) -> PipelineState:
    """States of new streams, (…, N), in NumPy: N times the same, stored once."""
    one = pipe.init(features, (1,), xp=np, dtype=dtype)
    all_: PipelineState = jax.tree.map(lambda a: np.broadcast_to(a, (*a.shape[:-1], streams)), one)
    return all_
