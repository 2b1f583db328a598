"""Scan: a pipeline's scan as part of somebody's own program, as one kernel where the platform has one."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from icvi_jax.drive.graph import Unsupported
from icvi_jax.drive.platforms import kernels
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Reading

if TYPE_CHECKING:
    from icvi_jax.drive.pallas import Kernel

_kernels: dict[object, Kernel | None] = {}


def scan(pipe: Pipeline, state: PipelineState, X: Array, elapsed: Array | None = None) -> tuple[PipelineState, Reading]:
    """What `jax.lax.scan(pipe.step, state, X)` gives; on a GPU or TPU as one kernel with the time loop inside.

    It may be traced: `jax.jit`, `jax.vmap` (its axis becomes one of streams), `jax.shard_map` and reverse-mode
    gradients work around it. A gradient is that of `lax.scan`, which is run for it once more. Forward mode
    (`jax.jvp`, `jax.jacfwd`) does not go through a kernel: use `lax.scan(pipe.step, …)` itself for it. On CPUs, in
    float64, and where a step is too large for the registers of a device, this is `lax.scan`.

    Parameters
    ----------
    pipe : the pipeline; its numbers may be traced, too.
    state : such as `pipe.init(features, streams)`.
    X : (T, p, *streams), the samples in the order of time; those that are not finite are missing.
    elapsed : (T,) or (T, *streams), time since the sample before.

    Returns
    -------
    The state, and readings whose arrays lead with (T,) and end with the streams.

    Examples
    --------
    >>> import jax, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> X = jax.random.normal(jax.random.key(0), (50, 2, 8))
    >>> final, readings = jax.jit(icvi.scan)(pipe, pipe.init(2, (8,)), X)
    >>> readings.values["xb"].shape
    (50, 8)
    """
    dtype = state.anchor.high.dtype
    X = jnp.asarray(X, dtype)
    if X.shape[1:] != state.anchor.high.shape:
        raise ValueError(
            f"scan(X=…): expected shape (T, {', '.join(map(str, state.anchor.high.shape))}), got {X.shape}"
        )
    if elapsed is not None:
        elapsed = jnp.asarray(elapsed, dtype)
        if elapsed.shape not in (X.shape[:1], (X.shape[0], *X.shape[2:])):
            raise ValueError(f"scan(elapsed=…): expected one number a sample, {X.shape[:1]}, got {elapsed.shape}")
    return scan_step(_step, pipe, state, X, elapsed)


def _step(pipe: Pipeline, state: PipelineState, x: Array, elapsed: Array | None = None) -> tuple[object, object]:
    return pipe.step(state, x, elapsed)


def scan_step(step, model, state, X: Array, elapsed: Array | None, every: int = 1):
    """Scan any step (model, state, x, elapsed) over X (T, p, *streams); outputs of each `every`-th sample."""
    return _scanned((step, kernels(), every), model, state, X, elapsed)


def kernel_for(how: str, step, model, state, features: int, timed: bool) -> tuple[Kernel, str] | None:
    """The kernel of a step and the platform to launch it on, or None where XLA's scan is better or all there is.

    `state` has no axes of streams: shapes and types of one.
    """
    numbers, structure = jax.tree.flatten(model)
    words = jax.tree.leaves(state)
    key = (step, structure, tuple((np.shape(a), jnp.result_type(a)) for a in numbers), jax.tree.structure(state),
           tuple((a.shape, a.dtype) for a in words), features, timed)  # fmt: skip
    if key not in _kernels:
        from icvi_jax.drive.pallas import Kernel  # Pallas takes a second to import, and few need it

        try:
            _kernels[key] = Kernel(step, model, state, features, timed)
        except Unsupported:
            _kernels[key] = None
    kernel = _kernels[key]
    for choice in (how, "triton") if how == "mosaic" else (how,):
        if kernel is not None and kernel.fits(choice):
            return kernel, choice
    return None


@partial(jax.jit, static_argnums=0)
def _scanned(how, model, state, X, elapsed):
    return _differentiable(how, model, state, X, elapsed)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(how, model, state, X, elapsed):
    step, device, every = how
    streams = X.shape[2:]
    if device is None or X.dtype != jnp.float32:
        return _plain(how, model, state, X, elapsed)
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[: a.ndim - len(streams)], a.dtype), state)
    found = kernel_for(device, step, model, one, X.shape[1], elapsed is not None)
    if found is None:
        return _plain(how, model, state, X, elapsed)
    N = math.prod(streams)
    line = jax.tree.map(lambda a: a.reshape(*a.shape[: a.ndim - len(streams)], N), (state, X))
    if elapsed is not None:
        elapsed = jnp.broadcast_to(elapsed.reshape(X.shape[0], -1), (X.shape[0], N))
    made = _batchable(*found, how)(model, *line, elapsed)
    return jax.tree.map(lambda a: a.reshape(*a.shape[:-1], *streams), made)


def _forward(how, model, state, X, elapsed):
    return _differentiable(how, model, state, X, elapsed), (model, state, X, elapsed)


def _backward(how, given, cotangents):
    return jax.vjp(partial(_plain, how), *given)[1](cotangents)


_differentiable.defvjp(_forward, _backward)


def _plain(how, model, state, X, elapsed):
    """XLA's scan, the whole fleet side by side."""
    step, _, every = how
    state, made = lax.scan(lambda state, now: step(model, state, *now), state, (X, elapsed))
    return state, jax.tree.map(lambda a: a[every - 1 :: every], made)


def _batchable(kernel: Kernel, device: str, how):
    """The kernel as a function of (model, state (…, N), X (T, p, N), elapsed (T, N)), whose `vmap` is more streams."""

    @jax.custom_batching.custom_vmap
    def call(model, state, X, elapsed):
        launch = partial(_pieces, kernel, device, how[2])
        if device == "interpret":
            return launch(model, state, X, elapsed)
        return lax.platform_dependent(model, state, X, elapsed, cpu=partial(_plain, how), default=launch)

    @call.def_vmap
    def batched(size, which, model, state, X, elapsed):
        numbers, *rest = which
        if any(jax.tree.leaves(numbers)):  # a model for each: the kernel has one for all
            axes = jax.tree.map(lambda b: 0 if b else None, which)
            made = jax.vmap(partial(_plain, how), axes, axis_size=size)(model, state, X, elapsed)
        else:

            def behind(a, is_batched):
                a = jnp.moveaxis(a, 0, -1) if is_batched else jnp.broadcast_to(a[..., None], (*a.shape, size))
                return a.reshape(*a.shape[:-2], -1)

            made = call(model, *jax.tree.map(behind, (state, X, elapsed), tuple(rest)))
            made = jax.tree.map(lambda a: jnp.moveaxis(a.reshape(*a.shape[:-1], -1, size), -1, 0), made)
        return made, jax.tree.map(lambda a: True, made)

    return call


def _pieces(kernel: Kernel, device: str, every: int, model, state, X, elapsed):
    """Launch the kernel once, or for each piece of time if X is too long for one launch."""
    T, words = X.shape[0], kernel.words(state)
    pieces = -(-T // kernel.longest(device, X.shape[-1]))
    size = -(-T // (pieces * every)) * every
    if pieces == 1:
        words, made = kernel.scan(device, model, words, X, elapsed, T, every=every)
    else:
        pieces = -(-T // size)

        def cut(a):
            return jnp.pad(a, [(0, pieces * size - T)] + [(0, 0)] * (a.ndim - 1)).reshape(pieces, size, *a.shape[1:])

        def piece(words, now):
            return kernel.scan(device, model, words, *now, every=every)

        steps = jnp.minimum(size, T - size * jnp.arange(pieces))
        words, made = lax.scan(piece, words, (*jax.tree.map(cut, (X, elapsed)), steps))
        made = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), made)
    return kernel.state(words), jax.tree.map(lambda a: a[: T // every], made)
