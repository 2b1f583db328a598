"""Skeleton of a clusterer: the first k samples are centres, and the nearest one moves towards each later sample."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.numerics.arrays import cast, count, namespace, seat, slots, squares
from icvi_jax.spec import above, required, spec, whole
from icvi_jax.types import Array, Diagnostics, DType, Event, Namespace, Prototypes


class SkeletonClustererState(NamedTuple):
    """Centres (k, p, *streams), and which of them are in use (k, *streams)."""

    centers: Array
    active: Array


@spec
class SkeletonClusterer(Clusterer):
    """k centres that move towards their members at a fixed rate.

    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=SkeletonClusterer(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> icvi.run(pipe, icvi.streams.s1(seed=0).x).readings.label[:4].shape
    (4,)

    Parameters
    ----------
    k : number of clusters.
    rate : how far a centre moves towards a new member: 0 stays, 1 goes all the way.
    """

    k: int = required()
    rate: float = 0.05
    name: ClassVar = "skeleton"
    crisp: ClassVar = True
    forgets: ClassVar = "old members of each cluster, at a fixed rate."
    avoid: ClassVar = "Where the number of clusters is not known."

    def __post_init__(self) -> None:
        whole("SkeletonClusterer", "k", self.k)
        above("SkeletonClusterer", "rate", self.rate, 0, 1)

    def least(self, features: int) -> int:
        return self.k

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> SkeletonClustererState:
        return SkeletonClustererState(
            xp.zeros((self.k, features, *streams), dtype=dtype), xp.zeros((self.k, *streams), dtype=xp.bool)
        )

    def step(self, state: SkeletonClustererState, x: Array, seen: Array) -> tuple[SkeletonClustererState, Event]:
        xp = namespace(x)
        v, active = state
        e = x - v
        slot = seat(squares(e, 1), active, seen, distinct=False)  # k where the sample is missing
        hit = slot == slots(active, self.k)
        u = xp.astype(hit, x.dtype)
        pace = xp.where(active, u * cast(self.rate, x), u)  # a new centre is at its first sample
        new = SkeletonClustererState(v + pace[:, None, ...] * e, active | hit)
        label, none = xp.where(slot < self.k, slot, xp.full_like(slot, -1)), xp.zeros_like(seen)
        return new, Event(
            x=x,
            u=u,
            before=Prototypes(v, active),
            after=Prototypes(new.centers, new.active),
            seen=seen,
            ready=active[-1, ...],
            shown=Diagnostics(label, count(new.active), none, none, label, surprise(e, active, seen)),
        )
