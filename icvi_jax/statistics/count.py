"""Counts of samples and means of their memberships, both with forgetting."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.numerics.arrays import COUNT_LIMIT, advance, namespace
from icvi_jax.numerics.arrays import squares as sum_of_squares
from icvi_jax.numerics.moments import leftover, share
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step
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
    def batch(recording: RecordedClustering) -> CountState:
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


class MembershipState(NamedTuple):
    """Faded means over samples of Σ u² and of −Σ u log u."""

    squares: Array
    entropy: Array


class Membership(Statistic[MembershipState, MembershipState]):
    """Faded means over samples, of their squared memberships and of their entropy.

    Memberships count as they were when the sample came, also if the slots have changed since. `merge` does not change
    them either, which is exact for crisp ones.
    """

    name: ClassVar = "membership"
    needs: ClassVar = (Count,)

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> MembershipState:
        return MembershipState(xp.zeros(streams, dtype=dtype), xp.zeros(streams, dtype=dtype))

    @staticmethod
    def update(old: States, step: Step) -> MembershipState:
        xp = namespace(step.x)
        _, b = share(old[Count].weight, step.fade, xp.astype(step.seen, step.x.dtype))
        state = old[Membership]
        return MembershipState(*(a + b * (new - a) for a, new in zip(state, of_sample(step.u))))

    @staticmethod
    def batch(recording: RecordedClustering) -> MembershipState:
        xp = namespace(recording.x)
        weights = recording.fades / xp.sum(recording.fades)
        return MembershipState(*(xp.sum(weights * a) for a in of_sample(recording.u.T)))

    @staticmethod
    def combine(a: States, b: States) -> MembershipState:
        _, part = share(a[Count].weight, 1, b[Count].weight)
        one, two = a[Membership], b[Membership]
        return MembershipState(*(x + part * (y - x) for x, y in zip(one, two)))

    @staticmethod
    def remove(old: States, step: Step) -> MembershipState:
        xp = namespace(step.x)
        w = xp.where(step.seen, step.fade, 0.0)
        r, gone = leftover(old[Count].weight, w)
        state = old[Membership]
        means = (a + r * (a - new) for a, new in zip(state, of_sample(step.u)))
        return MembershipState(*(xp.where(gone | (a < 0), 0.0, a) for a in means))


def of_sample(u: Array) -> tuple[Array, Array]:
    """Σ u² and −Σ u log u of memberships (k, *streams), with 0 log 0 = 0."""
    xp = namespace(u)
    logs = xp.log(xp.where(u > 0, u, 1.0))
    return sum_of_squares(u), -xp.sum(u * logs, axis=0)
