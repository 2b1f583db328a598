"""Split: array operations cut into rows, so that loops run over the first axis alone and more stays in registers.

Arrays `(k, p)` of a step become p operations over k, a short reduction becomes a chain. Operations over one axis of the
same length then share loops, and what passes between them needs no memory.
"""

from __future__ import annotations

import numpy as np

from icvi_jax.engine.lowering.graph import Attribute, Graph, Operation
from icvi_jax.engine.lowering.unroll import Part, Unrolled

SHORT = 8
"""Reductions of up to so many elements become chains."""


def split(unrolled: Unrolled, trail: int, fused: bool) -> Unrolled:
    """The same step with operations of up to `trail` elements behind the first axis cut into rows."""
    return _Splitter(unrolled, trail, fused).result()


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without axes of length one."""
    return tuple(n for n in shape if n > 1)


class _Splitter:
    def __init__(self, unrolled: Unrolled, trail: int, fused: bool) -> None:
        self.old, self.trail, self.fused = unrolled, trail, fused
        self.graph = Graph()
        self.graph.inputs, self.graph.constants = unrolled.graph.inputs, unrolled.graph.constants
        self.number = np.full(unrolled.graph.size, -1, np.int64)
        fixed = [i for _, base, n, _ in unrolled.graph.inputs for i in range(base, base + n)]
        fixed += list(unrolled.graph.constants)
        self.number[fixed] = fixed
        self.graph.size = max(fixed, default=-1) + 1
        for operation in unrolled.graph.operations:
            self.cut(operation)

    def result(self) -> Unrolled:
        """The step with new numbers."""

        def moved(parts: list[Part]) -> list[Part]:
            return [part._replace(items=self.number[part.items]) for part in parts]

        old = self.old
        return old._replace(graph=self.graph, after=moved(old.after), outputs=moved(old.outputs))

    def add(self, name: str, dtype: np.dtype, args: tuple[np.ndarray, ...], attribute: Attribute) -> np.ndarray:
        """A new operation over one axis."""
        graph = self.graph
        operation = Operation(name, dtype, args, graph.size, squeezed((len(args[0]),)), attribute)
        graph.operations.append(operation)
        graph.size += len(args[0])
        return np.arange(operation.base, graph.size)

    def cut(self, operation: Operation) -> None:
        """One operation of the old step."""
        name, dtype, _, base, shape, attribute = operation
        args = tuple(self.number[a] for a in operation.args)
        n, shape = operation.n, squeezed(shape)
        made = np.empty(n, np.int64)
        if name.startswith("fold:"):
            rows = args[0]
            for pick in self.picks(n, shape):
                made[pick] = self.reduced(name[5:], dtype, rows[pick])
        else:
            for pick in self.picks(n, shape):
                made[pick] = self.add(name, dtype, tuple(a[pick] for a in args), attribute)
        self.number[base : base + n] = made

    def picks(self, n: int, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Which elements go into which of the new operations."""
        rest = int(np.prod(shape[1:], dtype=int))
        if len(shape) < 2 or rest > self.trail:
            return [np.arange(n)] if n else []
        return list(np.arange(n).reshape(shape[0], rest).T)

    def reduced(self, name: str, dtype: np.dtype, rows: np.ndarray) -> np.ndarray:
        """A reduction of rows (n, r)."""
        n, r = rows.shape
        if r <= SHORT:
            total = np.ascontiguousarray(rows[:, 0])
            for i in range(1, r):
                total = self.add(name, dtype, (total, np.ascontiguousarray(rows[:, i])), None)
            return total
        if 1 < n <= self.trail:
            return np.concatenate([self.fold(name, dtype, rows[i : i + 1]) for i in range(n)])
        return self.fold(name, dtype, rows)

    def fold(self, name: str, dtype: np.dtype, rows: np.ndarray) -> np.ndarray:
        """A long reduction."""
        return self.add(f"fold:{name}", dtype, (rows,), None)
