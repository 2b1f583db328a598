r"""Proposals in closed form, for clusters whose centres are the means of their members: O(k²) for all of them.

With :math:`d_c = ‖x − v_c‖²`, :math:`g = 1/(λM_c + 1)`, W and T the scatter within clusters and of all samples:

.. math:: W' = λW + λM_c g d_c, \quad B' = T' − W', \quad T' = λT + (1 − 1/n')‖x − μ‖², \quad n' = λn + 1

and h' is the smaller of :math:`\min_e D_{ce} − g (d_c + D_{ce} − d_e) + g² d_c` and the closest pair without c, which
each slot's nearest and second nearest give. As a cluster of its own: W' = λW and h' = min(h, min d).
"""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace

from icvi_jax.indices import WB, BallHall, CalinskiHarabasz, Index, RSquared, XieBeni
from icvi_jax.kernels.arrays import cast, count, larger, namespace, slots, smaller, squares
from icvi_jax.panel import Panel, PanelState
from icvi_jax.types import Array

FAST = {
    XieBeni: lambda index: getattr(index, "lone", "paper") == "paper",
    CalinskiHarabasz: lambda index: True,
    WB: lambda index: True,
    BallHall: lambda index: True,
    RSquared: lambda index: True,
}
"""The indices that have a closed form, and whether one has it with its options."""


class Joined:
    """What these indices read of the statistics, for every proposal: arrays (k + 1, *streams).

    Parameters
    ----------
    panel, state : the panel and its state.
    z : (p, *streams), the sample about the anchor.
    """

    def __init__(self, panel: Panel, state: PanelState, z: Array):
        self.xp = xp = namespace(z)
        now = panel.stats(state.statistics, state.prototypes)
        self._now, self._x, self._lam = now, panel.seen_by(z), cast(panel.forgetting, z)
        self.active = xp.concat([now.active, xp.ones_like(now.active[:1, ...])])  # one slot more, for its own cluster
        self._d = squares(self._x - now.centers, 1)
        self._own = slots(self.active, self.active.shape[0]) == now.active.shape[0]
        self.k = now.k + xp.astype(self._own, z.dtype)
        self.n = self._lam * now.n + 1 + 0 * self.k
        self.samples = now.samples + 1 + 0 * self.k
        self.singletons = (self.k > 1) & (self.samples <= self.k)

    @cached_property
    def _faded(self):
        """λM_c (k, *streams), and the share λM_c g of a distance that remains."""
        mass = self._lam * self._now.dispersion.mass
        return mass, mass / (mass + 1)

    @cached_property
    def dispersion(self):
        added = self._faded[1] * self._d
        total = self._lam * self._now.dispersion.total + self._with(added)
        return SimpleNamespace(total=total, level=None)

    def _with(self, a):
        """`a` (k, *streams), and 0 for a cluster of its own."""
        return self.xp.concat([a, self.xp.zeros_like(a[:1, ...])])

    @cached_property
    def overall(self):
        now, n = self._now.overall, self._lam * self._now.n + 1
        total = self._lam * now.scatter + (1 - 1 / n) * squares(self._x - now.mean)
        between = total - self.dispersion.total
        return SimpleNamespace(between=self.xp.where(between > 0, between, self.xp.zeros_like(between)))

    @cached_property
    def constant(self):
        """Whether all members, all centres and the sample are in one place."""
        apart = self.xp.max(self.xp.where(self._now.active, self._d, 0 * self._d), axis=0) > 0
        return (self.dispersion.total <= 0) & ~apart & (self.xp.sum(self._now.from_hub, axis=0) <= 0)

    def over_slots(self, _level: None) -> Array:
        """The sum of C_i / M_i over clusters."""
        mass, share = self._faded
        level = self._now.dispersion.level
        change = share * (level + self._d / (mass + 1)) - level
        return self._now.over_slots(level) + self._with(change)

    @cached_property
    def separation(self):
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
            # without c: for every other slot its nearest, or its second nearest where that was c
            left = xp.where(partner[None, ...] == index[:, None, ...], second[None, ...], nearest[None, ...])
            left = xp.where(index[:, None, ...] == index[None, ...], none, left)
            third = xp.min(left, axis=1)
        h = smaller(pair, third)
        rest = 1 - 1 / (self._faded[0] + 1)
        h = xp.where(count(now.active) == 1, larger(now.separation.smallest + 0 * d, rest * rest * d), h)
        near = xp.min(xp.where(now.active, d, xp.full_like(d, big)), axis=0)
        own = xp.where(count(now.active) > 1, smaller(now.separation.smallest, near), near)
        own = xp.where(count(now.active) == 0, now.separation.smallest, own)
        return SimpleNamespace(smallest=xp.concat([h, own[None, ...]]))

    def read(self, index: Index, forgetting: Array) -> Array:
        """The values of an index, NaN at nothing but singletons."""
        value = index.value(self, forgetting)
        return self.xp.where(self.singletons, self.xp.full_like(value, self.xp.nan), value)
