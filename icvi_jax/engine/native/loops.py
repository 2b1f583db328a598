"""The time loop of a large step, as a plan has it: loops over elements, values in memory between them.

    void scan(state, word_bytes, numbers, x, out, steps, every, phase)

as in `icvi_jax.engine.native.scan`, with one more piece of scratch memory behind the readings for the slots.
"""

from __future__ import annotations

import numpy as np

from icvi_jax.engine.native.access import access
from icvi_jax.engine.native.code import BOOL
from icvi_jax.engine.native.layout import Layout
from icvi_jax.engine.native.loop_codegen import Writer
from icvi_jax.engine.native.scan import HEAD
from icvi_jax.engine.native.state_layout import load_word, store_word, stored


def write_loops(layout: Layout) -> tuple[str, set[str]]:
    """The text of the function with its tables, and the declarations it needs."""
    w = Writer(layout)
    code, plan, unrolled = w.code, w.plan, layout.unrolled
    code.do(f"%memory = getelementptr i8, ptr %out, i64 {layout.regions[-1]}")
    for number, scalar in unrolled.graph.constants.items():
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
        for loop in plan.each:
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
