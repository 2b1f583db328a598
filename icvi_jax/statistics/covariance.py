r"""Covariance: the shape of each cluster.      Σ_i = scatter_i / (M_i (1 − R_i)) + δI,  R_i = Σ_j w_ij² / M_i²

The state is the mean outer product of the members about their mean, packed (see `icvi_jax.numerics.ellipsoid`), and
`freedom` = 1 − R, the degrees of freedom as a share of the mass: 0 for a single member. Both are ratios, so they
neither fade nor underflow; the mass and the mean they belong to are those of the dispersion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from icvi_jax.numerics import cholesky, ellipsoid, moments
from icvi_jax.numerics.arrays import larger, namespace, selected
from icvi_jax.numerics.pairs import Pairs
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step, chosen, placed
from icvi_jax.statistics.dispersion import Dispersion, Members, Overall
from icvi_jax.statistics.index_view import Memo
from icvi_jax.types import Array, DType, Merge, Namespace, Prototypes, State

if TYPE_CHECKING:
    from icvi_jax.statistics.index_view import Stats


class CovarianceState(NamedTuple):
    """Mean outer product about the mean (k, p (p + 1)/2, *streams) and 1 − R (k, *streams)."""

    scatter: Array
    freedom: Array


class _Covariances(Statistic[CovarianceState, "CovarianceView"]):
    """Covariances of clusters whose weights, masses and means are those of another statistic, `of`."""

    of: ClassVar[type[Members[State]]]

    @classmethod
    def init(cls, k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> CovarianceState:
        k = k if cls.of is Dispersion else 1
        scatter = xp.zeros((k, ellipsoid.packed(features), *streams), dtype=dtype)
        return CovarianceState(scatter, xp.zeros((k, *streams), dtype=dtype))

    @classmethod
    def update(cls, old: States, step: Step) -> CovarianceState:
        mass, mean, _ = old[cls.of]
        _, b = moments.share(mass, step.fade, cls.of.weights(step))
        return _combined(old[cls], b, step.x - mean, None)

    @classmethod
    def batch(cls, recording: RecordedClustering) -> CovarianceState:
        X, W, fades = recording.x, cls.of.recorded(recording), recording.fades
        xp = namespace(X)
        mass, mean, _ = moments.batch(X, W, fades)
        weights = W * fades[:, None] / xp.where(mass > 0, mass, 1.0)
        shapes = []
        for i in range(W.shape[1]):
            e = X - mean[i, :]
            S = (weights[:, i, None] * e).T @ e
            shapes.append(xp.concat([S[j:, j] for j in range(X.shape[1])]))
        square_sum = xp.sum(weights * weights, axis=0)
        return CovarianceState(xp.stack(shapes), xp.where(mass > 0, 1 - square_sum, 0.0))

    @classmethod
    def combine(cls, a: States, b: States) -> CovarianceState:
        one, two = a[cls.of], b[cls.of]
        _, part = moments.share(one.mass, 1, two.mass)
        return _combined(a[cls], part, two.mean - one.mean, b[cls])

    @classmethod
    def remove(cls, old: States, step: Step) -> CovarianceState:
        xp = namespace(step.x)
        mass, mean, _ = old[cls.of]
        scatter, freedom = old[cls]
        r, gone = moments.leftover(mass, cls.of.left(step))
        wide = r[:, None, ...]
        scatter = scatter + wide * (scatter - (1 + wide) * cholesky.outer(step.x - mean))
        freedom = (1 + r) * (1 + r) * freedom - 2 * r
        none = gone | (freedom < 0)
        scatter = xp.where(none[:, None, ...], 0.0, scatter)
        return CovarianceState(scatter, xp.where(none, 0.0, freedom))

    @classmethod
    def view(cls, stats: Stats, state: CovarianceState) -> CovarianceView:
        return CovarianceView(stats, state, stats[cls.of].mean, stats.memo if cls.of is Dispersion else Memo())


class Covariance(_Covariances):
    """Covariance of each cluster's members about their mean, unbiased under faded weights."""

    name: ClassVar = "covariance"
    of: ClassVar = Dispersion
    needs: ClassVar = (Dispersion,)

    @staticmethod
    def begin(old: States, prototypes: Prototypes, mass: Array) -> CovarianceState:
        scatter, freedom = old[Covariance]
        return CovarianceState(0 * scatter, 1 - 1 / mass + 0 * freedom)

    @staticmethod
    def merge(old: States, merge: Merge) -> CovarianceState:
        (a, base), (b, other) = ((chosen(old[Covariance], mask), chosen(old[Dispersion], mask)) for mask in merge)
        _, part = moments.share(base.mass, 1, other.mass)
        return placed(old[Covariance], _combined(a, part, other.mean - base.mean, b), merge)


class OverallCovariance(_Covariances):
    """Covariance of all samples about their faded mean, as for one cluster that has all samples."""

    name: ClassVar = "overall_covariance"
    of: ClassVar = Overall
    needs: ClassVar = (Overall,)


class CovarianceView:
    """What indices get of covariances.

    Attributes
    ----------
    each : Σ_i, packed: (k, p (p + 1)/2, *streams).
    logdet : log det Σ_i: (k, *streams).
    cross_entropies : −log N(m_i − m_j; 0, Σ_i + Σ_j) for each pair i < j: arrays (pairs, *streams), one array for
        one stream; for a fleet one for each i, which avoids copies. NaN where the pair has too few members for the rank
        of Σ_i + Σ_j and rounding exceeds the ridge: its smallest eigenvalues are noise.
    both : whether both slots of a pair are active, in the same form.
    """

    def __init__(self, stats: Stats, state: CovarianceState, mean: Array, memo: Memo) -> None:
        self._stats, self._state, self._mean, self._memo = stats, state, mean, memo
        self._pairs = Pairs(stats.active, kept=True) if "cross_entropies" in memo else None
        self._p = stats.centers.shape[1]
        self._ridge = math.pow(10.0, -12 / self._p)

    @cached_property
    def each(self) -> Array:
        xp = self._stats.xp
        scatter, freedom = self._state
        some = freedom > (1e-6 if xp.finfo(freedom.dtype).bits <= 32 else 1e-12)
        scale = xp.where(some, 1 / xp.where(some, freedom, 1.0), 0.0)
        return ellipsoid.ridged(scatter * scale[:, None, ...], self._p, self._ridge)

    @cached_property
    def _raised(self) -> tuple[Array, Array]:
        return cholesky.raised(self.each, self._p, self._ridge)

    @cached_property
    def logdet(self) -> Array:
        S, least = self._raised
        if "logdet" not in self._memo:
            return cholesky.logdet(S, self._p, least)

        def renew(old: Array, moved: Sequence[Array]) -> Array:
            for hit in moved:
                mine, lowest = selected(S, hit)[None, ...], selected(least, hit)[None, ...]
                old = self._stats.xp.where(hit, cholesky.logdet(mine, self._p, lowest), old)
            return old

        return self._memo.of("logdet", lambda: cholesky.logdet(S, self._p, least), renew)

    @cached_property
    def both(self) -> list[Array]:
        return self._pieces(lambda a, b: a & b, self._stats.active) if self._pairs is None else self._pairs.both

    @cached_property
    def cross_entropies(self) -> list[Array]:
        if (pairs := self._pairs) is not None:
            each = (*self._raised, self._members, self._mean)

            def apart(Si: Array, least_i: Array, ni: Array, mi: Array, *other: Array) -> Array:
                Sj, least_j, nj, mj = other
                return self._cross_entropy(Si + Sj, mi - mj, least_i + least_j, ni + nj)

            full = lambda: pairs.each(apart, *each)[0]  # noqa: E731
            renew = lambda old, moved: pairs.renewed([old], moved, apart, *each)[0]  # noqa: E731
            return [self._memo.of("cross_entropies", full, renew)]
        d = self._pieces(lambda a, b: a - b, self._mean)
        sums = [self._pieces(lambda a, b: a + b, each) for each in (*self._raised, self._members)]
        return [self._cross_entropy(S, e, least, members) for e, S, least, members in zip(d, *sums)]

    @cached_property
    def _members(self) -> Array:
        """How many members of equal weight would have the same 1 − R."""
        xp, freedom = self._stats.xp, self._state.freedom
        return 1 / larger(1 - freedom, float(xp.finfo(freedom.dtype).eps))

    def _cross_entropy(self, S: Array, d: Array, least: Array, members: Array) -> Array:
        xp = self._stats.xp
        F, logdet = cholesky.gaussian(S, d, least)
        noise = (members < self._p + 1.5) & (least > 2 * self._ridge)
        return xp.where(noise, xp.nan, (F + logdet) * 0.5 + self._p * math.log(2 * math.pi) / 2)

    def _pieces(self, f: Callable[[Array, Array], Array], a: Array) -> list[Array]:
        """f(a_i, a_j) for all i < j, as one array for one stream."""
        rows = [f(a[i, ...], a[i + 1 :, ...]) for i in range(a.shape[0] - 1)]
        return rows if self._stats.active.ndim > 1 else [self._stats.xp.concat(rows)]


def _combined(a: CovarianceState, part: Array, e: Array, b: CovarianceState | None) -> CovarianceState:
    """Shape of `a` and `b` together; `b` (None: a point) has the share `part` of the mass and a mean off by `e`."""
    wide = part[:, None, ...]
    rest = 1 - part
    scatter = (1 - wide) * cholesky.outer(e) - a.scatter
    freedom = rest * (2 * part + rest * a.freedom)
    if b is not None:
        scatter, freedom = scatter + b.scatter, freedom + part * part * b.freedom
    return CovarianceState(a.scatter + wide * scatter, freedom)
