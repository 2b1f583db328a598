r"""Separation: how far apart the centres are.      h = min_{i≠j} ‖v_i − v_j‖²

The distances are computed from the centres. Only the reach of a single cluster is recursive, which replaces h while k =
1: h ← max(h, ‖v_1 − x‖²) at every sample seen while k = 1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from icvi_jax.numerics.arrays import count, larger, namespace, squares
from icvi_jax.numerics.pairs import Pairs, Terms
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step, V
from icvi_jax.types import Array, DType, Namespace, Prototypes

if TYPE_CHECKING:
    from icvi_jax.statistics.index_view import Stats


class ReachState(NamedTuple):
    """The largest squared distance from a single centre to a sample: (*streams)."""

    reach: Array


class _Reach(Statistic[ReachState, V]):
    """The reach of a single cluster: with forgetting where it is `faded`."""

    follows: ClassVar = True
    faded: ClassVar[bool]

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> ReachState:
        return ReachState(xp.zeros(streams, dtype=dtype))

    @classmethod
    def update(cls, old: States, step: Step) -> ReachState:
        (reach,) = old[cls]
        reach = step.fade * reach if cls.faded else reach
        xp, (centers, active) = namespace(step.x), step.after[:2]
        lone = xp.sum(xp.where(active[:, None, ...], centers, xp.zeros_like(centers)), axis=0)
        alone = (count(active) == 1) & step.seen
        return ReachState(xp.where(alone, larger(squares(step.x - lone), reach), reach))

    @classmethod
    def batch(cls, recording: RecordedClustering) -> ReachState:
        xp = namespace(recording.x)
        alone = recording.active & (xp.sum(xp.astype(recording.active, xp.int32), axis=1) == 1)[:, None]
        d = squares(recording.x[:, None, :] - recording.centers, 2)
        d = xp.where(alone, d, xp.zeros_like(d))
        return ReachState(xp.max(recording.fades[:, None] * d if cls.faded else d))

    @classmethod
    def begin(cls, old: States, prototypes: Prototypes, mass: Array) -> ReachState:
        return ReachState(0 * old[cls].reach)

    @classmethod
    def fade(cls, state: ReachState, by: Array, alive: Array) -> ReachState:
        return ReachState(by * state.reach) if cls.faded else state

    @classmethod
    def combine(cls, a: States, b: States) -> ReachState:
        return ReachState(larger(a[cls].reach, b[cls].reach))

    @classmethod
    def remove(cls, old: States, step: Step) -> ReachState:
        return old[cls]  # a maximum cannot be undone; it matters only at k = 1


class Separation(_Reach["SeparationView"]):
    """Squared distances between active centres, and the reach of a single one."""

    name: ClassVar = "separation"
    faded: ClassVar = False

    @staticmethod
    def view(stats: Stats, state: ReachState) -> SeparationView:
        return SeparationView(stats, state)


class FadedReach(_Reach[ReachState]):
    """The reach of a single cluster, with forgetting; it also fades while there are more clusters."""

    name: ClassVar = "faded_reach"
    faded: ClassVar = True


class SeparationView:
    """What indices get of a separation.

    Attributes
    ----------
    pairs : `Pairs` of the active slots.
    distances : D_ij = ‖v_i − v_j‖² as terms of `pairs`; larger than all real ones for pairs not both active.
    smallest : h; with one cluster its reach.
    largest : the largest D_ij; 0 with fewer than two clusters.
    """

    def __init__(self, stats: Stats, state: ReachState) -> None:
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
