"""Plan of a large step: which operations share a loop, what is kept in memory, and where.

A step of ten thousand operations and more is not written out element by element. Each array operation stays a loop over
its elements; those of one shape that only need each other's element of the same place share a loop, in which their
values stay in registers. The rest is in memory: slots of one vector each, used again once their last reader is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from icvi_jax.engine.lowering.graph import Attribute, Graph, Operation
from icvi_jax.engine.lowering.unroll import CarryPart, Unrolled

SHORT = 8
"""Reductions of up to so many elements become chains."""


def split(unrolled: Unrolled, trail: int, fused: bool) -> Unrolled:
    """The same step with operations of up to `trail` elements behind the first axis cut into rows.

    Loops then run over the first axis alone, and more stays in registers: arrays `(k, p)` become p operations over k, a
    short reduction becomes a chain. Operations over one axis of the same length share loops, and what passes between
    them needs no memory.
    """
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

        def moved(parts: list[CarryPart]) -> list[CarryPart]:
            return [part._replace(items=self.number[part.items]) for part in parts]

        old = self.old
        return old._replace(graph=self.graph, after=moved(old.after), outputs=moved(old.outputs))

    def add(self, name: str, dtype: np.dtype, args: tuple[np.ndarray, ...], attribute: Attribute) -> np.ndarray:
        graph = self.graph
        operation = Operation(name, dtype, args, graph.size, squeezed((len(args[0]),)), attribute)
        graph.operations.append(operation)
        graph.size += len(args[0])
        return np.arange(operation.base, graph.size)

    def cut(self, operation: Operation) -> None:
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
        return self.add(f"fold:{name}", dtype, (rows,), None)


class Guard(NamedTuple):
    """A truth of each stream, by its number: what is only asked for where it is (or is not) so is passed over while no
    lane asks."""

    mask: int
    when: bool


class Loop(NamedTuple):
    """Operations over one shape, in order; where there is a guard, nothing else needs them."""

    shape: tuple[int, ...]
    operations: list[Operation]
    guard: Guard | None = None


class Plan(NamedTuple):
    """Loops before the first step (numbers of the model only) and in each step, and the slot of each element."""

    before: list[Loop]
    each: list[Loop]
    slot: np.ndarray
    slots: int
    stored: set[int]


def contracted(graph: Graph, fused: bool) -> list[Operation]:
    """The operations, with products joined to the sums they go into, and without those that nothing needs then."""
    owner = np.full(graph.size, -1, np.int64)
    out: list[Operation] = []
    for operation in graph.operations:
        owner[operation.base : operation.base + operation.n] = len(out)
        out.append(_joined(operation, out, owner) if fused and operation.dtype.kind == "f" else operation)
    return out


def _product(items: np.ndarray, out: list[Operation], owner: np.ndarray) -> Operation | None:
    """The product that all these elements are of, if it is one."""
    first = owner[items.flat[0]]
    return out[first] if first >= 0 and out[first].name == "mul" and (owner[items] == first).all() else None


def _joined(operation: Operation, out: list[Operation], owner: np.ndarray) -> Operation:
    name, args = operation.name, operation.args
    if not operation.n:
        return operation
    if name == "fold:add" and operation.n > 1 and (product := _product(args[0], out, owner)):
        return operation._replace(name="fold:dot", args=tuple(a[args[0] - product.base] for a in product.args))
    if name in ("add", "sub"):
        for side in (1, 0):
            if product := _product(args[side], out, owner):
                factors = tuple(a[args[side] - product.base] for a in product.args)
                kind = "fma" if name == "add" else ("fms", "fnma")[side]
                return operation._replace(name=kind, args=(*factors, args[1 - side]))
    return operation


TRAIL, MOST = 8, 8000
"""Arrays with up to TRAIL elements behind the first axis are cut into rows, unless MOST operations come of it."""


def rows(unrolled: Unrolled, fused: bool) -> Unrolled:
    """The step cut into rows where that pays."""
    cut = split(unrolled, TRAIL, fused)
    return cut if len(cut.graph.operations) <= MOST else unrolled


def plan(unrolled: Unrolled, fused: bool) -> Plan:
    """How to run a step."""
    graph = unrolled.graph
    operations = contracted(graph, fused)
    ends = [part.items for part in (*unrolled.after, *unrolled.outputs)]
    needed = np.zeros(graph.size, bool)
    for items in ends:
        needed[items] = True
    alive: list[Operation] = []
    for operation in reversed(operations):
        if needed[operation.base : operation.base + operation.n].any():
            alive.append(operation)
            for a in operation.args:
                needed[a] = True
    alive.reverse()
    varies = np.zeros(graph.size, bool)
    for kind, base, n, _ in graph.inputs:
        varies[base : base + n] = kind != "number"
    before: list[Operation] = []
    each: list[Operation] = []
    for operation in alive:
        moving = any(varies[a].any() for a in operation.args)
        varies[operation.base : operation.base + operation.n] = moving
        (each if moving else before).append(operation)
    early, late = grouped(before, graph.size), grouped(each, graph.size, guards(each, graph.size, ends))
    return _placed(graph, early, late, ends)


WORTH = 1000
"""Operations on lanes that are worth a branch around them."""


def guards(operations: list[Operation], size: int, ends: list[np.ndarray]) -> dict[int, Guard]:
    """Operations, by their first element, of which all that follows goes through one choice by a truth of the stream.

    `where(rare, f(x), y)` with an expensive f is then as cheap as y while no stream of a group is in the rare case.
    """
    asked: dict[int, Guard | None] = {}  # by operation; None: always
    owner = np.full(size, -1, np.int64)
    for i, operation in enumerate(operations):
        owner[operation.base : operation.base + operation.n] = i

    def ask(items: np.ndarray, by: Guard | None) -> None:
        for i in np.unique(owner[items]).tolist():
            asked[i] = by if asked.get(i, by) == by else None

    for items in ends:
        ask(items, None)
    for i in range(len(operations) - 1, -1, -1):
        name, args, mine = operations[i].name, operations[i].args, asked.get(i)
        chosen: list[Guard | None] = [mine] * len(args)
        if mine is None and name == "select" and (args[0] == args[0][0]).all():
            chosen[1:] = (Guard(int(args[0][0]), when) for when in (False, True))
        elif mine is None and name == "and" and operations[i].dtype == bool:
            single = [int(a[0]) for a in args if (a == a[0]).all()]
            if single:  # of two, the one that is known first
                first = min(single)
                chosen = [mine if a[0] == first else Guard(first, True) for a in args]
        for a, by in zip(args, chosen):
            ask(a, by)
    weight: dict[Guard, int] = defaultdict(int)
    for i, by in asked.items():
        if i >= 0 and by is not None:
            weight[by] += operations[i].args[0].size
    return {operations[i].base: by for i, by in asked.items() if i >= 0 and by is not None and weight[by] >= WORTH}


def in_order(operations: list[Operation], guarded: Mapping[int, Guard]) -> Iterator[Operation]:
    """The operations, those that are guarded not before what guards them."""
    waiting: dict[int, list[Operation]] = {guard.mask: [] for guard in guarded.values()}
    for mask in list(waiting):
        if not any(0 <= mask - o.base < o.n for o in operations):  # it comes from outside
            del waiting[mask]
    for operation in operations:
        guard = guarded.get(operation.base)
        if guard is not None and guard.mask in waiting:
            waiting[guard.mask].append(operation)
            continue
        yield operation
        for mask in [mask for mask in waiting if 0 <= mask - operation.base < operation.n]:
            yield from waiting.pop(mask)


def grouped(operations: list[Operation], size: int, guarded: Mapping[int, Guard] = MappingProxyType({})) -> list[Loop]:
    """Operations in as few loops as their order allows."""
    loops: list[Loop] = []
    of_shape: dict[tuple[tuple[int, ...], Guard | None], list[int]] = defaultdict(list)
    place = np.full(size, -1, np.int64)  # the loop an element is made in
    owner = np.full(size, -1, np.int64)
    for operation in in_order(operations, guarded):
        shape, guard = squeezed(operation.shape), guarded.get(operation.base)
        least = 0 if guard is None else int(place[guard.mask]) + 1
        if (gathered := _gathered(operation, loops, place, owner, guard)) is not None:
            loops[gathered].operations.append(operation._replace(name="gather:" + operation.name[5:]))
            place[operation.base] = gathered  # and no owner: others see it when the loop is done
            continue
        for a in operation.args:
            made = place[a]
            latest = int(made.max()) if made.size else -1
            if latest < 0:
                continue
            base = int(a.flat[0])
            mine = a.ndim == 1 and owner[base] == base and (a == np.arange(base, base + len(a))).all()
            whole = mine and (loops[latest].shape, loops[latest].guard) == (shape, guard) and owner[int(a[-1])] == base
            least = max(least, latest if whole else latest + 1)
        found = next((i for i in of_shape[shape, guard] if i >= least), None)
        if found is None:
            found = len(loops)
            loops.append(Loop(shape, [], guard))
            of_shape[shape, guard].append(found)
        loops[found].operations.append(operation)
        place[operation.base : operation.base + operation.n] = found
        owner[operation.base : operation.base + operation.n] = operation.base
    return loops


def _gathered(
    operation: Operation, loops: list[Loop], place: np.ndarray, owner: np.ndarray, guard: Guard | None
) -> int | None:
    """The loop that makes all elements of a reduction to one, in order: it can be made there on the way."""
    if not operation.name.startswith("fold:") or operation.n != 1 or operation.name == "fold:dot":
        return None
    row = operation.args[0][0]
    loop, base = int(place[row[0]]), int(row[0])
    if loop < 0 or owner[base] != base or not (row == np.arange(base, base + len(row))).all():
        return None
    return loop if (loops[loop].shape, loops[loop].guard) == (row.shape, guard) and owner[row[-1]] == base else None


def _placed(graph: Graph, early: list[Loop], late: list[Loop], ends: list[np.ndarray]) -> Plan:
    """Slots: fixed ones for what lasts, shared ones for what does not."""
    slot = np.full(graph.size, -1, np.int64)
    made, last = np.full(graph.size, -1, np.int64), np.full(graph.size, -1, np.int64)
    inside = np.ones(graph.size, bool)  # used by its own loop alone, at its own place
    loops = early + late
    for i, loop in enumerate(loops):
        for operation in loop.operations:
            made[operation.base : operation.base + operation.n] = i
    for i, loop in enumerate(loops):
        if loop.guard is not None:
            last[loop.guard.mask], inside[loop.guard.mask] = max(last[loop.guard.mask], i), False
        for operation in loop.operations:
            for a in operation.args:
                last[a] = np.maximum(last[a], i)
                inside[a[made[a] != i]] = False
            if operation.name.startswith("gather:"):
                last[operation.base] = max(last[operation.base], i)
    for items in ends:
        last[items], inside[items] = len(loops), False
    last[(made >= 0) & (made < len(early))] = len(loops)
    top = 0
    fixed = [(base, n) for _, base, n, _ in graph.inputs] + [(number, 1) for number in graph.constants]
    for base, n in fixed:
        slot[base : base + n] = np.arange(top, top + n)
        top += n
    free: dict[int, list[int]] = defaultdict(list)
    leaving: dict[int, list[tuple[int, int]]] = defaultdict(list)
    stored: set[int] = set()
    for i, loop in enumerate(loops):
        for operation in loop.operations:
            here = slice(operation.base, operation.base + operation.n)
            if inside[here].all() and not operation.name.startswith("gather:"):
                continue
            stored.add(operation.base)
            if free[operation.n]:
                start = free[operation.n].pop()
            else:
                start, top = top, top + operation.n
            slot[here] = np.arange(start, start + operation.n)
            leaving[int(last[here].max())].append((operation.n, start))
        for n, start in leaving[i]:
            free[n].append(start)
    return Plan(early, late, slot, top, stored)
