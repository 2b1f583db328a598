r"""Faded reach: how far samples lie from a lone centre; old ones count for less.      h = max_j λ^{n−j} ‖v_1 − x_j‖²

The largest distance ever, which `Separation` keeps, makes an index improve when the stream breaks: the first sample of
something new lies far away and stretches it for good.
"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.kernels.arrays import larger, namespace
from icvi_jax.statistics.base import Statistic
from icvi_jax.statistics.separation import alone_from, distances_alone
from icvi_jax.types import Array


class FadedReachState(NamedTuple):
    """The largest faded squared distance from a lone centre to a sample."""

    reach: Array


class FadedReach(Statistic):
    """The reach of a lone cluster, with forgetting; it goes on fading while there are more clusters."""

    name = "faded_reach"

    @staticmethod
    def init(k, features, streams, xp, dtype):
        return FadedReachState(xp.zeros(streams, dtype=dtype))

    @staticmethod
    def update(old, step):
        xp = namespace(step.x)
        faded = step.fade * old["faded_reach"].reach
        alone, d = alone_from(step)
        return FadedReachState(xp.where(alone, larger(d, faded), faded))

    @staticmethod
    def batch(recording):
        return FadedReachState(namespace(recording.x).max(recording.fades[:, None] * distances_alone(recording)))

    @staticmethod
    def begin(old, prototypes, mass):
        return FadedReachState(0 * old["faded_reach"].reach)

    @staticmethod
    def fade(state, by, alive):
        return FadedReachState(by * state.reach)

    @staticmethod
    def combine(a, b):
        return FadedReachState(larger(a["faded_reach"].reach, b["faded_reach"].reach))

    @staticmethod
    def remove(old, step):
        return old["faded_reach"]  # a maximum cannot be undone; it matters only at k = 1
