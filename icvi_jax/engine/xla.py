"""A compiled step, which cuts time into pieces, and its form on JAX's devices: kernels on GPUs, elsewhere XLA's loop.

States stay on the devices, the same number of streams on each. The plain loop of NumPy and torch is here, too.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from icvi_jax.engine.primitive import lax_scan
from icvi_jax.engine.scan import scan_step
from icvi_jax.numerics.arrays import namespace
from icvi_jax.origin import subtract
from icvi_jax.types import Alarm, Array, Namespace, Reading, State

BUDGET = 64 * 2**20
"""Bytes of samples and readings that one call may take on each device; a longer recording goes in pieces of time."""

Step = Callable[..., tuple[State, State]]
"""(model, state, z (p, *streams), elapsed or None) → (state, outputs)."""

Tree = Callable[[list[np.ndarray]], State]
"""Makes a pytree of its leaves."""

Done = Callable[[int], None]
"""Is told how many samples, of all streams together, are done."""


class RunInput(NamedTuple):
    """What a program is given."""

    X: np.ndarray  # (N, T, p), the samples
    origin: np.ndarray  # (N, p), float64, what they are relative to
    elapsed: np.ndarray | None = None  # (T,) or (N, T), the time since the sample before; None: one unit each
    every: int = 1  # each `every`-th output is kept
    phase: int = 0  # samples that have passed since the last one that was kept
    done: Done | None = None

    @property
    def rows(self) -> int:
        """Outputs that are kept, for each stream."""
        steps: int = self.X.shape[1]
        return (self.phase + steps) // self.every


class CompiledStep(ABC):
    """A step, ready to be run over many streams: native code on the host's cores, or what XLA runs on JAX's devices."""

    @abstractmethod
    def place(self, state: State, room: int, model: State = None) -> State:
        """A state (…, N) of NumPy arrays, and numbers of the model for each stream, in the form in which they are run,
        with room for so many streams."""

    @abstractmethod
    def fetch(self, words: State, streams: int) -> State:
        """The states of the first streams as NumPy arrays (…, N), which may be views of the words."""

    @abstractmethod
    def prepare(self, model: State, words: State, feed: RunInput) -> tuple[list[np.ndarray], Tree, int]:
        """Arrays for the outputs (N, rows, …), what makes a pytree of them, and how many samples of each stream one
        call may take."""

    @abstractmethod
    def launch(
        self, model: State, words: State, piece: RunInput, out: list[np.ndarray]
    ) -> tuple[State, Callable[[], None]]:
        """Begin to process samples: the words after them (those given are consumed), and what to call before `out` is
        read."""

    def run(self, model: State, words: State, feed: RunInput) -> tuple[State, State]:
        """Process samples: the states (those given are consumed), and the outputs (N, rows, …) that are kept.

        This is where time is cut into pieces. What one has made is fetched while the next is at work.
        """
        X, _, elapsed, every, phase, done = feed
        (N, T, _), (out, tree, size) = X.shape, self.prepare(model, words, feed)
        pending: deque[tuple[Callable[[], None], int]] = deque()

        def finish() -> None:
            fetch, samples = pending.popleft()
            fetch()
            if done is not None:
                done(samples)

        for lo in range(0, T, size):
            hi, first, piece, rows = min(lo + size, T), (phase + lo) // every, feed, out
            if size < T:
                gaps = None if elapsed is None else elapsed[..., lo:hi]
                piece = feed._replace(X=X[:, lo:hi], elapsed=gaps, phase=(phase + lo) % every)
                rows = [a[:, first : (phase + hi) // every] for a in out]
            words, fetch = self.launch(model, words, piece, rows)
            pending.append((fetch, N * (hi - lo)))
            if lo:
                finish()
        finish()
        return words, tree(out)


class XlaProgram(CompiledStep):
    """A step on JAX's devices.

    Parameters
    ----------
    step : a hashable function; see `Step`.
    dtype : of the samples.
    mesh : the devices, on one axis "streams"; None is JAX's default device.
    implementation : "xla" for XLA's own scan, None for the best of the platform.
    own : for each leaf of the model, whether it is an array (N,), a number for each stream; empty: none is.
    """

    def __init__(
        self,
        step: Step,
        dtype: np.dtype,
        mesh: Mesh | None = None,
        implementation: str | None = "xla",
        own: tuple[bool, ...] = (),
    ) -> None:
        self.step, self.dtype, self._mesh = step, dtype, mesh
        self._implementation, self._own = implementation, own
        self._devices = 1 if mesh is None else mesh.size

    def place(self, state: State, room: int, model: State = None) -> State:
        """Filled up to `room` streams, the same number on each device."""
        room += -room % self._devices

        def put(a: np.ndarray) -> Array:
            all_ = _filled(a, room, 0, -1)
            if self._mesh is None:
                return jnp.array(all_)  # a copy: what is given to the scan is consumed
            spec = PartitionSpec(*[None] * (a.ndim - 1), "streams")
            return jnp.copy(jax.device_put(all_, NamedSharding(self._mesh, spec)))

        with precise(self.dtype):
            return jax.tree.map(put, state)

    def fetch(self, words: State, streams: int) -> State:
        return jax.tree.map(lambda a: np.array(a)[..., :streams], words)

    def prepare(self, model: State, words: State, feed: RunInput) -> tuple[list[np.ndarray], Tree, int]:
        (N, T, p), room = feed.X.shape, _room(words)
        with precise(self.dtype):
            sample = jax.ShapeDtypeStruct((p, room), self.dtype)
            gap = None if feed.elapsed is None else jax.ShapeDtypeStruct((room,), self.dtype)
            first = map_own(lambda a: a[0], self._own, model) if self._own else model
            shapes = jax.eval_shape(self.step, first, words, sample, gap)[1]
        leaves, form = jax.tree.flatten(shapes)
        out = [np.empty((N, feed.rows, *a.shape[:-1]), a.dtype) for a in leaves]
        size = sum(a.dtype.itemsize * math.prod(a.shape) for a in leaves) / feed.every
        longest = max(1, int(BUDGET * self._devices / (size + room * p * self.dtype.itemsize)))
        even = math.ceil(T / math.ceil(T / longest))  # two lengths at most: two compilations
        return out, partial(jax.tree.unflatten, form), -(-even // feed.every) * feed.every

    def launch(
        self, model: State, words: State, piece: RunInput, out: list[np.ndarray]
    ) -> tuple[State, Callable[[], None]]:
        Z = subtract(piece.X, piece.origin, self.dtype)
        gaps = None if piece.elapsed is None else piece.elapsed.astype(self.dtype)
        how = self.step, self._mesh, "streams", self._implementation, self._own
        with precise(self.dtype):
            words, made = _rows(_consuming, how, model, words, Z, gaps, piece.every, piece.phase)

        def fetch() -> None:
            for whole, part in zip(out, jax.tree.leaves(jax.device_get(made))):
                whole[...] = part[: len(piece.X), : piece.rows]

        return words, fetch


def _room(state: State) -> int:
    """Streams that there is room for."""
    room: int = jax.tree.leaves(state)[0].shape[-1]
    return room


def _filled(a: Array, room: int, value: float = 0, axis: int = 0) -> Array:
    """An array filled up to `room` streams."""
    if (more := room - a.shape[axis]) == 0:
        return a
    shape, xp = list(a.shape), namespace(a)
    shape[axis] = more
    return xp.concat([a, xp.full(tuple(shape), value, dtype=a.dtype)], axis=axis)


def precise(dtype: np.dtype) -> AbstractContextManager[object]:
    """Double precision is switched on while a state of it is at work."""
    return jax.enable_x64(True) if dtype == np.float64 else nullcontext()


def scan_fleet(
    step: Step,
    model: State,
    state: State,
    Z: Array,
    elapsed: Array | None,
    every: int,
    phase: int,
    mesh: Mesh | None = None,
    own: tuple[bool, ...] = (),
) -> tuple[State, State]:
    """Scan Z (N, T, p) where it lies: traced, on other devices, or in a library that has gradients of its own.

    It goes with elapsed (T,) or (N, T); the state is (…, N), outputs (N, rows, …). With a mesh, whose axis is
    "streams", they go to its devices, the same number to each; for the rest see `RunInput` and `XlaProgram`.
    """
    if not isinstance(Z, jax.Array):
        xp = namespace(Z)
        gaps = None if elapsed is None else xp.asarray(elapsed.T, dtype=Z.dtype)
        state, made = loop(step, model, state, xp.permute_dims(Z, (1, 2, 0)), gaps, every, phase)
        return state, jax.tree.map(lambda a: xp.moveaxis(a, -1, 0), made)
    N, axis, elapsed = Z.shape[0], None, None if elapsed is None else jnp.asarray(elapsed, Z.dtype)
    if mesh is not None:
        axis, room = "streams", N + -N % mesh.size
        state = jax.tree.map(lambda a: _filled(a, room, 0, -1), state)
        Z = jax.device_put(_filled(Z, room, np.nan), NamedSharding(mesh, PartitionSpec(axis)))
    elif not isinstance(Z, jax.core.Tracer) and len(Z.devices()) > 1:
        where = Z.sharding  # divided over devices already
        if isinstance(where, NamedSharding) and isinstance(where.mesh, Mesh) and where.spec and where.spec[0]:
            mesh, axis = where.mesh, where.spec[0]
    state, made = _rows(_keeping, (step, mesh, axis, None, own), model, state, Z, elapsed, every, phase)
    if _room(state) > N:
        state, made = jax.tree.map(lambda a: a[..., :N], state), jax.tree.map(lambda a: a[:N], made)
    return state, made


def _rows(
    scan: Callable[..., tuple[State, State]],
    how: tuple[Step, Mesh | None, object, str | None, tuple[bool, ...]],
    model: State,
    state: State,
    Z: State,
    elapsed: State,
    every: int,
    phase: int,
) -> tuple[State, State]:
    """Scan; streams without samples fill up those of the state.

    Where the first row is not a whole group of `every`, all are made and some of them taken.
    """
    room, own = _room(state), how[-1]
    Z = _filled(Z, room, np.nan)
    if elapsed is not None and elapsed.ndim == 2:
        elapsed = _filled(elapsed, room, 1)
    if own:
        model = map_own(lambda a: _filled(jnp.asarray(a), room, 1), own, model)
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
    if by := (*jax.typeof(Z).sharding.spec, None)[0]:  # of an explicit mesh: then all arrays of streams must say so

        def alike(a: jax.Array, streams: int) -> jax.Array:
            spec = PartitionSpec(*(by if d == streams else None for d in range(a.ndim)))
            there: jax.Array = jax.sharding.reshard(a, spec)
            return there

        state = jax.tree.map(lambda a: alike(jnp.asarray(a), a.ndim - 1), state)
        numbers = [alike(jnp.asarray(a), 0) if mine else a for mine, a in zip(own, numbers)]
        elapsed = alike(elapsed, 0) if elapsed is not None and each else elapsed

    def part(numbers: list[Array], state: State, Z: jax.Array, elapsed: jax.Array | None) -> tuple[State, State]:
        if implementation == "xla" and not any(own):
            gaps = None if elapsed is None else jnp.moveaxis(elapsed, -1, 0)
            Z = jnp.permute_dims(Z, (1, 2, 0))
            state, made = scan_plainly(step, jax.tree.unflatten(form, numbers), state, Z, gaps, every)
            return state, jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), made)

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


@partial(jax.jit, static_argnums=(0, 5))
def scan_plainly(
    step: Step, model: State, state: State, X: jax.Array, gaps: jax.Array | None, every: int = 1
) -> tuple[State, State]:
    """XLA's loop over X (T, p, *streams), all streams side by side; the outputs are (rows, …, *streams).

    Without streams, matrices of one stream go to LAPACK, which those of two streams at once may not in jaxlib 0.10
    (`icvi_jax.numerics.cholesky`).
    """
    return lax_scan(lambda state, now: step(model, state, *now), state, (X, gaps), X.shape[0], every)


def loop(
    step: Step, pipe: State, state: State, X: Array, elapsed: Array | None, every: int = 1, phase: int = 0
) -> tuple[State, State]:
    """Step through X (T, p, *streams), on any array library; stacked outputs of each `every`-th sample."""
    made, spare = [], int((phase + 1) % every != 0)  # the first one, spare, says what a stack of none looks like
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.asarray: unspecified requires_grad")  # gradients are meant to flow
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
