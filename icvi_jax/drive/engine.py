"""What `run` and `run_fleet` share: checks of what they are given, and the plain loop for NumPy and torch."""

from __future__ import annotations

import importlib

import array_api_compat
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


def check_samples(caller: str, pipe, X, state, axes: str, chunk: bool = False):
    """Complain about samples that no stream can consist of, or no part of one if they are a `chunk`."""
    if X.ndim != len(axes.split(",")):
        raise ValueError(f"{caller}: X needs the axes ({axes}), got shape {tuple(X.shape)}")
    T, p = X.shape[-2:]
    if p == 0 or T == 0:
        raise ValueError(f"{caller}: the stream is empty, shape {tuple(X.shape)}")
    least = pipe.clusterer.least(p)
    if state is None and least > T and not chunk:
        name = type(pipe.clusterer).__name__
        raise ValueError(f"{caller}: {name} needs {least} samples to start, the stream has {T}")
    if state is not None and state.anchor.shape[0] != p:
        raise ValueError(f"{caller}: the state is for {state.anchor.shape[0]} features, the samples have {p}")


def check_elapsed(caller: str, elapsed, *shapes: tuple[int, ...]) -> np.ndarray | None:
    """`elapsed` as an array of one of the shapes, or an error."""
    if elapsed is None:
        return None
    elapsed = np.asarray(elapsed)
    if elapsed.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{caller}(elapsed=…): needs one number a sample, {wanted}, got {elapsed.shape}")
    return elapsed


def kept(reading: Reading, keep: tuple[str, ...]) -> Reading:
    """`reading` with None in the fields that are not kept."""
    return Reading(*(value if name in keep else None for name, value in zip(FIELDS, reading)))


def loop(pipe, state, X, elapsed, keep, xp, every=1):
    """Step through X (T, p, *streams), one call a sample, on any array library."""
    readings, spare = [], int(every > 1)  # the first one, spare, says what a stack of none looks like
    for t in range(X.shape[0]):
        state, reading = pipe.step(state, X[t, ...], None if elapsed is None else elapsed[t, ...])
        if t == 0 or (t + 1) % every == 0:
            readings.append(kept(reading, keep))
    return state, jax.tree.map(lambda a: a[spare:, ...], stack(readings, xp))


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


def floats(X):
    """X as floats: a JAX array stays one, anything else becomes a NumPy array."""
    X = X if isinstance(X, jax.Array) else np.asarray(X)
    return X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(float)


def backend_arrays(backend: str, X):
    """The array namespace of `backend`, and X in it as floats."""
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: choose one of {', '.join(map(repr, BACKENDS))}")
    if not array_api_compat.is_array_api_obj(X) and not isinstance(X, (list, tuple)):
        X = importlib.import_module("icvi_jax.tables.frames").from_frame(X).x
    if backend == "jax":
        return jnp, jnp.asarray(floats(X))
    if backend == "numpy":
        return library(np), floats(np.asarray(X))
    xp = library(importlib.import_module("torch"))
    X = xp.asarray(X)
    return xp, X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
