r"""Count: how many samples were seen, and what forgetting has left of them.      ω = Σ_j λ^{n−j}"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.kernels.arrays import COUNT_LIMIT, advance, namespace
from icvi_jax.statistics.base import Statistic
from icvi_jax.types import Array


class CountState(NamedTuple):
    """Samples seen (integer: float32 stops counting at 2²⁴) and the faded count ω."""

    samples: Array
    weight: Array


class Count(Statistic):
    """Number of samples seen, noise included, and its faded version ω ← λω + 1."""

    name = "count"

    @staticmethod
    def init(k, features, streams, xp, dtype):
        return CountState(xp.zeros(streams, dtype=xp.int32), xp.zeros(streams, dtype=dtype))

    @staticmethod
    def update(old, step):
        xp = namespace(step.x)
        samples, weight = old["count"]
        return CountState(advance(samples, step.seen), step.fade * weight + xp.astype(step.seen, weight.dtype))

    @staticmethod
    def batch(recording):
        xp = namespace(recording.x)
        return CountState(xp.asarray(recording.x.shape[0], dtype=xp.int32), xp.sum(recording.fades))

    @staticmethod
    def fade(state, by, alive):
        return state._replace(weight=by * state.weight)

    @staticmethod
    def combine(a, b):
        xp = namespace(a["count"].samples)
        room = COUNT_LIMIT - a["count"].samples
        more = xp.where(b["count"].samples < room, b["count"].samples, room)
        return CountState(a["count"].samples + more, a["count"].weight + b["count"].weight)

    @staticmethod
    def remove(old, step):
        xp = namespace(step.x)
        samples, weight = old["count"]
        left = weight - xp.where(step.seen, step.fade, 0 * step.fade)
        return CountState(samples - xp.astype(step.seen, samples.dtype), xp.where(left > 0, left, 0 * left))
