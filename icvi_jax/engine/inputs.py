"""Checks of input: samples of any kind, for every entry point, are checked once here.

All functions that take samples from users (`run`, `run_fleet`, `Live`, `validate`, `batch`) call `given` to convert
them, `fits` to check that they fit the pipeline, and `gaps` to check the times between them. Samples on the host become
a NumPy array in their own precision: the origin is subtracted in that precision (`icvi_jax.origin`), not here.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat
import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, ArrayLike, Reading, State

FIELDS = Reading._fields
BACKENDS = ("jax", "numpy", "torch")


class Given(NamedTuple):
    """Samples, and the kind of results."""

    # floats: a NumPy array where the samples are on the host; a JAX array where they are traced or on another device, a
    # torch tensor if it is on another device or needs gradients
    x: Array
    library: str  # "numpy", "jax" or "torch", of the results
    dtype: np.dtype  # of the state, if there is none yet
    columns: tuple[str, ...] = ()  # their names, if X is a table

    @property
    def host(self) -> bool:
        """Whether the samples are in the memory of this process."""
        return isinstance(self.x, np.ndarray)


def given(caller: str, X: object, backend: str | None = None) -> Given:
    """Samples of any kind: an array of any library, a list, or a pandas, polars or Arrow table.

    Results are of the library of X, of NumPy for lists and tables, or of `backend`. The state is float32, or float64
    where X is and `jax_enable_x64` is on; for torch tensors, and with "numpy" or "torch", it has the precision of X.
    """
    if backend is not None and backend not in BACKENDS:
        raise ValueError(f"{caller}(backend={backend!r}): choose one of {', '.join(map(repr, BACKENDS))}")
    columns: tuple[str, ...] = ()
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)  # masked is missing
    if not array_api_compat.is_array_api_obj(X) and not isinstance(X, (list, tuple)):
        try:
            X, columns = _table(X)
        except TypeError:
            raise ValueError(f"{caller}(X=…): expected an array, a list or a table, got {type(X).__name__}") from None
    torch, jaxed = array_api_compat.is_torch_array(X), isinstance(X, jax.Array)
    library = backend or ("torch" if torch else "jax" if jaxed else "numpy")
    try:
        x = _floats(caller, _host(X, torch and library == "torch", jaxed))
    except ValueError as problem:
        if isinstance(X, (list, tuple)) and "inhomogeneous" in str(problem):
            raise ValueError(f"{caller}(X=…): expected rows of the same length, got a ragged list") from None
        raise
    if library == "torch" and not torch and not isinstance(x, np.ndarray):
        raise ValueError(f"{caller}(backend='torch'): not for JAX arrays that are traced or on another device")
    own = backend in ("numpy", "torch") or library == "torch"
    wide = x.dtype.itemsize == 8 and (own or jax.config.read("jax_enable_x64"))
    return Given(x, library, np.dtype(np.float64 if wide else np.float32), columns)


def returned(tree: State, library: str) -> State:
    """NumPy arrays as arrays of `library`."""
    if library == "jax":
        return jax.tree.map(jnp.asarray, tree)
    if library == "torch":
        make = importlib.import_module("torch").from_numpy
        return jax.tree.map(lambda a: make(np.require(a, requirements="W")), tree)
    return tree


def on_host(tree: State) -> State:
    """Arrays of any library as NumPy arrays."""
    return jax.tree.map(np.asarray, tree)


def traced(*trees: object) -> bool:
    """Whether any array is a tracer of JAX, inside a `jit`, `vmap` or `grad`."""
    return any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves(trees))


def wanted(caller: str, keep: str | tuple[str, ...]) -> tuple[str, ...]:
    """`keep` as a tuple in the order of a reading's fields, or an error that names what may be kept."""
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    for field in keep:
        if field not in (*FIELDS, "final"):
            raise ValueError(f"{caller}(keep={keep!r}): {field!r} is not a field of a reading; choose from {FIELDS}")
    return tuple(field for field in FIELDS if field in keep)


def fits(caller: str, pipe: Pipeline, X: Array, state: PipelineState | None, axes: str, more: bool = False) -> None:
    """Raise a ValueError for samples of a wrong shape or too few of them; with `more` to come, a few are enough."""
    shape = tuple(X.shape)
    if len(shape) != len(axes.split(",")):
        axes_hint = {
            ("run", 3): "; run_fleet takes many streams (N, T, p)",
            ("run_fleet", 2): "; run takes one stream (T, p)",
        }
        raise ValueError(
            f"{caller}(X=…): expected the axes ({axes}), got shape {shape}{axes_hint.get((caller, len(shape)), '')}"
        )
    T, p = shape[-2:]
    if 0 in shape:
        raise ValueError(f"{caller}: {'the stream is' if T * p == 0 else 'the fleet is'} empty, shape {shape}")
    if state is not None:
        return own_state(caller, pipe, state, p, shape[:-2])
    least = pipe.least(p)
    if least > T and not more:
        name = type(pipe.clusterer).__name__
        turned = f"; X is ({axes}), a row is a sample" if p > T else ""
        hint = f"if more will come, give state=pipe.init(features){turned}"
        raise ValueError(f"{caller}: {name} needs {least} samples to start, the stream has {T}; {hint}")


def gaps(caller: str, elapsed: ArrayLike | None, *shapes: tuple[int, ...]) -> Array | None:
    """The times since the previous sample as an array of one of the shapes, finite and not negative, or an error."""
    if elapsed is None:
        return None
    given: State = elapsed if traced(elapsed) else np.asarray(elapsed)
    if tuple(given.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{caller}(elapsed=…): expected one number per sample, {wanted}, got {tuple(given.shape)}")
    if getattr(given.dtype, "kind", "f") in "mM":
        raise ValueError(
            f"{caller}(elapsed=…): expected numbers, got times ({given.dtype}); divide by the unit of time"
        )
    if traced(given):
        found: Array = given
        return found  # no error is possible here; a step treats a sample with a wrong time as missing
    times: np.ndarray = given if given.dtype.kind == "f" else given.astype(float)
    wrong = np.argwhere(~(np.isfinite(times) & (times >= 0)))
    if len(wrong):
        *stream, row = wrong[0].tolist()
        where = f"row {row}" + (f" of stream {stream[0]}" if stream else "")
        rule = "expected finite times that are not negative"
        raise ValueError(f"{caller}(elapsed=…): {rule}, but {where} has {float(times[(*stream, row)])!r}")
    return times


def together(caller: str, X: Sequence[object]) -> np.ndarray:
    """A fleet (N, T, p) from a list of streams (t, p): shorter ones are padded with missing samples."""
    streams = [np.asarray(given(caller, x, "numpy").x) for x in X]
    if {x.ndim for x in streams} != {2} or len({x.shape[1] for x in streams}) > 1:
        shapes = ", ".join(str(x.shape) for x in streams[:3]) or "none"
        wanted = "streams (T, p) of the same features; chunks of a fleet go in an iterator"
        raise ValueError(f"{caller}(X=[…]): expected {wanted}, got {shapes}")
    shape = len(streams), max(map(len, streams)), streams[0].shape[1]
    out = np.full(shape, np.nan, np.result_type(*streams))
    for row, x in zip(out, streams):
        row[: len(x)] = x
    return out


def _table(X: object) -> tuple[np.ndarray, tuple[str, ...]]:
    table: State = importlib.import_module("icvi_jax.tables.dataframes").from_frame(X)
    if table.notes:
        raise ValueError(f"X: not all columns are of numbers; choose those that are ({'; '.join(table.notes)})")
    return table.x, tuple(table.features)


def _host(X: State, torch: bool, jaxed: bool) -> Array:
    """X as a NumPy array if it is in the memory of this process; `torch`: a tensor that may stay one."""
    stays = jaxed and (traced(X) or not X.is_fully_addressable or any(d.platform != "cpu" for d in X.devices()))
    if stays or (torch and (X.device.type != "cpu" or X.requires_grad)):
        there: Array = X
        return there
    return np.asarray(X.detach().cpu() if array_api_compat.is_torch_array(X) else X)


def _floats(caller: str, x: Array) -> Array:
    kind = getattr(x.dtype, "kind", "")
    if kind == "c" or getattr(x.dtype, "is_complex", False):
        raise ValueError(f"{caller}: X holds complex numbers; give real and imaginary part as two features")
    if kind in ("m", "M"):
        raise ValueError(f"{caller}(X=…): expected numbers, got times ({x.dtype}); if meant so: X.astype(float)")
    if isinstance(x, np.ndarray):
        if x.dtype in (np.float32, np.float64):
            return x
        wide = kind in "iubO" or (kind == "f" and x.itemsize >= 4)  # others: JAX's small floats
        try:
            return x.astype(np.float64 if wide else np.float32)
        except (TypeError, ValueError):
            raise ValueError(f"{caller}(X=…): expected numbers, got {x.dtype}") from None
    xp = array_api_compat.array_namespace(x)
    return x if xp.isdtype(x.dtype, "real floating") else xp.astype(x, xp.asarray(0.0).dtype)


def own_state(caller: str, pipe: Pipeline, state: PipelineState, p: int, streams: tuple[int, ...]) -> None:
    """Raise a ValueError for a state of another pipeline, other features or another fleet."""
    if not isinstance(state, PipelineState):
        raise ValueError(f"{caller}(state=…): expected a state such as run(…).state, got {type(state).__name__}")
    high = state.anchor.high
    if high.shape[0] != p:
        raise ValueError(f"{caller}: the state is for {high.shape[0]} features, the samples have {p}")
    if tuple(high.shape[1:]) != streams:
        of = "one stream" if high.ndim == 1 else f"{high.shape[1]} streams"
        raise ValueError(f"{caller}: the state is for {of}, the samples are of {streams[0] if streams else 'one'}")
    wrong = pipe.misfit(state)
    if wrong:
        raise ValueError(f"{caller}(state=…): {wrong}")
