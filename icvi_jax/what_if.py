r"""Propose: the index values if a sample joined each cluster, or made its own.

Closed form, for clusters whose centres are the means of their members, O(k²) for all of them: with
:math:`d_c = ‖x − v_c‖²`, :math:`g = 1/(λM_c + 1)`, W and T the scatter within clusters and of all samples,
.. math:: W' = λW + λM_c g d_c, \quad B' = T' − W', \quad T' = λT + (1 − 1/n')‖x − μ‖², \quad n' = λn + 1

and h' is the smaller of :math:`\min_e D_{ce} − g (d_c + D_{ce} − d_e) + g² d_c` and the closest pair without c, which
each slot's nearest and second nearest give. As a new cluster: W' = λW and h' = min(h, min d).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeVar

from icvi_jax.indices import WB, BallHall, CalinskiHarabasz, Index, RSquared, XieBeni
from icvi_jax.numerics.arrays import cast, count, larger, namespace, slots, smaller, squares, usable
from icvi_jax.origin import about
from icvi_jax.panel import Panel, PanelState
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.statistics import Dispersion, Overall, Separation, Statistic, Stats
from icvi_jax.types import Array, Event, Prototypes, State

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
    """What indices use of the dispersion."""

    total: Array  # J
    level: Array  # from which `Joined.over_slots` computes the sum of the levels


class Between(NamedTuple):
    """What indices use of all samples: B."""

    between: Array


class Apart(NamedTuple):
    """What indices use of the separation: h."""

    smallest: Array


class Joined(Stats):
    """What these indices use of the statistics, for every proposal of z (p, *streams): arrays (k + 1, *streams)."""

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
        return (self._spread().total <= 0) & ~apart & (self.xp.sum(self._now.from_mean_center, axis=0) <= 0)

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


def propose(
    panel: Panel | Pipeline, state: PanelState | PipelineState, x: Array, means: bool = False
) -> dict[str, Array]:
    """The values the panel would have after the sample `x`, for every cluster it may join; the state does not change.

    The centre of the cluster it joins moves towards it by g = 1/(λM + 1), where M is the mass of the cluster. Its own
    cluster is computed with one more slot, so also when all slots are used.

    Parameters
    ----------
    panel, state : a panel and its state, or a pipeline and its state, which scales the sample as its next step would.
        With `Standardize` only the latter has the right units.
    x : (p, *streams), the sample. Not finite: all values are NaN.
    means : True if the centres are the means of their members and no sample was noise: then `XieBeni`,
        `CalinskiHarabasz`, `WB`, `BallHall` and `RSquared` are computed for all clusters at once, O(k²) instead of
        O(k³), with the same result. Not for ``Panel(of="clusters")``.

    Returns
    -------
    By index name (k + 1, *streams): `x` joins slot 0 … k − 1, NaN where it is not active; the last: its own cluster.

    Examples
    --------
    A nearest-centre clusterer that only accepts samples that do not make the index worse; the others are noise:

    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.CalinskiHarabasz(),))
    >>> state, centers, counts, best = panel.init(k=2, features=1, xp=np), np.zeros((2, 1)), np.zeros(2), np.nan
    >>> for x in ([0.0], [9.0], [1.0], [8.0], [30.0], [0.5], [-4.0], [8.5]):
    ...     x, used = np.array(x), int((counts > 0).sum())
    ...     near = ((x - centers) ** 2).sum(1)
    ...     c = used if used < 2 else int(near.argmin())
    ...     if used == 2 and icvi.propose(panel, state, x)["ch"][c] < best:
    ...         print("refused", x[0])
    ...         continue
    ...     counts[c] += 1
    ...     centers[c] += (x - centers[c]) / counts[c]
    ...     state, values = panel.step(state, x, np.eye(2)[c], centers, counts > 0)
    ...     best = values["ch"]
    refused 30.0
    refused -4.0
    >>> print(centers[:, 0].tolist(), counts.tolist())
    [0.5, 8.5] [3.0, 3.0]
    """
    anchor = state.anchor
    xp, dtype = namespace(anchor.high), anchor.high.dtype
    x = xp.asarray(x, dtype=dtype)
    if tuple(x.shape) != tuple(anchor.high.shape):
        raise ValueError(f"propose(x=…): expected shape {tuple(anchor.high.shape)}, got {tuple(x.shape)}")
    seen = xp.all(usable(x), axis=0)
    z = xp.where(seen, about(anchor, x), xp.zeros_like(x))
    if isinstance(state, PipelineState):
        if not isinstance(panel, Pipeline) or panel.panel is None:
            raise ValueError("propose: for the state of a pipeline, give the pipeline, and one that has a panel")
        if panel.standardize is not None and state.scaler is not None:
            _, z = panel.standardize.step(state.scaler, z, seen)
        panel, state = panel.panel, state.panel
    elif isinstance(panel, Pipeline):
        raise ValueError("propose: for a pipeline, give the state of the pipeline, not that of its panel")
    if means and panel.of == "clusters":
        raise ValueError('propose(means=True): not for Panel(of="clusters")')
    quick = tuple(index for index in panel.indices if means and type(index) in FAST and FAST[type(index)](index))
    slow = tuple(index for index in panel.indices if index not in quick)
    values: dict[str, Array] = {}
    if quick:
        joined = Joined(panel, state, z)
        values |= {index.name: joined.read(index, cast(panel.forgetting, z)) for index in quick}
    if slow:
        values |= _stepped(dataclasses.replace(panel, indices=slow), state, z)
    active = xp.concat([state.prototypes.active, xp.ones_like(state.prototypes.active[:1, ...])])
    known = {index.name: values[index.name] for index in panel.indices}
    return {name: xp.where(active & seen, a, xp.full_like(a, xp.nan)) for name, a in known.items()}


def _stepped(panel: Panel, state: PanelState, z: Array) -> dict[str, Array]:
    """Every proposal as a separate stream: one update and one computation of the indices for all."""
    xp = namespace(z)
    k, features, *streams = state.prototypes.centers.shape
    room = panel.start(k + 1, features, tuple(streams), xp, z.dtype)
    old = {
        name: type(fresh)(*(_each(_padded(a, b.shape), k) for a, b in zip(state.statistics[name], fresh)))
        for name, fresh in room.items()
    }
    centers, active, names, masses = state.prototypes
    wide = tuple(active.shape[1:])
    before = Prototypes(
        _each(_padded(centers, (k + 1, features, *wide)), k), _each(_padded(active, (k + 1, *wide)), k), None
    )
    choice = slots(before.active, k + 1) == xp.arange(k + 1, dtype=xp.int32)  # (k + 1, …, k + 1)
    choice = choice & xp.ones_like(before.active)
    mass = old["dispersion"].mass if "dispersion" in old else xp.zeros_like(before.centers[:, 0, ...])
    rate = xp.where(choice, 1 / (cast(panel.forgetting, z) * mass + 1), xp.zeros_like(mass))
    x = _each(z, k)
    after = Prototypes(before.centers + rate[:, None, ...] * (x - before.centers), before.active | choice, None)
    if names is not None:
        own = xp.max(names, axis=0)[None, ...] + 1
        named = _each(xp.concat([names, own]), k)
        before, after = before._replace(names=named), after._replace(names=named)
    if masses is not None:
        weights = _each(xp.concat([masses, xp.ones_like(masses[:1, ...])]), k)
        before, after = before._replace(masses=weights), after._replace(masses=weights)
    yes = xp.ones_like(x[0, ...], dtype=xp.bool)
    event = Event(x, xp.astype(choice, z.dtype), before, after, yes, yes)
    statistics = panel.update(old, event, crisp=True)
    return {name: xp.moveaxis(a, -1, 0) for name, a in panel.values(statistics, after, yes).items()}


def _padded(a: Array, shape: tuple[int, ...]) -> Array:
    """`a` with zeros at the ends of its axes, up to `shape`."""
    xp = namespace(a)
    for axis, length in enumerate(shape):
        if a.shape[axis] < length:
            more = list(a.shape)
            more[axis] = length - a.shape[axis]
            a = xp.concat([a, xp.zeros(tuple(more), dtype=a.dtype)], axis=axis)
    return a


def _each(a: Array, k: int) -> Array:
    """`a` (…) once for each of k + 1 proposals: (…, k + 1)."""
    return namespace(a).broadcast_to(a[..., None], (*a.shape, k + 1))
