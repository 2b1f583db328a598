"""Operations on lanes: what a step consists of when its arrays are unrolled.

A step is traced for one stream. An array is here an array of element numbers of the same shape; each number stands for
one vector of lanes, a lane for a stream. Slices, stacks, broadcasts and reshapes then only move numbers and cost
nothing. What is left is a list of operations: an `Operation` applies one function to `n` elements, whose arguments are
found by number.
`lowering.ssa` writes that list out element by element; `native.loops` keeps operations on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Attribute = tuple[int, ...] | str | None


class Unsupported(ValueError):
    """A step that cannot be unrolled; `name` is the operation that has no rule."""

    def __init__(self, name: str, why: str = "") -> None:
        super().__init__(f"the operation {name!r} has no native form{': ' + why if why else ''}")
        self.name = name


class Elements(NamedTuple):
    """Element numbers, the type of the elements, and their values where all are known."""

    items: np.ndarray
    dtype: np.dtype
    value: np.ndarray | None = None

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> Elements:
        value = None if self.value is None else move(self.value)
        return Elements(move(self.items), self.dtype, value)


class Operation(NamedTuple):
    """`name` applied to `n` elements of the shape `shape`; results are numbered from `base`.

    `args` are arrays of n numbers each; those of a "fold:…" have one array (n, r), of which each row is reduced.
    """

    name: str
    dtype: np.dtype
    args: tuple[np.ndarray, ...]
    base: int
    shape: tuple[int, ...]
    attribute: Attribute

    @property
    def n(self) -> int:
        return int(np.prod(self.shape, dtype=int))


class Input(NamedTuple):
    """Elements that come from outside: "state" and "sample" by lane, "number" the same for all lanes."""

    kind: str
    base: int
    n: int
    dtype: np.dtype


def _select(which: np.ndarray, no: np.ndarray, yes: np.ndarray) -> np.ndarray:
    return np.where(which, yes, no)


NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "div": np.true_divide,
    "isfinite": np.isfinite,
    "select": _select,
}
"""Functions for operations on known values, which are done now; others are done when the program runs."""

EMPTY = {"add": 0, "mul": 1, "or": 0, "xor": 0, "and": 1}
"""What a reduction of nothing is."""


class Graph:
    """The list of operations while it grows; equal operations are one."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.inputs: list[Input] = []
        self.size = 0
        self.constants: dict[int, np.generic] = {}
        self._known: dict[tuple[str, bytes], int] = {}
        self._made: dict[tuple[object, ...], np.ndarray] = {}

    @property
    def weight(self) -> int:
        return sum(operation.args[0].size for operation in self.operations)

    def _number(self, n: int) -> int:
        self.size += n
        return self.size - n

    def input(self, kind: str, shape: tuple[int, ...], dtype: np.dtype) -> Elements:
        n = int(np.prod(shape, dtype=int))
        self.inputs.append(Input(kind, self._number(n), n, np.dtype(dtype)))
        return Elements(np.arange(self.size - n, self.size).reshape(shape), np.dtype(dtype))

    def constant(self, value: np.ndarray | np.generic | float) -> Elements:
        """Elements whose values are known; equal ones have one number."""
        value = np.asarray(value)
        items = np.empty(value.shape, np.int64)
        flat = items.reshape(-1)
        for i, scalar in enumerate(value.reshape(-1)):
            key = value.dtype.str, scalar.tobytes()
            if key not in self._known:
                self._known[key] = self._number(1)
                self.constants[self._known[key]] = scalar
            flat[i] = self._known[key]
        return Elements(items, value.dtype, value)

    def map(self, name: str, dtype: np.dtype, *arrays: Elements, attribute: Attribute = None) -> Elements:
        """`name` element by element; shapes broadcast."""
        dtype = np.dtype(dtype)
        if name in NUMPY and all(a.value is not None for a in arrays) and not (name == "div" and dtype.kind != "f"):
            with np.errstate(all="ignore"):
                value = np.asarray(NUMPY[name](*(a.value for a in arrays)), dtype)
            return self.constant(value)
        shape = np.broadcast_shapes(*(a.items.shape for a in arrays))
        args = tuple(np.broadcast_to(a.items, shape).reshape(-1) for a in arrays)
        return Elements(self._add(name, dtype, args, shape, attribute), dtype)

    def fold(self, name: str, a: Elements, axes: Sequence[int]) -> Elements:
        rest = [i for i in range(a.items.ndim) if i not in axes]
        shape = tuple(a.items.shape[i] for i in rest)
        rows = a.items.transpose(*rest, *axes).reshape(*shape, -1)
        if rows.shape[-1] == 0:
            if name not in EMPTY:
                raise Unsupported(f"reduce_{name}", "nothing to reduce")
            return self.constant(np.full(shape, EMPTY[name], a.dtype))
        if rows.shape[-1] == 1:
            return Elements(rows[..., 0], a.dtype)
        args = (rows.reshape(-1, rows.shape[-1]),)
        return Elements(self._add(f"fold:{name}", a.dtype, args, shape, None), a.dtype)

    def _add(
        self, name: str, dtype: np.dtype, args: tuple[np.ndarray, ...], shape: tuple[int, ...], attribute: Attribute
    ) -> np.ndarray:
        key = name, dtype.str, shape, attribute, *(a.tobytes() for a in args)
        if key not in self._made:
            operation = Operation(name, dtype, args, self.size, shape, attribute)
            self.operations.append(operation)
            base = self._number(operation.n)
            self._made[key] = np.arange(base, self.size).reshape(shape)
        return self._made[key]
