r"""Overall: faded mean μ and scatter S0 of all samples, whatever cluster they joined."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from icvi_jax.numerics import moments
from icvi_jax.numerics.arrays import namespace, squares
from icvi_jax.numerics.moments import Moments
from icvi_jax.statistics.base import Recording, States, Statistic, Step
from icvi_jax.statistics.dispersion import Dispersion
from icvi_jax.types import Array, DType, Namespace

if TYPE_CHECKING:
    from icvi_jax.statistics.stats import Stats


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
    def batch(recording: Recording) -> Moments:
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
