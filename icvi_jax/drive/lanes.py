"""The compiled scan of `run` and `run_fleet`: streams side by side in the lanes of the machine's vectors."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from icvi_jax.drive import kernel
from icvi_jax.drive.engine import kept


def scan_lanes(pipe, state, X, elapsed, phase, keep: tuple[str, ...], every: int, in_kernel: bool):
    """Scan X (T, p, n), all n streams at once.

    Parameters
    ----------
    elapsed : (T,), (T, n) or None.
    phase : samples since the last reading that was kept; the first of X is number `phase` of its group.
    every : the last reading of each group of this many samples is kept.
    in_kernel : make one kernel of the scan if the step allows it; for CPUs only.

    Returns
    -------
    The state, and readings (rows, …, n), one row for each group that X touches; the last may be incomplete.
    """

    def step(pipe, state, x, gap):
        state, reading = pipe.step(state, x, gap)
        return state, kept(reading, keep)

    first = X[0], None if elapsed is None else elapsed[0]
    quick, (_, shapes) = kernel.rewritten(step, pipe, state, *first)
    quick = quick if in_kernel and kernel.loops(X.shape[0]) else None
    advance = step if quick is None else quick
    rows = 1 + (X.shape[0] + every - 2) // every

    def whole(pipe, state, X, elapsed, phase):
        def body(carry, inputs):
            at, state, kept_so_far = carry
            state, reading = advance(pipe, state, *inputs)
            row = at // every  # written over until its group is complete
            put = partial(lax.dynamic_update_slice_in_dim, start_index=row, axis=0)
            return (at + 1, state, jax.tree.map(lambda rows, a: put(rows, a[None]), kept_so_far, reading)), None

        empty = jax.tree.map(lambda a: jnp.zeros((rows, *a.shape[:-1], _pitch(a)), a.dtype), shapes)
        (_, state, readings), _ = lax.scan(body, (phase, state, empty), (X, elapsed))
        return state, readings

    call = whole if quick is None else partial(kernel.one_kernel, whole)
    state, readings = call(pipe, state, X, elapsed, phase)
    return state, jax.tree.map(lambda a: a[..., : X.shape[-1]], readings)


def _pitch(a) -> int:
    """Lanes from one row of readings to the next, in the memory where they are collected.

    Rows in steps of a power of two share a few lines of the cache, and to turn them into streams would be slow.
    """
    lanes, size = a.shape[-1], a.dtype.itemsize
    return lanes if lanes * size % 128 else lanes + 64 // size


@partial(jax.jit, static_argnames=("keep", "every", "mesh"), donate_argnums=1)
def scan_blocks(pipe, state, X, elapsed, phase, keep: tuple[str, ...], every: int, mesh: Mesh):
    """Scan blocks of streams one after the other on each device, the blocks shared out over the mesh.

    A block is small enough for its state to stay in the cache. State and readings lead with the block. The third result
    is ready when all the others are.

    Parameters
    ----------
    state : leaves (blocks, …, n); donated.
    X : (blocks, n, T, p).
    elapsed : (T,), (blocks, n, T) or None.
    """
    in_kernel = mesh.devices.flat[0].platform == "cpu"
    each = elapsed is not None and elapsed.ndim == 3

    def block(pipe, phase, common, args):
        state, X, gaps = args
        gaps = common if gaps is None else gaps.T
        state, readings = scan_lanes(pipe, state, jnp.permute_dims(X, (1, 2, 0)), gaps, phase, keep, every, in_kernel)
        return state, jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), readings)

    def local(pipe, phase, common, *args):
        return lax.map(partial(block, pipe, phase, common), args)

    split, whole = P("streams"), P()
    specs = (whole, whole, whole, split, split, split)
    # Devices never talk to each other here, so nothing needs to be told apart by the device it lives on.
    shared = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
    return *shared(pipe, phase, None if each else elapsed, state, X, elapsed if each else None), phase + 1


@partial(jax.jit, static_argnames=("features", "blocks", "block", "dtype", "sharding"))
def start_blocks(pipe, features: int, blocks: int, block: int, dtype: np.dtype, sharding: NamedSharding):
    """The state before any sample, as `scan_blocks` wants it."""
    state = pipe.init(features, (block,), dtype=dtype)
    lead = jax.tree.map(lambda a: jnp.broadcast_to(a, (blocks, *a.shape)), state)
    return lax.with_sharding_constraint(lead, sharding)


@partial(jax.jit, static_argnames=("features", "dtype", "keep"))
def sample_reading(pipe, features: int, dtype: np.dtype, keep: tuple[str, ...]):
    """The reading of one sample of one stream; only its shapes are of interest."""
    state = pipe.init(features, dtype=dtype)
    return kept(pipe.step(state, state.anchor.high)[1], keep)


@partial(jax.jit, static_argnames=("keep", "in_kernel"))
def scan_one(pipe, state, X, elapsed, keep: tuple[str, ...], in_kernel: bool):
    """Scan one stream X (T, p); in a kernel it goes as a fleet of one."""
    if not in_kernel:

        def body(state, inputs):
            state, reading = pipe.step(state, *inputs)
            return state, kept(reading, keep)

        return lax.scan(body, state, (X, elapsed))
    state = jax.tree.map(lambda a: a[..., None], state)
    out = scan_lanes(pipe, state, X[..., None], elapsed, jnp.int32(0), keep, 1, True)
    return jax.tree.map(lambda a: a[..., 0], out)
