"""Pallas: the scan of a fleet as one kernel of a GPU or TPU.

A stream is a thread (a lane on a TPU). The time loop is inside: the state stays in registers, each sample is read once
and each reading written once. The body is the flat list of operations on lanes (`lowering.ssa`): elementwise
operations on vectors of one length, which Pallas lowers for Triton (cards before Hopper), for Mosaic GPU (Hopper and
newer) and for TPUs. XLA computes before the kernel what is the same for all streams.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl

from icvi_jax.engine.lanewise import MISSING, apply, converted
from icvi_jax.engine.launch import BLOCK, LAUNCH, At, Made, tiled
from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.lowering.rules import Tree
from icvi_jax.engine.lowering.schedule import ordered
from icvi_jax.engine.lowering.ssa import Lane, check, flatten
from icvi_jax.engine.lowering.unroll import unroll
from icvi_jax.engine.rows import Words, as_leaves, as_words, load, store

BOOL = np.dtype(bool)
LARGEST = {"triton": 800_000, "interpret": 800_000, "mosaic": 300_000, "tpu": 300_000}
"""Words times operations of a step; XLA runs larger ones. Up to 300,000 all stays in registers; up to 800,000 one
instruction in eighteen at most does not, and Triton takes a minute or two (measured for Triton only)."""

MEMORY = 4 * 2**20
"""Bytes of samples and readings of one block of streams that fit into a TPU."""


class Kernel:
    """A step as a kernel: `scan` computes any number of samples of a fleet.

    Parameters
    ----------
    step : (model, state, z (p, streams), elapsed (streams,) or none) → (state, outputs).
    model : a pytree of numbers, the same for all streams; only types matter.
    state : of one stream; only shapes and types matter.
    features, timed : p, and whether the step takes elapsed times.

    Raises
    ------
    Unsupported : an operation or a type that the kernel has no form for.
    """

    def __init__(self, step: Callable[..., tuple[Tree, Tree]], model: Tree, state: Tree, features: int, timed: bool):
        kinds = jax.tree.map(jax.typeof, model)
        model = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type), kinds)
        self.unrolled = unroll(step, model, state, features, np.dtype(np.float32), timed)
        self.flat = flatten(self.unrolled, contract=False)
        check(self.flat.lanes)
        if self.size <= max(LARGEST.values()):
            self.flat = ordered(self.flat)
        lanes = self.flat.lanes
        for lane in lanes:
            if lane.dtype.itemsize > 4:
                raise Unsupported(lane.name, f"for the type {lane.dtype} on this device")
        for part in self.unrolled.state:
            if part.dtype not in (np.float32, np.int32, BOOL):
                raise Unsupported("state", f"of the type {part.dtype} on this device")
        used = {a for lane in lanes if not lane.uniform for a in lane.args} | {*self.flat.after, *self.flat.outputs}
        numbers = sorted(i for i in used if lanes[i].uniform and lanes[i].name != "constant")
        self._floats = [i for i in numbers if lanes[i].dtype.kind == "f"]
        self._wholes = [i for i in numbers if lanes[i].dtype.kind != "f"]
        self.features, self.timed = features, timed

    @property
    def operations(self) -> int:
        """How many operations a sample takes, in each stream."""
        return sum(not lane.uniform and lane.name != "input" for lane in self.flat.lanes)

    @property
    def size(self) -> int:
        """Words of the state times operations: what compilers feel."""
        return self.operations * sum(len(part.items) for part in self.unrolled.state)

    def fits(self, platform: str) -> bool:
        """Whether this platform has all the operations, and registers for what they make."""
        lacks = {lane.name for lane in self.flat.lanes if not lane.uniform} & MISSING[platform]
        return not lacks and self.size <= LARGEST[platform]

    @property
    def row(self) -> int:
        """Bytes of a sample and its readings."""
        return 4 * (self.features + self.timed + sum(len(part.items) for part in self.unrolled.outputs))

    def words(self, state: Tree, xp: ModuleType = jnp) -> Words:
        """A state (…, N) as words, arrays of `xp`."""
        return as_words(self.unrolled.state, jax.tree.leaves(state), xp)

    def state(self, words: Words) -> Tree:
        """Words as a state."""
        return jax.tree.unflatten(self.unrolled.state_tree, as_leaves(self.unrolled.state, words))

    def scan(
        self,
        platform: str,
        model: Tree,
        words: Words,
        X: Array,
        elapsed: Array | None,
        steps: Array | int,
        phase: Array | int = 0,
        every: int = 1,
    ) -> tuple[Words, Tree]:
        """Take `steps` samples of X (T, p, N) in, with elapsed (T, N), in one launch.

        The outputs are (rows, …, N), a row for each group of `every` samples that X touches; the first sample is number
        `phase` of its group, and a row is written when its group is complete.
        """
        N, block = X.shape[-1], BLOCK[platform]
        more = -N % math.prod(block)
        gaps = [elapsed] if self.timed and elapsed is not None else []
        given = [*self._numbers(model, steps, phase), X, *gaps, *words]
        fixed = [a.ndim == 1 for a in given]
        rows = 1 + (X.shape[0] + every - 2) // every
        outputs = [((rows, len(part.items)), _stored(part.dtype)) for part in self.unrolled.outputs]
        shapes: Made = [*outputs, *((a.shape[:-1], a.dtype) for a in words)]
        # a fleet that fills no whole number of blocks goes on with streams whose results nobody reads
        given = [a if one else tiled(a, more, block) for a, one in zip(given, fixed)]
        tail = (N + more,) if len(block) == 1 else ((N + more) // block[-1], block[-1])
        made = [((*lead, *tail), kind) for lead, kind in shapes]
        outs = LAUNCH[platform](partial(self._kernel, block, every, platform), given, fixed, made, block)
        outs = [a.reshape(*lead, N + more)[..., :N] for a, (lead, _) in zip(outs, shapes)]
        leaves = [a.reshape(rows, *part.shape, N).astype(part.dtype) for a, part in zip(outs, self.unrolled.outputs)]
        return Words(*outs[-2:]), jax.tree.unflatten(self.unrolled.output_tree, leaves)

    def longest(self, platform: str, streams: int) -> int:
        """How many samples one launch may take."""
        if platform == "tpu":
            return max(1, MEMORY // (self.row * math.prod(BLOCK["tpu"])))
        widest = max(self.features, *(len(part.items) for part in self.unrolled.outputs))
        # places within an array are counted in 32 bits: of elements, in Mosaic of bytes
        return max(1, (2**31 - 1) // (widest * (streams + 128) * (4 if platform == "mosaic" else 1)))

    def _numbers(self, model: Tree, steps: Array | int, phase: Array | int) -> tuple[Array, Array]:
        """What is the same for all streams, as two arrays of numbers; the counts of samples come first."""
        inputs: dict[int, Array] = {}
        for a, part in zip(jax.tree.leaves(model), self.unrolled.numbers):
            inputs |= zip(part.items.tolist(), jnp.asarray(a, part.dtype).reshape(-1))
        values: dict[int, Array] = {}
        for i, lane in enumerate(self.flat.lanes):
            if lane.name == "constant":
                values[i] = jnp.asarray(lane.value)
            elif lane.uniform:
                is_input = lane.name == "input"
                values[i] = inputs[lane.element] if is_input else apply(lane, [values[a] for a in lane.args])
        floats = [jnp.float32(0), *(values[i].astype(jnp.float32) for i in self._floats)]
        wholes = [jnp.int32(n) for n in (steps, phase, 0)] + [values[i].astype(jnp.int32) for i in self._wholes]
        return jnp.stack(floats), jnp.stack(wholes)

    def _kernel(self, block: tuple[int, ...], every: int, platform: str, at: At, *refs: Array) -> None:
        """The body: `at(0)` indexes this block's streams in an array, behind the lead axes."""
        (floats, wholes, samples), rest = refs[:3], refs[3:]
        here = at(0)
        gaps, rest = rest[: self.timed], rest[self.timed :]
        old, outs, new = rest[:2], rest[2:-2], rest[-2:]
        kinds = [part.dtype for part in self.unrolled.state for _ in part.items]

        # An offset that is 0, but the compiler cannot know: it would keep the addresses of `old` all the way for `new`,
        # in as many registers as the state itself needs, and give a thread words of its neighbours'.
        def place() -> tuple[slice | pl.Slice, ...]:
            return at(wholes[2])

        rows = [iter(load(ref, place, platform)) for ref in old]
        start = [_truth(next(rows[kind.kind != "f"]), kind) for kind in kinds]
        phase = wholes[1]
        numbers = {i: floats[1 + row] for row, i in enumerate(self._floats)}
        numbers |= {i: wholes[3 + row] for row, i in enumerate(self._wholes)}
        elements = [(ref, j) for ref, part in zip(outs, self.unrolled.outputs) for j in range(len(part.items))]
        written: dict[int, list[tuple[Array, int]]] = defaultdict(list)
        for i, element in zip(self.flat.outputs, elements):
            written[i].append(element)

        def step(t: Array, carry: list[Array]) -> list[Array]:
            x = [samples[(t, j, *here)] for j in range(self.features)] + [ref[(t, *here)] for ref in gaps]
            count = phase + t

            def write(i: int, value: Array) -> None:
                for ref, j in written.get(i, ()):
                    ref[(lax.div(count, jnp.int32(every)), j, *here)] = converted(value, ref.dtype)

            ready: dict[int, Array] = {}
            after = self._advance(block, carry, x, numbers, platform, write if every == 1 else ready.__setitem__)
            if every > 1:

                @pl.when(lax.rem(count + 1, jnp.int32(every)) == 0)
                def _() -> None:
                    for i in written:
                        write(i, ready[i])

            return after

        last = lax.fori_loop(jnp.int32(0), wholes[0], step, start)
        for ref, real in zip(new, (True, False)):
            store(ref, place, [a for a, kind in zip(last, kinds) if (kind.kind == "f") == real], platform)

    def _advance(
        self,
        block: tuple[int, ...],
        state: Sequence[Array],
        sample: Sequence[Array],
        numbers: dict[int, Array],
        platform: str,
        done: Callable[[int, Array], None],
    ) -> list[Array]:
        """One sample: the list of operations, done on vectors. `done` gets each value as soon as it is known."""
        lanes, values = self.flat.lanes, dict[int, Array]()
        elements = [int(i) for part in (*self.unrolled.state, *self.unrolled.sample) for i in part.items]
        inputs = dict(zip(elements, (*state, *sample)))

        def read(i: int) -> Array:
            if i not in values:
                lane: Lane = lanes[i]
                if lane.name == "constant":
                    values[i] = lax.full(block, lane.value.item(), lane.dtype)
                else:
                    values[i] = _truth(lax.broadcast(numbers[i], block), lane.dtype)
            return values[i]

        for i, lane in enumerate(lanes):
            if not lane.uniform:
                if lane.name == "input":
                    values[i] = inputs[lane.element]
                else:
                    ins = [lanes[a] for a in lane.args]
                    known = [a.name == "constant" and a.attribute == a.attribute for a in ins]
                    values[i] = apply(lane, [read(a) for a in lane.args], known, platform)
                done(i, values[i])
        for i in dict.fromkeys(i for i in self.flat.outputs if lanes[i].uniform):
            done(i, read(i))
        return [read(i) for i in self.flat.after]


def _stored(kind: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if kind.kind == "f" else np.int32)


def _truth(a: Array, kind: np.dtype) -> Array:
    return a != 0 if kind == BOOL else a
