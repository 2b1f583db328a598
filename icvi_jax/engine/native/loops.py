"""The time loop of a large step, as a plan has it: loops over elements, values in memory between them.

    void scan(state, word_bytes, numbers, x, out, steps, every, phase)

as in `icvi_jax.engine.native.scan`, with one more piece of scratch memory behind the readings for the slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from itertools import groupby
from typing import NamedTuple

import numpy as np

from icvi_jax.engine.lowering.graph import Operation
from icvi_jax.engine.native.codegen import BOOL, Code
from icvi_jax.engine.native.codegen import operation as emit
from icvi_jax.engine.native.layout import Layout, load_word, store_word, stored
from icvi_jax.engine.native.plan import Guard, Loop
from icvi_jax.engine.native.scan import HEAD


class Access(NamedTuple):
    """Slot of the first element and strides by axis, or a table of slots."""

    shape: tuple[int, ...]
    start: int
    strides: tuple[int, ...]
    table: np.ndarray | None


def access(slots: np.ndarray) -> Access:
    """The way to these slots (one an element, of the loop's shape)."""
    start = int(slots.flat[0])
    strides = tuple(
        int(slots[tuple(int(d == axis) for d in range(slots.ndim))]) - start if n > 1 else 0
        for axis, n in enumerate(slots.shape)
    )
    regular = start + sum(
        (np.arange(n) * stride).reshape([-1 if d == axis else 1 for d in range(slots.ndim)])
        for axis, (n, stride) in enumerate(zip(slots.shape, strides))
    )
    plain = np.array_equal(np.broadcast_to(regular, slots.shape), slots)
    return Access(slots.shape, start, strides, None if plain else slots)


SHORT = 8
"""Reductions of up to so many elements are written out."""


class Writer:
    """Writes the function."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.plan, self.code = layout, layout.how, Code(layout.width)
        self.size = layout.slot // layout.width
        self.tables: list[str] = []
        graph = layout.unrolled.graph
        self.kinds = np.empty(graph.size, object)
        for _, base, n, dtype in graph.inputs:
            self.kinds[base : base + n] = dtype
        for number, scalar in graph.constants.items():
            self.kinds[number] = scalar.dtype
        for operation in graph.operations:
            self.kinds[operation.base : operation.base + operation.n] = operation.dtype

    def address(self, where: Access, index: Sequence[str]) -> str:
        """The address of a slot in a loop with these indices."""
        code = self.code
        if where.table is not None:
            flat: str | int = 0
            for i, n in zip(index, where.shape):
                flat = code.add(code.mul(flat, n), i)
            at = code.load("i32", code.offset(f"@{self.table(where.table)}", flat, "i32"), 4)
            return code.offset("%memory", code.mul(code.let(f"sext i32 {at} to i64"), self.layout.slot))
        place = "%memory" if not where.start else code.offset("%memory", where.start * self.layout.slot)
        for i, stride in zip(index, where.strides):
            if stride:
                place = code.offset(place, code.mul(i, stride * self.layout.slot))
        return place

    def table(self, values: np.ndarray) -> str:
        name = f"table{len(self.tables)}"
        numbers = ", ".join(f"i32 {v}" for v in values.reshape(-1))
        self.tables.append(f"@{name} = internal constant [{values.size} x i32] [{numbers}]")
        return name

    def load(self, dtype: np.dtype, place: str) -> str:
        code = self.code
        if dtype != BOOL:
            return code.load(code.type(dtype), place, code.width * dtype.itemsize)
        kind = code.type(f"i{8 * self.size}")
        value = code.load(kind, place, self.layout.slot)
        return code.let(f"icmp slt {kind} {value}, {code.splat(0, f'i{8 * self.size}')}")

    def store(self, dtype: np.dtype, value: str, place: str) -> None:
        """A vector into a slot; truths as words whose sign counts."""
        code = self.code
        kind = code.type(dtype)
        if dtype == BOOL:
            kind = code.type(f"i{8 * self.size}")
            value = code.let(f"sext {code.type('i1')} {value} to {kind}")
        code.store(kind, value, place, code.width * (self.size if dtype == BOOL else dtype.itemsize))

    def constant(self, items: np.ndarray) -> np.generic | None:
        """The value that all these elements are known to have."""
        first = int(items.flat[0])
        scalar = self.layout.unrolled.graph.constants.get(first)
        return scalar if scalar is not None and (items == first).all() else None

    def asked(self, guard: Guard) -> str:
        """Whether any lane asks for what is guarded."""
        code = self.code
        mask = self.load(BOOL, code.offset("%memory", int(self.plan.slot[guard.mask]) * self.layout.slot))
        mask = mask if guard.when else emit(code, "not", BOOL, [mask], [BOOL], None)
        if code.width == 1:
            return mask
        bits = code.let(f"bitcast {code.type('i1')} {mask} to i{code.width}")
        return code.let(f"icmp ne i{code.width} {bits}, 0")

    def loop(self, loop: Loop) -> None:
        here = [operation for operation in loop.operations if operation.n]
        if not here:
            return
        for operation in here:
            if operation.name.startswith("gather:"):
                place = self.code.offset("%memory", int(self.plan.slot[operation.base]) * self.layout.slot)
                start = neutral(operation.name[7:], operation.dtype)
                self.store(operation.dtype, self.code.splat(start, operation.dtype), place)
        with ExitStack() as stack:
            index = [stack.enter_context(self.code.loop(0, n)) for n in loop.shape]
            names: dict[int, str] = {}
            for operation in here:
                names[operation.base] = self.operation(operation, loop.shape, index, names)

    def operation(self, operation: Operation, shape: tuple[int, ...], index: list[str], names: dict[int, str]) -> str:
        """One operation in a loop; returns its value."""
        if operation.name.startswith("gather:"):
            place = self.code.offset("%memory", int(self.plan.slot[operation.base]) * self.layout.slot)
            ins = [self.load(operation.dtype, place), names[int(operation.args[0][0, 0])]]
            value = self.apply(operation.name[7:], operation, ins, [operation.dtype] * 2)
            self.store(operation.dtype, value, place)
            return value
        if operation.name.startswith("fold:"):
            value = self.fold(operation, shape, index)
        else:
            ins, kinds, known = [], [], []
            for a in operation.args:
                first = int(a[0])
                kinds.append(self.kinds[first])
                scalar = self.constant(a)
                known.append(scalar is not None and scalar == scalar)
                if scalar is not None:
                    ins.append(self.code.splat(scalar, kinds[-1]))
                elif first in names and len(a) == operation.n and (a == np.arange(first, first + len(a))).all():
                    ins.append(names[first])
                else:
                    where = access(self.plan.slot[a].reshape(shape))
                    ins.append(self.load(kinds[-1], self.address(where, index)))
            value = self.apply(operation.name, operation, ins, kinds, tuple(known))
        if operation.base in self.plan.stored:
            span = np.arange(operation.base, operation.base + operation.n)
            self.store(operation.dtype, value, self.address(access(self.plan.slot[span].reshape(shape)), index))
        return value

    def apply(
        self, name: str, operation: Operation, ins: list[str], kinds: list[np.dtype], known: tuple[bool, ...] = ()
    ) -> str:
        if name in ("fms", "fnma"):
            turn = 2 if name == "fms" else 0
            ins[turn] = emit(self.code, "neg", kinds[turn], [ins[turn]], [kinds[turn]], None)
            name = "fma"
        return emit(self.code, name, operation.dtype, ins, kinds, operation.attribute, known)

    def fold(self, operation: Operation, shape: tuple[int, ...], index: list[str]) -> str:
        """A reduction, or a sum of products, in order."""
        name, r = operation.name[5:], operation.args[0].shape[1]
        kinds = [self.kinds[int(a.flat[0])] for a in operation.args]
        spots = [access(self.plan.slot[a].reshape(*shape, r)) for a in operation.args]

        def term(i: str) -> list[str]:
            return [self.load(kind, self.address(where, [*index, i])) for kind, where in zip(kinds, spots)]

        def more(total: str, i: str) -> str:
            if name == "dot":
                return self.apply("fma", operation, [*term(i), total], [*kinds, operation.dtype])
            return self.apply(name, operation, [total, *term(i)], [operation.dtype] * 2)

        first = term("0")
        total = self.apply("mul", operation, first, kinds) if name == "dot" else first[0]
        if r <= SHORT:
            for n in range(1, r):
                total = more(total, str(n))
            return total
        code, kind = self.code, self.code.type(operation.dtype)
        head, end = code.name("fold"), code.name("folded")
        before, i, after, sum_, next_ = code.block, *("%" + code.name("f") for _ in range(4))
        code.do(f"br label %{head}")
        code.label(head)
        code.do(f"{i} = phi i64 [1, %{before}], [{after}, %{head}]")
        code.do(f"{sum_} = phi {kind} [{total}, %{before}], [{next_}, %{head}]")
        new = more(sum_, i)
        code.do(f"{next_} = bitcast {kind} {new} to {kind}")
        code.do(f"{after} = add i64 {i}, 1")
        code.do(f"br i1 {code.let(f'icmp slt i64 {after}, {r}')}, label %{head}, label %{end}")
        code.label(end)
        return next_

    def copy(self, dtype: np.dtype, slots: np.ndarray, to: int) -> None:
        """What is in these slots into others, which follow each other."""
        where = access(slots)
        with self.code.loop(0, len(slots)) as i:
            value = self.load(dtype, self.address(where, [i]))
            self.store(dtype, value, self.code.offset("%memory", self.code.mul(self.code.add(i, to), self.layout.slot)))


def neutral(name: str, dtype: np.dtype) -> float | int | bool:
    """What a reduction starts from without a trace in its result."""
    if dtype == BOOL:
        return name in ("and", "min", "mul")
    if name in ("max", "min"):
        if dtype.kind == "f":
            return -np.inf if name == "max" else np.inf
        return int(np.iinfo(dtype).min if name == "max" else np.iinfo(dtype).max)
    if name == "add":
        return -0.0 if dtype.kind == "f" else 0
    return {"mul": 1, "and": -1, "or": 0, "xor": 0}[name]


def write_loops(layout: Layout) -> tuple[str, set[str]]:
    """The text of the function with its tables, and the declarations it needs."""
    w = Writer(layout)
    code, plan, unrolled = w.code, w.plan, layout.unrolled
    code.do(f"%memory = getelementptr i8, ptr %out, i64 {layout.regions[-1]}")
    used = np.zeros(unrolled.graph.size, bool)
    for operation in (o for loop in (*plan.before, *plan.each) for o in loop.operations):
        for a in operation.args:
            used[a] = True
    for part in (*unrolled.after, *unrolled.outputs):
        used[part.items] = True
    for number, scalar in unrolled.graph.constants.items():
        if not used[number]:
            continue
        place = code.offset("%memory", int(plan.slot[number]) * layout.slot)
        w.store(scalar.dtype, code.splat(scalar, scalar.dtype), place)
    at = 0
    for part in unrolled.numbers:
        for item in part.items:
            place = code.offset("%memory", int(plan.slot[item]) * layout.slot)
            w.store(part.dtype, layout.load_number(code, "%numbers", at, part.dtype), place)
            at += 1
    for loop in plan.before:
        w.loop(loop)
    _words(w, inward=True)
    with code.loop(0, "%steps") as t:
        _samples(w, t)
        for guard, some in groupby(plan.each, key=lambda loop: loop.guard):
            with nullcontext() if guard is None else code.when(w.asked(guard)):
                for loop in some:
                    w.loop(loop)
        passed = code.add(t, "%phase")
        last = code.let(f"urem i64 {code.add(passed, 1)}, %every")
        with code.when(code.let(f"icmp eq i64 {last}, 0")):
            _readings(w, code.let(f"udiv i64 {passed}, %every"))
        _carry(w)
    _words(w, inward=False)
    code.do("ret void")
    return "\n".join([*w.tables, code.function(HEAD)]), code.declared


def _words(w: Writer, inward: bool) -> None:
    """State from the words into slots, or back."""
    at = 0
    for part in w.layout.unrolled.state:
        if len(part.items):
            start = int(w.plan.slot[part.items[0]])
            with w.code.loop(0, len(part.items)) as i:
                word = w.code.offset("%state", w.code.mul(w.code.add(i, at), "%word_bytes"))
                slot = w.code.offset("%memory", w.code.mul(w.code.add(i, start), w.layout.slot))
                if inward:
                    w.store(part.dtype, load_word(w.code, word, part.dtype, w.layout.word), slot)
                else:
                    store_word(w.code, w.load(part.dtype, slot), word, part.dtype, w.layout.word)
        at += len(part.items)


def _carry(w: Writer) -> None:
    """The words after the step into the slots of those before it; what is read from there goes another way first."""
    unrolled, slot = w.layout.unrolled, w.plan.slot
    old = [part.items for part in unrolled.state]
    words = np.concatenate([np.zeros(0, np.int64), *old])
    spare, later = w.plan.slots, []
    for items, part in zip(old, unrolled.after):
        if not len(items) or (items == part.items).all():
            continue
        if np.isin(part.items, words).any():
            w.copy(part.dtype, slot[part.items], spare)
            later.append((part.dtype, np.arange(spare, spare + len(items)), int(slot[items[0]])))
            spare += len(items)
        else:
            later.append((part.dtype, slot[part.items], int(slot[items[0]])))
    for dtype, slots, to in later:
        w.copy(dtype, slots, to)


def _samples(w: Writer, t: str) -> None:
    """The sample of step t into its slots."""
    for region, part in zip(w.layout.sampled, w.layout.unrolled.sample):
        if not len(part.items):
            continue
        kind, lanes = stored(part.dtype), part.dtype.itemsize * w.layout.width
        row = w.code.offset(w.code.offset("%x", region), w.code.mul(t, lanes * len(part.items)))
        with w.code.loop(0, len(part.items)) as j:
            value = w.code.load(w.code.type(kind), w.code.offset(row, w.code.mul(j, lanes)), part.dtype.itemsize)
            if part.dtype == BOOL:
                value = w.code.let(f"icmp ne {w.code.type('i8')} {value}, {w.code.splat(0, 'i8')}")
            place = w.code.mul(w.code.add(j, int(w.plan.slot[part.items[0]])), w.layout.slot)
            w.store(part.dtype, value, w.code.offset("%memory", place))


def _readings(w: Writer, row: str) -> None:
    """The outputs into the readings."""
    for part, region in zip(w.layout.unrolled.outputs, w.layout.regions):
        if not len(part.items):
            continue
        where, bytes_ = access(w.plan.slot[part.items].reshape(-1)), part.dtype.itemsize * w.layout.width
        base = w.code.offset("%out", w.code.add(w.code.mul(row, bytes_ * len(part.items)), region))
        with w.code.loop(0, len(part.items)) as j:
            value = w.load(part.dtype, w.address(where, [j]))
            if part.dtype == BOOL:
                value = w.code.let(f"zext {w.code.type('i1')} {value} to {w.code.type('i8')}")
            kind = w.code.type(stored(part.dtype))
            w.code.store(kind, value, w.code.offset(base, w.code.mul(j, bytes_)), part.dtype.itemsize)
