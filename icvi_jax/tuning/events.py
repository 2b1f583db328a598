"""Record the run of a clusterer once, so that an index can be computed again with any memory."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from icvi_jax.engine.xla import scan_steps
from icvi_jax.indices import Index, XieBeni
from icvi_jax.monitors import Distress
from icvi_jax.numerics.arrays import usable
from icvi_jax.panel import Panel
from icvi_jax.pipeline import Pipeline
from icvi_jax.run import run_fleet
from icvi_jax.types import Array, ArrayLike, Namespace, Reading

xp: Namespace = jnp

Events: TypeAlias = tuple[Array, Array, Array, Array]
"""Samples, memberships, centres and active slots, time first and streams last."""


def parts(pipe: Pipeline) -> tuple[Distress, Index, Panel]:
    """The monitor, the index it watches, and a panel of only that index, in its exact form."""
    monitor = next(iter(pipe.monitors.values()), None)
    if len(pipe.monitors) != 1 or not isinstance(monitor, Distress) or pipe.panel is None:
        raise ValueError("tune(pipe=…): expected one monitor, a Distress")
    if pipe.standardize is not None:
        raise ValueError("tune(pipe=…): a pipeline with standardize cannot be tuned; standardize the samples before")
    index = next(i for i in pipe.indices if i.name == monitor.index)
    if isinstance(index, XieBeni):
        index = dataclasses.replace(index, normalizer="exact")
    return monitor, index, dataclasses.replace(pipe.panel, indices=(index,))


def events_of(pipe: Pipeline, X: ArrayLike) -> Events:
    """Samples, memberships, centres and active slots as `Panel.step` takes them, time first and streams last."""
    readings: Reading = run_fleet(pipe, np.asarray(X), keep=("u", "centers")).readings
    centers = xp.moveaxis(readings.centers, 0, -1)
    x = xp.moveaxis(xp.asarray(X, centers.dtype), 0, -1)
    active = xp.isfinite(centers[:, :, 0])
    used = np.flatnonzero(np.asarray(active).any(axis=(0, 2)))  # slots that no stream ever used only cost time
    u, active, centers = xp.moveaxis(readings.u, 0, -1)[:, used], active[:, used], centers[:, used]
    return x, u, xp.where(active[:, :, None], centers, 0), active


def copies(events: Events, count: int) -> Events:
    """The same streams `count` times."""
    x, u, centers, active = (xp.concat([a] * count, axis=-1) for a in events)
    return x, u, centers, active


def traced(events: Events, fuzzifier: float) -> Events:
    """Events with a tiny membership of every sample in every active cluster, for the surrogate only.

    The mass of a cluster without new members fades to the smallest number there is, and the derivative of a ratio to it
    is not finite. A weight of 1e-14 in all clusters changes no index and keeps derivatives finite.
    """
    x, u, centers, active = events
    return x, xp.where(active, xp.maximum(u, float(1e-14 ** (1 / fuzzifier))), u), centers, active


def values_of(panel: Panel, events: Events) -> dict[str, Array]:
    """Index values (T, N) by name, NaN where a sample is missing."""
    x, u, centers, active = events
    k, p, n = centers.shape[1:]
    values = scan_steps(panel, panel.init(k, p, streams=(n,), dtype=x.dtype), (x, u, centers, active))[1]
    seen = usable(x).all(axis=1)
    return {name: xp.where(seen, value, xp.nan) for name, value in values.items()}
