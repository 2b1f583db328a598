"""Online ellipsoidal clustering (OEC): clusters are ellipsoids, and new ones are created when the stream moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeAlias

from icvi_jax.clusterers.base import Clusterer, surprise
from icvi_jax.numerics import ellipsoid
from icvi_jax.numerics.arrays import (
    COUNT_LIMIT,
    advance,
    cast,
    count,
    far,
    larger,
    namespace,
    position,
    slots,
    smallest,
    squares,
)
from icvi_jax.spec import above, finite, is_number, number, one_of, required, spec, static, whole
from icvi_jax.types import Array, Diagnostics, DType, Event, Namespace, Prototypes

Columns: TypeAlias = tuple[Array, ...]
"""A symmetric matrix in each slot as the p columns of its lower half, (K, p − j, *streams)."""


class EllipsoidalState(NamedTuple):
    """The state of online ellipsoidal clustering.

    Unused slots have the mass, squared mass and number of members with which a new cluster starts.
    """

    # centers, active: (K, p, *streams) and (K, *streams). Before there is a cluster, slot 0 is the mean so far
    centers: Array
    active: Array
    factors: Columns  # p arrays (K, p − j, *streams), the factored covariances; see `icvi_jax.numerics.ellipsoid`
    # mass, mass2: (K, *streams), Σw and Σw² of the members' weights
    mass: Array
    mass2: Array
    members: Array  # (K, *streams), integer: samples that joined
    samples: Array  # (*streams), integer: samples seen
    # tracker_mean, tracker_cov: (p, *streams) and p arrays (1, p − j, *streams), mean and covariance of the recent
    # past; of all samples before there is a cluster
    tracker_mean: Array
    tracker_cov: Columns
    ages: Array  # (p + 1, *streams), integer: how many samples ago the last anomalies were, the latest first
    recent: Array | None  # (p + 1, p, *streams), the last samples; None unless new clusters are made of them

    @property
    def covariances(self) -> Array:
        """Covariances (K, p, p, *streams); identity in slots without a cluster."""
        xp, p = namespace(self.centers), self.centers.shape[1]
        S = ellipsoid.compose(self.factors)
        entry = [[S[min(i, j)][:, abs(i - j), ...] for j in range(p)] for i in range(p)]
        return xp.stack([xp.stack(row, axis=1) for row in entry], axis=1)


@spec
class OnlineEllipsoidal(Clusterer):
    r"""Gaussian clusters of any orientation; a new one when the stream settles elsewhere.

    With the squared Mahalanobis distances :math:`F_i` of a sample, memberships are
    :math:`u_i ∝ F_i^{−2/(m−1)}`; clusters with :math:`F_i` within the `outlier` quantile of :math:`χ²_p` share the
    sample by them and update mean and covariance exactly. A sample outside the `effective` quantile of all clusters is
    an anomaly. After p + 1 anomalies, the tracker (mean `t` and covariance T of all samples, with forgetting) becomes a
    cluster if it is far enough from all others:

    .. math:: ‖t − v_i‖² ≥ c² p \max(λ_{max}(S_i), λ_{max}(T)).

    The first p + 1 samples make the first cluster; values of indices start at sample p + 2. Clusters are never merged
    or deleted. This is a reconstruction: the paper does not give all details of the method.

    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=16), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> int(icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.k[-1])
    11

    Parameters
    ----------
    capacity : most clusters. When one more is needed, none is made, and `overflow` is True in the readings of the
        samples that need it: then use a larger capacity.
    effective, outlier : levels of the quantiles; beyond the first a sample is an anomaly, beyond the second it joins no
        cluster.
    stabilization : samples for which a cluster is young. A young cluster gets all samples, near or far, and while there
        is one nothing is an anomaly.
    forgetting : λ of the tracker, in (0, 1).
    fuzzifier : m > 1 of the memberships.
    c : how many standard deviations of the wider of the two a new cluster must be apart.
    trigger : "consecutive": p + 1 anomalies in a row. "window": p + 1 among the last `stabilization` samples.
    seed : what a new cluster is made of. "tracker": the tracker. "buffer": the last p + 1 samples.
    memory : weight of members that a cluster remembers, above p + 1; infinity, the default, forgets none.
    warmup : "exact" sends the first p + 1 samples through the statistics as members of slot 0; "paper" starts
        evaluation with zero dispersion and a mass of p + 1.

    References
    ----------
    Moshtaghi, M., Bezdek, J. C., Erfani, S. M., Leckie, C. and Bailey, J. (2019). Online cluster validity indices for
    performance monitoring of streaming data clustering.
    """

    capacity: int = required()
    effective: float = static(0.99)
    outlier: float = static(0.999)
    stabilization: int = 20
    forgetting: float = 0.9
    fuzzifier: float = 2.0
    c: float = 1.0
    trigger: str = static("consecutive")
    seed: str = static("tracker")
    memory: float = float("inf")
    warmup: str = static("exact")
    name: ClassVar = "oec"
    crisp: ClassVar = False
    size: ClassVar = "capacity"
    usual: ClassVar = 16
    finds_k: ClassVar = True
    cost: ClassVar = "k p²"
    forgets: ClassVar = "nothing; with memory=, each cluster all but so much weight of its members."
    avoid: ClassVar = "Where modes are mixed from the start: the first cluster gets all of them, and it stays at one."

    def __post_init__(self) -> None:
        me = "OnlineEllipsoidal"
        whole(me, "capacity", self.capacity)
        for field, level in (("effective", self.effective), ("outlier", self.outlier)):
            number(me, field, level, is_number(level) and 0 < level < 1, "a plain number between 0 and 1")
        wanted = f"at least effective, which is {self.effective}"
        number(me, "outlier", self.outlier, self.outlier >= self.effective, wanted)
        if is_number(self.stabilization):
            whole(me, "stabilization", self.stabilization)
        if is_number(self.forgetting):
            number(me, "forgetting", self.forgetting, 0 < self.forgetting < 1, "a number between 0 and 1, not 1 itself")
        finite(me, "fuzzifier", self.fuzzifier, 1)
        finite(me, "c", self.c, 0)
        above(me, "memory", self.memory, 1)
        one_of(me, "trigger", self.trigger, ("consecutive", "window"))
        one_of(me, "seed", self.seed, ("tracker", "buffer"))
        one_of(me, "warmup", self.warmup, ("exact", "paper"))

    def least(self, features: int) -> int:
        return features + 1

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> EllipsoidalState:
        K, p = self.capacity, features
        above("OnlineEllipsoidal", "memory", self.memory, p + 1)
        start = xp.full((K, *streams), p + 1, dtype=dtype)
        lengths = range(p, 0, -1)
        return EllipsoidalState(
            centers=xp.zeros((K, p, *streams), dtype=dtype),
            active=xp.zeros((K, *streams), dtype=xp.bool),
            factors=ellipsoid.raised([xp.zeros((K, n, *streams), dtype=dtype) for n in lengths], 0 * start + 1),
            mass=start,
            mass2=start,
            members=xp.full((K, *streams), p + 1, dtype=xp.int32),
            samples=xp.zeros(streams, dtype=xp.int32),
            tracker_mean=xp.zeros((p, *streams), dtype=dtype),
            tracker_cov=tuple(xp.zeros((1, n, *streams), dtype=dtype) for n in lengths),
            ages=xp.full((p + 1, *streams), COUNT_LIMIT, dtype=xp.int32),
            recent=xp.zeros((p + 1, p, *streams), dtype=dtype) if self.seed == "buffer" else None,
        )

    def step(self, state: EllipsoidalState, x: Array, seen: Array) -> tuple[EllipsoidalState, Event]:
        xp, p = namespace(x), x.shape[0]
        first = seen & (state.samples <= p)  # among the p + 1 samples that make the first cluster
        found = seen & (state.samples == p)
        live = seen & (state.samples > p)
        exists = state.active & live
        stabilization = xp.asarray(self.stabilization, dtype=xp.int32)

        d = x - state.centers
        triples = ellipsoid.substitute(state.factors, d)
        F = ellipsoid.mahalanobis(triples)
        u = ellipsoid.fuzzy(F, exists, 2 / (cast(self.fuzzifier, x) - 1))
        young = exists & (state.members < stabilization)
        member = exists & ((F <= chi2_quantile(self.outlier, p)) | young)
        anomaly = live & ~xp.any(exists & ((F <= chi2_quantile(self.effective, p)) | young), axis=0)

        new = _share(state, d, triples, u, member, cast(self.memory, x))
        lam = cast(self.forgetting, x)
        mean, cov = follow(state.tracker_mean, state.tracker_cov, x, state.samples, lam, seen)
        ages = remember_anomalies(state.ages, anomaly, xp.any(young, axis=0), seen)
        recent = state.recent
        if recent is not None:
            recent = xp.where(seen, xp.concat([recent[1:, ...], x[None, ...]], axis=0), recent)

        # p + 1 anomalies in a row are p + 1 among the last p + 1.
        due = anomaly & (ages[-1, ...] < (p + 1 if self.trigger == "consecutive" else stabilization))
        wanted = is_apart(mean, cov, new.centers, new.factors, exists, cast(self.c, x), due)
        taken = count(state.active)
        birth = wanted & (taken < self.capacity)
        slot = slots(exists, self.capacity) == xp.where(first, 0, taken)

        center, factors, cov = self._seed(mean, cov, recent, first, found)
        placed, made = slot & (birth | first), slot & (birth | found)
        new = new._replace(
            centers=xp.where(placed[:, None, ...], center, new.centers),
            active=state.active | placed,
            factors=tuple(xp.where(made[:, None, ...], G, old) for G, old in zip(factors, new.factors)),
            samples=advance(state.samples, seen),
            tracker_mean=mean,
            tracker_cov=cov,
            ages=xp.where(birth, COUNT_LIMIT, ages),
            recent=recent,
        )
        ready = new.samples > p + 1
        nearest = exists & smallest(xp.where(exists, -u, 1.0))
        label = position(xp.where(birth | first, slot, nearest))
        paper = self.warmup == "paper"
        event = Event(
            x=x,
            u=xp.where(birth | first, xp.astype(slot, x.dtype), u),
            before=Prototypes(state.centers, state.active),
            after=Prototypes(new.centers, new.active),
            seen=seen,
            ready=ready,
            shown=Diagnostics(
                label,
                k=xp.where(ready, count(new.active), 0),
                outlier=live & ~xp.any(member, axis=0),
                overflow=wanted & ~birth,
                cluster=label,
                surprise=surprise(d, exists, live),
            ),
            begin=live & (state.samples == p + 1) if paper else None,
            begin_mass=xp.full_like(x[0, ...], p + 1) if paper else None,
        )
        return new, event

    def _seed(
        self, mean: Array, cov: Columns, recent: Array | None, first: Array, found: Array
    ) -> tuple[Array, Columns, Columns]:
        """Centre (p, *streams) and factors of a new cluster, and the tracker's covariance; at first with a ridge."""
        xp, lam = namespace(mean), cast(self.forgetting, mean)
        extra = ellipsoid.ridge(cov)
        if recent is None:
            floor = xp.where(found, extra, 1e-9)
            scale = xp.where(found, xp.ones_like(extra), (3 + lam) / (lam * lam))
            S = tuple(scale[:, None, ...] * c for c in cov)
        else:
            center, S = ellipsoid.covariance(recent)
            mean, floor = xp.where(first, mean, center), ellipsoid.ridge(S)
        factors = ellipsoid.factor(ellipsoid.raised(S, floor), floor)
        return mean, factors, ellipsoid.raised(cov, xp.where(found, extra, 0.0))


def _share(
    state: EllipsoidalState, d: Array, triples: ellipsoid.Triples, u: Array, member: Array, memory: Array
) -> EllipsoidalState:
    """Add the sample to its clusters, each with its share of the memberships; without weight nothing changes."""
    w = ellipsoid.shares(u, member)
    alpha, beta = ellipsoid.rates(state.mass, state.mass2, w)
    mass, mass2 = ellipsoid.remembered(state.mass + w, state.mass2 + w * w, memory)
    return state._replace(
        centers=state.centers + (w / (state.mass + w))[:, None, ...] * d,
        factors=ellipsoid.absorb(state.factors, triples, alpha, beta),
        mass=mass,
        mass2=mass2,
        members=advance(state.members, member),
    )


def follow(
    mean: Array, cov: Sequence[Array], x: Array, samples: Array, lam: Array, seen: Array
) -> tuple[Array, tuple[Array, ...]]:
    r"""Move the tracker: the mean t and covariance T of all samples with forgetting, outliers too.

    Of the first p + 1 samples it is the plain mean and covariance (ddof = 1).

    .. math:: T ← λ \frac{n−1}{n} T + \frac{λ²}{n} d dᵀ, \quad t ← t + (1 − λ) d, \quad d = x − t,
              \quad n = \min(\mathrm{samples}, 3/(1 − λ))

    `samples` (*streams) came before this one.
    """
    xp, p = namespace(x), x.shape[0]
    n = xp.astype(samples, x.dtype)
    first = samples <= p
    size = xp.minimum(larger(n, 1.0), 3 / (1 - lam))
    keep = xp.where(seen & ~first, lam * (size - 1) / size, 1.0)
    gain = xp.where(seen, xp.where(first, n / ((n + 1) * p), lam * lam / size), 0.0)
    rate = xp.where(seen, xp.where(first, 1 / (n + 1), 1 - lam), 0.0)
    d = x - mean
    return mean + rate * d, tuple(keep * c + gain * dd for c, dd in zip(cov, ellipsoid.squared(d[None, ...])))


def remember_anomalies(ages: Array, anomaly: Array, young: Array, seen: Array) -> Array:
    """The ages of the last anomalies after one more sample, the latest first; forgotten while a cluster is young.

    Ages are enough to count: of the last n samples p + 1 were anomalies if the oldest of p + 1 ages is below n.
    """
    xp = namespace(ages)
    ages = advance(ages, seen)
    ages = xp.where(anomaly, xp.concat([xp.zeros_like(ages[:1, ...]), ages[:-1, ...]], axis=0), ages)
    return xp.where(young, COUNT_LIMIT, ages)


def is_apart(
    mean: Array,
    cov: Sequence[Array],
    centers: Array,
    factors: Sequence[Array],
    exists: Array,
    c: float | Array,
    asked: Array,
) -> Array:
    r"""Whether the tracker is apart from every cluster; False where not `asked`.

    .. math:: ‖t − v_i‖² ≥ c² p \max(λ_{max}(S_i), λ_{max}(T))
    """
    xp, p = namespace(mean), mean.shape[0]
    reach = squares(mean - centers, 1) / (c * c * p)

    def everywhere(clear: Array) -> Array:
        # The smallest of numbers instead of `all` of booleans: XLA has a fast loop only for the former.
        return xp.min(xp.astype(clear, mean.dtype), axis=0) > 0

    # No variance is above the largest eigenvalue. What is asked less and less often is passed over by native code.
    asked = asked & everywhere(~exists | (xp.max(ellipsoid.variances(factors), axis=1) <= reach))
    nearest = xp.min(xp.where(exists, reach, far(reach.dtype, xp)), axis=0)
    asked = asked & ellipsoid.largest_eigenvalue_at_most(cov, nearest[None, ...])[0, ...]
    clear = ~exists | ellipsoid.largest_eigenvalue_at_most(ellipsoid.compose(factors), reach)
    return everywhere(clear & asked)


def chi2_tail(x: float, p: int) -> float:
    r"""P(χ²_p > x), for plain Python numbers: not all array libraries have it.

    .. math:: Σ_a e^{−y} y^a / Γ(a + 1) \quad (+ \mathrm{erfc}\sqrt{y}\ \mathrm{for\ odd\ } p), \quad y = x/2

    where a = 0, 1, …, p/2 − 1 for even p and a = 1/2, 3/2, …, p/2 − 1 for odd p.

    >>> round(chi2_tail(9.21034, 2), 6)
    0.01
    """
    if x <= 0:
        return 1.0
    y = x / 2
    start = (p % 2) / 2
    terms = (math.exp(a * math.log(y) - y - math.lgamma(a + 1)) for a in (start + i for i in range(p // 2)))
    return math.fsum((math.erfc(math.sqrt(y)) if p % 2 else 0.0, *terms))


@lru_cache(maxsize=256)
def chi2_quantile(level: float, p: int) -> float:
    """The x with P(χ²_p ≤ x) = level.

    >>> round(chi2_quantile(0.99, 2), 6), round(chi2_quantile(0.999, 11), 6)
    (9.21034, 31.264134)
    """
    low, high = 0.0, 1.0
    while chi2_tail(high, p) > 1 - level:
        low, high = high, 2 * high
    while True:  # bisection always works, and this runs once per level
        middle = (low + high) / 2
        if not low < middle < high:
            return middle
        if chi2_tail(middle, p) > 1 - level:
            low = middle
        else:
            high = middle
