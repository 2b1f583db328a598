"""Program: a compiled step, run over arrays of samples or tick by tick."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import pathlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import jax
import numpy as np

from icvi_jax.engine.lowering.graph import Operation
from icvi_jax.engine.lowering.rules import Tree
from icvi_jax.engine.lowering.schedule import most_alive, ordered
from icvi_jax.engine.lowering.ssa import Lane, check, flatten
from icvi_jax.engine.lowering.unroll import Unrolled, unroll
from icvi_jax.engine.native.build import Native, folder, host, lanes_of
from icvi_jax.engine.native.codegen import MATHS
from icvi_jax.engine.native.ffi import write_handler
from icvi_jax.engine.native.layout import Layout, packed_words, shape_of, unpacked_words
from icvi_jax.engine.native.loops import write_loops
from icvi_jax.engine.native.maths import write_functions
from icvi_jax.engine.native.plan import plan, rows
from icvi_jax.engine.native.scan import write_scan
from icvi_jax.engine.native.transpose import FIELDS, scratch_bytes, write_tiles

BUSY = 1024
"""A tick of fewer streams than twice this is not worth a second thread."""

LONG = 10_000
"""Lines of a program of loops beyond which it is compiled as it is: LLVM's own improvements take too long."""

PATIENCE = 5.0
"""Processor seconds that a first call may take: a step is written out operation by operation where no more are
predicted, and otherwise its arrays stay loops. Written out it was the faster form of all shapes around the border, by
up to 3 times, and loops are 1.2 to 9 times as fast as XLA (`benchmarks/growth.py`), which gets what has no native code:
so nothing but the time to compile must be known."""

WORD, GROWTH = 8, 1.3
"""LLVM takes as long for a word of the state as for so many operations, and longer than in proportion for more."""

SECONDS = (0.19, 7.1e-6, 2.4e-4)
"""Processor seconds of a first call: of any, for what is written out, for each operation on arrays that is traced. From
`benchmarks/growth.py --forms`, which prints them for another machine."""

CROWDED = 3
"""A step with so many times as many values alive at once as there are registers is put in order (`lowering.schedule`)
and compiled as it is written: 1.8 times as fast for 32 centres. With 2, k = 4 would lose 5 %."""

FORCED = ""
"""For measurements: "flat" or "loops" is the form of all code."""

APART = 2**25
"""Outputs of at least so many bytes get their own allocation, so that holding one does not pin the rest."""

LINE = 64
"""Bytes of a line of the cache."""

FIRST, LAST, SCRATCH = (FIELDS.index(name) for name in ("first", "last", "scratch"))


def compile_step(
    step: Callable[..., tuple[Tree, Tree]],
    model: Tree,
    state: Tree,
    features: int,
    dtype: np.dtype,
    elapsed: bool = False,
    lanes: int | None = None,
    loops: bool | None = None,
    cache: pathlib.Path | None = None,
    own: Sequence[bool] = (),
) -> Program:
    """Native code for `step(model, state, z[, elapsed]) → (state, outputs)`.

    Parameters
    ----------
    step : a function for one stream; z is (p,), elapsed a number.
    model : a pytree of numbers: arguments of the code, so that other numbers need no other code.
    state : the state of one stream, only shapes and types matter.
    features : p.
    dtype : float32 or float64, the type of z.
    elapsed : whether the step takes the time since the last sample.
    lanes : streams a vector; by default what the processor has.
    loops : whether arrays stay loops instead of being written out element by element; by default large steps do.
    cache : a folder where compiled code is kept between processes; by default the environment's `ICVI_CACHE`, if any.
    own : for each leaf of the model, whether each stream has its own; empty: none is.

    Raises
    ------
    Unsupported : the step has an operation without a native form; its `name` says which.
    """
    unrolled = unroll(step, model, state, features, np.dtype(dtype), elapsed, own)
    return compile_unrolled(unrolled, lanes, loops, cache)


def compile_unrolled(
    unrolled: Unrolled, lanes: int | None = None, loops: bool | None = None, cache: pathlib.Path | None = None
) -> Program:
    """Native code for an unrolled step, see `compile_step`; the same code twice is one program."""
    if loops is None:
        loops = FORCED == "loops" if FORCED else first_call(unrolled) > PATIENCE
    unrolled = rows(unrolled, host().fused) if loops else unrolled
    how = plan(unrolled, host().fused) if loops else None
    flat = None if loops else flatten(unrolled, host().fused)
    vectors = 1
    if flat is not None:
        alive, calls = most_alive(flat), any(lane.name in MATHS for lane in flat.lanes)
        if alive > CROWDED * _registers() and not calls and lanes != 1:  # functions wait: LLVM fills the time
            flat = ordered(flat)
        elif lanes is None and not calls:  # functions are written for one vector
            vectors = _side_by_side(alive)
    layout = Layout(unrolled, vectors * (lanes or _lanes(unrolled)), how, flat, vectors)
    return Program(layout, assemble(layout), cache or folder())


def first_call(unrolled: Unrolled) -> float:
    """Processor seconds that a first call will take about, if the step is written out."""
    graph, words = unrolled.graph, sum(part.n for part in unrolled.state)
    size = (graph.weight + WORD * words) ** GROWTH
    return float(np.dot(SECONDS, (1, size, len(graph.operations))))


def _lanes(unrolled: Unrolled) -> int:
    """Streams a vector: as many as it holds of the widest floats at work."""
    graph = unrolled.graph
    kinds = {o.dtype for o in graph.operations if o.dtype.kind == "f"} | {i.dtype for i in graph.inputs}
    return lanes_of(max([np.dtype(np.float32), *kinds], key=lambda kind: kind.itemsize))


def _registers() -> int:
    """Registers for vectors."""
    return 32 if host().vector == 64 else 16


def _side_by_side(alive: int) -> int:
    """How many vectors of each value a small step is done for at once, since each operation waits for the last: with
    four, a value in four may have no register."""
    return next((n for n in (4, 2) if (n - 1) * alive <= _registers()), 1)


def assemble(layout: Layout) -> str:
    """The text of a program: the time loop, and what brings samples and readings."""
    operations: Sequence[Lane | Operation]
    if layout.flat is not None:
        operations = layout.flat.lanes
    else:
        operations = [o for loop in (*layout.how.before, *layout.how.each) for o in loop.operations]
    check(operations)
    scan, declared = write_loops(layout) if layout.flat is None else write_scan(layout, layout.flat)
    functions, more = write_functions(operations, layout.width, host().fused, host().vector)
    fetch = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    return "\n\n".join([fetch, *sorted(declared | more), scan, *write_tiles(layout), *functions])


class Call(NamedTuple):
    """A native function, its context and the scratch memory the context points to."""

    function: Callable[[int], None]
    context: np.ndarray
    scratch: np.ndarray


class Ticker(NamedTuple):
    """A step whose call is prepared: write `x` (N, p) and, where the step takes it, `elapsed` (N,), 1 until then; call
    `tick`, and the arrays of `out` (N, …) have the reading, until the next call; the words have moved on."""

    x: np.ndarray
    elapsed: np.ndarray
    out: list[np.ndarray]
    tick: Callable[[], None]
    held: tuple[object, ...]  # memory that addresses point to


_mine: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)  # not on every system


def cores() -> int:
    """Cores this process may use."""
    return len(_mine(0)) if _mine is not None else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), "icvi")


def together(calls: Sequence[Call]) -> None:
    """Make the calls at the same time, the first in this thread."""
    others = [_pool(os.getpid()).submit(call.function, call.context.ctypes.data) for call in calls[1:]]
    calls[0].function(calls[0].context.ctypes.data)
    for other in others:
        other.result()


def room(wanted: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    """New arrays of these shapes and types, those of less than `APART` bytes in one piece of memory.

    The system gives large pieces in large pages. Twenty arrays of a megabyte each would come in pages of 4 kB, and to
    fetch these takes longer than a scan takes to fill them.
    """
    sizes = [-(-math.prod(shape) * dtype.itemsize // LINE) * LINE for shape, dtype in wanted]
    shared = np.empty(sum(size for size in sizes if size < APART) + LINE, np.uint8)
    at = -shared.ctypes.data % LINE
    arrays = []
    for (shape, dtype), size in zip(wanted, sizes):
        if size >= APART:
            arrays.append(np.empty(shape, dtype))
            continue
        arrays.append(shared[at : at + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape))
        at += size
    return arrays


class Program:
    """Native code of a step, and the layout of what it reads and writes.

    Attributes
    ----------
    layout : sizes and types: `layout.state`, `layout.outputs`, `layout.width`.
    text : the code, as text of LLVM.
    """

    def __init__(self, layout: Layout, text: str, cache: pathlib.Path | None = None) -> None:
        self.layout, self.text = layout, text
        short = text.count("\n") < LONG
        if layout.plan is not None:
            self._passes = int(short)
        else:  # nothing is left to improve in a flat list of vectors; single numbers become vectors side by side
            self._passes = 2 if layout.width == 1 and short else 0
        self._cache = cache
        in_order = layout.flat is not None and layout.flat.ordered
        self._native = Native(text, self._passes, cache, in_order)
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._native.address("run"))
        self._scratch = scratch_bytes(layout)[-1]

    @cached_property
    def handler(self) -> tuple[str, int]:
        """XLA's way in: a name that is the same in every process with the same code, and where it is. Made when it is
        asked for: who calls the code from Python does not wait for it."""
        text = write_handler(self.layout)
        # in a module of its own, and told where `run` is: LLVM's linker fails where both modules call the C library
        self._entry = Native(text, self._passes, self._cache)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._entry.address("found"))(self._native.address("run"))
        return f"icvi_{hashlib.sha256((self.text + text).encode()).hexdigest()[:24]}", self._entry.address("handler")

    def words(self, state: Tree, own: Sequence[np.ndarray] = ()) -> np.ndarray:
        """A pytree of arrays (lead…, N) and numbers of each stream (N,) as words; see `native.layout`."""
        leaves = [np.asarray(a) for a in (*self.layout.unrolled.state_tree.flatten_up_to(state), *own)]
        return packed_words(leaves, self.layout.state, self.layout.width)

    def repeated(self, packed: np.ndarray, streams: int) -> np.ndarray:
        """The words of so many streams that are all as the first of these."""
        lanes = self.layout.width
        rows = np.empty(shape_of(self.layout.state, streams, lanes), packed.dtype, "F" if lanes == 1 else "C")
        rows[...] = packed[:, :1]
        return rows

    def state(self, packed: np.ndarray, streams: int) -> Tree:
        """Words as a pytree of NumPy arrays (lead…, N), which may be views of them."""
        leaves = unpacked_words(packed, self.layout.state[: self.layout.carried], streams)
        return jax.tree.unflatten(self.layout.unrolled.state_tree, leaves)

    def numbers(self, model: Tree) -> np.ndarray:
        """The numbers of a model that all streams share, as the code reads them: 8 bytes each."""
        leaves = jax.tree.leaves(model)
        out = np.zeros(sum(leaf.n for leaf in self.layout.numbers), np.int64)
        at = 0
        for a, leaf in zip(leaves, self.layout.numbers):
            for value in np.asarray(a, leaf.dtype).reshape(-1):
                out[at : at + 1].view(leaf.dtype)[0] = value
                at += 1
        return out

    def outputs(self, streams: int, readings: int) -> list[np.ndarray]:
        """New arrays (N, readings, …) for the leaves of the outputs; see `room`."""
        arrays = room([((streams, readings, *leaf.shape), leaf.dtype) for leaf in self.layout.outputs])
        for i, value in self.layout.still.items():
            arrays[i][...] = value
        return arrays

    def tree(self, outputs: Sequence[np.ndarray] | Sequence[int]) -> Tree:
        """The outputs' leaves as the pytree that the step returns."""
        return jax.tree.unflatten(self.layout.unrolled.output_tree, list(outputs))

    def run(
        self,
        packed: np.ndarray,
        numbers: np.ndarray,
        X: np.ndarray,
        *,
        origin: np.ndarray | None = None,
        elapsed: np.ndarray | None = None,
        every: int = 1,
        phase: int = 0,
        out: list[np.ndarray] | None = None,
        threads: int | None = None,
    ) -> list[np.ndarray]:
        """Run over X (N, T, p), float32 or float64 with any strides; the words are changed in place.

        Parameters
        ----------
        numbers : of the model, see `numbers`.
        origin : (N, p) float64, subtracted from X in X's own precision.
        elapsed : (T,) or (N, T).
        every : keep each n-th reading; `phase` steps have passed since the last one.
        out : arrays to write to, as `outputs` makes them: what is the same at every step is in them already.
        threads : at most so many; all cores by default.
        """
        context, out = self._context(packed, numbers, X, origin, elapsed, every, phase, out)
        together(self._calls(context, threads))
        return out

    def ticker(
        self,
        packed: np.ndarray,
        numbers: np.ndarray,
        streams: int,
        dtype: np.dtype | None = None,
        origin: np.ndarray | None = None,
        out: list[np.ndarray] | None = None,
    ) -> Ticker:
        """One step a call on these words, with as little between Python and the code as possible.

        `origin` and `out` as in `run`; `out` has one reading.
        """
        x = np.zeros((streams, 1, self.layout.samples[0].n), dtype or self.layout.dtype)
        elapsed = np.ones((streams, 1), self.layout.dtype)
        context, out = self._context(packed, numbers, x, origin, elapsed, 1, 0, out)
        calls = self._calls(context, max(1, streams // BUSY))
        first = calls[0]  # where one thread does it, there is no Python function around it
        tick = partial(first.function, first.context.ctypes.data) if len(calls) == 1 else partial(together, calls)
        return Ticker(x[:, 0], elapsed[:, 0], [a[:, 0] for a in out], tick, (calls, packed, numbers, origin))

    def _calls(self, context: np.ndarray, threads: int | None) -> list[Call]:
        """One call a thread, each with its own scratch memory and as many groups of streams as another, or one more."""
        groups, calls = int(context[LAST]), []
        n = max(1, min(cores() if threads is None else threads, groups))
        for i in range(n):
            mine, scratch = context.copy(), np.empty(self._scratch, np.uint8)
            mine[FIRST], mine[LAST] = groups * i // n, groups * (i + 1) // n
            mine[SCRATCH] = -(-scratch.ctypes.data // 64) * 64
            calls.append(Call(self._run, mine, scratch))
        return calls

    def _context(
        self,
        packed: np.ndarray,
        numbers: np.ndarray,
        X: np.ndarray,
        origin: np.ndarray | None,
        elapsed: np.ndarray | None,
        every: int,
        phase: int,
        out: list[np.ndarray] | None,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """What the native function is given: addresses and sizes, and the arrays that readings go to."""
        layout = self.layout
        N, T, p = X.shape
        if p != layout.samples[0].n or X.dtype not in (np.float32, np.float64):
            wanted = f"expected X of float32 or float64 with {layout.samples[0].n} features"
            raise ValueError(f"{wanted}, got {X.dtype}{X.shape}")
        ordered = packed.flags.f_contiguous if layout.width == 1 else packed.flags.c_contiguous
        if packed.shape != shape_of(layout.state, N, layout.width) or not ordered:
            raise ValueError(f"the words are those of another program or fleet: shape {packed.shape} for {N} streams")
        out = self.outputs(N, (phase + T) // every) if out is None else out
        field = dict.fromkeys(FIELDS, 0)
        field |= {"words": packed.ctypes.data, "numbers": numbers.ctypes.data}
        field |= {
            "word_bytes": packed.strides[0],
            "group_bytes": packed.strides[1] * layout.width,
            "double": int(X.dtype == np.float64),
            "last": -(-N // layout.width),
        }
        field |= {"streams": N, "middle": 1, "inner": N, "steps": T, "every": every, "phase": phase}
        if origin is not None:
            field["origin"] = origin.ctypes.data
        operands = [X.ctypes.data, X.strides[1], X.strides[2], 0, 0, X.strides[0]]
        if len(layout.samples) > 1:
            if elapsed is None or elapsed.dtype != layout.dtype:
                raise ValueError(f"expected elapsed times of type {layout.dtype}")
            wide = np.broadcast_to(elapsed, (N, T))
            operands += [wide.ctypes.data, wide.strides[1], 0, 0, 0, wide.strides[0]]
        for a, leaf in zip(out, layout.outputs):
            operands += [a.ctypes.data, leaf.n * leaf.dtype.itemsize, leaf.dtype.itemsize, 0, 0, a.strides[0]]
        return np.array([*field.values(), *operands], np.int64), out
