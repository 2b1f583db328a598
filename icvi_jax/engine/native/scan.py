"""The time loop of an unrolled step: state in registers, one block of instructions a step.

    void scan(state, word_bytes, numbers, x, out, steps, every, phase)

`state` has one group's lanes of the first word, and the next word is `word_bytes` further on; `numbers` are the
pipeline's own, `x` has a region for each leaf of the samples, [steps][n][lanes], and `out` one for each output leaf,
[readings][n][lanes], with room for a tile. A reading is written after every `every`-th step; `phase` steps have passed
since the last one. What depends only on numbers (those of all streams, and words that no step changes) is computed
before the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from icvi_jax.engine.lowering.ssa import Flat, Lane
from icvi_jax.engine.lowering.unroll import CarryPart
from icvi_jax.engine.native.codegen import BOOL, Code, operation
from icvi_jax.engine.native.layout import Layout, load_word, store_word, stored
from icvi_jax.engine.native.ring_buffers import Delays
from icvi_jax.engine.native.transpose import fetched

HEAD = (
    "define internal void @scan(ptr noalias %state, i64 %word_bytes, ptr noalias %numbers, ptr noalias %x, "
    "ptr noalias %out, i64 %steps, i64 %every, i64 %phase)"
)


def write_scan(layout: Layout, flat: Flat) -> tuple[str, set[str]]:
    """The text of the function, and the declarations it needs."""
    code, size = Code(layout.width), layout.word
    names: dict[int, str] = {}
    number, word, sample = layout.first("number"), layout.first("state"), layout.first("sample")
    kinds = [leaf.dtype for leaf in layout.state for _ in range(leaf.n)]
    delays = Delays(code, flat, word, kinds)

    still = [number_of_stream(layout, flat, i) for i in range(len(kinds))]
    before = _before(flat, {word + i for i, same in enumerate(still) if same})

    def run(which: Callable[[int, Lane], bool]) -> None:
        for i, lane in enumerate(flat.lanes):
            if not which(i, lane) or lane.name == "input" or i in delays.unused:
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
    run(lambda i, lane: lane.uniform)
    words = range(len(kinds))
    # Words of a single number follow each other, and LLVM makes vectors of them.
    places = [code.offset("%state", size * i if layout.width == 1 else code.mul("%word_bytes", i)) for i in words]
    flags = code.type(f"i{8 * size}")
    start = [load_word(code, place, kind, size) for place, kind in zip(places, kinds)]
    carried = [flags if kind == BOOL else code.type(kind) for kind in kinds]  # truths as words: never packed

    def carriable(i: int, value: str) -> str:
        return code.let(f"sext {code.type('i1')} {value} to {flags}") if kinds[i] == BOOL else value

    delays.enter(start)
    carries = [i for i in words if i not in delays.words and not still[i]]
    for i in words:
        if still[i] and (place := inputs.get(word + i)) is not None:
            names[place] = start[i]
    run(lambda i, lane: not lane.uniform and before[i])
    fetches = [_ahead(code, layout, i, leaf) for i, (_, leaf) in enumerate(fetched(layout))]
    carried_words = set(carries)
    start = [carriable(i, value) if i in carried_words else value for i, value in enumerate(start)]
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
        elif i in carried_words and place is not None:
            zero = code.splat(0, f"i{8 * size}")
            names[place] = code.let(f"icmp ne {flags} %s{i}.now, {zero}") if kinds[i] == BOOL else f"%s{i}.now"
    element = sample
    for leaf, region in zip(layout.samples, layout.sampled):
        kind, here = stored(leaf.dtype), leaf.dtype.itemsize * layout.width
        base = code.offset(code.offset("%x", region), code.mul("%t", here * leaf.n))
        for j in range(leaf.n):
            if (place := inputs.get(element + j)) is not None:
                value = code.load(code.type(kind), code.offset(base, here * j), leaf.dtype.itemsize)
                if leaf.dtype == BOOL:
                    value = code.let(f"icmp ne {code.type('i8')} {value}, {code.splat(0, 'i8')}")
                names[place] = value
        element += leaf.n
    for fetch in fetches:
        fetch()
    run(lambda i, lane: not lane.uniform and not before[i])
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
        bytes_ = leaf.dtype.itemsize
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
        if still[i]:
            continue
        value = delays.read(i, ".next") if i in delays.words else names[flat.after[i]]
        store_word(code, value, places[i], kinds[i], size)
    code.do("ret void")
    head = HEAD.replace("i64 %phase", "i64 %phase, ptr noalias %ahead") if layout.small else HEAD
    return code.function(head), code.declared


STEPS = 16
"""Numbers in a line of the cache."""


def _ahead(code: Code, layout: Layout, i: int, leaf: CarryPart) -> Callable[[], None]:
    """Fetch some lines of the next tile at each step: a small step waits for memory otherwise. All rows have had theirs
    after so many steps as there are numbers in a line."""
    told = [code.offset("%ahead", 3 * i + j, "i64") for j in range(3)]
    table, at, by = (code.load(kind, place, 8) for kind, place in zip(("ptr", "i64", "i64"), told))
    rows, lines = -(-layout.width // STEPS), -(-leaf.n * leaf.dtype.itemsize * STEPS // 64)

    def fetch() -> None:
        part = code.let(f"and i64 %t, {STEPS - 1}")
        far = code.add(at, code.mul(code.let(f"sub i64 %t, {part}"), by))
        first = code.offset(table, code.mul(part, 8 * rows))
        for r in range(rows):
            row = code.offset(code.load("ptr", code.offset(first, 8 * r), 8), far)
            for j in range(lines):
                code.fetch(code.offset(row, 64 * j), write=i > 0, level=2)

    return fetch


def number_of_stream(layout: Layout, flat: Flat, i: int) -> bool:
    """Whether word i is one that no step changes."""
    lane = flat.lanes[flat.after[i]]
    return lane.name == "input" and not lane.uniform and lane.element == layout.first("state") + i


def _before(flat: Flat, still: set[int]) -> list[bool]:
    """Which operations need no more than numbers: those of all streams, and the inputs `still`."""
    found: list[bool] = []
    for lane in flat.lanes:
        is_input = lane.name == "input" and not lane.uniform
        found.append(lane.element in still if is_input else all(found[a] for a in lane.args))
    return found
