"""A fleet on JAX's devices: one kernel a piece of time on GPUs, XLA's own scan on TPUs and where nothing else can run.

States stay on the devices, the same number of streams on each. While one piece of time is computed, the next is sent
and what the last one made is fetched.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from icvi_jax.anchor import subtract
from icvi_jax.engine.scan import scan_step
from icvi_jax.numerics.arrays import namespace
from icvi_jax.types import Alarm, Array, Namespace, Reading, State

BUDGET = 64 * 2**20
"""Bytes of samples and readings that one call may take on each device; a longer recording goes in pieces of time."""

Step = Callable[..., tuple[State, State]]
"""(model, state, z (p, *streams), elapsed or None) → (state, outputs)."""

Words = TypeVar("Words")
"""The states of a fleet, as a program keeps them."""


Done = Callable[[int], None]
"""Is told how many samples, of all streams together, are done."""


class RunInput(NamedTuple):
    """What a program is given.

    Attributes
    ----------
    X : (N, T, p), the samples.
    origin : (N, p), float64, what they are relative to.
    elapsed : (T,) or (N, T), the time since the sample before; None: one unit each.
    every : each `every`-th output is kept.
    phase : samples that have passed since the last one that was kept.
    done : progress callback, or None.
    """

    X: np.ndarray
    origin: np.ndarray
    elapsed: np.ndarray | None = None
    every: int = 1
    phase: int = 0
    done: Done | None = None

    @property
    def rows(self) -> int:
        """Outputs that are kept, for each stream."""
        steps: int = self.X.shape[1]
        return (self.phase + steps) // self.every


class XlaProgram:
    """A step on JAX's devices; `icvi_jax.engine.executor.CompiledStep` says what the methods do.

    Parameters
    ----------
    step : a hashable function; see `Step`.
    features, dtype : of the samples.
    mesh : the devices, on one axis "streams"; None is JAX's default device.
    implementation : "xla" for XLA's own scan, None for the best of the platform.
    own : for each leaf of the model, whether it is an array (N,), a number for each stream; empty: none is.
    """

    def __init__(
        self,
        step: Step,
        features: int,
        dtype: np.dtype,
        mesh: Mesh | None = None,
        implementation: str | None = "xla",
        own: tuple[bool, ...] = (),
    ) -> None:
        self.step, self.features, self.dtype, self._mesh = step, features, dtype, mesh
        self._implementation, self._own = implementation, own
        self.name = "xla" if implementation == "xla" else "kernel"

    def place(self, state: object, room: int, model: State = None) -> object:
        """A state (…, N) of NumPy arrays where the scan runs, filled up to `room` streams."""
        room += -room % (1 if self._mesh is None else self._mesh.size)

        def put(a: np.ndarray) -> Array:
            a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, room - a.shape[-1])])
            if self._mesh is None:
                return jnp.array(a)  # a copy: what is given to the scan is consumed
            spec = PartitionSpec(*[None] * (a.ndim - 1), "streams")
            return jnp.copy(jax.device_put(a, NamedSharding(self._mesh, spec)))

        with precise(self.dtype):
            return jax.tree.map(put, state)

    def fetch(self, words: object, streams: int) -> object:
        """The states of the first streams as NumPy arrays (…, N) of their own."""
        return jax.tree.map(lambda a: np.array(a)[..., :streams], words)

    def run(self, model: State, words: object, feed: RunInput) -> tuple[object, object]:
        """Process samples, in pieces of time."""
        X, every = feed.X, feed.every
        leaves, p = jax.tree.leaves(words), X.shape[-1]
        room = leaves[0].shape[-1] if leaves else len(X)
        with precise(self.dtype):
            sample = jax.ShapeDtypeStruct((p, room), self.dtype)
            gap = None if feed.elapsed is None else jax.ShapeDtypeStruct((room,), self.dtype)
            first = model
            if self._own:
                first = map_own(lambda a: a[0], self._own, model)
                model = map_own(lambda a: np.pad(a, (0, room - len(a)), "edge"), self._own, model)
            shapes = jax.eval_shape(self.step, first, words, sample, gap)[1]
            size = sum(a.dtype.itemsize * math.prod(a.shape) for a in jax.tree.leaves(shapes)) / every
            devices = 1 if self._mesh is None else self._mesh.size
            longest = max(1, int(BUDGET * devices / (size + room * p * self.dtype.itemsize)))

            def launch(words: object, Z: np.ndarray, gaps: np.ndarray | None, phase: int) -> tuple[object, object]:
                how = self.step, self._mesh, "streams", self._implementation, self._own
                return _rows(_consuming, how, model, words, Z, gaps, every, phase)

            even = math.ceil(X.shape[1] / math.ceil(X.shape[1] / longest))  # two lengths at most: two compilations
            return in_pieces(launch, words, shapes, feed, self.dtype, -(-even // every) * every)


def in_pieces(
    launch: Callable[[Words, np.ndarray, np.ndarray | None, int], tuple[Words, object]],
    words: Words,
    shapes: object,
    feed: RunInput,
    dtype: np.dtype,
    length: int,
) -> tuple[Words, object]:
    """Process samples, one piece of time after the other.

    Parameters
    ----------
    launch : (words, Z (room, t, p), elapsed, phase) → (words, outputs (room, rows, …)), which may still be at work.
    shapes : of the outputs of one sample, (…, room).
    length : of a piece.
    """
    X, origin, elapsed, every, phase, done = feed
    N, T, _ = X.shape
    room = jax.tree.leaves(shapes)[0].shape[-1] if jax.tree.leaves(shapes) else N
    out = jax.tree.map(lambda a: np.empty((N, feed.rows, *a.shape[:-1]), a.dtype), shapes)
    row = 0

    def fetch(made: object, row: int, rows: int, samples: int) -> None:
        for whole, part in zip(jax.tree.leaves(out), jax.tree.leaves(jax.device_get(made))):
            whole[:, row : row + rows] = part[:N, :rows]
        if done is not None:
            done(N * samples)

    before: tuple[object, int, int, int] | None = None
    for start in range(0, T, length):
        stop = min(start + length, T)
        Z = _filled(subtract(X[:, start:stop], origin, dtype), room, np.nan)
        gaps = None if elapsed is None else elapsed[..., start:stop].astype(dtype)
        gaps = _filled(gaps, room, 1.0) if gaps is not None and gaps.ndim == 2 else gaps
        words, made = launch(words, Z, gaps, phase)
        if before is not None:  # what the last piece made is fetched while this one is at work
            fetch(*before)
        rows = (phase + stop - start) // every
        before = made, row, rows, stop - start
        phase, row = (phase + stop - start) % every, row + rows
    if before is not None:
        fetch(*before)
    return words, out


def precise(dtype: np.dtype) -> AbstractContextManager[object]:
    """Double precision is switched on while a state of it is at work."""
    return jax.enable_x64(True) if dtype == np.float64 else nullcontext()


def scan_fleet(
    step: Step,
    model: State,
    state: State,
    Z: jax.Array,
    elapsed: jax.Array | None,
    every: int,
    phase: int,
    mesh: Mesh | None = None,
    axis: object = None,
    own: tuple[bool, ...] = (),
) -> tuple[State, State]:
    """Scan Z (N, T, p) where it lies, with elapsed (T,) or (N, T); the state is (…, N), outputs (N, rows, …).

    Parameters
    ----------
    every, phase : keep each `every`-th output, where `phase` samples have passed since the last.
    mesh, axis : the streams are divided over this axis (or these axes) of the devices.
    own : for each leaf of the model, whether it is an array (N,), a number for each stream; empty: none is.
    """
    return _rows(_keeping, (step, mesh, axis, None, own), model, state, Z, elapsed, every, phase)


def _rows(
    scan: Callable[..., tuple[State, State]],
    how: tuple[object, ...],
    model: State,
    state: State,
    Z: State,
    elapsed: State,
    every: int,
    phase: int,
) -> tuple[State, State]:
    """Scan; where the first row is not a whole group of `every`, all are made and some of them taken."""
    if phase == 0:
        return scan(how, every, model, state, Z, elapsed)
    state, made = scan(how, 1, model, state, Z, elapsed)
    return state, jax.tree.map(lambda a: a[:, every - 1 - phase :: every], made)


def _scan(
    how: tuple[Step, Mesh | None, object, str | None, tuple[bool, ...]],
    every: int,
    model: State,
    state: State,
    Z: jax.Array,
    elapsed: jax.Array | None,
) -> tuple[State, State]:
    step, mesh, axis, implementation, own = how
    each = elapsed is not None and elapsed.ndim == 2
    numbers, form = jax.tree.flatten(model)
    own = own or (False,) * len(numbers)

    def part(numbers: list[Array], state: State, Z: jax.Array, elapsed: jax.Array | None) -> tuple[State, State]:
        if implementation == "xla" and not any(own):
            gaps = None if elapsed is None else jnp.moveaxis(elapsed, -1, 0)
            Z = jnp.permute_dims(Z, (1, 2, 0))
            return _plain(step, jax.tree.unflatten(form, numbers), state, Z, gaps, every)

        def one(numbers: list[Array], state: State, X: jax.Array, gaps: jax.Array | None) -> tuple[State, State]:
            return scan_step(step, jax.tree.unflatten(form, numbers), state, X, gaps, every, implementation)

        axes = [0 if mine else None for mine in own], -1, 0, 0 if each else None
        state, made = jax.vmap(one, in_axes=axes, out_axes=(-1, 0))(numbers, state, Z, elapsed)
        return state, made

    if mesh is not None:
        where = jax.tree.map(lambda a: PartitionSpec(*[None] * (a.ndim - 1), axis), state)
        streams, shared = PartitionSpec(axis), PartitionSpec()
        specs = [streams if mine else shared for mine in own], where, streams, streams if each else shared
        part = jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=(where, streams), check_vma=False)
    return part(numbers, state, Z, elapsed)


def map_own(change: Callable[[State], State], own: Sequence[bool], model: State) -> State:
    """A model whose numbers for each stream are changed."""
    numbers, form = jax.tree.flatten(model)
    return jax.tree.unflatten(form, [change(a) if mine else a for a, mine in zip(numbers, own)])


_keeping = jax.jit(_scan, static_argnums=(0, 1))
_consuming = jax.jit(_scan, static_argnums=(0, 1), donate_argnums=3)


def _plain(
    step: Step, model: State, state: State, X: jax.Array, gaps: jax.Array | None, every: int
) -> tuple[State, State]:
    """XLA's scan of X (T, p, N), all streams side by side; the last output of each group of `every` is kept."""
    rows = X.shape[0] // every
    shapes = jax.eval_shape(step, model, state, X[0], None if gaps is None else gaps[0])[1]

    def body(carry: State, inputs: State) -> tuple[State, None]:
        at, state, kept = carry
        state, made = step(model, state, *inputs)
        put = partial(lax.dynamic_update_slice_in_dim, start_index=at // every, axis=0)  # until the group is complete
        return (at + 1, state, jax.tree.map(lambda rows, a: put(rows, a[None]), kept, made)), None

    empty = jax.tree.map(lambda a: jnp.zeros((rows + 1, *a.shape), a.dtype), shapes)  # the last is never complete
    (_, state, kept), _ = lax.scan(body, (jnp.int32(0), state, empty), (X, gaps))
    return state, jax.tree.map(lambda a: jnp.moveaxis(a[:rows], -1, 0), kept)


@partial(jax.jit, static_argnums=0)
def scan_one(step: Step, model: State, state: State, X: jax.Array, elapsed: jax.Array | None) -> State:
    """All outputs of one stream X (T, p), without an axis of streams: matrices of one stream go to LAPACK, which two
    streams at once may not in jaxlib 0.10 (`icvi_jax.numerics.cholesky`)."""
    return lax.scan(lambda state, now: step(model, state, *now), state, (X, elapsed))[1]


def _filled(a: np.ndarray, room: int, missing: float) -> np.ndarray:
    """Arrays (N, …) filled up to `room` streams."""
    if len(a) == room:
        return a
    return np.concatenate([a, np.full((room - len(a), *a.shape[1:]), missing, a.dtype)])


def loop(
    step: Step, pipe: State, state: State, X: Array, elapsed: Array | None, every: int = 1, phase: int = 0
) -> tuple[State, State]:
    """Step through X (T, p, *streams), on any array library; stacked outputs of each `every`-th sample."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.asarray: unspecified requires_grad")  # gradients are meant to flow
        return _loop(step, pipe, state, X, elapsed, every, phase)


def _loop(
    step: Step, pipe: State, state: State, X: Array, elapsed: Array | None, every: int, phase: int
) -> tuple[State, State]:
    made, spare = [], int((phase + 1) % every != 0)  # the first one, spare, says what a stack of none looks like
    for t in range(X.shape[0]):
        state, one = step(pipe, state, X[t, ...], None if elapsed is None else elapsed[t, ...])
        if t == 0 or (phase + t + 1) % every == 0:
            made.append(one)
    return state, jax.tree.map(lambda a: a[spare:, ...], _stack(made, namespace(X)))


def _stack(items: list[State], xp: Namespace) -> State:
    """Stack equal trees of arrays along a new first axis."""
    first = items[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {name: _stack([item[name] for item in items], xp) for name in first}
    if isinstance(first, (Alarm, Reading)):
        return type(first)(*(_stack([item[i] for item in items], xp) for i in range(len(first))))
    return xp.stack([xp.asarray(item) for item in items])
