r"""Separation: how far apart the centres are.      h = min_{i≠j} ‖v_i − v_j‖²

The distances themselves are read off the centres. What is recursive is the reach of a lone cluster, which stands in for
h while there is only one: h ← max(h, ‖v_1 − x‖²) at every sample seen while k = 1.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from icvi_jax.kernels.arrays import count, larger, namespace, squares
from icvi_jax.kernels.pairs import Pairs
from icvi_jax.statistics.base import Recording, Statistic, Step
from icvi_jax.types import Array


class SeparationState(NamedTuple):
    """The largest squared distance from a lone centre to a sample so far, not faded."""

    reach: Array


class Separation(Statistic):
    """Squared distances between active centres, and the reach of a lone one."""

    name = "separation"
    follows = True

    @staticmethod
    def init(k, features, streams, xp, dtype):
        return SeparationState(xp.zeros(streams, dtype=dtype))

    @staticmethod
    def update(old, step):
        (reach,) = old["separation"]
        alone, d = alone_from(step)
        return SeparationState(namespace(step.x).where(alone, larger(d, reach), reach))

    @staticmethod
    def batch(recording):
        return SeparationState(namespace(recording.x).max(distances_alone(recording)))

    @staticmethod
    def begin(old, prototypes, mass):
        return SeparationState(0 * old["separation"].reach)

    @staticmethod
    def combine(a, b):
        return SeparationState(namespace(a["separation"].reach).maximum(a["separation"].reach, b["separation"].reach))

    @staticmethod
    def remove(old, step):
        return old["separation"]  # a maximum cannot be undone; it matters only at k = 1

    @staticmethod
    def view(stats, state):
        return SeparationView(stats, state)


class SeparationView:
    """What indices read of a separation.

    Attributes
    ----------
    pairs : `Pairs` of the active slots.
    distances : D_ij = ‖v_i − v_j‖² as terms of `pairs`; beyond all real ones for pairs not both active.
    smallest : h; the reach of a lone cluster.
    largest : the largest D_ij; 0 with fewer than two clusters.
    """

    def __init__(self, stats, state):
        self._stats, self._reach = stats, state.reach
        self.pairs = Pairs(stats.active)

    @cached_property
    def distances(self):
        return self.pairs.distances(self._stats.centers)

    @cached_property
    def smallest(self):
        if self.pairs.k == 1:
            return self._reach
        xp = namespace(self._reach)
        return xp.where(self._stats.k > 1, self.pairs.least(self.distances), self._reach)

    @cached_property
    def largest(self):
        if self.pairs.k == 1:
            return 0 * self._reach
        return self.pairs.most(self.pairs.keep(self.distances, 0.0))


def alone_from(step: Step) -> tuple[Array, Array]:
    """Whether a sample was seen while there is one cluster, and its squared distance from that centre: (*streams)."""
    xp = namespace(step.x)
    centers, active, _ = step.after
    lone = xp.sum(xp.where(active[:, None, ...], centers, xp.zeros_like(centers)), axis=0)
    return (count(active) == 1) & step.seen, squares(step.x - lone)


def distances_alone(recording: Recording) -> Array:
    """Squared distances of samples from the lone centre there was: (n, k), 0 where there were others."""
    xp = namespace(recording.x)
    alone = recording.active & (xp.sum(xp.astype(recording.active, xp.int32), axis=1) == 1)[:, None]
    d = squares(recording.x[:, None, :] - recording.centers, 2)
    return xp.where(alone, d, xp.zeros_like(d))
