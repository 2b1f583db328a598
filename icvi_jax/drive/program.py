"""Program: what a block of live streams runs at a tick, compiled once for each size of a block."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.drive.engine import kept
from icvi_jax.drive.packing import Packing
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Reading

PACK = 128
"""Up to this many streams the state travels as one buffer: the call costs more than the arithmetic. Beyond, copying the
state in and out of the buffer costs more than the call."""

ALONE = 4
"""With more slots than this a lone stream runs without an axis of streams: loops over slots are not unrolled then."""

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


def program_for(pipe: Pipeline, features: int, block: int, dtype: np.dtype, keep: tuple[str, ...]) -> Program:
    """The program of a block of streams; fleets whose pipelines differ in numbers only share it."""
    numbers, structure = jax.tree.flatten(pipe)
    key = (structure, tuple(np.shape(a) for a in numbers), features, block, dtype, keep)
    if key not in _programs:
        _programs[key] = Program(pipe, features, block, dtype, keep)
    return _programs[key]


class Program:
    """The compiled functions of one block of streams, and the form in which its state travels.

    The form is one packed buffer for a small block and arrays (…, block) for a larger one. The state is donated: `tick`
    and `scan` consume the one they are given.

    Attributes
    ----------
    tick : (numbers, state, x (block, p)) → state, reading.
    scan : (numbers, state, X (block, t, p)) → state, readings.
    traces : how often a function was traced, which is how often it was compiled.
    """

    def __init__(self, pipe: Pipeline, features: int, block: int, dtype: np.dtype, keep: tuple[str, ...]):
        self.traces = 0
        state = pipe.init(features, (block,), xp=np, dtype=dtype)
        x = jax.ShapeDtypeStruct((block, features), dtype)
        reading = jax.eval_shape(lambda p, s, x: kept(p.step(s, x.T)[1], keep), pipe, state, x)
        self._state, self._reading = Packing(state), Packing(reading)
        self._packed = block <= PACK and self._state.possible and self._reading.possible
        structure = jax.tree.structure(pipe)
        alone = block == 1 and pipe.clusterer.slots > ALONE

        def step(numbers, state, x):
            pipe = jax.tree.unflatten(structure, numbers)
            if alone:
                state, reading = pipe.step(jax.tree.map(lambda a: a[..., 0], state), x[0])
                state, reading = jax.tree.map(lambda a: a[..., None], (state, reading))
            else:
                state, reading = pipe.step(state, x.T)
            return state, kept(reading, keep)

        def packed(numbers, buffer, x):
            state, reading = step(numbers, self._state.unpack(buffer), x)
            return self._state.pack(state), self._reading.pack(reading)

        once = packed if self._packed else step

        def tick(numbers, state, x):
            self.traces += 1
            return once(numbers, state, x)

        def scan(numbers, state, X):
            self.traces += 1
            return jax.lax.scan(lambda s, x: once(numbers, s, x), state, jnp.swapaxes(X, 0, 1))

        self.tick, self.scan = jax.jit(tick, donate_argnums=1), jax.jit(scan, donate_argnums=1)

    def place(self, state: PipelineState, device: jax.Device | None):
        """A state of NumPy arrays on a device, in the form that `tick` takes."""
        # A copy: on a CPU the device would share memory with the array, and donation would write into it.
        own = jax.device_put(jax.tree.map(lambda a: np.array(a, copy=True), state), device, may_alias=False)
        return jax.jit(self._state.pack)(own) if self._packed else own

    def snapshot(self, placed: object) -> PipelineState:
        """The state as NumPy arrays, (…, block); good until the next tick."""
        if self._packed:
            tree = self._state.views(np.asarray(placed), placed.shape[-1])
            return jax.tree.map(lambda a: np.moveaxis(a, 0, -1), tree)
        return jax.tree.map(np.asarray, placed)

    def read(self, out: Array | Reading, streams: int) -> Reading:
        """What `tick` or `scan` returned, as NumPy arrays that lead with (streams,) or (streams, t)."""
        if self._packed:
            return self._reading.views(np.asarray(out), streams)
        return jax.tree.map(lambda a: np.moveaxis(np.asarray(a)[..., :streams], -1, 0), out)
