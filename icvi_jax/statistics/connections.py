r"""Connections: how often two prototypes were the nearest and second nearest of a sample.      CADJ ← λ CADJ + 1_{fs}

The pair (f, s) is that of the centres before the sample. A merge or a birth changes the counts after the sample was
counted; the panel does it before, so the count goes to the slot where it would have ended.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.numerics.arrays import larger, namespace, smaller
from icvi_jax.numerics.neighbour_counts import drop_counts, merge_counts, nearest_two
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step
from icvi_jax.types import Array, DType, Merge, Namespace


class ConnectionsState(NamedTuple):
    """CADJ (k, k, *streams): faded numbers of samples by nearest (first axis) and second nearest slot."""

    counts: Array


class Connections(Statistic[ConnectionsState, ConnectionsState]):
    """Which prototypes are neighbours in the data, counted as pairs of nearest and second nearest.

    The first sample of a shard has no centres before it and is not counted, so two combined shards have one sample
    less.
    """

    name: ClassVar = "connections"
    gathers: ClassVar = False
    shards: ClassVar = False

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> ConnectionsState:
        return ConnectionsState(xp.zeros((k, k, *streams), dtype=dtype))

    @staticmethod
    def update(old: States, step: Step) -> ConnectionsState:
        xp = namespace(step.x)
        (counts,) = old[Connections]
        first, second = nearest_two(step.x, step.before.centers, step.before.active & step.seen)
        if step.merge is not None:
            first, second = (_after_merge(hit, step.merge) for hit in (first, second))
        if step.born is not None:
            first, second = first & ~step.born, second & ~step.born
        both = first[:, None, ...] & second[None, ...] & ~_diagonal(counts)
        active = step.after.active
        floor = float(xp.finfo(counts.dtype).smallest_normal)
        counts = larger(step.fade * counts, smaller(counts, floor))  # a count never fades to 0
        counts = counts + xp.astype(both, counts.dtype)
        return ConnectionsState(xp.where(active[:, None, ...] & active[None, ...], counts, 0.0))

    @staticmethod
    def batch(recording: RecordedClustering) -> ConnectionsState:
        xp, n = namespace(recording.x), recording.x.shape[0]
        active = recording.active
        k = active.shape[1]
        time = xp.arange(n)[:, None]
        last = xp.max(xp.where(active, -1, time), axis=0)  # the last moment a slot was not in use
        first, second = nearest_two(
            recording.x.T[:, 1:],
            xp.permute_dims(recording.centers[:-1, ...], (1, 2, 0)),
            xp.permute_dims(active[:-1, :], (1, 0)),
        )
        alive = (time > last)[1:, :].T  # (k, n − 1): counts before the last birth are lost
        first, second = (xp.astype(hit & alive, recording.x.dtype) for hit in (first, second))
        pairs = [[xp.sum(recording.fades[1:] * first[i, :] * second[j, :]) for j in range(k)] for i in range(k)]
        return ConnectionsState(xp.stack([xp.stack(row) for row in pairs]))

    @staticmethod
    def fade(state: ConnectionsState, by: Array, alive: Array) -> ConnectionsState:
        both = alive[:, None, ...] & alive[None, ...]
        return ConnectionsState(namespace(by).where(both, by * state.counts, 0 * state.counts))

    @staticmethod
    def combine(a: States, b: States) -> ConnectionsState:
        return ConnectionsState(a[Connections].counts + b[Connections].counts)

    @staticmethod
    def remove(old: States, step: Step) -> ConnectionsState:
        return old[Connections]  # which two were the nearest is not known any more

    @staticmethod
    def merge(old: States, merge: Merge) -> ConnectionsState:
        return ConnectionsState(merge_counts(old[Connections].counts, merge))

    @staticmethod
    def forget(state: ConnectionsState, born: Array) -> ConnectionsState:
        return ConnectionsState(drop_counts(state.counts, born))


def _after_merge(hit: Array, merge: Merge) -> Array:
    """The slot `hit`, or the one that it was merged into."""
    xp = namespace(hit)
    moved = xp.any(hit & merge.gone, axis=0)
    return (hit & ~merge.gone) | (merge.into & moved)


def _diagonal(counts: Array) -> Array:
    """True on the diagonal (k, k, 1, …)."""
    xp, k = namespace(counts), counts.shape[0]
    index = xp.arange(k)
    return xp.reshape(index[:, None] == index[None, :], (k, k) + (1,) * (counts.ndim - 2))
