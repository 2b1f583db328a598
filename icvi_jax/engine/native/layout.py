"""Layout: what a program's native functions read and write, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from icvi_jax.engine.lowering.ssa import Flat
from icvi_jax.engine.lowering.unroll import CarryPart, Unrolled
from icvi_jax.engine.native.code import BOOL, Code, element
from icvi_jax.engine.native.plan import Plan
from icvi_jax.engine.native.state_layout import Leaf, size_of

CACHE = 64 * 1024
"""Bytes that samples and readings of one tile should not exceed, so that they stay in the second cache."""


def _leaves(parts: list[CarryPart]) -> tuple[Leaf, ...]:
    return tuple(Leaf(part.shape, part.dtype) for part in parts)


@dataclass(frozen=True)
class Layout:
    """Sizes and types of a program with `width` lanes."""

    unrolled: Unrolled
    width: int
    plan: Plan | None = None
    flat: Flat | None = None

    @cached_property
    def state(self) -> tuple[Leaf, ...]:
        """Leaves of the state; numbers that each stream has of its own are the last ones."""
        return _leaves(self.unrolled.state)

    @property
    def carried(self) -> int:
        """Leaves of the state that a step changes: all but those numbers."""
        return len(self.state) - self.unrolled.fixed

    @cached_property
    def samples(self) -> tuple[Leaf, ...]:
        """Leaves of what a step is given at each time."""
        return _leaves(self.unrolled.sample)

    @property
    def dtype(self) -> np.dtype:
        """Type of the samples, the first leaf."""
        return self.samples[0].dtype

    @cached_property
    def outputs(self) -> tuple[Leaf, ...]:
        """Leaves of what a step returns."""
        return _leaves(self.unrolled.outputs)

    @cached_property
    def still(self) -> dict[int, np.ndarray]:
        """Outputs that are the same at every step, by number: no code writes them."""
        if self.flat is None:
            return {}
        found, at = {}, 0
        for i, leaf in enumerate(self.outputs):
            lanes = [self.flat.lanes[place] for place in self.flat.outputs[at : at + leaf.n]]
            if lanes and all(lane.name == "constant" for lane in lanes):
                found[i] = np.array([lane.value for lane in lanes], leaf.dtype).reshape(leaf.shape)
            at += leaf.n
        return found

    @cached_property
    def numbers(self) -> tuple[Leaf, ...]:
        """Leaves of the model."""
        return _leaves(self.unrolled.numbers)

    @cached_property
    def word(self) -> int:
        """Bytes of a word of the state."""
        return size_of(self.state)

    @cached_property
    def words(self) -> int:
        """Words of one stream."""
        return sum(leaf.n for leaf in self.state)

    @cached_property
    def slot(self) -> int:
        """Bytes of a slot of memory."""
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

    def bytes(self, leaf: Leaf) -> int:
        """Bytes of an element of an output."""
        return leaf.dtype.itemsize

    @cached_property
    def tile(self) -> int:
        """Steps that are read, run and written together."""
        step = sum(leaf.dtype.itemsize * leaf.n for leaf in (*self.samples, *self.outputs))
        return int(np.clip(CACHE // (self.width * max(step, 1)) // 16 * 16, 16, 512))

    def _regions(self, leaves: tuple[Leaf, ...]) -> tuple[int, ...]:
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
