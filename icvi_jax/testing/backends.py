"""What the laws run on: array libraries, and recordings of a clusterer at work."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import jax
import numpy as np

from icvi_jax.types import Array, DType, Namespace, State

P = TypeVar("P")


class ScanFunction(Protocol):
    """Anything with a step: a clusterer, a panel, a monitor, a pipeline."""

    @property
    def step(self) -> State: ...


class Backend(NamedTuple):
    """An array library with a float type."""

    name: str  # one of `BACKENDS`
    xp: Namespace  # the array namespace
    dtype: DType  # the float type of all arrays
    tolerance: float  # relative difference from float64 that rounding may make over an example
    frozen: bool = False  # arrays are read-only, so that a part that writes to its input fails

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


@partial(jax.jit, static_argnames=("rest",))
def _jax_step(
    part: ScanFunction, state: State, now: tuple[Array, ...], rest: tuple[object, ...]
) -> tuple[State, State]:
    """The step of a part, compiled: the part is an argument, so that other numbers in it do not recompile."""
    stepped: tuple[State, State] = part.step(state, *now, *rest)
    return stepped


def steps(
    part: ScanFunction, state: State, inputs: tuple[Array, ...], b: Backend, rest: tuple[object, ...] = ()
) -> tuple[State, State]:
    """Step a part along the first axis of all `inputs`; returns the final state, and the outputs as NumPy arrays.

    JAX compiles the step, not a scan of it, so that examples of all lengths share one program.
    """
    rows = []
    with b.precision():
        for now in zip(*(np.asarray(a) for a in inputs)):
            row = tuple(b.array(a) for a in now)
            if b.name.startswith("jax"):
                state, out = _jax_step(part, state, row, rest)
            else:
                state, out = part.step(state, *row, *rest)
            rows.append(jax.tree.map(np.asarray, out))
    return state, jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def kinds(state: State, b: Backend) -> State:
    """Structure, shapes, types and weak types of a state: what must not change from step to step."""
    weak = b.name.startswith("jax")
    return jax.tree.map(lambda a: (tuple(a.shape), str(a.dtype), weak and a.weak_type), state)


def available() -> tuple[str, ...]:
    """Names of the backends whose libraries are installed."""
    libraries = {"strict": "array_api_strict", "torch": "torch"}
    return tuple(n for n in BACKENDS if n not in libraries or importlib.util.find_spec(libraries[n]) is not None)


def check_laws(part: P, laws: Iterable[Callable[[P, Backend], None]], backends: tuple[str, ...] | None) -> None:
    """Check a part against laws on some backends, on all installed ones by default."""
    for name in available() if backends is None else backends:
        for law in laws:
            law(part, backend(name))


class Example(NamedTuple):
    """A recorded clustering: samples (T, p), memberships (T, k), centres (T, k, p) and active slots (T, k)."""

    x: np.ndarray
    u: np.ndarray
    centers: np.ndarray
    active: np.ndarray

    def permuted(self, order: np.ndarray) -> Example:
        """The same example with slots in another order."""
        return Example(self.x, self.u[:, order], self.centers[:, order], self.active[:, order])

    def moved(self, by: np.ndarray | float = 0.0, scale: float = 1.0) -> Example:
        """The same example with all coordinates multiplied and shifted."""
        return Example(self.x * scale + by, self.u, self.centers * scale + by, self.active)

    def widened(self, spare: int) -> Example:
        """The same example with `spare` more slots, never used."""
        T, k, p = self.centers.shape
        return Example(
            self.x,
            np.concatenate([self.u, np.zeros((T, spare))], 1),
            np.concatenate([self.centers, np.zeros((T, spare, p))], 1),
            np.concatenate([self.active, np.zeros((T, spare), bool)], 1),
        )


def example(
    seed: int = 0,
    samples: int = 40,
    k: int = 4,
    features: int = 2,
    soft: bool = False,
    births: bool = True,
    deaths: bool = False,
    noise: bool = False,
    missing: bool = False,
) -> Example:
    """A random recorded clustering whose centres move and are not means.

    `soft`: memberships that sum to 1 instead of one-hot. `births`: slots 2, 3, … become active later. `deaths`: slot 1
    is inactive for a while in the second half. `noise`: some samples belong to no cluster. `missing`: some have a NaN
    or an infinity.
    """
    rng = np.random.default_rng(seed)
    homes = rng.normal(size=(k, features)) * 5
    active = np.ones((samples, k), bool)
    if births:
        starts = np.concatenate([[0, 0], np.sort(rng.integers(1, max(2, samples // 2), max(0, k - 2)))])[:k]
        active = np.arange(samples)[:, None] >= starts
    if deaths and k > 2:
        active[samples // 2 : samples // 2 + 5, 1] = False
    drift = np.cumsum(rng.normal(size=(samples, k, features)) * 0.1, axis=0)
    centers = np.where(active[:, :, None], homes + drift, 0.0)
    raw = np.where(active, rng.random((samples, k)) + 0.01, 0.0)
    u = raw / raw.sum(1, keepdims=True) if soft else (raw == raw.max(1, keepdims=True)).astype(float)
    x = homes[raw.argmax(1)] + rng.normal(size=(samples, features))
    if noise:
        u[rng.choice(samples, samples // 8, replace=False)] = 0.0
    if missing:
        spots = rng.choice(samples, samples // 8, replace=False)
        x[spots, rng.integers(0, features, len(spots))] = rng.choice([np.nan, np.inf, -np.inf], len(spots))
    return Example(x, u, centers, active)
