"""Transpose: the function that threads call. It brings samples to lanes, scans, and brings readings back.

    void run(context)

In memory, samples and readings lie in any order; lanes are streams. A tile of some dozen steps of one group of streams
is turned in registers on its way in and on its way out where a stream's own numbers follow each other, and moved as
vectors where those of neighbouring streams do. The context is an array of 64-bit words: `FIELDS`, then for each leaf of
the samples and of the outputs an `OPERAND`. Streams are numbered by up to three axes, of which the last has `inner`
places and the one before it `middle`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icvi_jax.engine.lowering.unroll import CarryPart
from icvi_jax.engine.native.codegen import BOOL, Code, shuffle
from icvi_jax.engine.native.layout import Layout, load_word, store_word, stored

FIELDS = (
    "words word_bytes group_bytes numbers double origin streams middle inner steps every phase first last scratch"
).split()
OPERAND = "address step element outer middle inner".split()
"""Where an array begins, and the bytes between two steps, two elements, and two streams along each of their axes."""
AXES = 3
AHEAD = 96
"""So many rows of neighbouring streams are fetched before they are needed, each from a page of its own: into the second
cache, since rows a power of two apart share few places of the first."""
NEAR = 32
"""So many numbers of a row are fetched before they are needed, where rows are turned."""


def transposed(code: Code, kind: str, rows: list[str]) -> list[str]:
    """W vectors of W elements with rows and columns exchanged: in blocks of 4 × 4, then blocks among each other."""
    W = len(rows)
    if W == 1:
        return rows
    if W == 2:
        return [shuffle(code, kind, rows[0], rows[1], mask) for mask in ((0, 2), (1, 3))]
    blocks = range(0, W, 4)
    low = [i for b in blocks for i in (b, W + b, b + 1, W + b + 1)]
    high = [i for b in blocks for i in (b + 2, W + b + 2, b + 3, W + b + 3)]
    left = [i for b in blocks for i in (b, b + 1, W + b, W + b + 1)]
    right = [i for b in blocks for i in (b + 2, b + 3, W + b + 2, W + b + 3)]
    rows = list(rows)
    for b in blocks:
        a, c, d, e = rows[b : b + 4]
        ac, de = ([shuffle(code, kind, x, y, mask) for mask in (low, high)] for x, y in ((a, c), (d, e)))
        rows[b : b + 4] = [shuffle(code, kind, x, y, mask) for x, y in zip(ac, de) for mask in (left, right)]
    step = 4
    while step < W:
        for i in (i for i in range(W) if not i & step):
            a, c = rows[i], rows[i + step]
            rows[i] = shuffle(code, kind, a, c, [j if not j & step else W + j - step for j in range(W)])
            rows[i + step] = shuffle(code, kind, a, c, [j + step if not j & step else W + j for j in range(W)])
        step *= 2
    return rows


def operand_at(layout: Layout, i: int, output: bool = False) -> int:
    """The first word of the context about a leaf of the samples or outputs."""
    return len(FIELDS) + len(OPERAND) * (i + output * len(layout.samples))


def context_words(layout: Layout) -> int:
    """Words of a context."""
    return operand_at(layout, len(layout.outputs), True)


def scratch_bytes(layout: Layout) -> tuple[int, ...]:
    """Where origins, samples, readings and what is fetched ahead begin in a thread's scratch memory, behind the places
    of lanes, and where it ends."""
    places = -(-8 * AXES * layout.width // 64) * 64
    first = layout.samples[0].n if layout.samples else 0
    origin = places + -(-first * layout.width * 8 // 64) * 64
    out = origin + layout.sampled[-1]
    ahead = out + layout.regions[-1] + layout.memory
    return places, origin, out, ahead, ahead + 64 + layout.small * (places + 2 * TABLE * (2 * layout.width + 3))


TABLE = 8
"""Bytes of an address."""


def fetched(layout: Layout) -> list[tuple[int, CarryPart]]:
    """What a small step fetches ahead: the first leaf of the samples and of the readings, and where the context has
    them."""
    if not layout.small:
        return []
    found = [(operand_at(layout, i), leaf) for i, leaf in enumerate(layout.samples[:1]) if leaf.n]
    moving = [(i, leaf) for i, leaf in enumerate(layout.outputs) if leaf.n and i not in layout.still]
    return found + [(operand_at(layout, i, True), leaf) for i, leaf in moving[:1]]


class Operand:
    """What the code knows about one array: `names` of the words of an `OPERAND`, loaded from `at`."""

    def __init__(self, code: Code, at: str, places: str = "%places") -> None:
        self.code, self.places = code, places
        words = {name: code.load("i64", code.offset(at, i, "i64"), 8) for i, name in enumerate(OPERAND)}
        self.step, self.element, self.lanes = words["step"], words["element"], words["inner"]
        self._axes = [words[name] for name in ("outer", "middle", "inner")]
        self.base = code.let(f"inttoptr i64 {words['address']} to ptr")

    def row(self, lane: str | int) -> str:
        code, at = self.code, self.base
        for axis, stride in enumerate(self._axes):
            place = code.load("i64", code.offset(self.places, code.add(lane, axis * code.width), "i64"), 8)
            at = code.offset(at, code.mul(place, stride))
        return at

    def side_by_side(self, size: int) -> str:
        """Whether the numbers of the group's lanes follow each other in memory."""
        return self.code.let(f"and i1 %whole, {self.code.let(f'icmp eq i64 {self.lanes}, {size}')}")

    def shared(self) -> str:
        """Whether all streams have the same numbers."""
        code = self.code
        any_ = code.let(f"or i64 {code.let(f'or i64 {self._axes[0]}, {self._axes[1]}')}, {self._axes[2]}")
        return code.let(f"icmp eq i64 {any_}, 0")


def write_places(width: int) -> str:
    """The function that says where a group's lanes are on each axis, and whether they are neighbours on the last."""
    code = Code(width)
    field = {name: code.load("i64", code.offset("%context", FIELDS.index(name), "i64"), 8) for name in FIELDS}
    most = code.add(field["streams"], -1)
    plain = code.let(f"icmp eq i64 {field['inner']}, {field['streams']}")
    to = [code.offset("%places", width * axis, "i64") for axis in range(AXES)]
    with code.loop(0, width) as r:
        row = code.least(code.add("%stream", r), most)
        for axis, value in enumerate((0, 0, row)):
            code.store("i64", str(value), code.offset(to[axis], r, "i64"), 8)
        with code.when(code.let(f"xor i1 {plain}, true")):
            rest = code.let(f"udiv i64 {row}, {field['inner']}")
            inner = code.let(f"urem i64 {row}, {field['inner']}")
            middle, outer = (code.let(f"{what} i64 {rest}, {field['middle']}") for what in ("urem", "udiv"))
            for axis, value in enumerate((outer, middle, inner)):
                code.store("i64", str(value), code.offset(to[axis], r, "i64"), 8)
    first, last = (code.load("i64", code.offset(to[-1], r, "i64"), 8) for r in (0, width - 1))
    complete = code.let(f"icmp sle i64 {code.add('%stream', width)}, {field['streams']}")
    apart = code.let(f"icmp eq i64 {code.let(f'sub i64 {last}, {first}')}, {width - 1}")
    code.do(f"ret i1 {code.let(f'and i1 {complete}, {apart}')}")
    return code.function("define internal i1 @places(ptr noalias %places, ptr noalias %context, i64 %stream)")


def in_blocks(code: Code, dense: str, columns: str, block: int) -> tuple[str, str]:
    """How many columns are moved in whole blocks (all or none of them), and where the last block begins: where the
    columns are no multiple of it, it does some of the one before it again."""
    last = code.add(columns, -block)
    enough = code.let(f"and i1 {dense}, {code.let(f'icmp sge i64 {last}, 0')}")
    return code.let(f"select i1 {enough}, i64 {columns}, i64 0"), last


def write_pack(layout: Layout, number: int, source: np.dtype, origin: bool) -> str:
    """The function that turns a tile of one leaf of the samples (of type `source`) to lanes, in the program's type.

    `origin`: what is at %origin, by element and lane, is subtracted before.
    """
    code, W, leaf = Code(layout.width), layout.width, layout.samples[number]
    item, kind, goal, n = source.itemsize, stored(source), stored(leaf.dtype), leaf.n
    vector = code.type(kind)
    operand = Operand(code, "%operand")
    begin = code.mul("%t0", operand.step)
    rows = [code.offset(operand.row(r), begin) for r in range(W)]

    def finish(value: str, column: str, element: str, some: Code = code, first: int = 0) -> None:
        """A column of all lanes, or of as many as `some` has from lane `first` on."""
        theirs, ours = some.type(kind), some.type(goal)
        if origin:
            less = code.add(code.mul(element, W), first)
            value = code.let(f"fsub {theirs} {value}, {code.load(theirs, code.offset('%origin', less, kind), item)}")
        if leaf.dtype.itemsize != item:
            value = code.let(f"{'fptrunc' if item == 8 else 'fpext'} {theirs} {value} to {ours}")
        code.store(ours, value, code.offset("%x", code.add(code.mul(column, W), first), goal), leaf.dtype.itemsize)

    columns = code.mul("%n", n)

    def column_of(c: str) -> tuple[str, str]:
        t, element = code.let(f"udiv i64 {c}, {n}"), code.let(f"urem i64 {c}, {n}")
        return code.add(code.mul(t, operand.step), code.mul(element, operand.element)), element

    if W > 1:
        with code.when(operand.side_by_side(item)):
            with code.loop(0, columns) as c:
                at, element = column_of(c)
                ahead, _ = column_of(code.add(c, AHEAD))
                code.fetch(code.offset(rows[0], ahead), level=2)
                finish(code.load(vector, code.offset(rows[0], at), 1), c, element)
            code.do("ret void")
            code.label(code.name("never"))
        with code.when(operand.shared()):
            with code.loop(0, columns) as c:
                at, element = column_of(c)
                finish(code.everywhere(kind, code.load(kind, code.offset(rows[0], at), 1)), c, element)
            code.do("ret void")
            code.label(code.name("never"))
    dense = code.let(f"icmp eq i64 {operand.element}, {item}") if n > 1 else "true"
    dense = code.let(f"and i1 {dense}, {code.let(f'icmp eq i64 {operand.step}, {item * n}')}")
    quick, last = in_blocks(code, dense, columns, layout.block)
    block = Code(layout.block)
    part = block.type(kind)
    for first in range(0, W, layout.block):
        with code.loop(0, quick, layout.block) as begun:
            c = code.least(begun, last)
            some = rows[first : first + layout.block]
            for row in some:
                code.fetch(code.offset(row, code.add(c, NEAR), kind))
            loaded = [code.load(part, code.offset(row, c, kind), item) for row in some]
            for j, value in enumerate(transposed(code, part, loaded)):
                column = code.add(c, j)
                finish(value, column, code.let(f"urem i64 {column}, {n}"), block, first)
    with code.loop(quick, columns) as c:
        at, element = column_of(c)
        value = "poison"
        for r, row in enumerate(rows):
            value = code.insert(kind, value, code.load(kind, code.offset(row, at), 1), r)
        finish(value, c, element)
    code.do("ret void")
    return code.function(
        f"define internal void @pack{number}_{kind}(ptr noalias %x, ptr noalias %operand, ptr noalias %places, "
        "i1 %whole, ptr noalias %origin, i64 %t0, i64 %n)"
    )


def write_unpack(width: int, block: int, kind: str, size: int) -> str:
    """The function that brings readings of `kind` back: `rows` of `n` elements from row `first` on, `valid` streams."""
    code, part = Code(width), Code(block).type(kind)
    vector = code.type(kind)
    operand = Operand(code, "%operand")
    begin = code.mul("%first", operand.step)
    columns = code.mul("%rows", "%n")
    if width > 1:
        with code.when(operand.side_by_side(size)):
            to = code.offset(operand.row(0), begin)
            with code.loop(0, "%rows") as t, code.loop(0, "%n") as j:
                value = code.load(vector, code.offset("%from", code.mul(code.add(code.mul(t, "%n"), j), width * size)))
                at = code.add(code.mul(t, operand.step), code.mul(j, operand.element))
                ahead = code.offset(to, code.add(at, code.mul(AHEAD // 4, operand.step)))
                code.fetch(ahead, write=True, level=2)
                code.store(vector, value, code.offset(to, at), 1)
            code.do("ret void")
            code.label(code.name("never"))
    one = code.let("icmp eq i64 %n, 1")
    dense = code.let(f"or i1 {one}, {code.let(f'icmp eq i64 {operand.element}, {size}')}")
    row_bytes = code.mul("%n", size)
    dense = code.let(f"and i1 {dense}, {code.let(f'icmp eq i64 {operand.step}, {row_bytes}')}")
    quick = code.let(f"and i1 {dense}, {code.let(f'icmp eq i64 %valid, {width}')}")
    quick, last = in_blocks(code, quick, columns, block)
    with code.when(code.let(f"icmp ne i64 {quick}, 0")):
        lines = [code.offset(operand.row(r), begin) for r in range(width)]
        for begun in range(0, width, block):
            with code.loop(0, quick, block) as start:
                c = code.least(start, last)
                base = code.offset("%from", code.mul(c, width * size))
                for line in lines[begun : begun + block]:
                    code.fetch(code.offset(line, code.add(c, NEAR), kind), write=True)
                values = [code.load(part, code.offset(base, size * (width * j + begun)), size) for j in range(block)]
                for line, value in zip(lines[begun:], transposed(code, part, values)):
                    code.store(part, value, code.offset(line, c, kind), size)
    with code.loop(0, "%valid") as r:
        to, mine = code.offset(operand.row(r), begin), code.offset("%from", r, kind)
        with code.when(dense), code.loop(quick, columns) as c:
            value = code.load(kind, code.offset(mine, code.mul(c, width), kind), size)
            code.store(kind, value, code.offset(to, c, kind), size)
        with code.when(code.let(f"xor i1 {dense}, true")), code.loop(0, "%rows") as t, code.loop(0, "%n") as j:
            c = code.add(code.mul(t, "%n"), j)
            value = code.load(kind, code.offset(mine, code.mul(c, width), kind), size)
            at = code.add(code.mul(t, operand.step), code.mul(j, operand.element))
            code.store(kind, value, code.offset(to, at), size)
    code.do("ret void")
    return code.function(
        f"define internal void @unpack_{kind}(ptr noalias %from, ptr noalias %operand, ptr noalias %places, i1 %whole, "
        "i64 %n, i64 %first, i64 %rows, i64 %valid)"
    )


def write_run(layout: Layout) -> str:
    """The function itself."""
    code, W, tile = Code(layout.width), layout.width, layout.tile
    field = {name: code.load("i64", code.offset("%context", i, "i64"), 8) for i, name in enumerate(FIELDS)}
    address = {
        name: code.let(f"inttoptr i64 {field[name]} to ptr") for name in ("words", "numbers", "origin", "scratch")
    }
    places = address["scratch"]
    origin, x, out, ahead = (code.offset(places, at) for at in scratch_bytes(layout)[:4])
    double = code.let(f"icmp ne i64 {field['double']}, 0")
    with code.loop(field["first"], field["last"]) as group:
        stream = code.mul(group, W)
        valid = code.least(code.let(f"sub i64 {field['streams']}, {stream}"), W)
        state = code.offset(address["words"], code.mul(group, field["group_bytes"]))
        if W > 1:  # rows of a state are far apart in memory: those of the next group are fetched during this one
            with code.loop(0, layout.words) as word:
                row = code.offset(state, code.add(code.mul(word, field["word_bytes"]), field["group_bytes"]))
                code.fetch(row, write=True)
        whole = code.call("places", "i1", ("ptr", places), ("ptr", "%context"), ("i64", stream))
        lanes = ("ptr", places), ("i1", whole)
        lines = _lines(code, layout, places, ahead, stream)
        if has_origin(layout):
            _origins(code, layout.samples[0].n, field, address, double, stream, origin)
        with code.loop(0, field["steps"], tile) as t0:
            n = code.least(code.let(f"sub i64 {field['steps']}, {t0}"), tile)
            for i, (leaf, region) in enumerate(zip(layout.samples, layout.sampled)):
                if not leaf.n:
                    continue
                operand = code.offset("%context", operand_at(layout, i), "i64")
                to = code.offset(x, region)
                given = ("ptr", to), ("ptr", operand), *lanes, ("ptr", origin), ("i64", t0), ("i64", n)
                if i or not has_origin(layout):
                    code.call(f"pack{i}_{stored(leaf.dtype)}", "void", *given)
                    continue
                with code.when(double):
                    code.call("pack0_double", "void", *given)
                with code.when(code.let(f"xor i1 {double}, true")):
                    code.call("pack0_float", "void", *given)
            passed = code.add(field["phase"], t0)
            since = code.let(f"urem i64 {passed}, {field['every']}")
            memory = [("ptr", a) for a in (address["numbers"], x, out)]
            counts = [("i64", a) for a in (n, field["every"], since)]
            for line in lines:
                line.point(code.add(t0, tile), field)
            counts += [("ptr", ahead)] * layout.small
            code.call("scan", "void", ("ptr", state), ("i64", field["word_bytes"]), *memory, *counts)
            begun = code.let(f"udiv i64 {passed}, {field['every']}")
            ended = code.let(f"udiv i64 {code.add(passed, n)}, {field['every']}")
            readings = code.let(f"sub i64 {ended}, {begun}")
            for i, (leaf, region) in enumerate(zip(layout.outputs, layout.regions)):
                if leaf.n and i not in layout.still:
                    operand = code.offset("%context", operand_at(layout, i, True), "i64")
                    counts = [("i64", a) for a in (str(leaf.n), begun, readings, valid)]
                    from_ = code.offset(out, region)
                    code.call(f"unpack_{_plain(leaf.dtype)}", "void", ("ptr", from_), ("ptr", operand), *lanes, *counts)
    code.do("ret void")
    return "\n".join([*code.declared, code.function("define void @run(ptr noalias %context)")])


class _Line(NamedTuple):
    """Rows of a group and of the next one that are fetched ahead: the tables of their beginnings, and `told`, where the
    scan finds a table, the place in each row, and the bytes between steps."""

    code: Code
    operand: Operand
    bytes_: int
    reading: bool
    here: str
    next: str
    told: str

    def point(self, t: str, field: dict[str, str]) -> None:
        """The tile from step t on comes next, or the first one of the next group."""
        code, step = self.code, self.operand.step
        inside = code.let(f"icmp slt i64 {t}, {field['steps']}")
        dense = code.let(f"icmp eq i64 {step}, {self.bytes_}")
        if self.reading:
            each = code.let(f"icmp eq i64 {field['every']}, 1")
            dense = code.let(f"and i1 {dense}, {each}")
        by = code.let(f"select i1 {dense}, i64 {step}, i64 0")
        at = code.let(f"select i1 {inside}, i64 {code.mul(t, by)}, i64 0")
        table = code.let(f"select i1 {inside}, ptr {self.here}, ptr {self.next}")
        for i, (kind, value) in enumerate((("ptr", table), ("i64", at), ("i64", by))):
            code.store(kind, value, code.offset(self.told, i, "i64"), 8)


def _lines(code: Code, layout: Layout, places: str, ahead: str, stream: str) -> list[_Line]:
    """What is fetched ahead in a group from this stream on; see `scan.fetch`."""
    found, W, wanted = [], layout.width, fetched(layout)
    tables = code.offset(ahead, 3 * len(wanted), "i64")
    later = code.offset(tables, 2 * len(wanted) * W, "i64")
    if wanted:
        code.call("places", "i1", ("ptr", later), ("ptr", "%context"), ("i64", code.add(stream, W)))
    for i, (at, leaf) in enumerate(wanted):
        made = []
        for j, where in enumerate((places, later)):
            operand = Operand(code, code.offset("%context", at, "i64"), where)
            made.append(code.offset(tables, (2 * i + j) * W, "i64"))
            with code.loop(0, W) as r:
                code.store("ptr", operand.row(r), code.offset(made[-1], r, "i64"), 8)
        size = leaf.n * leaf.dtype.itemsize
        found.append(_Line(code, operand, size, i > 0, made[0], made[1], code.offset(ahead, 3 * i, "i64")))
    return found


def has_origin(layout: Layout) -> bool:
    """Whether samples may come in either precision of floats, and an origin be subtracted from them on the way."""
    return bool(layout.samples) and layout.samples[0].dtype.kind == "f" and layout.samples[0].n > 0


def _origins(
    code: Code, p: int, field: dict[str, str], address: dict[str, str], double: str, stream: str, to: str
) -> None:
    """The origins of a group's streams, by feature and lane, in the type of the samples; 0 where there are none."""
    W = code.width
    most = code.add(field["streams"], -1)
    given = code.let(f"icmp ne i64 {field['origin']}, 0")
    with code.loop(0, p * W) as i:
        code.store("double", "0.0", code.offset(to, i, "double"), 8)
    with code.when(given), code.loop(0, p) as j, code.loop(0, W) as r:
        row = code.least(code.add(stream, r), most)
        value = code.load("double", code.offset(address["origin"], code.add(code.mul(row, p), j), "double"), 8)
        place = code.add(code.mul(j, W), r)
        with code.when(double):
            code.store("double", value, code.offset(to, place, "double"), 8)
        with code.when(code.let(f"xor i1 {double}, true")):
            code.store("float", code.let(f"fptrunc double {value} to float"), code.offset(to, place, "float"), 4)


def write_bring(layout: Layout, dtype: np.dtype, back: bool) -> str:
    """The function that brings a leaf of a group's state from its array to words, or back."""
    code, W, word, kind = Code(layout.width), layout.width, layout.word, stored(dtype)
    operand, item, vector = Operand(code, "%operand"), dtype.itemsize, code.type(kind)
    rows = [operand.row(r) for r in range(W)]
    truths, bytes_ = code.type("i1"), code.type("i8")

    def store(value: str, ours: str) -> None:
        if dtype == BOOL:
            value = code.let(f"icmp ne {bytes_} {value}, {code.splat(0, 'i8')}")
        store_word(code, value, ours, dtype, word)

    def load(ours: str) -> str:
        value = load_word(code, ours, dtype, word)
        return code.let(f"zext {truths} {value} to {bytes_}") if dtype == BOOL else value

    with code.when(operand.side_by_side(item)):
        with code.loop(0, "%n") as j:
            theirs, ours = (
                code.offset(rows[0], code.mul(j, operand.element)),
                code.offset("%words", code.mul(j, W * word)),
            )
            if back:
                code.store(vector, load(ours), theirs, 1)
            else:
                store(code.load(vector, theirs, 1), ours)
        code.do("ret void")
        code.label(code.name("never"))
    with code.loop(0, "%n") as j:
        at, ours = code.mul(j, operand.element), code.offset("%words", code.mul(j, W * word))
        if back:
            value = load(ours)
            for r, row in enumerate(rows):
                one = value if W == 1 else code.let(f"extractelement {vector} {value}, i32 {r}")
                with code.when(code.let(f"icmp sgt i64 %valid, {r}")):
                    code.store(kind, one, code.offset(row, at), 1)
        else:
            value = "poison"
            for r, row in enumerate(rows):
                value = code.insert(kind, value, code.load(kind, code.offset(row, at), 1), r)
            store(value, ours)
    code.do("ret void")
    return code.function(
        f"define internal void @{'leave' if back else 'bring'}_{kind}_{dtype.kind}(ptr noalias %words, "
        "ptr noalias %operand, ptr noalias %places, i1 %whole, i64 %n, i64 %valid)"
    )


def _plain(dtype: np.dtype) -> str:
    """Outputs are moved as floats or bytes of their size: turning asks for no more."""
    return {1: "i8", 2: "i16", 4: "float", 8: "double"}[dtype.itemsize]


def write_tiles(layout: Layout) -> list[str]:
    """All functions of this module that the program needs to run."""
    moving = [leaf for i, leaf in enumerate(layout.outputs) if leaf.n and i not in layout.still]
    sizes = {_plain(leaf.dtype): leaf.dtype.itemsize for leaf in moving}
    unpacks = [write_unpack(layout.width, layout.block, kind, size) for kind, size in sorted(sizes.items())]
    packs = [write_pack(layout, 0, np.dtype(kind), True) for kind in ("f4", "f8") if has_origin(layout)]
    for i, leaf in enumerate(layout.samples):
        if leaf.n and (i or not has_origin(layout)):
            packs.append(write_pack(layout, i, leaf.dtype, False))
    return [write_places(layout.width), *packs, *unpacks, write_run(layout)]
