"""CUDA: a scan as one launch of a kernel inside XLA.

All kernels have one FFI handler, `cuda_launch.ll`. A lowered program carries the PTX of its kernels as an attribute of
the custom call, so that the handler is all it needs where it runs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.lowering.unroll import unroll_jaxpr
from icvi_jax.engine.native.build import Native
from icvi_jax.engine.native.program import LARGE
from icvi_jax.engine.native.ptx import Kernel

if TYPE_CHECKING:
    from icvi_jax.engine.primitive import Scan

TARGET = "icvi_cuda_scan"
"""The name of the handler, and so of the custom call in lowered programs."""

FEW = 32_768
"""Streams up to which a block has one warp, so that all processors of a card get some; beyond, it has four."""


@lru_cache(maxsize=1)
def handler() -> tuple[Native, int]:
    """The handler's code and its address; made once, never freed."""
    text = resources.files("icvi_jax.engine.native").joinpath("cuda_launch.ll").read_text()
    native = Native(text, 1)
    return native, native.address("handler")


@lru_cache(maxsize=1)
def register() -> None:
    """Make the handler known to XLA for CUDA, once; needs no card."""
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(handler()[1])
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(function), platform="CUDA")


def call_cuda(how: Scan, operands: Sequence[Array]) -> list[Array]:
    """The scan as one launch: XLA moves the axes of streams to the end where they are not there yet."""
    s, N = how.carry, math.prod(how.streams)
    kernel, order = kernel_for(how), _order(how)
    given = [_line(operands[i], how.axes[i], how.streams) for i in order]
    timed = len(given) - len(kernel.unrolled.sample)
    if how.reverse:
        given[timed:] = [jnp.flip(a, 0) for a in given[timed:]]
    made = launch_kernel(kernel, given, N, how.length, how.every)
    if how.reverse:
        made[s:] = [jnp.flip(a, 0) for a in made[s:]]
    results = []
    for i, a in enumerate(made):
        wide = a.reshape(*a.shape[:-1], *how.streams)
        where = tuple(range(wide.ndim - len(how.streams), wide.ndim))
        results.append(jnp.moveaxis(wide, where, how.result_axes(i)))
    return results


def _order(how: Scan) -> list[int]:
    """The operands as a kernel has them: numbers of all streams, the carry, numbers of each stream, samples."""
    n, s, own = how.numbers, how.carry, how.by_stream
    numbers, rest = range(n), range(n + s, len(how.axes))
    return [*(i for i in numbers if not own[i]), *range(n, n + s), *(i for i in numbers if own[i]), *rest]


def kernel_for(how: Scan) -> Kernel:
    """The kernel of a scan; scans of other lengths and numbers of streams have the same."""
    own = tuple(any(at is not None for at in how.axes[i]) for i in _order(how))
    return _kernel(how.body, how.numbers, how.carry, how.by_stream, own, how.every > 1)


@lru_cache(maxsize=256)
def _kernel(
    body: ClosedJaxpr, numbers: int, carry: int, by_stream: tuple[bool, ...], own: tuple[bool, ...], sparse: bool
) -> Kernel:
    unrolled = unroll_jaxpr(body, numbers, carry, by_stream)
    if (weight := unrolled.graph.weight) > LARGE:
        raise Unsupported("step", f"it has {weight:,} operations on numbers, and a kernel {LARGE:,} at most")
    return Kernel(unrolled, own, sparse)


def _line(a: Array, axes: tuple[int | None, ...], streams: tuple[int, ...]) -> Array:
    """An operand with all axes of streams as one, the last; as it is where all streams share it."""
    there = [at for at in axes if at is not None]
    if not there:
        return a
    rest = [d for d in range(a.ndim) if d not in there]
    a = jnp.permute_dims(a, (*rest, *there))
    lead, sizes = a.shape[: len(rest)], [1 if at is None else size for at, size in zip(axes, streams)]
    return jnp.broadcast_to(a.reshape(*lead, *sizes), (*lead, *streams)).reshape(*lead, -1)


def launch_kernel(kernel: Kernel, operands: Sequence[Array], streams: int, steps: int, every: int = 1) -> list[Array]:
    """The kernel as a traced call: the state (n…, N), in place where it may be, and the outputs (rows, n…, N)."""
    register()
    first, carried = len(kernel.unrolled.numbers), kernel.carried
    states = [jax.ShapeDtypeStruct((*part.shape, streams), part.dtype) for part in kernel.unrolled.state[:carried]]
    shapes = [jax.ShapeDtypeStruct((steps // every, *leaf.shape, streams), leaf.dtype) for leaf in kernel.outputs]
    moving = [shape for i, shape in enumerate(shapes) if i not in kernel.still]
    aliases = {first + i: i for i in range(carried) if kernel.own[first + i]}
    sizes = np.array([streams, steps, every, 32 if streams <= FEW else 128], np.int64)
    call = jax.ffi.ffi_call(TARGET, [*states, *moving], input_output_aliases=aliases)
    made = iter(call(*operands, name=kernel.name, ptx=kernel.ptx, sizes=sizes))
    still = {i: np.asarray(value)[..., None] for i, value in kernel.still.items()}
    results = [next(made) for _ in states]
    return results + [
        jnp.broadcast_to(still[i], shape.shape) if i in still else next(made) for i, shape in enumerate(shapes)
    ]
