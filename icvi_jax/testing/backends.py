"""The array libraries with which a part is checked."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from typing import NamedTuple, Protocol

import jax
import numpy as np

from icvi_jax.engine.xla import scan_steps
from icvi_jax.types import Array, DType, Namespace, State


class Steps(Protocol):
    """Anything with a step: a clusterer, a panel, a monitor, a pipeline."""

    @property
    def step(self) -> State: ...


class Backend(NamedTuple):
    """An array library with a float type.

    Attributes
    ----------
    name : one of `BACKENDS`.
    xp : the array namespace.
    dtype : the float type of all arrays.
    tolerance : relative difference from float64 that rounding may make over an example.
    frozen : arrays are read-only, so that a part that writes to its input fails.
    """

    name: str
    xp: Namespace
    dtype: DType
    tolerance: float
    frozen: bool = False

    def array(self, a: Array, dtype: DType = None) -> Array:
        """`a` as an array of this library; floats take its float type."""
        a = np.asarray(a)
        if dtype is None and np.issubdtype(a.dtype, np.floating):
            dtype = self.dtype
        a = a.copy()
        if self.frozen:
            a.flags.writeable = False
            return a if dtype is None or a.dtype == dtype else self.array(a.astype(dtype))
        return self.xp.asarray(a) if dtype is None else self.xp.asarray(a, dtype=dtype)

    def precision(self) -> contextlib.AbstractContextManager[object]:
        """Double precision in JAX where this backend needs it."""
        return jax.enable_x64(self.name == "jax64") if self.name.startswith("jax") else contextlib.nullcontext()


BACKENDS = ("numpy", "readonly", "strict", "torch", "jax32", "jax64")
"""Names of all backends: NumPy, read-only NumPy, array-api-strict, torch, JAX in single and in double precision."""


def backend(name: str) -> Backend:
    """The backend with this name; ImportError if its library is not installed."""
    if name in ("numpy", "readonly"):
        return Backend(name, np, np.float64, 1e-9, frozen=name == "readonly")
    if name == "strict":
        xp = importlib.import_module("array_api_strict")
        return Backend(name, xp, xp.float64, 1e-9)
    if name == "torch":
        xp = importlib.import_module("torch")
        return Backend(name, xp, xp.float64, 1e-9)
    if name in ("jax32", "jax64"):
        single = name == "jax32"
        return Backend(name, jax.numpy, np.dtype("float32" if single else "float64"), 2e-3 if single else 1e-9)
    raise ValueError(f"backend({name!r}): choose one of {', '.join(BACKENDS)}")


def steps(
    part: Steps, state: State, inputs: tuple[Array, ...], b: Backend, rest: tuple[object, ...] = ()
) -> tuple[State, State]:
    """Step a part along the first axis of all `inputs`; returns the final state, and the outputs as NumPy arrays."""
    inputs = tuple(np.asarray(a) for a in inputs)
    with b.precision():
        if b.name.startswith("jax"):
            state, out = scan_steps(part, state, tuple(b.array(a) for a in inputs), rest)
            return state, jax.tree.map(np.asarray, out)
        rows = []
        for now in zip(*inputs):
            state, out = part.step(state, *(b.array(a) for a in now), *rest)
            rows.append(out)
        return state, jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *rows)


def kinds(state: State, b: Backend) -> State:
    """Structure, shapes, types and weak types of a state: what must not change from step to step."""
    weak = b.name.startswith("jax")
    return jax.tree.map(lambda a: (tuple(a.shape), str(a.dtype), weak and a.weak_type), state)


def available() -> tuple[str, ...]:
    """Names of the backends whose libraries are installed."""
    libraries = {"strict": "array_api_strict", "torch": "torch"}
    return tuple(n for n in BACKENDS if n not in libraries or importlib.util.find_spec(libraries[n]) is not None)
