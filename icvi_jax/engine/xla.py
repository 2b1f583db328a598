"""XLA's own scan: for steps that no native backend can run, for other devices, and inside your own `jit`.

All streams, as the last axis, go through one compiled `lax.scan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from icvi_jax.engine.origin import about
from icvi_jax.engine.sample_batch import Feed
from icvi_jax.types import Array, State

BUDGET = 64 * 2**20
"""Bytes of samples and readings that one call of the scan may take; a longer recording goes in pieces of time."""

Step = Callable[..., tuple[State, State]]
"""(model, state, z (p, *streams), elapsed or None) → (state, outputs)."""

Words = TypeVar("Words")
"""The states of a fleet, as a program keeps them."""


class Program:
    """A step, ready to be scanned by XLA; `icvi_jax.engine.platforms.Program` says what the methods do.

    Parameters
    ----------
    step : a hashable function; see `Step`.
    features, dtype : of the samples.
    mesh : the devices, on one axis "streams"; None is JAX's default device.
    """

    name = "xla"

    def __init__(self, step: Step, features: int, dtype: np.dtype, mesh: Mesh | None = None) -> None:
        self.step, self.features, self.dtype, self._mesh = step, features, dtype, mesh

    def place(self, state: object, room: int) -> object:
        """A state (…, N) of NumPy arrays where the scan runs, filled up to `room` streams."""
        room += -room % (1 if self._mesh is None else self._mesh.size)

        def put(a: np.ndarray) -> Array:
            a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, room - a.shape[-1])])
            if self._mesh is None:
                return jnp.array(a)  # a copy: what is given to the scan is consumed
            spec = PartitionSpec(*[None] * (a.ndim - 1), "streams")
            return jnp.copy(jax.device_put(a, NamedSharding(self._mesh, spec)))

        with precise(self.dtype):
            return jax.tree.map(put, state)

    def fetch(self, words: object, streams: int) -> object:
        """The states of the first streams as NumPy arrays (…, N) of their own."""
        return jax.tree.map(lambda a: np.array(a)[..., :streams], words)

    def run(self, model: object, words: object, feed: Feed) -> tuple[object, object]:
        """Process samples, in pieces of time."""
        X, every = feed.X, feed.every
        leaves, p = jax.tree.leaves(words), X.shape[-1]
        room = leaves[0].shape[-1] if leaves else len(X)
        with precise(self.dtype):
            sample = jax.ShapeDtypeStruct((p, room), self.dtype)
            gap = None if feed.elapsed is None else jax.ShapeDtypeStruct((room,), self.dtype)
            shapes = jax.eval_shape(self.step, model, words, sample, gap)[1]
            size = sum(a.dtype.itemsize * math.prod(a.shape) for a in jax.tree.leaves(shapes)) / every
            longest = max(1, int(BUDGET / (size + room * p * self.dtype.itemsize)))

            def launch(words: object, Z: np.ndarray, gaps: np.ndarray | None, phase: int) -> tuple[object, object]:
                words, made = _scan(self.step, model, words, Z, gaps, np.int32(phase), every)
                return words, made

            even = math.ceil(X.shape[1] / math.ceil(X.shape[1] / longest))  # two lengths at most: two compilations
            return in_pieces(launch, words, shapes, feed, self.dtype, even)


def in_pieces(
    launch: Callable[[Words, np.ndarray, np.ndarray | None, int], tuple[Words, object]],
    words: Words,
    shapes: object,
    feed: Feed,
    dtype: np.dtype,
    length: int,
) -> tuple[Words, object]:
    """Process samples, one piece of time after the other.

    Parameters
    ----------
    launch : (words, Z (room, t, p), elapsed, phase) → (words, outputs (room, rows, …)), which may still be at work.
    shapes : of the outputs of one sample, (…, room).
    length : of a piece.
    """
    X, origin, elapsed, every, phase, done = feed
    N, T, _ = X.shape
    room = jax.tree.leaves(shapes)[0].shape[-1] if jax.tree.leaves(shapes) else N
    out = jax.tree.map(lambda a: np.empty((N, feed.rows, *a.shape[:-1]), a.dtype), shapes)
    row = 0

    def fetch(made: object, row: int, rows: int, samples: int) -> None:
        for whole, part in zip(jax.tree.leaves(out), jax.tree.leaves(jax.device_get(made))):
            whole[:, row : row + rows] = part[:N, :rows]
        if done is not None:
            done(N * samples)

    before: tuple[object, int, int, int] | None = None
    for start in range(0, T, length):
        stop = min(start + length, T)
        Z = _filled(about(X[:, start:stop], origin, dtype), room, np.nan)
        gaps = None if elapsed is None else elapsed[..., start:stop].astype(dtype)
        gaps = _filled(gaps, room, 1.0) if gaps is not None and gaps.ndim == 2 else gaps
        words, made = launch(words, Z, gaps, phase)
        if before is not None:  # what the last piece made is fetched while this one is at work
            fetch(*before)
        rows = (phase + stop - start) // every
        before = made, row, rows, stop - start
        phase, row = (phase + stop - start) % every, row + rows
    if before is not None:
        fetch(*before)
    return words, out


def precise(dtype: np.dtype) -> AbstractContextManager[object]:
    """Double precision is switched on while a state of it is at work."""
    return jax.enable_x64(True) if dtype == np.float64 else nullcontext()


@partial(jax.jit, static_argnames=("step", "every"), donate_argnums=2)
def _scan(
    step: Step, model: State, state: State, Z: jax.Array, elapsed: jax.Array | None, phase: jax.Array, every: int
) -> tuple[State, State]:
    """Scan Z (N, T, p); the first sample is number `phase` of its group of `every`, whose last output is kept."""
    Z = jnp.permute_dims(Z, (1, 2, 0))
    gaps = None if elapsed is None else elapsed.T
    rows = 1 + (Z.shape[0] + every - 2) // every
    shapes = jax.eval_shape(step, model, state, Z[0], None if gaps is None else gaps[0])[1]

    def body(carry: State, inputs: State) -> tuple[State, None]:
        at, state, kept = carry
        state, made = step(model, state, *inputs)
        put = partial(lax.dynamic_update_slice_in_dim, start_index=at // every, axis=0)  # until the group is complete
        return (at + 1, state, jax.tree.map(lambda rows, a: put(rows, a[None]), kept, made)), None

    empty = jax.tree.map(lambda a: jnp.zeros((rows, *a.shape), a.dtype), shapes)
    (_, state, kept), _ = lax.scan(body, (phase, state, empty), (Z, gaps))
    return state, jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), kept)


@partial(jax.jit, static_argnames=("step", "every"))
def scan_traced(
    step: Step, model: State, state: State, X: Array, elapsed: Array | None, every: int = 1, phase: jax.Array | int = 0
) -> tuple[object, object]:
    """Scan X (T, p, *streams) as it is, inside somebody's program or on the device where it lies.

    There are as many rows of outputs as T samples can fill; those behind the last complete group mean nothing.
    """
    state, made = lax.scan(lambda state, inputs: step(model, state, *inputs), state, (X, elapsed))
    if every == 1:
        return state, made
    rows = jnp.arange(1, 2 + (X.shape[0] + every - 2) // every)
    last = jnp.clip(rows * every - 1 - phase, 0, X.shape[0] - 1)
    return state, jax.tree.map(lambda a: a[last], made)


def _filled(a: np.ndarray, room: int, missing: float) -> np.ndarray:
    """Arrays (N, …) filled up to `room` streams."""
    if len(a) == room:
        return a
    return np.concatenate([a, np.full((room - len(a), *a.shape[1:]), missing, a.dtype)])


@partial(jax.jit, static_argnames=("rest",))
def scan_steps(part: State, state: State, inputs: State, rest: tuple[object, ...] = ()) -> tuple[State, State]:
    """Scan `part.step(state, *inputs_t, *rest)` over the first axis of all `inputs`.

    The part is an argument, so that other numbers in it do not recompile; `rest` holds what is static.
    """
    state, made = jax.lax.scan(lambda state, now: part.step(state, *now, *rest), state, inputs)
    return state, made
