"""What `run` and `run_fleet` share: checks of what they are given, and the plain loop for NumPy and torch."""

from __future__ import annotations

import importlib
from functools import partial

import array_api_compat
import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.kernels.arrays import library
from icvi_jax.pipeline import PipelineState
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
    if 0 in X.shape:
        raise ValueError(f"{caller}: {'the stream is' if T * p == 0 else 'the fleet is'} empty, shape {tuple(X.shape)}")
    least = pipe.least(p)
    if state is None and least > T and not chunk:
        name = type(pipe.clusterer).__name__
        hint = "if more will come, give state=pipe.init(features)"
        raise ValueError(f"{caller}: {name} needs {least} samples to start, the stream has {T}; {hint}")
    if state is not None:
        _check_state(caller, pipe, state, p, tuple(X.shape[:-2]))


def _check_state(caller: str, pipe, state, p: int, streams: tuple[int, ...]):
    """Complain about a state of another pipeline, other features or another fleet."""
    if not isinstance(state, PipelineState):
        raise ValueError(f"{caller}(state=…): needs a state such as run(…).state, got {type(state).__name__}")
    if state.anchor.high.shape[0] != p:
        raise ValueError(f"{caller}: the state is for {state.anchor.high.shape[0]} features, the samples have {p}")
    if tuple(state.anchor.high.shape[1:]) != streams:
        of = "one stream" if state.anchor.high.ndim == 1 else f"{state.anchor.high.shape[1]} streams"
        raise ValueError(f"{caller}: the state is for {of}, the samples are of {streams[0] if streams else 'one'}")
    wanted = jax.tree_util.tree_flatten_with_path(start_one.eval_shape(pipe, p))[0]
    found = {jax.tree_util.keystr(path): tuple(a.shape) for path, a in jax.tree_util.tree_flatten_with_path(state)[0]}
    for path, a in wanted:
        name, shape = jax.tree_util.keystr(path), (*a.shape, *streams)
        if found.pop(name, None) != shape:
            raise ValueError(f"{caller}: this is no state of this pipeline, whose {name} has the shape {shape}")
    for name in found:
        raise ValueError(f"{caller}: this is no state of this pipeline, which has no {name}")


@partial(jax.jit, static_argnames=("features", "dtype"))
def start_one(pipe, features: int, dtype: np.dtype | None = None):
    """The state of one stream before any sample: one small program, where operation by operation would be dozens."""
    return pipe.init(features, dtype=dtype)


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


def together(X: list | tuple) -> np.ndarray:
    """A fleet (N, T, p) of a list of streams (t, p): those that end earlier go on with missing samples."""
    streams = [np.asarray(floats(x)) for x in X]
    if {x.ndim for x in streams} != {2} or len({x.shape[1] for x in streams}) > 1:
        shapes = ", ".join(str(x.shape) for x in streams[:3]) or "none"
        wanted = "streams (T, p) of the same features; chunks of a fleet go in an iterator"
        raise ValueError(f"run_fleet: a list wants {wanted}, got {shapes}")
    shape = len(streams), max(map(len, streams)), streams[0].shape[1]
    out = np.full(shape, np.nan, np.result_type(*streams))
    for row, x in zip(out, streams):
        row[: len(x)] = x
    return out


def floats(X):
    """X as floats: a JAX array stays one, anything else becomes a NumPy array."""
    X = X if isinstance(X, jax.Array) else np.asarray(X)
    if jnp.issubdtype(X.dtype, jnp.complexfloating):
        raise ValueError("X holds complex numbers; give the real and the imaginary part as two features")
    return X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(float)


def backend_arrays(backend: str, X):
    """The array namespace of `backend`, and X in it as floats."""
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: choose one of {', '.join(map(repr, BACKENDS))}")
    if not array_api_compat.is_array_api_obj(X) and not isinstance(X, (list, tuple)):
        table = importlib.import_module("icvi_jax.tables.frames").from_frame(X)
        if table.notes:
            raise ValueError(f"X: not all columns are of numbers; choose those that are ({'; '.join(table.notes)})")
        X = table.x
    if backend == "jax":
        return jnp, jnp.asarray(floats(X))
    if backend == "numpy":
        return library(np), floats(np.asarray(X))
    xp = library(importlib.import_module("torch"))
    X = xp.asarray(X)
    return xp, X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
