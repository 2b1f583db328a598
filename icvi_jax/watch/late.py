"""Readings that come late: a small buffer in time for each node that puts them in order."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from icvi_jax.array_api import Stored
from icvi_jax.watch.sample import Sample, order, seconds


class Late:
    """Holds samples back until their node has been heard `wait` seconds of its own time later.

    What decides is the time in the samples, never the clock on the wall: the same samples in the same order always come
    out the same way.

    Parameters
    ----------
    wait : seconds; 0 holds nothing back.
    """

    def __init__(self, wait: float = 0.0):
        self.wait = wait
        self._held: dict[str, list[Sample]] = {}

    def has(self, sample: Sample) -> bool:
        """Whether a sample of this node and time is held."""
        when = order(sample.time)
        return any(order(other.time) == when for other in self._held.get(sample.node, ()))

    def push(self, sample: Sample) -> list[Sample]:
        """Take a sample in, and give those whose turn has come, in order of time."""
        held = self._held.setdefault(sample.node, [])
        bisect.insort(held, sample, key=lambda one: order(one.time) or 0)
        latest = seconds(held[-1].time)
        due = next((n for n, one in enumerate(held) if latest - seconds(one.time) < self.wait), len(held))
        out, held[:due] = held[:due], []
        return out

    def held(self) -> list[Sample]:
        """Everything that is held back, each node's in order of time."""
        return [sample for samples in self._held.values() for sample in samples]

    def clear(self) -> None:
        """Hold nothing any more."""
        self._held = {}

    def restore(self, samples: Iterable[Stored]) -> None:
        """Hold what `held` gave."""
        for node, time, x in samples:
            self._held.setdefault(node, []).append(Sample(node, time, tuple(x)))
