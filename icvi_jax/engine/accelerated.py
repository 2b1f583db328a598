"""Accelerated: a fleet of streams of the host on GPUs or TPUs; each launch is one kernel with the time loop inside.

The states stay on the devices, the same number of streams on each. Samples are sent relative to their origins, in
pieces of time; while one piece is computed, the next one is sent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.sample_batch import Feed
from icvi_jax.engine.xla import Step, in_pieces

if TYPE_CHECKING:
    from icvi_jax.engine.pallas import Kernel
    from icvi_jax.engine.rows import Words

BUDGET = 256 * 2**20
"""Bytes of samples and readings that one launch may take on each device."""

_kernels: dict[object, Kernel | None] = {}


def kernel_for(
    how: str, step: Step, model: object, state: object, features: int, timed: bool
) -> tuple[Kernel, str] | None:
    """The kernel of a step and the platform to launch it on, or None where only XLA's scan works or is better.

    `state` has no axes of streams: shapes and types of one.
    """
    numbers, structure = jax.tree.flatten(model)
    kinds = tuple((np.shape(a), jnp.result_type(a)) for a in numbers)
    words = tuple((a.shape, a.dtype) for a in jax.tree.leaves(state))
    key = (step, structure, kinds, jax.tree.structure(state), words, features, timed)
    if key not in _kernels:
        from icvi_jax.engine.pallas import Kernel  # importing Pallas takes a second, and few users need it

        try:
            _kernels[key] = Kernel(step, model, state, features, timed)
        except Unsupported:
            _kernels[key] = None
    kernel = _kernels[key]
    for choice in (how, "triton") if how == "mosaic" else (how,):
        if kernel is not None and kernel.fits(choice):
            return kernel, choice
    return None


class Accelerated:
    """A step as a kernel; `icvi_jax.engine.platforms.Program` says what the methods do.

    Parameters
    ----------
    kernel : of the step.
    platform : the kind of kernel.
    mesh : the devices, on one axis "streams".
    """

    name = "pallas"

    def __init__(self, kernel: Kernel, platform: str, mesh: Mesh) -> None:
        self._kernel, self._mesh = kernel, mesh
        self._launch = partial(_launch, kernel, platform, mesh)
        self._longest = partial(kernel.longest, platform)

    def place(self, state: object, room: int) -> Words:
        """The words of a state (…, N) on the devices, padded to `room` streams."""
        more = room + -room % self._mesh.size - jax.tree.leaves(state)[0].shape[-1]
        wide = jax.tree.map(lambda a: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, more)]), state)
        words = self._kernel.words(wide, np)
        placed: Words = jax.device_put(words, NamedSharding(self._mesh, P(None, "streams")))
        return placed

    def fetch(self, words: Words, streams: int) -> object:
        """The states of the first streams as new NumPy arrays (…, N)."""
        return self._kernel.state(jax.tree.map(lambda a: a[:, :streams], jax.device_get(words)))

    def run(self, model: object, words: Words, feed: Feed) -> tuple[Words, object]:
        """Process samples: one launch per piece of time."""
        room, kernel = words.floats.shape[-1], self._kernel
        shapes = [jax.ShapeDtypeStruct((*part.shape, room), part.dtype) for part in kernel.unrolled.outputs]
        most = min(self._longest(room // self._mesh.size), max(1, BUDGET * self._mesh.size // (kernel.row * room)))
        length = 1 << most.bit_length() - 1  # all lengths are powers of two: few compilations

        def launch(words: Words, Z: np.ndarray, gaps: np.ndarray | None, phase: int) -> tuple[Words, object]:
            short = (1 << (Z.shape[1] - 1).bit_length()) - Z.shape[1]
            wide = np.pad(Z, [(0, 0), (0, short), (0, 0)])
            gaps = None if gaps is None else np.pad(gaps, [(0, 0)] * (gaps.ndim - 1) + [(0, short)])
            words, made = self._launch(model, words, wide, gaps, np.int32(phase), np.int32(Z.shape[1]), feed.every)
            return words, made

        outputs = jax.tree.unflatten(kernel.unrolled.output_tree, shapes)
        return in_pieces(launch, words, outputs, feed, np.dtype(np.float32), length)


@partial(jax.jit, static_argnums=(0, 1, 2, 9), donate_argnums=4)
def _launch(
    kernel: Kernel,
    platform: str,
    mesh: Mesh,
    model: object,
    words: Words,
    Z: Array,
    elapsed: Array | None,
    phase: Array,
    steps: Array,
    every: int,
) -> tuple[Words, object]:
    """Process `steps` samples of Z (N, T, p), each device those of its own streams."""

    def part(
        model: object, words: Words, Z: Array, elapsed: Array | None, phase: Array, steps: Array
    ) -> tuple[Words, object]:
        X = jnp.permute_dims(Z, (1, 2, 0))
        gaps = None if elapsed is None else jnp.broadcast_to(elapsed.T.reshape(len(X), -1), (len(X), X.shape[-1]))
        words, made = kernel.scan(platform, model, words, X, gaps, steps, phase, every)
        return words, jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), made)

    streams, rows = P("streams"), P(None, "streams")
    gaps = P() if elapsed is None or elapsed.ndim == 1 else streams
    over = jax.shard_map(
        part, mesh=mesh, in_specs=(P(), rows, streams, gaps, P(), P()), out_specs=(rows, streams), check_vma=False
    )
    return over(model, words, Z, elapsed, phase, steps)
