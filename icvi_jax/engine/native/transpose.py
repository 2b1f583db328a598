"""Tiles: the function that threads call. It brings samples to lanes, scans, and brings readings back to rows.

    void run(context)

Samples are (N, T, p) and readings (N, readings, …) in memory, lanes are streams: a tile of some dozen steps of one
group of streams is turned in registers on its way in and on its way out. The context is an array of 64-bit words,
`FIELDS` and then address and bytes a row of each output.
"""

from __future__ import annotations

import numpy as np

from icvi_jax.engine.native.code import Code, shuffle
from icvi_jax.engine.native.layout import Layout
from icvi_jax.engine.native.state_layout import Leaf, stored

FIELDS = (
    "words word_bytes group_bytes numbers samples row_bytes step_bytes feature_bytes double origin elapsed "
    "elapsed_row elapsed_step streams steps every phase first last scratch"
).split()


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


def write_pack(layout: Layout, source: np.dtype) -> str:
    """The function that turns a tile of samples (of type `source`) to lanes, less the origin, in the program's type."""
    code, W, p = Code(layout.width), layout.width, layout.features
    item, kind = source.itemsize, "float" if source.itemsize == 4 else "double"
    vector, mine = code.type(kind), code.type(layout.dtype)
    most = code.add("%streams", -1)
    rows = []
    for r in range(W):
        row = code.least(code.add("%stream", r), most)
        rows.append(code.offset(code.offset("%samples", code.mul(row, "%row_bytes")), code.mul("%t0", "%step_bytes")))

    def finish(value: str, column: str, feature: str) -> None:
        origin = code.load(vector, code.offset("%origin", code.mul(feature, W * item)), item)
        value = code.let(f"fsub {vector} {value}, {origin}")
        if layout.dtype.itemsize != item:
            value = code.let(f"{'fptrunc' if item == 8 else 'fpext'} {vector} {value} to {mine}")
        code.store(mine, value, code.offset("%x", code.mul(column, W * layout.dtype.itemsize)), layout.dtype.itemsize)

    columns = code.mul("%n", p)
    dense = code.let(f"icmp eq i64 %feature_bytes, {item}")
    dense = code.let(f"and i1 {dense}, {code.let(f'icmp eq i64 %step_bytes, {item * p}')}")
    quick = code.let(f"select i1 {dense}, i64 {code.let(f'and i64 {columns}, {-W}')}, i64 0")
    with code.loop(0, quick, W) as c:
        loaded = [code.load(vector, code.offset(row, c, kind), item) for row in rows]
        for j, value in enumerate(transposed(code, vector, loaded)):
            column = code.add(c, j)
            finish(value, column, code.let(f"urem i64 {column}, {p}"))
    with code.loop(quick, columns) as c:
        t, feature = code.let(f"udiv i64 {c}, {p}"), code.let(f"urem i64 {c}, {p}")
        place = code.add(code.mul(t, "%step_bytes"), code.mul(feature, "%feature_bytes"))
        value = "poison"
        for r, row in enumerate(rows):
            one = code.load(kind, code.offset(row, place), 1)
            value = code.insert(kind, value, one, r)
        finish(value, c, feature)
    code.do("ret void")
    return code.function(
        f"define internal void @pack_{kind}(ptr noalias %x, ptr %samples, ptr %origin, i64 %row_bytes, "
        "i64 %step_bytes, i64 %feature_bytes, i64 %streams, i64 %stream, i64 %t0, i64 %n)"
    )


def write_unpack(width: int, kind: str, size: int) -> str:
    """The function that turns readings of `kind` back to rows: `columns` elements of each stream, `valid` streams."""
    code = Code(width)
    vector = code.type(kind)
    full = code.let(f"icmp eq i64 %valid, {width}")
    quick = code.let(f"select i1 {full}, i64 {code.let(f'and i64 %columns, {-width}')}, i64 0")
    with code.loop(0, quick, width) as c:
        base = code.offset("%from", code.mul(c, width * size))
        rows = [code.load(vector, code.offset(base, width * size * j), size) for j in range(width)]
        to = code.offset("%to", c, kind)
        for number, value in enumerate(transposed(code, vector, rows)):
            code.store(vector, value, code.offset(to, code.mul("%row_bytes", number)), size)
    with code.loop(quick, "%columns") as c, code.loop(0, "%valid") as r:
        value = code.load(kind, code.offset("%from", code.add(code.mul(c, width), r), kind), size)
        code.store(kind, value, code.offset(code.offset("%to", code.mul(r, "%row_bytes")), c, kind), size)
    code.do("ret void")
    return code.function(
        f"define internal void @unpack_{kind}(ptr noalias %from, ptr noalias %to, i64 %columns, i64 %valid, "
        "i64 %row_bytes)"
    )


def scratch_bytes(layout: Layout) -> tuple[int, int, int, int]:
    """Where samples, elapsed times, origins and readings begin in a thread's scratch memory, less its end."""
    lanes = layout.width * layout.dtype.itemsize
    x = -(-layout.tile * layout.features * lanes // 64) * 64
    elapsed = -(-layout.tile * lanes // 64) * 64
    origin = -(-layout.features * layout.width * 8 // 64) * 64
    return x, x + elapsed, x + elapsed + origin, x + elapsed + origin + layout.regions[-1] + layout.memory + 64


def write_run(layout: Layout) -> str:
    """The function itself."""
    code, W, p, tile = Code(layout.width), layout.width, layout.features, layout.tile
    field = {name: code.load("i64", code.offset("%context", i, "i64"), 8) for i, name in enumerate(FIELDS)}
    address = {
        name: code.let(f"inttoptr i64 {field[name]} to ptr")
        for name in ("words", "numbers", "samples", "origin", "elapsed", "scratch")
    }
    x = address["scratch"]
    elapsed, origin, out = (code.offset(x, at) for at in scratch_bytes(layout)[:3])
    double = code.let(f"icmp ne i64 {field['double']}, 0")
    with code.loop(field["first"], field["last"]) as group:
        stream = code.mul(group, W)
        valid = code.least(code.let(f"sub i64 {field['streams']}, {stream}"), W)
        state = code.offset(address["words"], code.mul(group, field["group_bytes"]))
        if W > 1:  # rows of a state are far apart in memory: those of the next group are fetched during this one
            with code.loop(0, layout.words) as word:
                ahead = code.offset(state, code.add(code.mul(word, field["word_bytes"]), field["group_bytes"]))
                code.call("llvm.prefetch.p0", "void", ("ptr", ahead), ("i32", "1"), ("i32", "3"), ("i32", "1"))
        _origins(code, p, field, address, double, stream, origin)
        with code.loop(0, field["steps"], tile) as t0:
            n = code.least(code.let(f"sub i64 {field['steps']}, {t0}"), tile)
            given = [("ptr", x), ("ptr", address["samples"]), ("ptr", origin)]
            given += [("i64", field[name]) for name in ("row_bytes", "step_bytes", "feature_bytes", "streams")]
            given += [("i64", stream), ("i64", t0), ("i64", n)]
            with code.when(double):
                code.call("pack_double", "void", *given)
            with code.when(code.let(f"xor i1 {double}, true")):
                code.call("pack_float", "void", *given)
            if layout.elapsed:
                _times(code, layout, field, address["elapsed"], stream, t0, n, elapsed)
            passed = code.add(field["phase"], t0)
            since = code.let(f"urem i64 {passed}, {field['every']}")
            memory = [("ptr", a) for a in (address["numbers"], x, elapsed, out)]
            counts = [("i64", a) for a in (n, field["every"], since)]
            code.call("scan", "void", ("ptr", state), ("i64", field["word_bytes"]), *memory, *counts)
            begun = code.let(f"udiv i64 {passed}, {field['every']}")
            ended = code.let(f"udiv i64 {code.add(passed, n)}, {field['every']}")
            readings = code.let(f"sub i64 {ended}, {begun}")
            for i, (leaf, region) in enumerate(zip(layout.outputs, layout.regions)):
                if leaf.n and i not in layout.still:
                    _write(code, i, leaf, code.offset(out, region), stream, valid, begun, readings)
    code.do("ret void")
    return "\n".join([*code.declared, code.function("define void @run(ptr noalias %context)")])


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


def _times(code: Code, layout: Layout, field: dict[str, str], base: str, stream: str, t0: str, n: str, to: str) -> None:
    """Elapsed times of a tile, by step and lane."""
    kind, size = "float" if layout.dtype.itemsize == 4 else "double", layout.dtype.itemsize
    most = code.add(field["streams"], -1)
    with code.loop(0, n) as t, code.loop(0, code.width) as r:
        row = code.mul(code.least(code.add(stream, r), most), field["elapsed_row"])
        place = code.add(row, code.mul(code.add(t, t0), field["elapsed_step"]))
        value = code.load(kind, code.offset(base, place), 1)
        code.store(kind, value, code.offset(to, code.add(code.mul(t, code.width), r), kind), size)


def _write(code: Code, i: int, leaf: Leaf, region: str, stream: str, valid: str, begun: str, readings: str) -> None:
    """The readings of a tile, from lanes to rows of output i."""
    where = code.load("i64", code.offset("%context", len(FIELDS) + 2 * i, "i64"), 8)
    row_bytes = code.load("i64", code.offset("%context", len(FIELDS) + 2 * i + 1, "i64"), 8)
    to = code.let(f"inttoptr i64 {where} to ptr")
    to = code.offset(to, code.add(code.mul(stream, row_bytes), code.mul(begun, leaf.n * leaf.dtype.itemsize)))
    code.call(
        f"unpack_{_plain(leaf)}",
        "void",
        ("ptr", region),
        ("ptr", to),
        ("i64", code.mul(readings, leaf.n)),
        ("i64", valid),
        ("i64", row_bytes),
    )


def _plain(leaf: Leaf) -> str:
    """Outputs are moved as floats or bytes of their size: turning asks for no more."""
    return {1: "i8", 2: "i16", 4: "float", 8: "double"}[leaf.dtype.itemsize] if stored(leaf.dtype) else ""


def write_tiles(layout: Layout) -> list[str]:
    """All functions of this module that the program needs."""
    moving = [leaf for i, leaf in enumerate(layout.outputs) if leaf.n and i not in layout.still]
    sizes = {_plain(leaf): leaf.dtype.itemsize for leaf in moving}
    unpacks = [write_unpack(layout.width, kind, size) for kind, size in sorted(sizes.items())]
    return [write_pack(layout, np.dtype("f4")), write_pack(layout, np.dtype("f8")), *unpacks, write_run(layout)]
