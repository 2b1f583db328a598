"""The time loop of an unrolled step: state in registers, one block of instructions a step.

    void scan(state, word_bytes, numbers, x, elapsed, out, steps, every, phase)

`state` has one group's lanes of the first word, and the next word is `word_bytes` further on; `numbers` are the
pipeline's own, `x` is [steps][p][lanes], `elapsed` [steps][lanes], `out` a region for each output leaf,
[readings][n][lanes], with room for a tile. A reading is written after every `every`-th step; `phase` steps have passed
since the last one.
"""

from __future__ import annotations

from icvi_jax.engine.lowering.ssa import Flat
from icvi_jax.engine.native.code import BOOL, Code
from icvi_jax.engine.native.codegen import operation
from icvi_jax.engine.native.layout import Layout
from icvi_jax.engine.native.ring_buffers import Delays
from icvi_jax.engine.native.state_layout import load_word, store_word, stored

HEAD = (
    "define internal void @scan(ptr noalias %state, i64 %word_bytes, ptr noalias %numbers, ptr noalias %x, "
    "ptr noalias %elapsed, ptr noalias %out, i64 %steps, i64 %every, i64 %phase)"
)


def write_scan(layout: Layout, flat: Flat) -> tuple[str, set[str]]:
    """The text of the function, and the declarations it needs."""
    code, size = Code(layout.width), layout.word
    names: dict[int, str] = {}
    number, word, sample = layout.first("number"), layout.first("state"), layout.first("sample")
    kinds = [leaf.dtype for leaf in layout.state for _ in range(leaf.n)]
    delays = Delays(code, flat, word, kinds)

    def run(uniform: bool) -> None:
        for i, lane in enumerate(flat.lanes):
            if lane.uniform != uniform or lane.name == "input" or i in delays.unused:
                continue
            if lane.name == "constant":
                names[i] = code.splat(lane.value, lane.dtype)
                continue
            known = tuple(
                flat.lanes[a].name == "constant" and flat.lanes[a].attribute == flat.lanes[a].attribute
                for a in lane.args
            )
            ins, types = [names[a] for a in lane.args], [flat.lanes[a].dtype for a in lane.args]
            names[i] = operation(code, lane.name, lane.dtype, ins, types, lane.attribute, known)

    inputs = {lane.element: i for i, lane in enumerate(flat.lanes) if lane.name == "input"}
    for element, i in inputs.items():
        if flat.lanes[i].uniform:
            names[i] = layout.load_number(code, "%numbers", element - number, flat.lanes[i].dtype)
    run(uniform=True)
    words = range(len(kinds))
    # Words of a single number follow each other, and LLVM makes vectors of them.
    places = [code.offset("%state", size * i if layout.width == 1 else code.mul("%word_bytes", i)) for i in words]
    flags = code.type(f"i{8 * size}")
    start = [load_word(code, place, kind, size) for place, kind in zip(places, kinds)]
    carried = [flags if kind == BOOL else code.type(kind) for kind in kinds]  # truths as words: never packed

    def carriable(i: int, value: str) -> str:
        return code.let(f"sext {code.type('i1')} {value} to {flags}") if kinds[i] == BOOL else value

    delays.enter(start)
    carries = [i for i in words if i not in delays.words]
    start = [carriable(i, value) for i, value in enumerate(start)]
    code.do("br label %step")
    code.label("step")
    code.do("%t = phi i64 [0, %enter], [%t.next, %next]")
    code.do("%since = phi i64 [%phase, %enter], [%since.next, %next]")
    code.do("%row = phi i64 [0, %enter], [%row.next, %next]")
    for i in carries:
        code.do(f"%s{i}.now = phi {carried[i]} [{start[i]}, %enter], [%s{i}.next, %next]")
    delays.begin()
    for i in words:
        place = inputs.get(word + i)
        if i in delays.words and place in delays.used:
            names[place] = delays.read(i)
        elif i not in delays.words and place is not None:
            zero = code.splat(0, f"i{8 * size}")
            names[place] = code.let(f"icmp ne {flags} %s{i}.now, {zero}") if kinds[i] == BOOL else f"%s{i}.now"
    for j in range(layout.features + layout.elapsed):
        if (place := inputs.get(sample + j)) is not None:
            kind, here = code.type(layout.dtype), layout.dtype.itemsize * layout.width
            last = j == layout.features
            base = code.offset("%elapsed" if last else "%x", code.mul("%t", here * (1 if last else layout.features)))
            names[place] = code.load(kind, base if last else code.offset(base, here * j), layout.dtype.itemsize)
    run(uniform=False)
    delays.move(names)
    carry = {i: carriable(i, names[flat.after[i]]) for i in carries}
    stepped = code.block
    code.do("%since.more = add i64 %since, 1")
    code.do("%show = icmp eq i64 %since.more, %every")
    code.do("br i1 %show, label %reading, label %next")
    code.label("reading")
    at = 0
    for i, (leaf, region) in enumerate(zip(layout.outputs, layout.regions)):
        if i in layout.still:
            at += leaf.n
            continue
        kind = stored(leaf.dtype)
        bytes_ = layout.bytes(leaf)
        base = code.offset("%out", code.add(code.mul("%row", bytes_ * leaf.n * layout.width), region))
        for j in range(leaf.n):
            value = names[flat.outputs[at + j]]
            if leaf.dtype == BOOL:
                value = code.let(f"zext {code.type('i1')} {value} to {code.type('i8')}")
            code.store(code.type(kind), value, code.offset(base, bytes_ * layout.width * j), bytes_)
        at += leaf.n
    code.do("%row.more = add i64 %row, 1")
    code.do("br label %next")
    code.label("next")
    code.do(f"%row.next = phi i64 [%row, %{stepped}], [%row.more, %reading]")
    code.do(f"%since.next = phi i64 [%since.more, %{stepped}], [0, %reading]")
    for i in carries:
        code.do(f"%s{i}.next = bitcast {carried[i]} {carry[i]} to {carried[i]}")
    code.do("%t.next = add i64 %t, 1")
    code.do("%more = icmp slt i64 %t.next, %steps")
    code.do("br i1 %more, label %step, label %leave")
    code.label("leave")
    for i in words:
        value = delays.read(i, ".next") if i in delays.words else names[flat.after[i]]
        store_word(code, value, places[i], kinds[i], size)
    code.do("ret void")
    return code.function(HEAD), code.declared
