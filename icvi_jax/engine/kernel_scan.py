"""The scan of samples that lie on GPUs or TPUs, as one kernel of Pallas where the platform has one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from icvi_jax.engine.accelerated import kernel_for
from icvi_jax.engine.platforms import kernels
from icvi_jax.engine.xla import Step, scan_traced
from icvi_jax.types import State

if TYPE_CHECKING:
    from icvi_jax.engine.pallas import Kernel


class How(NamedTuple):
    """What a scan is compiled for: the step, the kind of kernel, and which outputs are kept."""

    step: Step
    kind: str | None
    every: int


def scan_step(step: Step, model: State, state: State, X: Array, elapsed: Array | None) -> tuple[State, State]:
    """Scan any step (model, state, x, elapsed) over X (T, p, *streams), where it lies."""
    return _scanned(How(step, kernels(_device(X)), 1), model, state, X, elapsed, 0)


def scan_fleet(
    step: Step,
    model: State,
    state: State,
    Z: Array,
    elapsed: Array | None,
    every: int,
    phase: int,
    mesh: Mesh | None = None,
    axis: object = None,
) -> tuple[State, State]:
    """Scan Z (N, T, p) where it lies, with elapsed (T,) or (N, T); the state is (…, N), outputs (N, rows, …).

    Parameters
    ----------
    every, phase : keep each `every`-th output, where `phase` samples have passed since the last.
    mesh, axis : the streams are divided over this axis (or these axes) of the devices.
    """
    state, made = _fleet(How(step, kernels(_device(Z)), every), mesh, axis, model, state, Z, elapsed, jnp.int32(phase))
    return state, jax.tree.map(lambda a: a[:, : (phase + Z.shape[1]) // every], made)


def _device(X: Array) -> jax.Device | None:
    """The first device of an array; None where it is traced."""
    return None if isinstance(X, jax.core.Tracer) else next(iter(X.devices()))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _fleet(
    how: How,
    mesh: Mesh | None,
    axis: object,
    model: State,
    state: State,
    Z: Array,
    elapsed: Array | None,
    phase: Array,
) -> tuple[State, State]:
    def part(model: State, state: State, Z: Array, elapsed: Array | None, phase: Array) -> tuple[State, State]:
        state = jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), state)
        gaps = None if elapsed is None else elapsed.T
        state, made = _scanned(how, model, state, jnp.permute_dims(Z, (1, 2, 0)), gaps, phase)
        state, made = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), (state, made))
        return state, made

    ahead = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), state)
    if mesh is not None:
        over, gaps = P(axis), P() if elapsed is None or elapsed.ndim == 1 else P(axis)
        specs = (P(), over, over, gaps, P())
        part = jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=over, check_vma=False)
    state, made = part(model, ahead, Z, elapsed, phase)
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), state), made


def _scanned(
    how: How, model: State, state: State, X: Array, elapsed: Array | None, phase: Array | int
) -> tuple[State, State]:
    """XLA's scan, or a kernel where there is one for this step."""
    streams, found = X.shape[2:], None
    if how.kind is not None and X.dtype == jnp.float32 and X.shape[0]:
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[: a.ndim - len(streams)], a.dtype), state)
        found = kernel_for(how.kind, how.step, model, one, X.shape[1], elapsed is not None)
    if found is None:
        return _plain(how, model, state, X, elapsed, phase)
    state, made = _differentiable(how, found, model, state, X, elapsed, jnp.int32(phase))
    return state, made


def _plain(
    how: How, model: State, state: State, X: Array, elapsed: Array | None, phase: Array | int
) -> tuple[State, State]:
    """XLA's scan, the whole fleet side by side."""
    state, made = scan_traced(how.step, model, state, X, elapsed, how.every, phase)
    return state, made


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _differentiable(
    how: How, found: tuple[Kernel, str], model: State, state: State, X: Array, elapsed: Array | None, phase: Array
) -> tuple[State, State]:
    streams = X.shape[2:]
    N = math.prod(streams)
    line = jax.tree.map(lambda a: a.reshape(*a.shape[: a.ndim - len(streams)], N), (state, X))
    if elapsed is not None:
        elapsed = jnp.broadcast_to(elapsed.reshape(X.shape[0], -1), (X.shape[0], N))
    made = _batchable(*found, how)(model, *line, elapsed, phase)
    state, made = jax.tree.map(lambda a: a.reshape(*a.shape[:-1], *streams), made)
    return state, made


def _forward(how: How, found: tuple[Kernel, str], *given: State) -> tuple[tuple[State, State], tuple[State, ...]]:
    return _differentiable(how, found, *given), given


def _backward(how: How, found: tuple[Kernel, str], given: tuple[State, ...], slopes: State) -> tuple[State, ...]:
    return tuple(jax.vjp(partial(_plain, how), *given)[1](slopes))


_differentiable.defvjp(_forward, _backward)


def _batchable(kernel: Kernel, kind: str, how: How) -> Callable[..., tuple[State, State]]:
    """The kernel as a function of (model, state (…, N), X (T, p, N), elapsed (T, N)), whose `vmap` is more streams."""

    @jax.custom_batching.custom_vmap
    def call(*given: State) -> tuple[State, State]:
        launch = partial(_pieces, kernel, kind, how.every)
        if kind == "interpret":
            return launch(*given)
        state, made = lax.platform_dependent(*given, cpu=partial(_plain, how), default=launch)
        return state, made

    @call.def_vmap
    def batched(
        size: int,
        which: tuple[State, ...],
        model: State,
        state: State,
        X: Array,
        elapsed: Array | None,
        phase: Array,
    ) -> tuple[tuple[State, State], State]:
        numbers, *rest, counted = which
        if counted or any(jax.tree.leaves(numbers)):  # a model for each: the kernel has one for all
            axes = jax.tree.map(lambda b: 0 if b else None, which)
            made = jax.vmap(partial(_plain, how), axes, axis_size=size)(model, state, X, elapsed, phase)
        else:

            def behind(a: Array, is_batched: bool) -> Array:
                a = jnp.moveaxis(a, 0, -1) if is_batched else jnp.broadcast_to(a[..., None], (*a.shape, size))
                return a.reshape(*a.shape[:-2], -1)

            made = call(model, *jax.tree.map(behind, (state, X, elapsed), tuple(rest)), phase)
            made = jax.tree.map(lambda a: jnp.moveaxis(a.reshape(*a.shape[:-1], -1, size), -1, 0), made)
        return made, jax.tree.map(lambda a: True, made)

    return call


def _pieces(
    kernel: Kernel, kind: str, every: int, model: State, state: State, X: Array, elapsed: Array | None, phase: Array
) -> tuple[State, State]:
    """Launch the kernel once, or for each piece of time if X is too long for one launch."""
    T, words = X.shape[0], kernel.words(state)
    pieces = -(-T // kernel.longest(kind, X.shape[-1]))
    if pieces == 1:
        words, made = kernel.scan(kind, model, words, X, elapsed, T, phase, every)
        return kernel.state(words), made
    size = -(-T // (pieces * every)) * every  # whole groups: each piece begins at the same place in its group
    pieces = -(-T // size)

    def cut(a: Array) -> Array:
        return jnp.pad(a, [(0, pieces * size - T)] + [(0, 0)] * (a.ndim - 1)).reshape(pieces, size, *a.shape[1:])

    def piece(words: State, now: tuple[Array, Array | None, Array]) -> tuple[State, State]:
        words, made = kernel.scan(kind, model, words, *now, phase, every)
        return words, jax.tree.map(lambda a: a[: size // every], made)

    steps = jnp.minimum(size, T - size * jnp.arange(pieces))
    words, made = lax.scan(piece, words, (*jax.tree.map(cut, (X, elapsed)), steps))
    rows = 1 + (T + every - 2) // every

    def joined(a: Array) -> Array:
        a = a.reshape(-1, *a.shape[2:])[:rows]
        return jnp.pad(a, [(0, rows - len(a))] + [(0, 0)] * (a.ndim - 1))

    return kernel.state(words), jax.tree.map(joined, made)
