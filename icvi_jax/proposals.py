r"""Proposals in closed form, for clusters whose centres are the means of their members: O(k²) for all of them.

With :math:`d_c = ‖x − v_c‖²`, :math:`g = 1/(λM_c + 1)`, W and T the scatter within clusters and of all samples:

.. math:: W' = λW + λM_c g d_c, \quad B' = T' − W', \quad T' = λT + (1 − 1/n')‖x − μ‖², \quad n' = λn + 1

and h' is the smaller of :math:`\min_e D_{ce} − g (d_c + D_{ce} − d_e) + g² d_c` and the closest pair without c, which
each slot's nearest and second nearest give. As a new cluster: W' = λW and h' = min(h, min d).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeVar

from icvi_jax.indices import WB, BallHall, CalinskiHarabasz, Index, RSquared, XieBeni
from icvi_jax.numerics.arrays import cast, count, larger, namespace, slots, smaller, squares
from icvi_jax.panel import Panel, PanelState
from icvi_jax.statistics import Dispersion, Overall, Separation, Statistic, Stats
from icvi_jax.types import Array, State

S = TypeVar("S")
V = TypeVar("V")

FAST: dict[type[Index], Callable[[Index], bool]] = {
    XieBeni: lambda index: getattr(index, "lone", "paper") == "paper",
    CalinskiHarabasz: lambda index: True,
    WB: lambda index: True,
    BallHall: lambda index: True,
    RSquared: lambda index: True,
}
"""The indices with a closed form, and whether they have it with their options."""


class Spread(NamedTuple):
    """What indices use of the dispersion: J, and values from which `Joined.over_slots` computes the sum of the
    levels."""

    total: Array
    level: Array


class Between(NamedTuple):
    """What indices use of all samples: B."""

    between: Array


class Apart(NamedTuple):
    """What indices use of the separation: h."""

    smallest: Array


class Joined(Stats):
    """What these indices use of the statistics, for every proposal: arrays (k + 1, *streams).

    Parameters
    ----------
    panel, state : the panel and its state.
    z : (p, *streams), the sample relative to the anchor.
    """

    def __init__(self, panel: Panel, state: PanelState, z: Array) -> None:
        xp = namespace(z)
        now = panel.stats(state.statistics, state.prototypes)
        super().__init__((), state.statistics, state.prototypes)
        self._now, self._x, self._lam = now, panel.seen_by(z), cast(panel.forgetting, z)
        self.active = xp.concat([now.active, xp.ones_like(now.active[:1, ...])])  # one more slot, for its own cluster
        self._d = squares(self._x - now.centers, 1)
        self._own = slots(self.active, self.active.shape[0]) == now.active.shape[0]
        self.k = now.k + xp.astype(self._own, z.dtype)
        self.n = self._lam * now.n + 1 + 0 * self.k
        self.samples = now.samples + 1 + 0 * self.k

    def __getitem__(self, statistic: type[Statistic[S, V]]) -> V:
        views: dict[str, Callable[[], State]] = {
            Dispersion.name: self._spread,
            Overall.name: self._between,
            Separation.name: self._apart,
        }
        view: V = views[statistic.name]()
        return view

    @cached_property
    def _faded(self) -> tuple[Array, Array]:
        """λM_c (k, *streams), and the share λM_c g of a distance that remains."""
        mass = self._lam * self._now[Dispersion].mass
        return mass, mass / (mass + 1)

    def _spread(self) -> Spread:
        now = self._now[Dispersion]
        return Spread(self._lam * now.total + self._with(self._faded[1] * self._d), now.level)

    def _with(self, a: Array) -> Array:
        """`a` (k, *streams), and 0 for a new cluster."""
        return self.xp.concat([a, self.xp.zeros_like(a[:1, ...])])

    def _between(self) -> Between:
        now, n = self._now[Overall], self._lam * self._now.n + 1
        total = self._lam * now.scatter + (1 - 1 / n) * squares(self._x - now.mean)
        between = total - self._spread().total
        return Between(self.xp.where(between > 0, between, self.xp.zeros_like(between)))

    @cached_property
    def constant(self) -> Array:
        """Whether all members, all centres and the sample are in one place."""
        apart = self.xp.max(self.xp.where(self._now.active, self._d, 0 * self._d), axis=0) > 0
        return (self._spread().total <= 0) & ~apart & (self.xp.sum(self._now.from_hub, axis=0) <= 0)

    def over_slots(self, a: Array) -> Array:
        """The sum of C_i / M_i over clusters after the sample, from the levels `a` (k, *streams) before it."""
        mass, share = self._faded
        change = share * (a + self._d / (mass + 1)) - a
        return self._now.over_slots(a) + self._with(change)

    def _apart(self) -> Apart:
        xp, now, d, big = self.xp, self._now, self._d, self.xp.inf
        k = d.shape[0]
        if k == 1:
            pair = third = xp.full_like(d, big)
        else:
            index = slots(d, k)
            apart = now.active[:, None, ...] & now.active[None, ...] & (index[:, None, ...] != index[None, ...])
            D = squares(now.centers[:, None, ...] - now.centers[None, ...], 2)
            g = (1 / (self._faded[0] + 1))[:, None, ...]
            dc, de = d[:, None, ...], d[None, ...]
            none = xp.full_like(D, big)
            moved = xp.where(apart, D - g * (dc + D - de) + g * g * dc, none)
            D = xp.where(apart, D, none)
            pair = xp.min(moved, axis=1)
            nearest = xp.min(D, axis=1)
            partner = xp.argmin(D, axis=1)
            second = xp.min(xp.where(partner[:, None, ...] == index[None, ...], none, D), axis=1)
            # without c: the nearest of every other slot, or the second nearest if that is c
            left = xp.where(partner[None, ...] == index[:, None, ...], second[None, ...], nearest[None, ...])
            left = xp.where(index[:, None, ...] == index[None, ...], none, left)
            third = xp.min(left, axis=1)
        h = smaller(pair, third)
        rest = 1 - 1 / (self._faded[0] + 1)
        h = xp.where(count(now.active) == 1, larger(now[Separation].smallest + 0 * d, rest * rest * d), h)
        near = xp.min(xp.where(now.active, d, xp.full_like(d, big)), axis=0)
        own = xp.where(count(now.active) > 1, smaller(now[Separation].smallest, near), near)
        own = xp.where(count(now.active) == 0, now[Separation].smallest, own)
        return Apart(xp.concat([h, own[None, ...]]))

    def read(self, index: Index, forgetting: Array) -> Array:
        """The values of an index; NaN where all clusters are single samples."""
        value = index.value(self, forgetting)
        return self.xp.where(self.singletons, self.xp.full_like(value, self.xp.nan), value)
