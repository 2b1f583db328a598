r"""Separation: how far apart the centres are.      h = min_{i≠j} ‖v_i − v_j‖²

The distances are computed from the centres. Only the reach of a single cluster is recursive, which replaces h while k =
1: h ← max(h, ‖v_1 − x‖²) at every sample seen while k = 1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from icvi_jax.numerics.arrays import count, larger, namespace, squares
from icvi_jax.numerics.pairs import Pairs, Terms
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step
from icvi_jax.types import Array, DType, Namespace, Prototypes

if TYPE_CHECKING:
    from icvi_jax.statistics.stats import Stats


class SeparationState(NamedTuple):
    """The largest squared distance from a single centre to a sample so far, not faded."""

    reach: Array


class Separation(Statistic[SeparationState, "SeparationView"]):
    """Squared distances between active centres, and the reach of a single one."""

    name: ClassVar = "separation"
    follows: ClassVar = True

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> SeparationState:
        return SeparationState(xp.zeros(streams, dtype=dtype))

    @staticmethod
    def update(old: States, step: Step) -> SeparationState:
        (reach,) = old[Separation]
        alone, d = alone_from(step)
        return SeparationState(namespace(step.x).where(alone, larger(d, reach), reach))

    @staticmethod
    def batch(recording: RecordedClustering) -> SeparationState:
        return SeparationState(namespace(recording.x).max(distances_alone(recording)))

    @staticmethod
    def begin(old: States, prototypes: Prototypes, mass: Array) -> SeparationState:
        return SeparationState(0 * old[Separation].reach)

    @staticmethod
    def combine(a: States, b: States) -> SeparationState:
        return SeparationState(namespace(a[Separation].reach).maximum(a[Separation].reach, b[Separation].reach))

    @staticmethod
    def remove(old: States, step: Step) -> SeparationState:
        return old[Separation]  # a maximum cannot be undone; it matters only at k = 1

    @staticmethod
    def view(stats: Stats, state: SeparationState) -> SeparationView:
        return SeparationView(stats, state)


class SeparationView:
    """What indices get of a separation.

    Attributes
    ----------
    pairs : `Pairs` of the active slots.
    distances : D_ij = ‖v_i − v_j‖² as terms of `pairs`; larger than all real ones for pairs not both active.
    smallest : h; with one cluster its reach.
    largest : the largest D_ij; 0 with fewer than two clusters.
    """

    def __init__(self, stats: Stats, state: SeparationState) -> None:
        self._stats, self._reach = stats, state.reach
        self.pairs = Pairs(stats.active, kept="distances" in stats.memo)

    @cached_property
    def distances(self) -> Terms:
        pairs, v = self.pairs, self._stats.centers
        if not pairs.list:
            return pairs.distances(v)
        full = lambda: pairs.distances(v)[0]  # noqa: E731
        return [self._stats.memo.of("distances", full, lambda old, moved: pairs.renewed_distances(old, moved, v))]

    @cached_property
    def smallest(self) -> Array:
        if self.pairs.k == 1:
            return self._reach
        xp = namespace(self._reach)
        return xp.where(self._stats.k > 1, self.pairs.least(self.distances), self._reach)

    @cached_property
    def largest(self) -> Array:
        if self.pairs.k == 1:
            return 0 * self._reach
        return self.pairs.most(self.pairs.keep(self.distances, 0.0))


def alone_from(step: Step) -> tuple[Array, Array]:
    """Whether a sample was seen while there is one cluster, and its squared distance from that centre: (*streams)."""
    xp = namespace(step.x)
    centers, active = step.after[:2]
    lone = xp.sum(xp.where(active[:, None, ...], centers, xp.zeros_like(centers)), axis=0)
    return (count(active) == 1) & step.seen, squares(step.x - lone)


def distances_alone(recording: RecordedClustering) -> Array:
    """Squared distances of samples from the only centre: (n, k), 0 where there were others."""
    xp = namespace(recording.x)
    alone = recording.active & (xp.sum(xp.astype(recording.active, xp.int32), axis=1) == 1)[:, None]
    d = squares(recording.x[:, None, :] - recording.centers, 2)
    return xp.where(alone, d, xp.zeros_like(d))


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
    def batch(recording: RecordedClustering) -> FadedReachState:
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
