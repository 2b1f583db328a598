"""The decision which backend runs a step.

Where JAX sees a GPU or TPU a fleet goes there. On the host, and for few streams of the host's, it is native code made
by LLVM. XLA runs the rest. `ICVI_BACKEND` forces one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Protocol

import jax
import numpy as np
from jax.sharding import Mesh

from icvi_jax.engine import xla
from icvi_jax.engine.native_engine import Native, Unsupported
from icvi_jax.engine.sample_batch import Feed
from icvi_jax.types import State

ENGINES = ("llvm", "xla")

FEWEST = 1024
"""Fewer streams than this, in the memory of the host, stay there: a GPU takes as long for one as for thousands. The
variable `ICVI_GPU_STREAMS` sets another number."""


class Program(Protocol):
    """A step, ready to be run over many streams."""

    name: str

    def place(self, state: State, room: int) -> State:
        """A state (…, N) of NumPy arrays in the form in which it is run, with room for so many streams."""

    def fetch(self, words: State, streams: int) -> State:
        """The states of the first streams as NumPy arrays (…, N), which may be views of the words."""

    def run(self, model: State, words: State, feed: Feed) -> tuple[State, State]:
        """Process samples: the states (those given are consumed), and the outputs (N, rows, …) that are kept."""


_programs: dict[tuple[object, ...], Program] = {}


def forced() -> str | None:
    """The engine that `ICVI_BACKEND` names, or None."""
    name = os.environ.get("ICVI_BACKEND", "")
    if name and name not in ENGINES:
        raise ValueError(f"ICVI_BACKEND={name}: choose one of {', '.join(ENGINES)}, or leave it unset")
    return name or None


def program_for(
    step: xla.Step,
    model: object,
    state: object,
    dtype: np.dtype,
    features: int,
    timed: bool = False,
    streams: int = 0,
    mesh: Mesh | None = None,
) -> Program:
    """The program of a step, made once for all models that differ in their numbers only.

    Parameters
    ----------
    step : a hashable function (model, state, z (p, *streams), elapsed or None) → (state, outputs).
    model : whose leaves are numbers, the same for all streams.
    state : of one stream; shapes and types matter.
    dtype : of the samples about the origin.
    features : p.
    timed : samples come with the time since the one before.
    streams : how many there are: there is special native code for one.
    mesh : run on these devices.
    """
    engine = forced()
    if engine == "llvm" and mesh is not None:
        raise ValueError("ICVI_BACKEND=llvm: native code runs on this machine's cores, not on a mesh of JAX's devices")
    numbers, structure = jax.tree.flatten(model)
    shapes = tuple((np.shape(a), np.asarray(a).dtype.kind) for a in numbers)
    form = tuple((a.shape, a.dtype) for a in jax.tree.leaves(state)), jax.tree.structure(state)
    key = (engine, step, structure, shapes, form, dtype, features, timed, streams == 1, mesh)
    if key not in _programs:
        if mesh is not None:
            best = None if engine is None and mesh.devices.flat[0].platform in ("cpu", "gpu", "cuda") else "xla"
            _programs[key] = xla.Program(step, features, dtype, mesh, best)
        else:
            native = None if engine == "xla" else _native(engine, step, model, state, *key[5:9])
            _programs[key] = native or xla.Program(step, features, dtype)
    return _programs[key]


def devices_for(streams: int) -> Mesh | None:
    """The GPUs or TPUs for so many streams of the host, or None if they are too few."""
    if forced() is not None or jax.devices()[0].platform == "cpu" or streams < _fewest():
        return None
    return _mesh(jax.local_devices())


def _fewest() -> int:
    given = os.environ.get("ICVI_GPU_STREAMS", "") or str(FEWEST)
    if not given.isdecimal():
        raise ValueError(f"ICVI_GPU_STREAMS={given}: how many streams are worth a GPU, such as {FEWEST}; 0 for any")
    return int(given)


def _mesh(devices: Sequence[jax.Device]) -> Mesh:
    return Mesh(np.array(devices), ("streams",))


def _native(
    engine: str | None,
    step: xla.Step,
    model: object,
    state: object,
    dtype: np.dtype,
    features: int,
    timed: bool,
    alone: bool,
) -> Program | None:
    """Native code of the step, or None where there can be none; an error where it was asked for."""
    try:
        return Native(step, model, state, dtype, features, timed, lanes=1 if alone else None)
    except ImportError as missing:
        if engine == "llvm":
            raise ValueError(f"ICVI_BACKEND=llvm: {missing.name} is not installed here") from None
        return None
    except Unsupported as problem:
        if engine == "llvm":
            raise ValueError(f"ICVI_BACKEND=llvm: {problem}") from None
        warnings.warn(f"{problem}; XLA runs this step, which is slower", RuntimeWarning, stacklevel=5)
        return None
