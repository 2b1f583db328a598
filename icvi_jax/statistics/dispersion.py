r"""Dispersion: how far each cluster's members are from its centre.      C_i = Σ_j λ^{n−j} u_ij^m ‖x_j − v_i‖²

The state is the mass, mean and scatter of the members (see `icvi_jax.numerics.moments`): the centre is the *present*
one, not that at the time of a sample, and is used only when indices are computed. A slot that is not active has no
mass, so a birth starts from zero and nothing is left after a death.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from icvi_jax.numerics import moments
from icvi_jax.numerics.arrays import count, namespace, squares
from icvi_jax.numerics.moments import Moments
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step, chosen, placed
from icvi_jax.types import Array, DType, Merge, Namespace, Prototypes

if TYPE_CHECKING:
    from icvi_jax.statistics.stats import Stats


class Dispersion(Statistic[Moments, "DispersionView"]):
    """Mass M, mean m and scatter of the members of each cluster; indices get C, L = C/M and S/M about the centres."""

    name: ClassVar = "dispersion"

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> Moments:
        return moments.zeros(k, features, streams, xp, dtype)

    @staticmethod
    def update(old: States, step: Step) -> Moments:
        new = moments.absorb(old[Dispersion], step.x, step.w, step.fade)
        return new._replace(mass=namespace(step.x).where(step.after.active, new.mass, 0 * new.mass))

    @staticmethod
    def batch(recording: RecordedClustering) -> Moments:
        return moments.batch(recording.x, recording.w, recording.fades)

    @staticmethod
    def begin(old: States, prototypes: Prototypes, mass: Array) -> Moments:
        xp = namespace(mass)
        scatter = 0 * old[Dispersion].scatter
        return Moments(xp.where(prototypes.active, mass + scatter, scatter), prototypes.centers, scatter)

    @staticmethod
    def shift(state: Moments, by: Array) -> Moments:
        return state._replace(mean=state.mean + by)

    @staticmethod
    def fade(state: Moments, by: Array, alive: Array) -> Moments:
        mass = moments.share(state.mass, by, 0)[0]
        return state._replace(mass=namespace(mass).where(alive, mass, 0 * mass))

    @staticmethod
    def combine(a: States, b: States) -> Moments:
        return moments.combine(a[Dispersion], b[Dispersion])

    @staticmethod
    def remove(old: States, step: Step) -> Moments:
        return moments.remove(old[Dispersion], step.x, step.w)

    @staticmethod
    def merge(old: States, merge: Merge) -> Moments:
        state = old[Dispersion]
        return placed(state, moments.combine(chosen(state, merge.into), chosen(state, merge.gone)), merge)

    @staticmethod
    def forget(state: Moments, born: Array) -> Moments:
        return state._replace(mass=namespace(state.mass).where(born, 0 * state.mass, state.mass))

    @staticmethod
    def view(stats: Stats, state: Moments) -> DispersionView:
        return DispersionView(stats, state)


class DispersionView:
    """What indices get of a dispersion.

    Attributes
    ----------
    mass : M_i.
    mean : m_i, the members' means.
    scatter : S_i / M_i, about the members' mean.
    level : L_i = C_i / M_i, about the centre; 0 for an empty cluster.
    each : C_i.
    total : J = W = Σ C_i.
    widest : max L_i.
    empty : how many active clusters have no members.
    """

    def __init__(self, stats: Stats, state: Moments) -> None:
        self._centers, self._active = stats.centers, stats.active
        self.mass, self.mean, self.scatter = state
        self._state = state

    @cached_property
    def level(self) -> Array:
        return moments.about(self._state, self._centers)

    @cached_property
    def each(self) -> Array:
        return self.mass * self.level

    @cached_property
    def total(self) -> Array:
        return namespace(self.mass).sum(self.each, axis=0)

    @cached_property
    def widest(self) -> Array:
        return namespace(self.mass).max(self.level, axis=0)

    @cached_property
    def empty(self) -> Array:
        return count(self._active & (self.mass <= 0))


class Overall(Statistic[Moments, "OverallView"]):
    """Mass ω, mean μ and scatter S0/ω of all samples seen, as the moments of one cluster that has all samples."""

    name: ClassVar = "overall"

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> Moments:
        return moments.zeros(1, features, streams, xp, dtype)

    @staticmethod
    def update(old: States, step: Step) -> Moments:
        seen = namespace(step.x).astype(step.seen, step.x.dtype)
        return moments.absorb(old[Overall], step.x, seen[None, ...], step.fade)

    @staticmethod
    def batch(recording: RecordedClustering) -> Moments:
        one = namespace(recording.x).ones_like(recording.x[:, :1])
        return moments.batch(recording.x, one, recording.fades)

    @staticmethod
    def shift(state: Moments, by: Array) -> Moments:
        return state._replace(mean=state.mean + by)

    @staticmethod
    def fade(state: Moments, by: Array, alive: Array) -> Moments:
        return state._replace(mass=moments.share(state.mass, by, 0)[0])

    @staticmethod
    def combine(a: States, b: States) -> Moments:
        return moments.combine(a[Overall], b[Overall])

    @staticmethod
    def remove(old: States, step: Step) -> Moments:
        seen = namespace(step.x).where(step.seen, step.fade, 0 * step.fade)
        return moments.remove(old[Overall], step.x, seen[None, ...])

    @staticmethod
    def view(stats: Stats, state: Moments) -> OverallView:
        return OverallView(stats, state)


class OverallView:
    """What indices get.

    Attributes
    ----------
    mean : μ (p, *streams).
    scatter : S0 (*streams).
    between : B = Σ M_i ‖v_i − μ‖² (*streams); for indices that need the dispersion too.
    """

    def __init__(self, stats: Stats, state: Moments) -> None:
        self._stats = stats
        self.mean = state.mean[0, ...]
        self.scatter = (state.mass * state.scatter)[0, ...]

    @cached_property
    def between(self) -> Array:
        d = squares(self._stats.centers - self.mean, 1)
        return namespace(d).sum(self._stats[Dispersion].mass * d, axis=0)  # an inactive slot has no mass
