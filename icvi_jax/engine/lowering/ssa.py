"""A step as one flat list of operations on lanes: element by element, without duplicates and unused ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.engine.lowering.graph import NUMPY, Attribute, Operation, Unsupported
from icvi_jax.engine.lowering.unroll import CarryPart, Unrolled

COMMUTES = frozenset("add mul and or xor eq ne".split())
COMPARES = frozenset("lt le gt ge eq ne".split())
BOOL = np.dtype(bool)


class Lane(NamedTuple):
    """One operation on a vector of lanes; `args` are positions in the list.

    "input" has (number of the input,) as attribute, "constant" its value.
    """

    name: str
    dtype: np.dtype
    args: tuple[int, ...]
    attribute: Attribute | np.generic
    uniform: bool

    @property
    def element(self) -> int:
        """Of an input: its number."""
        if not isinstance(self.attribute, tuple):
            raise TypeError(f"{self.name} is not an input")
        return self.attribute[0]

    @property
    def value(self) -> np.generic:
        """Of a constant: what it is."""
        if not isinstance(self.attribute, np.generic):
            raise TypeError(f"{self.name} is not a constant")
        return self.attribute


class Flat(NamedTuple):
    """The list, and where in it the words after the step and the outputs are; `ordered`: see `lowering.schedule`."""

    lanes: list[Lane]
    after: list[int]
    outputs: list[int]
    ordered: bool = False

    def constant_outputs(self, parts: Sequence[CarryPart]) -> dict[int, np.ndarray]:
        """Outputs that are the same at every step, by number: no code writes them."""
        found, at = {}, 0
        for i, part in enumerate(parts):
            lanes = [self.lanes[place] for place in self.outputs[at : at + part.n]]
            if all(lane.name == "constant" for lane in lanes):
                found[i] = np.array([lane.value for lane in lanes], part.dtype).reshape(part.shape)
            at += part.n
        return found


def flatten(unrolled: Unrolled, contract: bool) -> Flat:
    """The list for a step; `contract` joins a product and the sum it goes into, with one rounding."""
    return _Flattener(unrolled, contract).result()


class _Flattener:
    def __init__(self, unrolled: Unrolled, contract: bool) -> None:
        self.unrolled, self.contract = unrolled, contract
        self.lanes: list[Lane] = []
        self.seen: dict[tuple[object, ...], int] = {}
        graph = unrolled.graph
        self.where = np.full(graph.size, -1, np.int64)
        for number, scalar in graph.constants.items():
            self.where[number] = self.constant(scalar)
        for kind, base, n, dtype in graph.inputs:
            for i in range(base, base + n):
                self.where[i] = self._new("input", dtype, (), (i,), kind == "number")
        for name, dtype, args, base, _shape, attribute in graph.operations:
            if name.startswith("fold:"):
                made = [self.fold(name[5:], dtype, row) for row in self.where[args[0]].tolist()]
            else:
                made = [self.emit(name, dtype, row, attribute) for row in zip(*(self.where[a].tolist() for a in args))]
            self.where[base : base + len(made)] = made

    def result(self) -> Flat:
        after = [int(i) for part in self.unrolled.after for i in self.where[part.items]]
        outputs = [int(i) for part in self.unrolled.outputs for i in self.where[part.items]]
        needed = np.zeros(len(self.lanes), bool)
        needed[after], needed[outputs] = True, True
        for i in range(len(self.lanes) - 1, -1, -1):
            if needed[i]:
                needed[list(self.lanes[i].args)] = True
        place = np.cumsum(needed) - 1
        lanes = [
            lane._replace(args=tuple(place[list(lane.args)].tolist()) if lane.args else ())
            for lane, keep in zip(self.lanes, needed)
            if keep
        ]
        return Flat(lanes, place[after].tolist(), place[outputs].tolist())

    def _new(self, name: str, dtype: np.dtype, args: tuple[int, ...], attribute: Attribute, uniform: bool) -> int:
        key = name, dtype.char, args, attribute
        if key not in self.seen:
            self.seen[key] = len(self.lanes)
            self.lanes.append(Lane(name, dtype, args, attribute, uniform))
        return self.seen[key]

    def constant(self, scalar: np.generic) -> int:
        key = "constant", scalar.dtype.char, scalar.tobytes()
        if key not in self.seen:
            self.seen[key] = len(self.lanes)
            self.lanes.append(Lane("constant", scalar.dtype, (), scalar, True))
        return self.seen[key]

    def fold(self, name: str, dtype: np.dtype, row: list[int]) -> int:
        """Reduce: products in a chain (one rounding each), otherwise in a tree (fewer steps)."""
        if name in ("and", "or", "max", "min"):
            row = list(dict.fromkeys(row))
        if name == "add" and self.contract and all(self.lanes[i].name == "mul" for i in row) and len(row) <= 16:
            total = row[0]
            for i in row[1:]:
                total = self.emit("add", dtype, (total, i), None)
            return total
        while len(row) > 1:
            pairs = [self.emit(name, dtype, pair, None) for pair in zip(row[::2], row[1::2])]
            row = pairs + row[len(row) // 2 * 2 :]
        return row[0]

    def emit(self, name: str, dtype: np.dtype, args: tuple[int, ...], attribute: Attribute) -> int:
        """The place of an operation: of an equal one, of its simpler form, or a new one."""
        lanes = self.lanes
        ins = [lanes[i] for i in args]
        if all(lane.name == "constant" for lane in ins) and name in NUMPY and not (name == "div" and dtype.kind != "f"):
            with np.errstate(all="ignore"):
                return self.constant(dtype.type(NUMPY[name](*(lane.attribute for lane in ins))))
        if (same := self._simpler(name, dtype, args, ins)) is not None:
            return same
        if self.contract and dtype.kind == "f" and name in ("add", "sub"):
            a, b = args
            if ins[1].name == "mul":
                x, y = ins[1].args
                return self.emit("fma", dtype, (x if name == "add" else self.negative(x), y, a), None)
            if ins[0].name == "mul":
                return self.emit("fma", dtype, (*ins[0].args, b if name == "add" else self.negative(b)), None)
        if name in COMMUTES and args[0] > args[1]:
            args = (args[1], args[0])
        return self._new(name, dtype, tuple(args), attribute, all(lane.uniform for lane in ins))

    def negative(self, i: int) -> int:
        return self.emit("neg", self.lanes[i].dtype, (i,), None)

    def _simpler(self, name: str, dtype: np.dtype, args: tuple[int, ...], ins: list[Lane]) -> int | None:
        """A simpler form of an operation with the same bits, or None."""
        if name == "select":
            which, no, yes = args
            if no == yes:
                return no
            if ins[0].name == "constant":
                return yes if ins[0].attribute else no
            if ins[0].name == "not":
                return self.emit("select", dtype, (ins[0].args[0], yes, no), None)
            for i, value in ((1, 0), (2, 1)):  # a truth as a number, where that truth is known
                if self._truth(args[i]) == which:
                    known = [no, yes]
                    known[i - 1] = self.constant(dtype.type(value))
                    return self.emit("select", dtype, (which, *known), None)
        if name in COMPARES:
            for i in (0, 1):
                if (truth := self._truth(args[i])) is not None and ins[1 - i].name == "constant":
                    return self._compared(name, truth, ins[i].dtype, ins[1 - i].value, i)
        if name == "log" and ins[0].name == "constant" and ins[0].attribute == 1:
            return self.constant(dtype.type(0))
        if name == "not" and ins[0].name == "not":
            return ins[0].args[0]
        if name in ("and", "or") and dtype == BOOL:
            for i, lane in enumerate(ins):
                if lane.name == "constant":
                    return args[1 - i] if bool(lane.attribute) == (name == "and") else args[i]
            if args[0] == args[1]:
                return args[0]
        if name in ("mul", "div") and dtype.kind == "f":
            for i, lane in enumerate(ins):
                if lane.name == "constant" and lane.attribute == 1 and (i == 1 or name == "mul"):
                    return args[1 - i]
        if name == "mul" and args[0] == args[1] and ins[0].name == "sub" and ins[0].args[0] > ins[0].args[1]:
            turned = self.emit("sub", dtype, ins[0].args[::-1], None)  # (b − a)² is (a − b)²
            return self.emit("mul", dtype, (turned, turned), None)
        return None

    def _truth(self, i: int) -> int | None:
        """The place of the truth that a number is made of (0 or 1), or None."""
        lane = self.lanes[i]
        made = lane.name == "convert" and self.lanes[lane.args[0]].dtype == BOOL
        return lane.args[0] if made else None

    def _compared(self, name: str, truth: int, dtype: np.dtype, value: np.generic, side: int) -> int:
        """A truth as a number beside a known one: that truth, its contrary, or known."""
        pair = [(dtype.type(a), value)[:: 1 - 2 * side] for a in (0, 1)]
        no, yes = (bool(NUMPY[name](*both)) for both in pair)
        if no == yes:
            return self.constant(np.bool_(no))
        return truth if yes else self.emit("not", BOOL, (truth,), None)


def check(lanes: Sequence[Lane | Operation]) -> None:
    """Raise `Unsupported` for types that no backend has."""
    for lane in lanes:
        if lane.dtype.kind not in "fiub" or (lane.dtype.kind == "f" and lane.dtype.itemsize not in (4, 8)):
            raise Unsupported(lane.name, f"for the type {lane.dtype}")
