"""A monitor and an F1 without jumps, so that thresholds have gradients."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from icvi_jax.kernels.arrays import cast
from icvi_jax.monitors.scale import badness
from icvi_jax.spec import spec
from icvi_jax.types import Array


class SoftState(NamedTuple):
    """Level, spread, values heard, and to what degree there is an episode, each (*streams)."""

    level: Array
    spread: Array
    heard: Array
    episode: Array


@spec
class SoftDistress:
    r"""`Distress` with every yes or no made a degree, so that thresholds have gradients; for its spikes only.

    With :math:`θ = \max(\log f, w s)`, a spike is :math:`σ((y − m − θ)/τ)`, an episode goes on to the degree
    :math:`σ((y − m − \text{back}\, θ)/τ)`, and what is raised is a spike outside an episode. The level is learned to
    the degree that there is none, and within one moves slowly, as patience runs out.
    """

    factor: float
    width: float
    patience: float
    memory: float
    warm: float
    back: float
    softness: float

    def init(self, streams):
        """The state before any value."""
        zero = jnp.zeros(streams)
        return SoftState(zero, zero, zero, zero)

    def step(self, state, value, goal, positive):
        """The state after an index value (*streams), and the degree to which a spike is raised."""
        y, ok = badness(value, jnp.asarray(True), goal, positive, state.level)
        m = jnp.where(state.heard == 0, y, state.level)
        s, e = state.spread, y - m
        tau = cast(self.softness, y)
        theta = jnp.maximum(jnp.log(cast(self.factor, y)), cast(self.width, y) * s)
        over = jax.nn.sigmoid((e - theta) / tau) * (state.heard >= self.warm) * ok
        stays = jax.nn.sigmoid((e - self.back * theta) / tau)
        raised = over * (1 - state.episode)
        episode = jnp.where(ok, over + (1 - over) * state.episode * stays, state.episode)
        clip = jnp.where(state.heard < 10, jnp.abs(e), 3 * s)
        gain = jnp.maximum(1 / (state.heard + 1), 1 / self.memory) * (1 - episode)
        moved = gain * jnp.clip(e, -clip, clip) + episode / self.patience * e
        return SoftState(
            jnp.where(ok, m + moved, state.level),
            jnp.where(ok, s + gain * (1.2533 * jnp.minimum(jnp.abs(e), clip) - s), s),
            jnp.where(ok, state.heard + 1, state.heard),
            episode,
        ), raised


def soft_f1(raised: Array, windows: Array, counts: Array, tolerance: int) -> Array:
    """F1 of degrees of alarm, (N,), with a mild reward for speed.

    A change is met to the degree that anything is raised in its window; a hit at the window's end counts 0.8.

    Parameters
    ----------
    raised : (T + tolerance, N), degrees; the last `tolerance` rows are zero.
    windows : (N, C), changes, with any number where a stream has fewer than C.
    counts : (N, C), 1 for a change, 0 for padding.
    """
    offsets = jnp.arange(tolerance + 1)
    inside = raised[windows[..., None] + offsets, jnp.arange(raised.shape[1])[:, None, None]]
    nothing_yet = jnp.cumprod(jnp.concatenate([jnp.ones_like(inside[..., :1]), 1 - inside[..., :-1]], axis=-1), axis=-1)
    hits = (inside * nothing_yet * 0.8 ** (offsets / max(tolerance, 1))).sum(-1)
    return 2 * (hits * counts).sum(1) / jnp.maximum(raised.sum(0) + counts.sum(1), 1e-6)
