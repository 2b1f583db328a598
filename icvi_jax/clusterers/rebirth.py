"""k-means that gives up its least used centre: a far sample takes its slot."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.numerics.arrays import (
    advance,
    cast,
    count,
    larger,
    namespace,
    pointed,
    position,
    seat,
    slots,
    smaller,
    smallest,
    squares,
)
from icvi_jax.spec import above, required, spec, whole
from icvi_jax.types import Array, Diagnostics, DType, Event, Namespace, Prototypes

TRUSTED = 20
"""Number of ordinary samples after which the learned scale of distances is used."""


class RebirthState(NamedTuple):
    """The state of k-means with rebirth."""

    centers: Array  # (k, p, *streams)
    counts: Array  # (k, *streams), integer: members since the slot's last birth; 0 in slots without a centre
    mass: Array  # (k, *streams), the faded number of members
    names: Array  # (k, *streams), integer: the persistent name of each slot's cluster
    fresh: Array  # (*streams), integer: the next new name
    spread: Array  # (*streams), a running mean of squared distances from the nearest centre
    steps: Array  # (*streams), integer: samples it was learned from
    ready: Array  # (*streams), whether all slots had a centre before the last sample

    @property
    def active(self) -> Array:
        """Slots that have a centre."""
        return self.counts > 0


@spec
class RebirthKMeans(Clusterer):
    r"""k-means for regimes that come and go: a far sample takes over the centre that is used least.

    With d the squared distance from the nearest centre, s² its running mean and f the faded shares of the slots:

    .. math:: d > 9 s² \text{ and } \min f < 0.1\, Σf / k: \quad v_{\arg\min f} ← x

    and otherwise the step of `SequentialKMeans` with a finite memory. k is a capacity: take more slots than you expect
    clusters. The first k distinct samples are the first centres; a cluster that is born later has a name of its own.

    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.RebirthKMeans(k=5), panel=None)
    >>> int(icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.k[-1])
    5

    Parameters
    ----------
    k : number of centres.
    memory : samples of a cluster that its centre remembers.
    mass_memory : samples of the stream over which the slots' shares are judged.
    """

    k: int = required()
    memory: float = 100.0
    mass_memory: float = 500.0
    name: ClassVar = "rebirth"
    crisp: ClassVar = True
    usual: ClassVar = 10
    finds_k: ClassVar = True
    forgets: ClassVar = (
        "each centre all but the last `memory` members; a cluster without a tenth of its share may be given up."
    )
    avoid: ClassVar = "Where one cluster is to have one name: it cuts a wide cluster among several of its k centres."

    def __post_init__(self) -> None:
        whole("RebirthKMeans", "k", self.k)
        above("RebirthKMeans", "memory", self.memory, 1)
        above("RebirthKMeans", "mass_memory", self.mass_memory, 1)

    @property
    def local(self) -> bool:
        return True

    def least(self, features: int) -> int:
        return self.k

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> RebirthState:
        k = self.k
        none, zero = xp.zeros(streams, dtype=xp.int32), xp.zeros((k, *streams), dtype=xp.int32)
        return RebirthState(
            centers=xp.zeros((k, features, *streams), dtype=dtype),
            counts=zero,
            mass=xp.zeros((k, *streams), dtype=dtype),
            names=slots(zero, k) + zero,
            fresh=none + k,
            spread=xp.zeros(streams, dtype=dtype),
            steps=none,
            ready=xp.zeros(streams, dtype=xp.bool),
        )

    def step(self, state: RebirthState, x: Array, seen: Array) -> tuple[RebirthState, Event]:
        xp = namespace(x)
        v, n, spread, active = state.centers, state.counts, state.spread, state.active
        full = active[-1, ...]  # slots fill in order
        e = x - v
        d = squares(e, 1)
        near = slots(d, self.k) == seat(d, active, seen, distinct=True)
        d = xp.min(xp.where(active, d, xp.inf), axis=0)
        d = xp.where(xp.any(active, axis=0), d, 0.0)
        f = xp.where(seen, state.mass * (1 - 1 / cast(self.mass_memory, x)), state.mass)

        idle = xp.min(f, axis=0) < 0.1 * xp.sum(f, axis=0) / self.k
        reborn = seen & full & (state.steps > TRUSTED) & (d > 9 * spread) & idle
        hit = xp.where(reborn, smallest(f), near)
        seed = xp.any(near & ~active, axis=0)
        moves = seen & ~reborn & ~seed
        first = hit & (reborn | seed)

        n = xp.where(first, 1, advance(n, hit))
        rate = larger(1 / xp.astype(xp.where(n > 0, n, 1), x.dtype), 1 / cast(self.memory, x))
        moved = v + (xp.astype(hit, x.dtype) * rate)[:, None, ...] * e
        steps = advance(state.steps, moves)
        gain = larger(1 / xp.astype(larger(steps, 1), x.dtype), 0.01)
        clipped = xp.where(steps <= TRUSTED, d, smaller(d, 9 * spread))
        new = RebirthState(
            centers=xp.where(first[:, None, ...], x, moved),
            counts=n,
            mass=xp.where(first, 1.0, f + xp.astype(hit, x.dtype)),
            names=xp.where(hit & reborn, state.fresh, state.names),
            fresh=advance(state.fresh, reborn),
            spread=xp.where(moves, spread + gain * (clipped - spread), spread),
            steps=steps,
            ready=xp.where(seen, full, state.ready),
        )
        label, none = position(hit), xp.zeros_like(seen)
        cluster = xp.where(seen, pointed(new.names, hit), -1)
        event = Event(
            x=x,
            u=xp.astype(hit, x.dtype),
            before=Prototypes(v, active),
            after=Prototypes(new.centers, new.active),
            seen=seen,
            ready=new.ready,
            shown=Diagnostics(label, count(new.active), none, none, cluster, surprise(e, active, seen)),
            born=hit & reborn,
            moved=(hit,),
        )
        return new, event
