r"""Faded reach: how far samples are from a single centre; old ones count less.      h = max_j λ^{n−j} ‖v_1 − x_j‖²

The largest distance ever, which `Separation` keeps, makes an index improve when the stream breaks: the first sample of
something new is far away, and the distance stays large.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.numerics.arrays import larger, namespace
from icvi_jax.statistics.base import Recording, States, Statistic, Step
from icvi_jax.statistics.separation import alone_from, distances_alone
from icvi_jax.types import Array, DType, Namespace, Prototypes


class FadedReachState(NamedTuple):
    """The largest faded squared distance from a single centre to a sample."""

    reach: Array


class FadedReach(Statistic[FadedReachState, FadedReachState]):
    """The reach of a single cluster, with forgetting; it also fades while there are more clusters."""

    name: ClassVar = "faded_reach"

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> FadedReachState:
        return FadedReachState(xp.zeros(streams, dtype=dtype))

    @staticmethod
    def update(old: States, step: Step) -> FadedReachState:
        xp = namespace(step.x)
        faded = step.fade * old[FadedReach].reach
        alone, d = alone_from(step)
        return FadedReachState(xp.where(alone, larger(d, faded), faded))

    @staticmethod
    def batch(recording: Recording) -> FadedReachState:
        return FadedReachState(namespace(recording.x).max(recording.fades[:, None] * distances_alone(recording)))

    @staticmethod
    def begin(old: States, prototypes: Prototypes, mass: Array) -> FadedReachState:
        return FadedReachState(0 * old[FadedReach].reach)

    @staticmethod
    def fade(state: FadedReachState, by: Array, alive: Array) -> FadedReachState:
        return FadedReachState(by * state.reach)

    @staticmethod
    def combine(a: States, b: States) -> FadedReachState:
        return FadedReachState(larger(a[FadedReach].reach, b[FadedReach].reach))

    @staticmethod
    def remove(old: States, step: Step) -> FadedReachState:
        return old[FadedReach]  # a maximum cannot be undone; it matters only at k = 1
