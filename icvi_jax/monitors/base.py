"""What a monitor is: a pure step from (state, index value) to (state, alarm)."""

from __future__ import annotations

from icvi_jax.types import Alarm, Array, Namespace


class Monitor:
    """A pair of pure functions, `init` and `step`, that watches one index.

    A subclass is a `spec` with two static fields, `name` (the key of its alarm in a reading) and `index` (the name of
    the index it watches); a pipeline fills in both from the key under which the monitor was given.
    """

    name: str | None
    index: str | None

    def init(self, streams: tuple[int, ...], xp: Namespace, dtype: object):
        """The state before any value."""
        raise TypeError("a monitor defines init")

    def step(self, state, value: Array, seen: Array, goal: str, positive: bool) -> tuple[object, Alarm]:
        """Take in the index value (*streams).

        Parameters
        ----------
        value : what the index says after this sample; NaN in warm-up.
        seen : False where the sample was missing: nothing changes and no alarm is raised.
        goal : the index's direction, "min" or "max".
        positive : whether the index is positive, so that its logarithm may be taken.
        """
        raise TypeError("a monitor defines step")
