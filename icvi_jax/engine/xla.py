"""A step on JAX's devices, kernels on GPUs and elsewhere XLA's loop; how a recording is cut into pieces of time.

States stay on the devices, the same number of streams on each. The plain loop of NumPy and torch is here, too.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
from icvi_jax.types import Array, State

BUDGET = 64 * 2**20
"""Bytes of samples and readings that one call may take on each device; a longer recording goes in pieces of time."""

Step = Callable[..., tuple[State, State]]
"""(model, state, z (p, *streams), elapsed or None) → (state, outputs)."""

Done = Callable[[int], None]
"""Is told how many samples, of all streams together, are done."""


class RunInput(NamedTuple):
    """Samples of the host, and what belongs to them."""

    X: np.ndarray  # (N, T, p), the samples
    origin: np.ndarray  # (N, p), float64, what they are relative to
    elapsed: np.ndarray | None = None  # (T,) or (N, T), the time since the sample before; None: one unit each
    every: int = 1  # each `every`-th output is kept
    phase: int = 0  # samples that have passed since the last one that was kept

    @property
    def rows(self) -> int:
        """Outputs that are kept, for each stream."""
        steps: int = self.X.shape[1]
        return (self.phase + steps) // self.every

    def pieces(self, size: int) -> Iterator[tuple[RunInput, slice]]:
        """Pieces of `size` samples of each stream, and the rows that each makes: this is where time is cut."""
        T, since = self.X.shape[1], self.phase
        if size >= T:
            yield self, slice(0, self.rows)
            return
        for lo in range(0, T, size):
            hi = min(lo + size, T)
            gaps = None if self.elapsed is None else self.elapsed[..., lo:hi]
            piece = self._replace(X=self.X[:, lo:hi], elapsed=gaps, phase=(since + lo) % self.every)
            yield piece, slice((since + lo) // self.every, (since + hi) // self.every)


class XlaScan(NamedTuple):
    """How a step is scanned on JAX's devices."""

    step: Step  # a hashable function
    mesh: Mesh | None = None  # the devices; None: JAX's default device, or where the samples lie
    axis: object = "streams"  # of the mesh, over which the streams are divided; or several axes
    implementation: str | None = None  # "xla" for XLA's own scan, None for the best of the platform
    own: tuple[bool, ...] = ()  # for each leaf of the model, whether it is a number for each stream, (N,)


def place(state: State, room: int, mesh: Mesh | None, dtype: np.dtype) -> State:
    """A state (…, N) of NumPy arrays on devices, filled up to `room` streams, the same number on each device."""
    room += 0 if mesh is None else -room % mesh.size

    def put(a: np.ndarray) -> Array:
        all_ = _filled(a, room, 0, -1)
        if mesh is None:
            return jnp.array(all_)  # a copy: what is given to the scan is consumed
        spec = PartitionSpec(*[None] * (a.ndim - 1), "streams")
        return jnp.copy(jax.device_put(all_, NamedSharding(mesh, spec)))

    with precise(dtype):
        return jax.tree.map(put, state)


def run_on_devices(
    how: XlaScan, model: State, state: State, feed: RunInput, dtype: np.dtype, done: Done | None = None
) -> tuple[State, State]:
    """Run over samples of the host: the state after them (that given is consumed), and the outputs (N, rows, …).

    What one piece of time has made is fetched while the next is at work.
    """
    (N, T, p), room = feed.X.shape, _room(state)
    with precise(dtype):
        sample = jax.ShapeDtypeStruct((p, room), dtype)
        gap = None if feed.elapsed is None else jax.ShapeDtypeStruct((room,), dtype)
        first = map_own(lambda a: a[0], how.own, model) if how.own else model
        leaves, form = jax.tree.flatten(jax.eval_shape(how.step, first, state, sample, gap)[1])
    out = [np.empty((N, feed.rows, *a.shape[:-1]), a.dtype) for a in leaves]
    size = sum(a.dtype.itemsize * math.prod(a.shape) for a in leaves) / feed.every
    devices = 1 if how.mesh is None else how.mesh.size
    longest = max(1, int(BUDGET * devices / (size + room * p * dtype.itemsize)))
    even = math.ceil(T / math.ceil(T / longest))  # two lengths at most: two compilations
    pending: deque[tuple[State, slice, int]] = deque()

    def finish() -> None:
        made, rows, samples = pending.popleft()
        for whole, part in zip(out, jax.tree.leaves(jax.device_get(made))):
            whole[:, rows] = part[:N]
        if done is not None:
            done(samples)

    for piece, rows in feed.pieces(-(-even // feed.every) * feed.every):
        Z = subtract(piece.X, piece.origin, dtype)
        gaps = None if piece.elapsed is None else piece.elapsed.astype(dtype)
        with precise(dtype):
            state, made = _rows(_consuming, how, model, state, Z, gaps, piece.every, piece.phase)
        pending.append((made, rows, N * piece.X.shape[1]))
        if len(pending) > 1:
            finish()
    finish()
    return state, jax.tree.unflatten(form, out)


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
    "streams", they go to its devices, the same number to each; for the rest see `RunInput` and `XlaScan`.
    """
    if not isinstance(Z, jax.Array):
        xp = namespace(Z)
        gaps = None if elapsed is None else xp.asarray(elapsed.T, dtype=Z.dtype)
        state, made = loop(step, model, state, xp.permute_dims(Z, (1, 2, 0)), gaps, every, phase)
        return state, jax.tree.map(lambda a: xp.moveaxis(a, -1, 0), made)
    N, how, elapsed = Z.shape[0], XlaScan(step, own=own), None if elapsed is None else jnp.asarray(elapsed, Z.dtype)
    if mesh is not None:
        how, room = how._replace(mesh=mesh), N + -N % mesh.size
        state = jax.tree.map(lambda a: _filled(a, room, 0, -1), state)
        Z = jax.device_put(_filled(Z, room, np.nan), NamedSharding(mesh, PartitionSpec("streams")))
    elif not isinstance(Z, jax.core.Tracer) and len(Z.devices()) > 1:
        where = Z.sharding  # divided over devices already
        if isinstance(where, NamedSharding) and isinstance(where.mesh, Mesh) and where.spec and where.spec[0]:
            how = how._replace(mesh=where.mesh, axis=where.spec[0])
    state, made = _rows(_keeping, how, model, state, Z, elapsed, every, phase)
    if _room(state) > N:
        state, made = jax.tree.map(lambda a: a[..., :N], state), jax.tree.map(lambda a: a[:N], made)
    return state, made


def _rows(
    scan: Callable[..., tuple[State, State]],
    how: XlaScan,
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
    room = _room(state)
    Z = _filled(Z, room, np.nan)
    if elapsed is not None and elapsed.ndim == 2:
        elapsed = _filled(elapsed, room, 1)
    if how.own:
        model = map_own(lambda a: _filled(jnp.asarray(a), room, 1), how.own, model)
    if phase == 0:
        return scan(how, every, model, state, Z, elapsed)
    state, made = scan(how, 1, model, state, Z, elapsed)
    return state, jax.tree.map(lambda a: a[:, every - 1 - phase :: every], made)


def _scan(
    how: XlaScan, every: int, model: State, state: State, Z: jax.Array, elapsed: jax.Array | None
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
    xp, made = namespace(X), list[State]()
    spare = int((phase + 1) % every != 0)  # the first one, spare, says what a stack of none looks like
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.asarray: unspecified requires_grad")  # gradients are meant to flow
        for t in range(X.shape[0]):
            state, one = step(pipe, state, X[t, ...], None if elapsed is None else elapsed[t, ...])
            if t == 0 or (phase + t + 1) % every == 0:
                made.append(one)
    return state, jax.tree.map(lambda *a: xp.stack([xp.asarray(one) for one in a])[spare:, ...], *made)
