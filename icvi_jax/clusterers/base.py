"""What a clusterer is: a pure step from (state, sample) to (state, event)."""

from __future__ import annotations

from typing import ClassVar

from icvi_jax.types import Array, Event, Namespace


class Clusterer:
    """A pair of pure functions, `init` and `step`, with a fixed number of slots.

    A state is a named tuple of arrays with streams trailing. It has `centers` (k, p, *streams) and `active`
    (k, *streams), as fields or properties. Where a sample is missing nothing in it changes.

    Attributes
    ----------
    crisp : whether memberships are always 0 or 1, so that the fuzzifier plays no part.
    slots : the number of slots.
    """

    crisp: ClassVar[bool]

    @property
    def slots(self) -> int:
        raise TypeError("a clusterer defines slots")

    def least(self, features: int) -> int:
        """The fewest samples a stream must have for this clusterer to start."""
        return 1

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object):
        """The state before any sample."""
        raise TypeError("a clusterer defines init")

    def step(self, state, x: Array, seen: Array) -> tuple[object, Event]:
        """Take in the sample `x` (p, *streams), finite everywhere; `seen` (*streams) is False where it is missing."""
        raise TypeError("a clusterer defines step")
