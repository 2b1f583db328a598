"""Program: what a block of live streams runs at a tick, compiled once for each size of a block.

JAX hands all but the cheapest calls on a CPU to another thread. For one stream that takes longer than the call: where
it matters, say `jax.config.update("jax_cpu_enable_async_dispatch", False)` before any JAX work. Large fleets want it
on.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.drive.engine import kept
from icvi_jax.drive.kernel import one_kernel, rewritten
from icvi_jax.drive.packing import Packing
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Reading

PACK = 128
"""Where a step is no single kernel, the state travels as one buffer up to this many streams: the call costs more than
the arithmetic. Beyond, copying the state in and out of the buffer costs more than the call. In a kernel it always does,
since the copies are part of it."""

_programs: dict[tuple, Program] = {}


def float_type(dtype: type | str | np.dtype | None) -> np.dtype:
    """`dtype` as a NumPy type, or JAX's default float; an error where JAX would quietly take another."""
    wanted = jnp.dtype(jnp.result_type(float) if dtype is None else dtype)
    if wanted == np.float64 and not jax.config.jax_enable_x64:
        raise ValueError("float64 on JAX needs jax.config.update('jax_enable_x64', True)")
    return wanted


def numbers_of(pipe: Pipeline) -> tuple[Array, ...]:
    """The numbers of a pipeline as device arrays: converted once, and flat, since a call flattens what it is given."""
    return tuple(jnp.asarray(a) for a in jax.tree.leaves(pipe))


def program_for(
    pipe: Pipeline, features: int, block: int, dtype: np.dtype, keep: tuple[str, ...], platform: str
) -> Program:
    """The program of a block of streams; fleets whose pipelines differ in numbers only share it."""
    numbers, structure = jax.tree.flatten(pipe)
    key = (structure, tuple(np.shape(a) for a in numbers), features, block, dtype, keep, platform)
    if key not in _programs:
        _programs[key] = Program(pipe, features, block, dtype, keep, platform)
    return _programs[key]


class Program:
    """The compiled functions of one block of streams, and the form in which its state travels.

    On a CPU a step is one kernel of machine code where it can be (see `kernel`), and the state travels as one packed
    buffer; otherwise as arrays (…, block). The state is donated: `tick` and `scan` consume the one they are given.

    Attributes
    ----------
    tick : (numbers, state, x (block, p)) → state, reading.
    scan : (numbers, state, X (block, t, p)) → state, readings.
    traces : how often a function was traced, which is how often it was compiled.
    """

    def __init__(
        self, pipe: Pipeline, features: int, block: int, dtype: np.dtype, keep: tuple[str, ...], platform: str
    ):
        self.traces = 0
        state = pipe.init(features, (block,), xp=np, dtype=dtype)
        x = jax.ShapeDtypeStruct((block, features), dtype)
        structure = jax.tree.structure(pipe)

        def step(numbers, state, x):
            state, reading = jax.tree.unflatten(structure, numbers).step(state, x.T)
            return state, kept(reading, keep)

        quick, shapes = rewritten(step, numbers_of(pipe), state, x)
        quick = quick if platform == "cpu" else None
        self._state, self._reading = Packing(state), Packing(shapes[1])
        possible = self._state.possible and self._reading.possible
        self._packed = possible and (block <= PACK or quick is not None)
        advance = step if quick is None else quick

        def packed(numbers, buffer, x):
            state, reading = advance(numbers, self._state.unpack(buffer), x)
            return self._state.pack(state), self._reading.pack(reading)

        once = packed if self._packed else advance
        if quick is not None:
            once = partial(one_kernel, once)

        def tick(numbers, state, x):
            self.traces += 1
            return once(numbers, state, x)

        def scan(numbers, state, X):
            self.traces += 1
            return jax.lax.scan(lambda s, x: once(numbers, s, x), state, jnp.swapaxes(X, 0, 1))

        self.tick, self.scan = jax.jit(tick, donate_argnums=1), jax.jit(scan, donate_argnums=1)

    def place(self, state: PipelineState, device: jax.Device | None):
        """A state of NumPy arrays on a device, in the form that `tick` takes."""
        form = self._state.packed(state) if self._packed else state
        # No alias: a CPU device would share memory with the array, and donation would write into it.
        return jax.device_put(form, device, may_alias=False)

    def snapshot(self, placed: list, streams: int) -> PipelineState:
        """The states of many blocks as NumPy arrays (…, streams) of their own."""
        if self._packed:
            return self._state.unpacked(_side_by_side(placed, streams))
        return jax.tree.map(lambda *of: _side_by_side(of, streams), *placed)

    def read(self, out: Array | Reading, streams: int) -> Reading:
        """What `tick` or `scan` returned, as NumPy arrays that lead with (streams,) or (streams, t)."""
        if self._packed:
            return self._reading.views(np.asarray(out), streams)
        return jax.tree.map(lambda a: np.moveaxis(np.asarray(a)[..., :streams], -1, 0), out)


def _side_by_side(pieces, streams):
    return np.concatenate([np.asarray(piece) for piece in pieces], axis=-1)[..., :streams]
