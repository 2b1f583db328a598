"""Blocks: the states of a live fleet of any size, on a program of one block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import numpy as np

from icvi_jax.drive.program import numbers_of, program_for
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Reading

BLOCK = 1024
"""A larger fleet is many blocks of this many streams: the state of a block stays in the processor's cache, every block
runs the same program, and blocks run side by side."""


class Blocks:
    """A fleet of one power of two of streams up to `BLOCK`, or of several blocks of that size.

    Parameters
    ----------
    pipe, features, dtype, keep : as in `Live`.
    streams : room for at least this many.
    devices : blocks go round these; None is JAX's default device.
    """

    def __init__(
        self,
        pipe: Pipeline,
        features: int,
        streams: int,
        dtype: np.dtype,
        keep: tuple[str, ...],
        devices: Sequence[jax.Device] | None,
    ):
        self._pipe, self._features, self._dtype = pipe, features, dtype
        self._size = min(BLOCK, 1 << max(streams - 1, 0).bit_length())
        count = max(1, -(-streams // self._size))
        self.capacity = self._size * count
        platform = jax.default_backend() if devices is None else devices[0].platform
        self.program = program_for(pipe, features, self._size, dtype, keep, platform)
        self._devices = [None] * count if devices is None else [devices[i % len(devices)] for i in range(count)]
        known = {device: jax.device_put(numbers_of(pipe), device) for device in dict.fromkeys(self._devices)}
        self._numbers = [known[device] for device in self._devices]
        self._x = np.full((self.capacity, features), np.nan, dtype)
        self.place(self.fresh(0), ())

    def fresh(self, streams: int) -> PipelineState:
        """A state of streams that have seen nothing, in NumPy."""
        state = self._pipe.init(self._features, (streams,), xp=np, dtype=self._dtype)
        return jax.tree.map(lambda a: np.array(a, copy=True), state)

    def place(self, state: PipelineState, rows: Iterable[int]) -> None:
        """Let the fleet be the streams `rows` of `state` (…, N), a new one where that is −1, then empty room."""
        rows = np.asarray([*rows], int)
        old, room = rows[rows >= 0], self.fresh(self.capacity)

        def fill(a, new):
            new[..., np.flatnonzero(rows >= 0)] = a[..., old]
            return new

        whole = jax.tree.map(fill, state, room)
        parts = [slice(start, start + self._size) for start in range(0, self.capacity, self._size)]
        self._states = [
            self.program.place(jax.tree.map(lambda a, part=part: a[..., part], whole), device)
            for part, device in zip(parts, self._devices)
        ]
        self._x[:] = np.nan

    def snapshot(self, streams: int) -> PipelineState:
        """The states of the first `streams`, as NumPy arrays (…, streams) of their own."""
        return self.program.snapshot(self._states, streams)

    def tick(self, x: np.ndarray, positions: np.ndarray, after: np.ndarray) -> Reading:
        """Take in x (N, p), or (N, t, p), and move the positions of each block together with its state."""
        n, many = len(x), x.ndim == 3
        if many:
            room = np.full((self.capacity, *x.shape[1:]), np.nan, self._dtype)
        else:
            room = self._x
        room[:n] = x
        run = self.program.scan if many else self.program.tick
        if len(self._states) == 1:
            self._states[0], out = run(self._numbers[0], self._states[0], room)
            positions[:] = after
            return self.program.read(out, n)
        outs = []
        for i, start in enumerate(range(0, n, self._size)):
            part = slice(start, start + self._size)
            self._states[i], out = run(self._numbers[i], self._states[i], room[part])
            positions[part] = after[part]  # whatever happens now, state and position of every stream agree
            outs.append((out, min(self._size, n - start)))
        readings = [self.program.read(out, streams) for out, streams in outs]
        return jax.tree.map(lambda *parts: np.concatenate(parts), *readings)
