r"""Dispersion: how far each cluster's members are from its centre.      C_i = Σ_j λ^{n−j} u_ij^m ‖x_j − v_i‖²

Carried as the mass, mean and scatter of the members (see `icvi_jax.kernels.moments`): the centre is the one of *now*,
whatever it was when a sample came, and enters only when the statistic is read. A slot that is not active has no mass,
so a birth starts from nothing and a death leaves nothing behind.
"""

from __future__ import annotations

from functools import cached_property

from icvi_jax.kernels import moments
from icvi_jax.kernels.arrays import count, namespace
from icvi_jax.kernels.moments import Moments
from icvi_jax.statistics.base import Statistic, chosen, placed


class Dispersion(Statistic):
    """Mass M, mean m and scatter of each cluster's members; read as C, L = C/M and S/M about the centres now."""

    name = "dispersion"

    @staticmethod
    def init(k, features, streams, xp, dtype):
        return moments.zeros(k, features, streams, xp, dtype)

    @staticmethod
    def update(old, step):
        new = moments.absorb(old["dispersion"], step.x, step.w, step.fade)
        return new._replace(mass=namespace(step.x).where(step.after.active, new.mass, 0 * new.mass))

    @staticmethod
    def batch(recording):
        return moments.batch(recording.x, recording.w, recording.fades)

    @staticmethod
    def begin(old, prototypes, mass):
        xp = namespace(mass)
        scatter = 0 * old["dispersion"].scatter
        return Moments(xp.where(prototypes.active, mass + scatter, scatter), prototypes.centers, scatter)

    @staticmethod
    def shift(state, by):
        return state._replace(mean=state.mean + by)

    @staticmethod
    def fade(state, by, alive):
        mass = moments.share(state.mass, by, 0)[0]
        return state._replace(mass=namespace(mass).where(alive, mass, 0 * mass))

    @staticmethod
    def combine(a, b):
        return moments.combine(a["dispersion"], b["dispersion"])

    @staticmethod
    def remove(old, step):
        return moments.remove(old["dispersion"], step.x, step.w)

    @staticmethod
    def merge(old, merge):
        state = old["dispersion"]
        return placed(state, moments.combine(chosen(state, merge.into), chosen(state, merge.gone)), merge)

    @staticmethod
    def forget(state, born):
        return state._replace(mass=namespace(state.mass).where(born, 0 * state.mass, state.mass))

    @staticmethod
    def view(stats, state):
        return DispersionView(stats, state)


class DispersionView:
    """What indices read of a dispersion.

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

    def __init__(self, stats, state):
        self._centers, self._active = stats.centers, stats.active
        self.mass, self.mean, self.scatter = state
        self._state = state

    @cached_property
    def level(self):
        return moments.about(self._state, self._centers)

    @cached_property
    def each(self):
        return self.mass * self.level

    @cached_property
    def total(self):
        return namespace(self.mass).sum(self.each, axis=0)

    @cached_property
    def widest(self):
        return namespace(self.mass).max(self.level, axis=0)

    @cached_property
    def empty(self):
        return count(self._active & (self.mass <= 0))
