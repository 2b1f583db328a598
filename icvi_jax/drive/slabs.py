"""Slabs: a large fleet cut into pieces of bounded memory, each a batch of blocks for the compiled scan."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from icvi_jax.drive.lanes import reading_of, scan_blocks
from icvi_jax.types import Array, Reading

LANES = 128
"""Streams in a block, unless the caller says otherwise: their state fits the cache nearest to the core."""

BUDGET = 48 * 2**20
"""Bytes of samples and readings in one slab."""


class Slabs:
    """A fleet on its way through time: states in slabs of streams, advanced by `advance`.

    Parameters
    ----------
    pipe, keep, every : as in `run_fleet`.
    state : (…, N), not consumed.
    mesh : with the axis "streams".
    block : streams a block, or None.
    samples : how many samples a stream will come with at a time; sets the size of a slab.
    """

    def __init__(self, pipe, state, keep, every: int, mesh: Mesh, block: int | None, samples: int):
        self.pipe, self.keep, self.every, self.mesh, self.phase = pipe, keep, every, mesh, 0
        self.features, self.streams = state.anchor.shape
        self.dtype = np.dtype(state.anchor.dtype)
        self.block = block or _lanes(math.ceil(self.streams / mesh.size))
        shapes = jax.eval_shape(partial(reading_of, keep=keep), pipe, state, state.anchor)
        size = sum(a.dtype.itemsize * a.size for a in jax.tree.leaves(shapes)) / self.streams / every
        size = (size + self.features * self.dtype.itemsize) * self.block * mesh.size  # of a sample
        self.longest = max(1, int(BUDGET / size))
        turns = _even(math.ceil(self.streams / self.block / mesh.size), max(1, self.longest // samples))
        self.width = turns * self.block * mesh.size
        self.sharding = NamedSharding(mesh, P("streams"))
        self.states = [_slab(state, np.int32(lo), self.width, self.block, self.sharding) for lo in self._starts]

    @property
    def _starts(self):
        return range(0, self.streams, self.width)

    def advance(self, X: Array, elapsed: Array | None, done: Callable[[int], None]) -> Reading:
        """Take in X (N, t, p) and return the readings (N, rows, …) kept on the way; `done` hears of stream-samples."""
        pieces = list(_pieces(X.shape[1], self.longest))
        rows = (self.phase + X.shape[1]) // self.every
        out, queue = None, deque[tuple]()

        def collect():
            nonlocal out
            (lo, row, length, take), readings, ready = queue.popleft()
            jax.block_until_ready(ready)
            readings = jax.tree.map(np.asarray, readings)
            if out is None:
                out = jax.tree.map(lambda a: np.empty((self.streams, rows, *a.shape[3:]), a.dtype), readings)
            hi = min(lo + self.width, self.streams)
            for whole, part in zip(jax.tree.leaves(out), jax.tree.leaves(readings)):
                whole[lo:hi, row : row + take] = part.reshape(-1, *part.shape[2:])[: hi - lo, :take]
            done((hi - lo) * length)

        for slab, lo in enumerate(self._starts):
            phase, row = self.phase, 0
            for start, stop in pieces:
                take = (phase + stop - start) // self.every
                self.states[slab], *results = self._scan(slab, lo, X, elapsed, start, stop, phase)
                queue.append(((lo, row, stop - start, take), *results))
                phase, row = (phase + stop - start) % self.every, row + take
                while len(queue) > 1:  # copy out one while the next is computed
                    collect()
        while queue:
            collect()
        self.phase = (self.phase + X.shape[1]) % self.every
        return out

    def _scan(self, slab, lo, X, elapsed, start, stop, phase):
        gaps = elapsed
        if elapsed is not None:
            gaps = elapsed[start:stop] if elapsed.ndim == 1 else self._blocks(elapsed, lo, start, stop, 1.0)
        samples = self._blocks(X, lo, start, stop, np.nan)
        return scan_blocks(
            self.pipe, self.states[slab], samples, gaps, np.int32(phase), self.keep, self.every, self.mesh
        )

    def _blocks(self, a, lo, start, stop, missing):
        """Streams from `lo` on, samples `start` to `stop`, as (blocks, n, t, …), filled up with `missing`."""
        part = a[lo : lo + self.width, start:stop]
        absent = self.width - part.shape[0]
        if absent:
            part = np.concatenate([part, np.full((absent, *part.shape[1:]), missing, part.dtype)])
        part = part.reshape(-1, self.block, *part.shape[1:])
        return jax.device_put(part.astype(self.dtype) if part.dtype != self.dtype else part, self.sharding)

    def state(self):
        """The state (…, N) of the whole fleet."""

        def trailing(*leaves):
            parts = [np.moveaxis(np.asarray(a), 0, -2) for a in leaves]
            return jnp.asarray(np.concatenate([a.reshape(*a.shape[:-2], -1) for a in parts], -1)[..., : self.streams])

        return jax.tree.map(trailing, *self.states)


@partial(jax.jit, static_argnames=("width", "block", "sharding"))
def _slab(state, lo, width: int, block: int, sharding: NamedSharding):
    """Streams `lo` to `lo + width` of a state's leaves (…, N), as (blocks, …, block); where N ends, anything."""

    def cut(leaf):
        leaf = jnp.pad(leaf, [(0, 0)] * (leaf.ndim - 1) + [(0, -leaf.shape[-1] % width)])
        part = lax.dynamic_slice_in_dim(leaf, lo, width, axis=leaf.ndim - 1)
        part = jnp.moveaxis(part.reshape(*part.shape[:-1], -1, block), -2, 0)
        return lax.with_sharding_constraint(jnp.copy(part), sharding)  # it will be donated, the caller's must not be

    return jax.tree.map(cut, state)


def _even(total: int, most: int) -> int:
    """The size of equal parts of `total`, at most `most` each."""
    return math.ceil(total / math.ceil(total / most))


def _lanes(streams: int) -> int:
    """Streams in a block: equal blocks of at most `LANES`, whole vectors of the machine if there are enough."""
    size = _even(streams, LANES)
    return size if size < 8 else size + -size % 8


def _pieces(length: int, longest: int) -> Iterator[tuple[int, int]]:
    """Start and stop of pieces of `length` of at most two lengths, so that at most two programs are compiled."""
    size = _even(length, longest)
    for start in range(0, length, size):
        yield start, min(start + size, length)
