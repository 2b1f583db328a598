"""The scan under `run` and `run_fleet`, and the plain loop that serves NumPy and torch."""

from __future__ import annotations

import importlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.kernels.arrays import library
from icvi_jax.types import Alarm, Reading

FIELDS = Reading._fields
BACKENDS = ("jax", "numpy", "torch")


def check_keep(caller: str, keep: tuple[str, ...]) -> tuple[str, ...]:
    """`keep` as a tuple, or an error that names what may be kept."""
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    for field in keep:
        if field not in (*FIELDS, "final"):
            raise ValueError(f"{caller}(keep={keep!r}): {field!r} is no field of a reading; choose from {FIELDS}")
    return keep


def check_samples(caller: str, pipe, X, state, axes: str):
    """Complain about samples that no stream can consist of."""
    if X.ndim != len(axes.split(",")):
        raise ValueError(f"{caller}: X needs the axes ({axes}), got shape {tuple(X.shape)}")
    T, p = X.shape[-2:]
    if p == 0 or T == 0:
        raise ValueError(f"{caller}: the stream is empty, shape {tuple(X.shape)}")
    least = pipe.clusterer.least(p)
    if state is None and least > T:
        raise ValueError(f"{caller}: {type(pipe.clusterer).__name__} needs {least} samples to start, the stream has {T}")
    if state is not None and state.anchor.shape[0] != p:
        raise ValueError(f"{caller}: the state is for {state.anchor.shape[0]} features, the samples have {p}")


def kept(reading: Reading, keep: tuple[str, ...]) -> Reading:
    """`reading` with None in the fields that are not kept."""
    return Reading(*(value if name in keep else None for name, value in zip(FIELDS, reading)))


@partial(jax.jit, static_argnames=("keep",))
def scan(pipe, state, X, elapsed, keep):
    """Scan `pipe.step` over X (T, p, *streams); the pipeline is an argument, so a new number does not recompile."""

    def body(state, inputs):
        state, reading = pipe.step(state, *inputs)
        return state, kept(reading, keep)

    return jax.lax.scan(body, state, (X, elapsed))


def loop(pipe, state, X, elapsed, keep, xp):
    """The same as `scan`, one call a sample, on any array library."""
    readings = []
    for t in range(X.shape[0]):
        state, reading = pipe.step(state, X[t, ...], None if elapsed is None else elapsed[t])
        readings.append(kept(reading, keep))
    return state, stack(readings, xp)


def stack(items: list, xp):
    """Stack equal trees of arrays along a new first axis."""
    first = items[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {name: stack([item[name] for item in items], xp) for name in first}
    if isinstance(first, (Alarm, Reading)):
        return type(first)(*(stack([item[i] for item in items], xp) for i in range(len(first))))
    return xp.stack([xp.asarray(item) for item in items])


def backend_arrays(backend: str, X):
    """The array namespace of `backend`, and X in it as floats."""
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: choose one of {', '.join(map(repr, BACKENDS))}")
    if backend == "jax":
        X = jnp.asarray(X)
        return jnp, X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.result_type(float))
    if backend == "numpy":
        X = np.asarray(X)
        return library(np), X if np.issubdtype(X.dtype, np.floating) else X.astype(float)
    xp = library(importlib.import_module("torch"))
    X = xp.asarray(X)
    return xp, X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
