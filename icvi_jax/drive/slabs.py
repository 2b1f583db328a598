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

from icvi_jax.drive.lanes import sample_reading, scan_blocks, start_blocks
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
    state : (…, N), not consumed; None to start with.
    shape : (N, T, p) of the samples that will come at a time; T sets the size of a slab.
    dtype : of the samples, for a start.
    mesh : with the axis "streams".
    block : streams a block, or None.
    """

    def __init__(self, pipe, state, shape: tuple[int, ...], dtype, keep, every: int, mesh: Mesh, block: int | None):
        self.pipe, self.keep, self.every, self.mesh, self.phase = pipe, keep, every, mesh, 0
        self.streams, samples, features = shape
        self.dtype = np.dtype(dtype if state is None else state.anchor.high.dtype)
        self.block = block or _lanes(math.ceil(self.streams / mesh.size))
        reading = jax.tree.leaves(sample_reading.eval_shape(pipe, features, self.dtype, keep))
        size = sum(a.dtype.itemsize * a.size for a in reading) / every + features * self.dtype.itemsize  # of a sample
        self.longest = max(1, int(BUDGET / (size * self.block * mesh.size)))
        turns = _even(math.ceil(self.streams / self.block / mesh.size), max(1, self.longest // samples))
        self.width = turns * self.block * mesh.size
        self.sharding = NamedSharding(mesh, P("streams"))
        _keep_memory()
        if state is None:
            blocks = self.width // self.block
            start = partial(start_blocks, pipe, features, blocks, self.block, self.dtype, self.sharding)
            self.states = [start() for _ in self._starts]
        else:
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
            if out is None:
                out = jax.tree.map(lambda a: np.empty((self.streams, rows, *a.shape[3:]), a.dtype), readings)
            for whole, leaf in zip(jax.tree.leaves(out), jax.tree.leaves(readings)):
                for shard in leaf.addressable_shards:  # each as it lies in memory: the array as a whole would be a copy
                    at = lo + (shard.index[0].start or 0) * self.block
                    part = np.asarray(shard.data)
                    part = part.reshape(-1, *part.shape[2:])[: max(0, self.streams - at), :take]
                    whole[at : at + len(part), row : row + take] = part
            done((min(lo + self.width, self.streams) - lo) * length)

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
            parts = [a.reshape(*a.shape[:-2], -1) for a in parts]
            return (parts[0] if len(parts) == 1 else np.concatenate(parts, -1))[..., : self.streams]

        return jax.device_put(jax.tree.map(trailing, *self.states))


@partial(jax.jit, static_argnames=("width", "block", "sharding"))
def _slab(state, lo, width: int, block: int, sharding: NamedSharding):
    """Streams `lo` to `lo + width` of a state's leaves (…, N), as (blocks, …, block); where N ends, anything."""

    def cut(leaf):
        leaf = jnp.pad(leaf, [(0, 0)] * (leaf.ndim - 1) + [(0, -leaf.shape[-1] % width)])
        part = lax.dynamic_slice_in_dim(leaf, lo, width, axis=leaf.ndim - 1)
        part = jnp.moveaxis(part.reshape(*part.shape[:-1], -1, block), -2, 0)
        return lax.with_sharding_constraint(jnp.copy(part), sharding)  # it will be donated, the caller's must not be

    return jax.tree.map(cut, state)


def _keep_memory() -> None:
    """Let the process keep the memory of readings that are dropped, for the next ones.

    The allocator of glibc gives it back to the system, and a fifth of the time of a fleet with many readings would go
    into asking for it again, page by page. It keeps pieces up to the size of the largest that was ever freed, but for
    those beyond 32 MiB (see M_MMAP_THRESHOLD in `man mallopt`). So one is taken here, and freed without being touched.
    """
    np.empty(31 * 2**20, np.uint8)


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
