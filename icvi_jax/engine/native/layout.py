"""Layout: what a program's native functions read and write, and where.

Each word of the state is a row with one element a stream: the array has the shape (words, room). A word has 4 bytes, or
8 where a type needs them. Streams are run in groups of as many as a vector has lanes, so the room is a number of whole
groups, and an odd one: rows a power of two apart would share few places of the cache. With one lane there are no rows:
the words of a stream follow each other in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from icvi_jax.engine.lowering.ssa import Flat
from icvi_jax.engine.lowering.unroll import CarryPart, Unrolled
from icvi_jax.engine.native.codegen import BOOL, Code, element
from icvi_jax.engine.native.plan import Plan


def size_of(leaves: Sequence[CarryPart]) -> int:
    """Bytes of a word that holds any of these."""
    return max([4, *(leaf.dtype.itemsize for leaf in leaves)])


def shape_of(leaves: Sequence[CarryPart], streams: int, width: int) -> tuple[int, int]:
    """Words and room for so many streams."""
    return sum(leaf.n for leaf in leaves), width * (-(-streams // width) | 1) if streams else 0


def packed_words(arrays: Sequence[np.ndarray], leaves: Sequence[CarryPart], width: int) -> np.ndarray:
    """Arrays (lead…, N) as words (words, room); lanes beyond N repeat the last stream."""
    streams = arrays[0].shape[-1]
    rows = np.empty(shape_of(leaves, streams, width), f"i{size_of(leaves)}", "F" if width == 1 else "C")
    at = 0
    for a, leaf in zip(arrays, leaves):
        if a.shape != (*leaf.shape, streams):
            raise ValueError(f"expected a state of shape {(*leaf.shape, streams)}, got {a.shape}")
        alike = streams > 1 and a.strides[-1] == 0
        flat = np.ascontiguousarray(a[..., :1] if alike else a, leaf.dtype).reshape(leaf.n, -1)
        rows[at : at + leaf.n, :streams] = flat.view(f"i{leaf.dtype.itemsize}") if leaf.dtype.kind == "f" else flat
        at += leaf.n
    rows[:, streams:] = rows[:, streams - 1 : streams]
    return rows


def unpacked_words(words: np.ndarray, leaves: Sequence[CarryPart], streams: int) -> list[np.ndarray]:
    """Words as arrays (lead…, N), which may be views of them."""
    arrays, at = [], 0
    for leaf in leaves:
        part = words[at : at + leaf.n, :streams]
        at += leaf.n
        if leaf.dtype.kind == "f":
            part = part.astype(f"i{leaf.dtype.itemsize}", copy=False).view(leaf.dtype)
        arrays.append(part.astype(leaf.dtype, copy=False).reshape(*leaf.shape, streams))
    return arrays


def load_word(code: Code, address: str, dtype: np.dtype, size: int) -> str:
    """The vector of a word from memory."""
    raw = code.load(code.type(f"i{8 * size}"), address, size)
    kind, bits = code.type(f"i{8 * size}"), code.type(f"i{8 * dtype.itemsize}")
    if dtype == BOOL:
        return code.let(f"icmp ne {kind} {raw}, {code.splat(0, f'i{8 * size}')}")
    if dtype.itemsize < size:
        raw = code.let(f"trunc {kind} {raw} to {bits}")
    return code.let(f"bitcast {bits} {raw} to {code.type(dtype)}") if dtype.kind == "f" else raw


def store_word(code: Code, value: str, address: str, dtype: np.dtype, size: int) -> None:
    """The vector of a word into memory."""
    kind = code.type(f"i{8 * size}")
    if dtype == BOOL:
        value = code.let(f"zext {code.type('i1')} {value} to {kind}")
    else:
        bits = code.type(f"i{8 * dtype.itemsize}")
        if dtype.kind == "f":
            value = code.let(f"bitcast {code.type(dtype)} {value} to {bits}")
        if dtype.itemsize < size:
            value = code.let(f"sext {bits} {value} to {kind}")
    code.store(kind, value, address, size)


def stored(dtype: np.dtype) -> str:
    """The element type of outputs in memory: a truth has one byte."""
    return "i8" if dtype == BOOL else element(dtype)


CACHE = 64 * 1024
"""Bytes that samples and readings of one tile should not exceed, so that they stay in the second cache."""


class Layout:
    """Sizes and types of a program with `width` lanes.

    `numbers` are the leaves of the model, `samples` those of what a step is given at each time, `outputs` of what it
    returns; `state` those of the state, of which the last are numbers that each stream has of its own. `block` lanes
    are one vector of the processor: a small step is done for two of them, since each operation waits for the last.
    """

    def __init__(
        self, unrolled: Unrolled, width: int, plan: Plan | None = None, flat: Flat | None = None, vectors: int = 1
    ) -> None:
        self.unrolled, self.width, self.plan, self.flat = unrolled, width, plan, flat
        self.block = width // vectors
        self.numbers, self.state, self.samples = unrolled.numbers, unrolled.state, unrolled.sample
        self.outputs = unrolled.outputs

    @property
    def small(self) -> bool:
        """Whether a step is done for several vectors at once."""
        return self.block < self.width

    @property
    def carried(self) -> int:
        return len(self.state) - self.unrolled.fixed

    @property
    def dtype(self) -> np.dtype:
        return self.samples[0].dtype

    @cached_property
    def still(self) -> dict[int, np.ndarray]:
        """Outputs that are the same at every step, by number: no code writes them."""
        return {} if self.flat is None else self.flat.constant_outputs(self.outputs)

    @cached_property
    def word(self) -> int:
        return size_of(self.state)

    @cached_property
    def words(self) -> int:
        return sum(leaf.n for leaf in self.state)

    @cached_property
    def slot(self) -> int:
        graph = self.unrolled.graph
        kinds = {o.dtype for o in graph.operations} | {i.dtype for i in graph.inputs}
        kinds |= {scalar.dtype for scalar in graph.constants.values()}
        return self.width * max([4, *(kind.itemsize for kind in kinds)])

    @cached_property
    def memory(self) -> int:
        """Bytes of all slots, and of as many more as the state has words."""
        return 0 if self.plan is None else (self.plan.slots + self.words) * self.slot

    @property
    def how(self) -> Plan:
        """The plan of a step that is run as loops."""
        if self.plan is None:
            raise TypeError("this step is written out: it has no plan")
        return self.plan

    @cached_property
    def tile(self) -> int:
        """Steps that are read, run and written together."""
        step = sum(leaf.dtype.itemsize * leaf.n for leaf in (*self.samples, *self.outputs))
        return int(np.clip(CACHE // (self.width * max(step, 1)) // 16 * 16, 16, 512))

    def _regions(self, leaves: Sequence[CarryPart]) -> tuple[int, ...]:
        room = [-(-self.tile * self.width * leaf.n * leaf.dtype.itemsize // 64) * 64 for leaf in leaves]
        return tuple(int(a) for a in np.cumsum([0, *room]))

    @cached_property
    def regions(self) -> tuple[int, ...]:
        """Where each output's readings begin in a tile's memory, and where they end."""
        return self._regions(self.outputs)

    @cached_property
    def sampled(self) -> tuple[int, ...]:
        """Where each leaf of the samples begins in a tile's memory, and where they end."""
        return self._regions(self.samples)

    def first(self, kind: str) -> int:
        """The number of the first element of the inputs of this kind."""
        return min((i.base for i in self.unrolled.graph.inputs if i.kind == kind), default=0)

    def load_number(self, code: Code, base: str, index: int, dtype: np.dtype) -> str:
        """A number of the model in all lanes; each has 8 bytes of memory."""
        kind = "i8" if dtype == BOOL else element(dtype)
        value = code.load(kind, code.offset(base, 8 * index), 8)
        if dtype == BOOL:
            value, kind = code.let(f"trunc i8 {value} to i1"), "i1"
        return code.everywhere(kind, value)
