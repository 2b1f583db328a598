r"""Dispersion: how far each cluster's members are from its centre.      C_i = Σ_j λ^{n−j} u_ij^m ‖x_j − v_i‖²

The state is the mass, mean and scatter of the members (see `icvi_jax.numerics.moments`): the centre is the *present*
one, not that at the time of a sample, and is used only when indices are computed. A slot that is not active has no
mass, so a birth starts from zero and nothing is left after a death.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from icvi_jax.numerics import moments
from icvi_jax.numerics.arrays import count, namespace, squares
from icvi_jax.numerics.moments import Moments
from icvi_jax.statistics.base import RecordedClustering, States, Statistic, Step, V, chosen, placed
from icvi_jax.types import Array, DType, Merge, Namespace, Prototypes

if TYPE_CHECKING:
    from icvi_jax.statistics.index_view import Stats


class Members(Statistic[Moments, V]):
    """Moments of samples: of the members of each cluster, or of all of them as of one cluster."""

    @staticmethod
    @abstractmethod
    def weights(step: Step) -> Array:
        """The weights (k, *streams) of a sample."""

    @classmethod
    def left(cls, step: Step) -> Array:
        """What is left of them when the sample is removed."""
        return cls.weights(step)

    @staticmethod
    @abstractmethod
    def recorded(recording: RecordedClustering) -> Array:
        """The weights (n, k) of all samples of a recording."""

    @classmethod
    def init(cls, k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> Moments:
        return moments.zeros(k, features, streams, xp, dtype)

    @classmethod
    def update(cls, old: States, step: Step) -> Moments:
        return moments.absorb(old[cls], step.x, cls.weights(step), step.fade)

    @classmethod
    def batch(cls, recording: RecordedClustering) -> Moments:
        return moments.batch(recording.x, cls.recorded(recording), recording.fades)

    @classmethod
    def shift(cls, state: Moments, by: Array) -> Moments:
        return state._replace(mean=state.mean + by)

    @classmethod
    def fade(cls, state: Moments, by: Array, alive: Array) -> Moments:
        return state._replace(mass=moments.share(state.mass, by, 0)[0])

    @classmethod
    def combine(cls, a: States, b: States) -> Moments:
        return moments.combine(a[cls], b[cls])

    @classmethod
    def remove(cls, old: States, step: Step) -> Moments:
        return moments.remove(old[cls], step.x, cls.left(step))


class Dispersion(Members["DispersionView"]):
    """Mass M, mean m and scatter of the members of each cluster; indices get C, L = C/M and S/M about the centres."""

    name: ClassVar = "dispersion"

    @staticmethod
    def weights(step: Step) -> Array:
        return step.w

    @staticmethod
    def recorded(recording: RecordedClustering) -> Array:
        return recording.w

    @classmethod
    def update(cls, old: States, step: Step) -> Moments:
        new = super().update(old, step)
        return new._replace(mass=namespace(step.x).where(step.after.active, new.mass, 0 * new.mass))

    @staticmethod
    def begin(old: States, prototypes: Prototypes, mass: Array) -> Moments:
        xp = namespace(mass)
        scatter = 0 * old[Dispersion].scatter
        return Moments(xp.where(prototypes.active, mass + scatter, scatter), prototypes.centers, scatter)

    @classmethod
    def fade(cls, state: Moments, by: Array, alive: Array) -> Moments:
        new = super().fade(state, by, alive)
        return new._replace(mass=namespace(new.mass).where(alive, new.mass, 0 * new.mass))

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


class Overall(Members["OverallView"]):
    """Mass ω, mean μ and scatter S0/ω of all samples seen."""

    name: ClassVar = "overall"

    @classmethod
    def init(cls, k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> Moments:
        return super().init(1, features, streams, xp, dtype)

    @staticmethod
    def weights(step: Step) -> Array:
        return namespace(step.x).astype(step.seen, step.x.dtype)[None, ...]

    @classmethod
    def left(cls, step: Step) -> Array:
        return namespace(step.x).where(step.seen, step.fade, 0 * step.fade)[None, ...]

    @staticmethod
    def recorded(recording: RecordedClustering) -> Array:
        return namespace(recording.x).ones_like(recording.x[:, :1])

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
