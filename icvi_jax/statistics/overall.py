r"""Overall: faded mean μ and scatter S0 of all samples, whatever cluster they joined."""

from __future__ import annotations

from functools import cached_property

from icvi_jax.kernels import moments
from icvi_jax.kernels.arrays import namespace, squares
from icvi_jax.statistics.base import Statistic


class Overall(Statistic):
    """Mass ω, mean μ and scatter S0/ω of all samples seen, as the moments of one cluster that takes everything."""

    name = "overall"

    @staticmethod
    def init(k, features, streams, xp, dtype):
        return moments.zeros(1, features, streams, xp, dtype)

    @staticmethod
    def update(old, step):
        seen = namespace(step.x).astype(step.seen, step.x.dtype)
        return moments.absorb(old["overall"], step.x, seen[None, ...], step.fade)

    @staticmethod
    def batch(recording):
        one = namespace(recording.x).ones_like(recording.x[:, :1])
        return moments.batch(recording.x, one, recording.fades)

    @staticmethod
    def shift(state, by):
        return state._replace(mean=state.mean + by)

    @staticmethod
    def fade(state, by, alive):
        return state._replace(mass=moments.share(state.mass, by, 0)[0])

    @staticmethod
    def combine(a, b):
        return moments.combine(a["overall"], b["overall"])

    @staticmethod
    def remove(old, step):
        seen = namespace(step.x).where(step.seen, step.fade, 0 * step.fade)
        return moments.remove(old["overall"], step.x, seen[None, ...])

    @staticmethod
    def view(stats, state):
        return OverallView(stats, state)


class OverallView:
    """What indices read.

    Attributes
    ----------
    mean : μ (p, *streams).
    scatter : S0 (*streams).
    between : B = Σ M_i ‖v_i − μ‖² (*streams); for indices that need the dispersion too.
    """

    def __init__(self, stats, state):
        self._stats = stats
        self.mean = state.mean[0, ...]
        self.scatter = (state.mass * state.scatter)[0, ...]

    @cached_property
    def between(self):
        d = squares(self._stats.centers - self.mean, 1)
        return namespace(d).sum(self._stats.dispersion.mass * d, axis=0)  # an inactive slot has no mass
