"""A monitor and an F1 without jumps, so that thresholds have gradients."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from icvi_jax.monitors.scale import badness
from icvi_jax.numerics.arrays import cast
from icvi_jax.spec import spec
from icvi_jax.types import Array, Namespace

xp: Namespace = jnp


class SoftState(NamedTuple):
    """Level, spread, number of values, and to what degree there is an episode, each (*streams)."""

    level: Array
    spread: Array
    heard: Array
    episode: Array


@spec
class SoftDistress:
    r"""`Distress` with a degree from 0 to 1 for every yes or no, so that thresholds have gradients; for spikes only.

    With :math:`θ = \max(\log f, w s)`, a spike is :math:`σ((y − m − θ)/τ)`, an episode continues to the degree
    :math:`σ((y − m − \text{back}\, θ)/τ)`, and an alarm is a spike outside an episode. The level is learned to the
    degree that there is no episode; during one it moves slowly, as patience ends.
    """

    factor: float | Array
    width: float | Array
    patience: float
    memory: float
    warm: float
    back: float
    softness: float

    def init(self, streams: tuple[int, ...]) -> SoftState:
        """The state before any value."""
        zero = xp.zeros(streams)
        return SoftState(zero, zero, zero, zero)

    def step(self, state: SoftState, value: Array, goal: str, positive: bool) -> tuple[SoftState, Array]:
        """The state after an index value (*streams), and the degree to which a spike is raised."""
        y, ok = badness(value, xp.asarray(True), goal, positive, state.level)
        m = xp.where(state.heard == 0, y, state.level)
        s, e = state.spread, y - m
        tau = cast(self.softness, y)
        theta = xp.maximum(xp.log(cast(self.factor, y)), cast(self.width, y) * s)
        over = _sigmoid((e - theta) / tau) * (state.heard >= self.warm) * ok
        stays = _sigmoid((e - self.back * theta) / tau)
        raised = over * (1 - state.episode)
        episode = xp.where(ok, over + (1 - over) * state.episode * stays, state.episode)
        clip = xp.where(state.heard < 10, xp.abs(e), 3 * s)
        gain = xp.maximum(1 / (state.heard + 1), 1 / self.memory) * (1 - episode)
        moved = gain * xp.clip(e, -clip, clip) + episode / self.patience * e
        return SoftState(
            xp.where(ok, m + moved, state.level),
            xp.where(ok, s + gain * (1.2533 * xp.minimum(xp.abs(e), clip) - s), s),
            xp.where(ok, state.heard + 1, state.heard),
            episode,
        ), raised


def soft_f1(raised: Array, windows: Array, counts: Array, tolerance: int) -> Array:
    """F1 of degrees of alarm, (N,), with a small reward for speed.

    A change is found to the degree that there is an alarm in its window; a hit at the end of the window counts 0.8.

    Parameters
    ----------
    raised : (T + tolerance, N), degrees; the last `tolerance` rows are zero.
    windows : (N, C), changes, with any number where a stream has fewer than C.
    counts : (N, C), 1 for a change, 0 for padding.
    """
    offsets = xp.arange(tolerance + 1)
    inside = raised[windows[..., None] + offsets, xp.arange(raised.shape[1])[:, None, None]]
    nothing_yet = xp.cumprod(xp.concat([xp.ones_like(inside[..., :1]), 1 - inside[..., :-1]], axis=-1), axis=-1)
    hits = (inside * nothing_yet * 0.8 ** (offsets / max(tolerance, 1))).sum(-1)
    return 2 * (hits * counts).sum(1) / xp.maximum(raised.sum(0) + counts.sum(1), 1e-6)


def _sigmoid(a: Array) -> Array:
    return jax.nn.sigmoid(jnp.asarray(a))
