"""Samples as they come, cut into what a fleet takes in at once: so many samples of every node, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.types import Reading
from icvi_jax.watch.sample import Sample

LONGEST = 64
"""Most samples of a node that are taken in at once. Lengths are powers of two: an engine that compiles for a length
does so seven times at most."""


class Block(NamedTuple):
    """Samples to take in at once.

    Attributes
    ----------
    samples : a node's are in order of time; all first ones of a node before all second ones.
    rows : row of each of their nodes.
    depth : how many samples of its node are before each one in the block.
    length : a power of two; more than the largest depth.
    """

    samples: list[Sample]
    rows: NDArray[np.intp]
    depth: NDArray[np.intp]
    length: int

    def readings(self, streams: int, features: int) -> NDArray[np.float64]:
        """(streams, length, features); NaN where a node has nothing to say."""
        x = np.full((streams, self.length, features), np.nan)
        x[self.rows, self.depth] = [sample.x for sample in self.samples]
        return x


class Tick(NamedTuple):
    """Samples that the fleet has taken in.

    Attributes
    ----------
    samples, rows, depth : as in a `Block`.
    numbers : which sample of its node each one is, from 1.
    reading : of these samples; its arrays lead with one entry for each.
    """

    samples: list[Sample]
    rows: NDArray[np.intp]
    depth: NDArray[np.intp]
    numbers: NDArray[np.int64]
    reading: Reading


def blocks(samples: Sequence[Sample], rows: Mapping[str, int]) -> Iterator[Block]:
    """Cut samples into blocks; any cut gives the same numbers."""
    if not samples:
        return
    row = np.array([rows[sample.node] for sample in samples])
    order = np.argsort(row, kind="stable")
    first = np.flatnonzero(np.diff(row[order], prepend=-1))
    depth = np.empty(len(row), np.intp)
    depth[order] = np.arange(len(row)) - np.repeat(first, np.diff(first, append=len(row)))
    order = np.argsort(depth, kind="stable")
    end, start = int(depth.max()) + 1, 0
    while start < end:
        length = min(LONGEST, 1 << (end - start).bit_length() - 1)
        low, high = np.searchsorted(depth[order], (start, start + length))
        here = order[low:high]
        yield Block([samples[i] for i in here.tolist()], row[here], depth[here] - start, length)
        start += length
