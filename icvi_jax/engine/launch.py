"""Launch: how a kernel over blocks of streams is called on each platform.

A launcher takes the body `kernel(at, *refs)`, in which `at(0)` indexes the streams of the block; the arrays given, of
which those that are `fixed` are numbers for all streams and the last two are the state; the shapes and types of what is
made, of which the last two are the state after; and the shape of a block of streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl

Made = Sequence[tuple[tuple[int, ...], np.dtype]]
Body = Callable[..., None]
At = Callable[[Array | int], tuple[slice | pl.Slice, ...]]

BLOCK = {"interpret": (128,), "triton": (128,), "mosaic": (128,), "tpu": (8, 128)}
"""The shape of a vector of streams: a block of 4 warps, or a register of a TPU."""


def _types(made: Made, given: Sequence[Array]) -> list[jax.ShapeDtypeStruct]:
    """What is made varies over the devices that any of the arrays given varies over (inside `shard_map`)."""
    kinds = [jax.typeof(a).manual_axis_type for a in given]
    kind = max(kinds, key=lambda k: len(k.varying))
    return [jax.ShapeDtypeStruct(shape, dtype, manual_axis_type=kind) for shape, dtype in made]


def _aliases(given: Sequence[Array], made: Made) -> dict[int, int]:
    return {len(given) - 2: len(made) - 2, len(given) - 1: len(made) - 1}


def triton(
    kernel: Body,
    given: Sequence[Array],
    fixed: Sequence[bool],
    made: Made,
    block: tuple[int, ...],
    interpret: bool = False,
) -> Sequence[Array]:
    """One program of four warps a block; arrays are addresses in the card's memory, of any length."""
    from jax.experimental.pallas import triton as backend

    def body(*refs: Array) -> None:
        kernel(lambda more: (pl.ds(pl.program_id(0) * block[0] + more, block[0]),), *refs)

    out: Sequence[Array] = pl.pallas_call(
        body,
        _types(made, given),
        grid=(made[-1][0][-1] // block[0],),
        input_output_aliases=_aliases(given, made),
        compiler_params=backend.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="icvi_scan",
    )(*given)
    return out


def interpreted(
    kernel: Body, given: Sequence[Array], fixed: Sequence[bool], made: Made, block: tuple[int, ...]
) -> Sequence[Array]:
    """The kernel on a CPU, operation by operation: for tests."""
    return triton(kernel, given, fixed, made, block, interpret=True)


def mosaic(
    kernel: Body, given: Sequence[Array], fixed: Sequence[bool], made: Made, block: tuple[int, ...]
) -> Sequence[Array]:
    """One warpgroup a block; samples are read from the card's memory where they are needed."""
    from jax.experimental.pallas import mosaic_gpu as backend

    def body(*refs: Array) -> None:
        kernel(lambda more: (pl.ds(lax.axis_index("block") * block[0] + more, block[0]),), *refs)

    out: Sequence[Array] = backend.kernel(
        body,
        out_type=_types(made, given),
        grid=(made[-1][0][-1] // block[0],),
        grid_names=("block",),
        compiler_params=backend.CompilerParams(unsafe_no_auto_barriers=True),
        kernel_name="icvi_scan",
    )(*given)
    return out


def tpu(
    kernel: Body, given: Sequence[Array], fixed: Sequence[bool], made: Made, block: tuple[int, ...]
) -> Sequence[Array]:
    """One register of streams a block; its samples and readings are copied to and from the core's memory."""
    from jax.experimental.pallas import tpu as backend

    def spec(shape: tuple[int, ...]) -> pl.BlockSpec:
        lead = len(shape) - 2
        return pl.BlockSpec((*shape[:lead], *block), lambda b: (*[0] * lead, b, 0))

    numbers = pl.BlockSpec(memory_space=backend.SMEM)
    out: Sequence[Array] = pl.pallas_call(
        lambda *refs: kernel(lambda more: (slice(None), slice(None)), *refs),
        _types(made, given),
        grid=(math.prod(made[-1][0][-2:]) // math.prod(block),),
        in_specs=[numbers if one else spec(a.shape) for a, one in zip(given, fixed)],
        out_specs=[spec(shape) for shape, _ in made],
        input_output_aliases=_aliases(given, made),
        compiler_params=backend.CompilerParams(dimension_semantics=("parallel",)),
        name="icvi_scan",
    )(*given)
    return out


def tiled(a: Array, more: int, block: tuple[int, ...]) -> Array:
    """Streams padded to full blocks, and split as a TPU needs them."""
    a = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, more)]) if more else a
    return a if len(block) == 1 else a.reshape(*a.shape[:-1], -1, block[-1])


LAUNCH = {"interpret": interpreted, "triton": triton, "mosaic": mosaic, "tpu": tpu}
