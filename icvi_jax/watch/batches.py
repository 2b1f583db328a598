"""Split samples into blocks that a fleet computes in one call: some samples of every node, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.report.alarm_text import AlarmText
from icvi_jax.types import Reading
from icvi_jax.watch.sample import Sample

LONGEST = 64
"""Most samples of a node in one block. Lengths are powers of two, so that an engine which compiles for each length
does so at most seven times."""


class Block(NamedTuple):
    """Samples to compute in one call."""

    samples: list[Sample]  # those of a node in time order; the first ones of all nodes before the second ones
    rows: NDArray[np.intp]  # row of each of their nodes
    depth: NDArray[np.intp]  # how many samples of the same node are before each one in the block
    length: int  # a power of two; more than the largest depth

    def readings(self, streams: int, features: int) -> NDArray[np.float64]:
        """(streams, length, features); NaN where a node has no sample."""
        x = np.full((streams, self.length, features), np.nan)
        x[self.rows, self.depth] = [sample.x for sample in self.samples]
        return x


class Tick(NamedTuple):
    """Samples that the fleet has computed."""

    # samples, rows, depth: as in a `Block`
    samples: list[Sample]
    rows: NDArray[np.intp]
    depth: NDArray[np.intp]
    numbers: NDArray[np.int64]  # the number of each sample within its node, from 1
    reading: Reading  # of these samples; the first axis of its arrays runs over them
    # what alarms of columns say, by the position of the sample and the name of the monitor
    texts: dict[tuple[int, str], AlarmText]


def blocks(samples: Sequence[Sample], rows: Mapping[str, int]) -> Iterator[Block]:
    """Split samples into blocks; any split gives the same results."""
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
