"""Fuzzy c-means, one sample at a time: every centre moves, each by its share of the sample."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.numerics import ellipsoid
from icvi_jax.numerics.arrays import cast, count, namespace, position, seat, slots, smallest, squares
from icvi_jax.numerics.moments import share, weights
from icvi_jax.spec import above, finite, required, spec, whole
from icvi_jax.types import Array, Diagnostics, DType, Event, Namespace, Prototypes


class FuzzyState(NamedTuple):
    """The state of fuzzy c-means."""

    # centers, seeds: (k, p, *streams), the centres, and the samples that they were at first
    centers: Array
    seeds: Array
    # mass, active: (k, *streams), the faded weights of the members, and the slots in use
    mass: Array
    active: Array
    ready: Array  # (*streams), whether all slots had a centre before the last sample


@spec
class FuzzyCMeans(Clusterer):
    r"""k centres and soft memberships, for clusters that overlap; indices jump at changes.

    Online fuzzy c-means with forgetting: every centre is the faded mean of all samples, weighted by its memberships.

    With squared distances :math:`d_i`, at least :math:`10^{−12}` of the largest:

    .. math:: u_i ∝ d_i^{−1/(m−1)}, \quad N_i ← λ N_i + u_i^m, \quad v_i ← v_i + (u_i^m / N_i)(x − v_i)

    The first k distinct samples are the first centres; values of indices start after them.

    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.FuzzyCMeans(k=3), panel=None)
    >>> int(icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.k[-1])
    3

    Parameters
    ----------
    k : number of clusters.
    forgetting : λ in (0, 1]: the weight of a sample is multiplied by it at every later sample.
    fuzzifier : m > 1; near 1 memberships are almost crisp.

    References
    ----------
    Bezdek, J. C. (1981). Pattern recognition with fuzzy objective function algorithms.
    """

    k: int = required()
    forgetting: float = 0.99
    fuzzifier: float = 2.0
    name: ClassVar = "fuzzy"
    crisp: ClassVar = False
    cost: ClassVar = "k p, with k logarithms"
    forgets: ClassVar = "weights fade by `forgetting` a sample, also those of a cluster that gets nothing."
    avoid: ClassVar = (
        "Where clusters differ much in size: every centre feels every sample, and small clusters are drawn away."
    )

    def __post_init__(self) -> None:
        whole("FuzzyCMeans", "k", self.k)
        above("FuzzyCMeans", "forgetting", self.forgetting, 0, 1)
        finite("FuzzyCMeans", "fuzzifier", self.fuzzifier, 1)

    def least(self, features: int) -> int:
        return self.k

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> FuzzyState:
        zero = xp.zeros((self.k, features, *streams), dtype=dtype)
        return FuzzyState(
            zero,
            zero,
            xp.zeros((self.k, *streams), dtype=dtype),
            xp.zeros((self.k, *streams), dtype=xp.bool),
            xp.zeros(streams, dtype=xp.bool),
        )

    def step(self, state: FuzzyState, x: Array, seen: Array) -> tuple[FuzzyState, Event]:
        xp = namespace(x)
        v, seeds, N, active, ready = state
        m = cast(self.fuzzifier, x)
        e = x - v
        d = squares(e, 1)
        # Every step moves every centre, so a repeated sample is recognised by the sample, not by its centre.
        seed = (slots(d, self.k) == seat(squares(x - seeds, 1), active, seen, distinct=True)) & ~active
        moves = seen & ~xp.any(seed, axis=0)

        largest = xp.max(xp.where(active, d, 0.0), axis=0)
        some = largest > 0  # otherwise all centres and the sample are equal: equal shares
        kept = xp.where(some, d / xp.where(some, largest, 1.0) + 1e-12, 1.0)
        u = xp.where(moves, ellipsoid.fuzzy(kept, active, 1 / (m - 1)), xp.astype(seed, x.dtype))
        w = xp.where(moves, weights(u, m), 0.0)
        fade = xp.where(moves, cast(self.forgetting, x), 1.0)
        mass, rate = share(N, fade, w)
        new = FuzzyState(
            xp.where(seed[:, None, ...], x, v + rate[:, None, ...] * e),
            xp.where(seed[:, None, ...], x, seeds),
            xp.where(seed, 1.0, mass),
            active | seed,
            xp.where(seen, active[-1, ...], ready),  # slots fill in order
        )
        label = position(seen & new.active & smallest(xp.where(new.active, -u, 1.0)))
        none = xp.zeros_like(seen)
        event = Event(
            x=x,
            u=u,
            before=Prototypes(v, active),
            after=Prototypes(new.centers, new.active),
            seen=seen,
            ready=new.ready,
            shown=Diagnostics(label, count(new.active), none, none, label, surprise(e, active, seen)),
        )
        return new, event
