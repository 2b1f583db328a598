r"""Membership: how crisp memberships were.      Σ_j λ^{n−j} Σ_i u_ij² / ω,  −Σ_j λ^{n−j} Σ_i u_ij log u_ij / ω"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.numerics.arrays import namespace
from icvi_jax.numerics.arrays import squares as sum_of_squares
from icvi_jax.numerics.moments import share
from icvi_jax.statistics.base import Recording, States, Statistic, Step, leftover
from icvi_jax.statistics.count import Count
from icvi_jax.types import Array, DType, Namespace


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
    def batch(recording: Recording) -> MembershipState:
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
        w = xp.where(step.seen, step.fade, xp.zeros_like(step.fade))
        r, gone = leftover(old[Count].weight, w)
        state = old[Membership]
        means = (a + r * (a - new) for a, new in zip(state, of_sample(step.u)))
        return MembershipState(*(xp.where(gone | (a < 0), xp.zeros_like(a), a) for a in means))


def of_sample(u: Array) -> tuple[Array, Array]:
    """Σ u² and −Σ u log u of memberships (k, *streams), with 0 log 0 = 0."""
    xp = namespace(u)
    logs = xp.log(xp.where(u > 0, u, xp.ones_like(u)))
    return sum_of_squares(u), -xp.sum(u * logs, axis=0)
