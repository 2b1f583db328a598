"""Late samples: a small buffer for each node that puts them in time order."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from icvi_jax.array_api import Stored
from icvi_jax.watch.sample import Sample, order, seconds


class ReorderBuffer:
    """Holds samples back until their node has sent one that is `wait` seconds later.

    Only the times in the samples count, not the clock of the computer: the same input always gives the same output.

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
        """Add a sample, and return those that need not wait any longer, in time order."""
        held = self._held.setdefault(sample.node, [])
        bisect.insort(held, sample, key=lambda one: order(one.time) or 0)
        latest = seconds(held[-1].time)
        due = next((n for n, one in enumerate(held) if latest - seconds(one.time) < self.wait), len(held))
        out, held[:due] = held[:due], []
        return out

    def held(self) -> list[Sample]:
        """All samples that are held back, those of each node in time order."""
        return [sample for samples in self._held.values() for sample in samples]

    def clear(self) -> None:
        """Remove all samples."""
        self._held = {}

    def restore(self, samples: Iterable[Stored]) -> None:
        """Hold the samples that `held` returned."""
        for node, time, x in samples:
            self._held.setdefault(node, []).append(Sample(node, time, tuple(x)))
