"""Standardize: a z-score, so that sensors with different units have equal weight."""

from __future__ import annotations

import math
from typing import NamedTuple

from icvi_jax.numerics.arrays import cast, namespace
from icvi_jax.numerics.moments import share
from icvi_jax.spec import is_number, number, spec, static, whole
from icvi_jax.types import Array, Namespace


class StandardizeState(NamedTuple):
    """Mass (*streams), mean and variance (p, *streams) of the samples so far; after a warm-up the mass stays."""

    mass: Array
    mean: Array
    variance: Array


@spec
class Standardize:
    """Z-score for streams: a sample is scaled by the samples up to and including itself.

    .. math:: z = (x − m) / σ, \\quad b = 1/(λM + 1), \\quad m ← m + b (x − m), \\quad
              σ² ← (1 − b)(σ² + b (x − m_{old})²)

    A feature that never changed gives 0. The first sample gives 0 in every feature.

    A scale that is always updated hides changes: new values soon count as usual. With a `warmup` it is updated fully
    for so many samples, and from then on with b = 1 / `memory`: 0 if the memory is infinite, so that the scale is
    frozen. A feature that did not change during the warm-up continues with b = 1 / (warmup + 1) until it does; its
    first change then has the size √warmup in any unit.

    Parameters
    ----------
    forgetting : λ in (0, 1]; 1 never forgets. With a warm-up it must be 1.
    warmup : number of samples after which the scale is frozen, or changes with `memory`; None: never.
    memory : about how many samples the scale remembers after the warm-up.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> scaler = icvi.Standardize(warmup=2)
    >>> state = scaler.init(2, (), np, np.float64)
    >>> for x in ([0.0, 10.0], [2.0, 50.0], [4.0, 90.0]):
    ...     state, z = scaler.step(state, np.array(x), np.array(True))
    >>> np.round(z, 3).tolist()
    [3.0, 3.0]
    """

    forgetting: float = 1.0
    warmup: int | None = static(None)
    memory: float = math.inf

    def __post_init__(self) -> None:
        if is_number(self.forgetting):
            number("Standardize", "forgetting", self.forgetting, 0 < self.forgetting <= 1, "0 < forgetting <= 1")
        if is_number(self.memory):
            number("Standardize", "memory", self.memory, self.memory >= 1, "a number of samples of at least 1")
        if self.warmup is not None:
            whole("Standardize", "warmup", self.warmup, 2)
            if is_number(self.forgetting):
                wanted = "1 together with a warmup; use memory instead"
                number("Standardize", "forgetting", self.forgetting, self.forgetting == 1, wanted)
        elif is_number(self.memory):
            number("Standardize", "memory", self.memory, self.memory == math.inf, "a warmup, or use forgetting instead")

    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object) -> StandardizeState:
        flat = xp.zeros((features, *streams), dtype=dtype)
        return StandardizeState(xp.zeros(streams, dtype=dtype), flat, flat)

    def step(self, state: StandardizeState, x: Array, seen: Array) -> tuple[StandardizeState, Array]:
        """Update with `x` (p, *streams) where it was `seen`, and scale it."""
        xp = namespace(x)
        one, there = xp.ones_like(state.mass), xp.astype(seen, x.dtype)
        mass, b = share(state.mass, xp.where(seen, cast(self.forgetting, x), one), there)
        if self.warmup is not None:
            held = state.mass >= self.warmup
            mass = xp.where(held, state.mass, mass)
            whole = xp.ones_like(x)
            slow = xp.where(_flat(xp, state), whole / (self.warmup + 1), whole / cast(self.memory, x))
            b = xp.where(held, there * slow, b)
        e = x - state.mean
        variance = state.variance + b * ((1 - b) * e * e - state.variance)
        new = StandardizeState(mass, state.mean + b * e, variance)
        return new, (x - new.mean) / _scale(xp, new)

    def restore(self, state: StandardizeState, z: Array) -> Array:
        """Coordinates `z` (…, p, *streams) in the units of the samples, by the present scale."""
        return z * _scale(namespace(z), state) + state.mean


def _flat(xp: Namespace, state: StandardizeState) -> Array:
    """Where the spread of a feature is below rounding."""
    level = xp.finfo(state.mean.dtype).eps * xp.abs(state.mean)
    return state.variance <= level * level


def _scale(xp: Namespace, state: StandardizeState) -> Array:
    """Standard deviations; 1 for a feature whose spread is below rounding."""
    return xp.sqrt(xp.where(_flat(xp, state), xp.ones_like(state.variance), state.variance))
