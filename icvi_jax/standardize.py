"""Standardize: a running z-score, so that sensors with different units count alike."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.kernels.arrays import cast, namespace
from icvi_jax.kernels.moments import share
from icvi_jax.spec import is_number, number, spec
from icvi_jax.types import Array


class StandardizeState(NamedTuple):
    """Mass (*streams), mean and variance (p, *streams) of the samples so far."""

    mass: Array
    mean: Array
    variance: Array


@spec
class Standardize:
    """Running z-score, honest to the stream: a sample is scaled by what was seen up to and including itself.

    .. math:: z = (x − m) / σ, \\quad b = 1/(λM + 1), \\quad m ← m + b (x − m), \\quad
              σ² ← (1 − b)(σ² + b (x − m_{old})²)

    A feature that never changed gives 0. The first sample gives 0 in every feature.

    Parameters
    ----------
    forgetting : λ in (0, 1]; 1 never forgets.
    """

    forgetting: float = 1.0

    def __post_init__(self):
        if is_number(self.forgetting):
            number("Standardize", "forgetting", self.forgetting, 0 < self.forgetting <= 1, "0 < forgetting <= 1")

    def init(self, features, streams, xp, dtype):
        flat = xp.zeros((features, *streams), dtype=dtype)
        return StandardizeState(xp.zeros(streams, dtype=dtype), flat, flat)

    def step(self, state, x, seen):
        """Take in `x` (p, *streams) where it was `seen`, and scale it."""
        xp = namespace(x)
        fade = xp.where(seen, cast(self.forgetting, x), xp.ones_like(state.mass))
        mass, b = share(state.mass, fade, xp.astype(seen, x.dtype))
        e = x - state.mean
        variance = state.variance + b * ((1 - b) * e * e - state.variance)
        new = StandardizeState(mass, state.mean + b * e, variance)
        return new, (x - new.mean) / _scale(xp, new)

    def restore(self, state, z):
        """Coordinates `z` (…, p, *streams) in the units of the samples, by the scale of now."""
        return z * _scale(namespace(z), state) + state.mean


def _scale(xp, state):
    """Standard deviations; 1 for a feature whose spread is below rounding."""
    level = xp.finfo(state.mean.dtype).eps * xp.abs(state.mean)
    flat = state.variance <= level * level
    return xp.sqrt(xp.where(flat, xp.ones_like(state.variance), state.variance))
