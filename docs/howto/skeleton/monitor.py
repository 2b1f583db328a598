"""Skeleton of a monitor: a spike where an index is far above its running mean."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.monitors.base import Monitor, alarm
from icvi_jax.monitors.log_scale import badness
from icvi_jax.numerics.arrays import advance, cast, namespace
from icvi_jax.spec import above, spec, static, whole
from icvi_jax.types import Alarm, Array, DType, Namespace


class SkeletonMonitorState(NamedTuple):
    """Mean (*streams) of the values so far on a log scale, how many there were, and the last score."""

    mean: Array
    heard: Array
    score: Array


@spec
class SkeletonMonitor(Monitor):
    """Raise a spike when the index is a multiple of its running mean.

    Parameters
    ----------
    excess : how far above the mean, on the log scale, an index may be.
    warm : number of values at the start without an alarm.
    """

    excess: float = 2.0
    warm: int = static(20)
    name: str | None = static(None)
    index: str | None = static(None)

    def __post_init__(self) -> None:
        above("SkeletonMonitor", "excess", self.excess, 0)
        whole("SkeletonMonitor", "warm", self.warm)

    def init(self, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> SkeletonMonitorState:
        zero = xp.zeros(streams, dtype=dtype)
        return SkeletonMonitorState(zero, xp.zeros(streams, dtype=xp.int32), zero)

    def step(
        self, state: SkeletonMonitorState, value: Array, seen: Array, goal: str, positive: bool
    ) -> tuple[SkeletonMonitorState, Alarm]:
        xp = namespace(value)
        y, ok = badness(value, seen, goal, positive, state.mean)  # large is bad, and units do not matter
        n = advance(state.heard, ok)
        share = 1 / xp.astype(xp.where(n > 0, n, xp.ones_like(n)), y.dtype)
        mean = xp.where(ok, state.mean + share * (y - state.mean), state.mean)
        score = xp.where(ok & (n > self.warm), (y - state.mean) / cast(self.excess, y), state.score)
        code = xp.astype(ok & (score > 1) & (n > self.warm), xp.int32)
        return SkeletonMonitorState(mean, n, score), alarm(code, score, xp.zeros_like(seen))
