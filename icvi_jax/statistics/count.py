r"""Count: how many samples were seen, and what forgetting has left of them.      ω = Σ_j λ^{n−j}"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.numerics.arrays import COUNT_LIMIT, advance, namespace
from icvi_jax.statistics.base import Recording, States, Statistic, Step
from icvi_jax.types import Array, DType, Namespace


class CountState(NamedTuple):
    """Samples seen (integer: float32 stops counting at 2²⁴) and the faded count ω."""

    samples: Array
    weight: Array


class Count(Statistic[CountState, CountState]):
    """Number of samples seen, noise included, and its faded version ω ← λω + 1."""

    name: ClassVar = "count"

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> CountState:
        return CountState(xp.zeros(streams, dtype=xp.int32), xp.zeros(streams, dtype=dtype))

    @staticmethod
    def update(old: States, step: Step) -> CountState:
        xp = namespace(step.x)
        samples, weight = old[Count]
        return CountState(advance(samples, step.seen), step.fade * weight + xp.astype(step.seen, weight.dtype))

    @staticmethod
    def batch(recording: Recording) -> CountState:
        xp = namespace(recording.x)
        return CountState(xp.asarray(recording.x.shape[0], dtype=xp.int32), xp.sum(recording.fades))

    @staticmethod
    def fade(state: CountState, by: Array, alive: Array) -> CountState:
        return state._replace(weight=by * state.weight)

    @staticmethod
    def combine(a: States, b: States) -> CountState:
        xp = namespace(a[Count].samples)
        room = COUNT_LIMIT - a[Count].samples
        more = xp.where(b[Count].samples < room, b[Count].samples, room)
        return CountState(a[Count].samples + more, a[Count].weight + b[Count].weight)

    @staticmethod
    def remove(old: States, step: Step) -> CountState:
        xp = namespace(step.x)
        samples, weight = old[Count]
        left = weight - xp.where(step.seen, step.fade, 0 * step.fade)
        return CountState(samples - xp.astype(step.seen, samples.dtype), xp.where(left > 0, left, 0 * left))
