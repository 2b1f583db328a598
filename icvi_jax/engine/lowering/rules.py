"""How each primitive of JAX becomes operations on lanes, one rule a primitive or family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

import numpy as np
from jax.extend.core import JaxprEqn

from icvi_jax.engine.lowering.graph import Elements, Graph, Unsupported
from icvi_jax.types import State

BOOL = np.dtype(bool)

FEW = 64
"""Most values that are sorted: every pair of them is compared."""

COMBINE = {"scatter": None, "scatter-add": "add", "scatter_add": "add", "scatter_sub": "sub", "scatter-sub": "sub"}
COMBINE |= {f"scatter{mark}{name}": name for mark in "-_" for name in ("mul", "min", "max")}


def outcome(eqn: JaxprEqn) -> State:
    """Shape and type of what an operation makes."""
    return eqn.outvars[0].aval


def _number(graph: Graph, value: float, dtype: np.dtype) -> Elements:
    return graph.constant(np.asarray(value, dtype))


def _chosen(graph: Graph, index: Elements, options: Sequence[Elements]) -> Elements:
    """options[index] for an index in range: the first where it is none of the others."""
    chosen = options[0]
    for i, option in enumerate(options[1:], start=1):
        here = graph.map("eq", BOOL, index, _number(graph, i, index.dtype))
        chosen = graph.map("select", option.dtype, here, chosen, option)
    return chosen


def _clamped(graph: Graph, index: Elements, most: int) -> Elements:
    low = graph.map("max", index.dtype, index, _number(graph, 0, index.dtype))
    return graph.map("min", index.dtype, low, _number(graph, most, index.dtype))


def _cut(a: Elements, axis: int, start: int, stop: int) -> Elements:
    return a.moved(lambda items: np.take(items, range(start, stop), axis))


def _part(graph: Graph, a: Elements, starts: Sequence[tuple[int, Elements]], sizes: Sequence[int]) -> Elements:
    """The part of `a` of these sizes that begins at `starts` (axis, index), each within range."""
    for axis, start in starts:
        size, n = sizes[axis], a.items.shape[axis]
        if start.value is not None:
            at = int(np.clip(start.value, 0, n - size))
            a = _cut(a, axis, at, at + size)
        elif n > size:
            cuts = [_cut(a, axis, i, i + size) for i in range(n - size + 1)]
            a = _chosen(graph, _clamped(graph, start, n - size), cuts)
    return a


def dynamic_slice(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    """A slice that begins where numbers say."""
    a, *starts = ins
    return _part(graph, a, list(enumerate(starts)), eqn.params["slice_sizes"])


def _inside(
    graph: Graph, starts: Sequence[tuple[int, Elements]], shape: Sequence[int], sizes: Sequence[int]
) -> Elements:
    """Whether a part that begins there is within the array."""
    ok = _number(graph, True, BOOL)
    for axis, start in starts:
        low = graph.map("ge", BOOL, start, _number(graph, 0, start.dtype))
        high = graph.map("le", BOOL, start, _number(graph, shape[axis] - sizes[axis], start.dtype))
        ok = graph.map("and", BOOL, ok, graph.map("and", BOOL, low, high))
    return ok


def _drops(eqn: JaxprEqn) -> bool:
    """Whether an index out of range picks nothing; otherwise it is taken to the nearest in range."""
    return "FILL" in str(eqn.params["mode"]).upper()


def _known_rows(index: Elements, numbers: State, shape: Sequence[int], sizes: Sequence[int]) -> np.ndarray | None:
    """The rows along one axis that a gather takes whole, if they are known, as `take` asks for them; otherwise None."""
    axes = tuple(numbers.start_index_map)
    if index.value is None or len(axes) != 1 or tuple(numbers.collapsed_slice_dims) != axes:
        return None
    rows, axis = index.value[..., 0], axes[0]
    whole = all(n == size for d, (n, size) in enumerate(zip(shape, sizes)) if d != axis)
    inside = rows.size and rows.min() >= 0 and rows.max() < shape[axis]
    return rows if whole and inside and not numbers.operand_batching_dims else None


def gather(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    """Parts of an array, one for each index vector."""
    a, index = ins
    numbers, sizes = eqn.params["dimension_numbers"], tuple(eqn.params["slice_sizes"])
    shape, places = a.items.shape, index.items.shape[:-1]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = tuple(n for axis, n in enumerate(sizes) if axis not in gone)
    fill = eqn.params.get("fill_value")
    if fill is None:
        fill = np.nan if a.dtype.kind == "f" else 0 if a.dtype in (BOOL,) else np.iinfo(a.dtype).min
        fill = np.iinfo(a.dtype).max if a.dtype.kind == "u" else fill
    rank = len(places) + len(window)
    spots = [d for d in range(rank) if d not in numbers.offset_dims]
    if (rows := _known_rows(index, numbers, shape, sizes)) is not None:
        axis = numbers.start_index_map[0]
        return a.moved(lambda items: np.moveaxis(np.moveaxis(items, axis, 0)[rows], range(len(places)), spots))
    parts = np.empty(places, object)
    for place in np.ndindex(*places):
        starts = [(axis, index.moved(itemgetter((*place, j)))) for j, axis in enumerate(numbers.start_index_map)]
        starts += [
            (axis, _number(graph, place[by], np.dtype(np.int32)))
            for axis, by in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims)
        ]
        part = _part(graph, a, starts, sizes).moved(lambda items: np.reshape(items, window))
        if _drops(eqn):
            ok = _inside(graph, starts, shape, sizes)
            part = graph.map("select", a.dtype, ok, _number(graph, fill, a.dtype), part)
            part = part.moved(lambda items: np.broadcast_to(items, window))
        parts[place] = part

    def join(arrays: list[np.ndarray]) -> np.ndarray:
        whole = np.stack(arrays).reshape((*places, *window)) if arrays else np.zeros((*places, *window), np.int64)
        return np.moveaxis(whole, range(len(places)), spots)

    flat = list(parts.reshape(-1))
    known = bool(flat) and all(part.value is not None for part in flat)
    return Elements(
        join([part.items for part in flat]), a.dtype, join([part.value for part in flat]) if known else None
    )


def dynamic_update_slice(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    """An array with a part replaced, where numbers say."""
    a, new, *starts = ins
    return _placed(
        graph, a, new, [_clamped(graph, s, n - m) for s, n, m in zip(starts, a.items.shape, new.items.shape)]
    )


def _placed(
    graph: Graph, a: Elements, new: Elements, starts: Sequence[Elements], combine: str | None = None
) -> Elements:
    """`a` with `new`, of the same rank, put or combined in where it begins at `starts`; nothing where out of range."""
    items = a.items.copy()
    for position in np.ndindex(*(n - m + 1 for n, m in zip(a.items.shape, new.items.shape))):
        here = _number(graph, True, BOOL)
        for start, i in zip(starts, position):
            here = graph.map("and", BOOL, here, graph.map("eq", BOOL, start, _number(graph, i, start.dtype)))
        if here.value is not None and not here.value:
            continue
        spot = tuple(slice(i, i + m) for i, m in zip(position, new.items.shape))
        old = Elements(items[spot].copy(), a.dtype)  # operations keep what they are given
        put = new if combine is None else graph.map(combine, a.dtype, old, new)
        items[spot] = (put if here.value is not None else graph.map("select", a.dtype, here, old, put)).items
    return Elements(items, a.dtype)


def scatter(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    """An array with parts replaced or added to, one for each index vector, one after the other."""
    a, index, updates = ins
    numbers, combine = eqn.params["dimension_numbers"], COMBINE[eqn.primitive.name]
    places, rank = index.items.shape[:-1], a.items.ndim
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    spots = [d for d in range(updates.items.ndim) if d not in numbers.update_window_dims]
    moved = updates.moved(lambda items: np.moveaxis(items, spots, range(len(spots))))
    zero = _number(graph, 0, np.dtype(np.int32))
    for place in np.ndindex(*places):
        part = moved.moved(itemgetter(place))
        window = iter(part.items.shape)
        sizes = [1 if axis in gone else next(window) for axis in range(rank)]
        part = part.moved(partial(np.reshape, shape=sizes))
        starts = [zero] * rank
        for j, axis in enumerate(numbers.scatter_dims_to_operand_dims):
            start = index.moved(itemgetter((*place, j)))
            starts[axis] = start if _drops(eqn) else _clamped(graph, start, a.items.shape[axis] - sizes[axis])
        for axis, by in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims):
            starts[axis] = _number(graph, place[by], np.dtype(np.int32))
        a = _placed(graph, a, part, starts, combine)
    return a


def extreme(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    """argmax and argmin: the first of equals, NaN before all."""
    a, (axis,), to = ins[0], eqn.params["axes"], np.dtype(eqn.params["index_dtype"])
    rows = [a.moved(partial(np.take, indices=i, axis=axis)) for i in range(a.items.shape[axis])]
    best, where = rows[0], _number(graph, 0, to)
    for i, row in enumerate(rows[1:], start=1):
        better = graph.map("gt" if eqn.primitive.name == "argmax" else "lt", BOOL, row, best)
        if a.dtype.kind == "f":
            lost = graph.map("and", BOOL, graph.map("ne", BOOL, row, row), graph.map("eq", BOOL, best, best))
            better = graph.map("or", BOOL, better, lost)
        best = graph.map("select", a.dtype, better, best, row)
        where = graph.map("select", to, better, where, _number(graph, i, to))
    return where.moved(lambda items: np.broadcast_to(items, rows[0].items.shape))


def dot_general(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    """Products of small arrays: multiplications and additions."""
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    to = np.dtype(outcome(eqn).dtype)
    a, b = (x if x.dtype == to else graph.map("convert", to, x, attribute=x.dtype.str) for x in ins)

    def arranged(x: Elements, batch: Sequence[int], summed: Sequence[int], before: int, after: int) -> Elements:
        free = [d for d in range(x.items.ndim) if d not in (*batch, *summed)]

        def move(items: np.ndarray) -> np.ndarray:
            shape = [items.shape[d] for d in batch] + [1] * before + [items.shape[d] for d in free]
            shape += [1] * after + [items.shape[d] for d in summed]
            return items.transpose([*batch, *free, *summed]).reshape(shape)

        return x.moved(move)

    free_a, free_b = (x.items.ndim - len(batch) - len(left) for x, batch in ((a, left_batch), (b, right_batch)))
    product = graph.map("mul", to, arranged(a, left_batch, left, 0, free_b), arranged(b, right_batch, right, free_a, 0))
    rank = product.items.ndim
    return graph.fold("add", product, range(rank - len(left), rank)) if left else product


def pad(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    """An array with more around its elements and between them."""
    a, fill = ins
    config = eqn.params["padding_config"]
    full = [max(0, low + high + n + max(n - 1, 0) * inner) for n, (low, high, inner) in zip(a.items.shape, config)]
    out = np.broadcast_to(fill.items, full).copy()
    spots = [low + np.arange(n) * (inner + 1) for n, (low, _, inner) in zip(a.items.shape, config)]
    inside = [(s >= 0) & (s < size) for s, size in zip(spots, full)]
    out[np.ix_(*(s[ok] for s, ok in zip(spots, inside)))] = a.items[np.ix_(*inside)]
    return Elements(out, a.dtype)


def _ordered(
    graph: Graph, rows: list[list[Elements]], keys: int, behind: Callable[[list[Elements], list[Elements]], Elements]
) -> list[list[Elements]]:
    """Rows in order; equal ones stay as they are. Neighbours are exchanged, as often as it takes."""
    if len(rows) > FEW:
        raise Unsupported("sort", f"of {len(rows)} values, {FEW} at most")
    for last in range(len(rows) - 1, 0, -1):
        for i in range(last):
            a, b = rows[i], rows[i + 1]
            swap = behind(a[:keys], b[:keys])
            rows[i] = [graph.map("select", x.dtype, swap, x, y) for x, y in zip(a, b)]
            rows[i + 1] = [graph.map("select", x.dtype, swap, y, x) for x, y in zip(a, b)]
    return rows


def _after(graph: Graph, a: list[Elements], b: list[Elements]) -> Elements:
    """Whether the keys a come behind the keys b, NaN last."""
    behind, same = _number(graph, False, BOOL), _number(graph, True, BOOL)
    for x, y in zip(a, b):
        more, equal = graph.map("gt", BOOL, x, y), graph.map("eq", BOOL, x, y)
        if x.dtype.kind == "f":
            lost, there = graph.map("ne", BOOL, x, x), graph.map("eq", BOOL, y, y)
            more = graph.map("or", BOOL, more, graph.map("and", BOOL, lost, there))
            both = graph.map("and", BOOL, lost, graph.map("ne", BOOL, y, y))
            equal = graph.map("or", BOOL, equal, both)
        behind = graph.map("or", BOOL, behind, graph.map("and", BOOL, same, more))
        same = graph.map("and", BOOL, same, equal)
    return behind


def sort(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> list[Elements]:
    """A few values in order, with what belongs to them."""
    axis = eqn.params["dimension"]
    n = ins[0].items.shape[axis]
    rows = [[a.moved(partial(np.take, indices=i, axis=axis)) for a in ins] for i in range(n)]
    rows = _ordered(graph, rows, eqn.params["num_keys"], partial(_after, graph))
    return [Elements(np.stack([row[j].items for row in rows], axis), a.dtype) if n else a for j, a in enumerate(ins)]


def top_k(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> list[Elements]:
    """The largest values of the last axis, largest first, and where they are; the first of equals first."""
    a, k = ins[0], eqn.params["k"]
    to = np.dtype(np.int32)
    n = a.items.shape[-1]
    rows = [[a.moved(itemgetter((..., i))), _number(graph, i, to)] for i in range(n)]
    rows = [[v, i.moved(lambda items, v=v: np.broadcast_to(items, v.items.shape))] for v, i in rows]  # type: ignore[misc]
    rows = _ordered(graph, rows, 1, lambda one, other: _after(graph, other, one))
    return [Elements(np.stack([row[j].items for row in rows[:k]], -1), kind) for j, kind in enumerate((a.dtype, to))]


PICKS = {
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "argmax": extreme,
    "argmin": extreme,
    "dot_general": dot_general,
    "pad": pad,
    "sort": sort,
    "top_k": top_k,
} | {name: scatter for name in COMBINE}


Tree = State
"""A pytree of arrays."""
Rule = Callable[[Graph, JaxprEqn, list[Elements]], Elements | list[Elements]]

SAME = frozenset(
    "add sub mul div rem neg abs sign floor ceil sqrt rsqrt exp exp2 log log1p expm1 tanh logistic pow max min and or "
    "xor not shift_left shift_right_logical shift_right_arithmetic population_count clz "
    "sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erf erfc cbrt".split()
)
COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
COMPARE |= {"lt_to": "lt", "le_to": "le", "eq_to": "eq"}
FOLDS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}
CHAINS = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
SAME_ARRAY = frozenset(
    "copy copy_p stop_gradient optimization_barrier pvary pcast reshard sharding_constraint mesh_cast".split()
)
"""Primitives that return what they are given."""


def _dtype(eqn: JaxprEqn) -> np.dtype:
    dtype: np.dtype = np.dtype(outcome(eqn).dtype)
    return dtype


def _elementwise(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    return graph.map(eqn.primitive.name, _dtype(eqn), *ins)


def _compare(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    return graph.map(COMPARE[eqn.primitive.name], np.dtype(bool), *ins)


def _square(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    return graph.map("mul", ins[0].dtype, ins[0], ins[0])


def _integer_pow(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    a, y = ins[0], eqn.params["y"]
    result, power, left = None, a, abs(y)
    while left:
        if left & 1:
            result = power if result is None else graph.map("mul", a.dtype, result, power)
        left >>= 1
        if left:
            power = graph.map("mul", a.dtype, power, power)
    one = _number(graph, 1, a.dtype)
    if result is None:
        return one.moved(lambda items: np.broadcast_to(items, a.items.shape))
    return graph.map("div", a.dtype, one, result) if y < 0 else result


def _select_n(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    which, *cases = ins
    if which.dtype == bool:
        return graph.map("select", cases[0].dtype, which, *cases)
    chosen = cases[0]
    for i, case in enumerate(cases[1:], start=1):
        here = graph.map("ge", np.dtype(bool), which, _number(graph, i, which.dtype))
        chosen = graph.map("select", case.dtype, here, chosen, case)
    return chosen


def _clamp(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    low, a, high = ins
    return graph.map("min", a.dtype, graph.map("max", a.dtype, low, a), high)


def _convert(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    a, to = ins[0], _dtype(eqn)
    if a.dtype == to:
        return a
    if a.value is not None and not (to.kind in "iu" and a.dtype.kind == "f"):
        return graph.constant(a.value.astype(to))
    return graph.map("convert", to, a, attribute=a.dtype.str)


def _bitcast(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    if ins[0].dtype.itemsize != _dtype(eqn).itemsize or bool in (ins[0].dtype, _dtype(eqn)):
        raise Unsupported("bitcast_convert_type", "between types of different sizes")
    return graph.map("bitcast", _dtype(eqn), ins[0])


def _round(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    even = int(eqn.params["rounding_method"]) == 1
    return graph.map("round_even" if even else "round", ins[0].dtype, ins[0])


def _broadcast(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]

    def move(items: np.ndarray) -> np.ndarray:
        size = [1] * len(shape)
        for i, d in enumerate(dims):
            size[d] = items.shape[i]
        return np.broadcast_to(items.reshape(size), shape)

    return ins[0].moved(move)


def _reshape(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    return ins[0].moved(lambda items: items.reshape(outcome(eqn).shape))


def _slice(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    start, stop = eqn.params["start_indices"], eqn.params["limit_indices"]
    cuts = tuple(slice(*cut) for cut in zip(start, stop, eqn.params["strides"] or [1] * len(start)))
    return ins[0].moved(lambda items: items[cuts])


def _joined(name: str, ins: list[Elements], axis: int) -> Elements:
    join = partial(np.concatenate if name == "concatenate" else np.stack, axis=axis)
    value = None if any(a.value is None for a in ins) else join([a.value for a in ins])
    return Elements(join([a.items for a in ins]), ins[0].dtype, value)


def _unstack(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> list[Elements]:
    axis = eqn.params["axis"]
    return [ins[0].moved(partial(np.take, indices=i, axis=axis)) for i in range(ins[0].items.shape[axis])]


def _split(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> list[Elements]:
    axis, ends = eqn.params["axis"], np.cumsum([0, *eqn.params["sizes"]])
    return [ins[0].moved(partial(np.take, indices=np.arange(lo, hi), axis=axis)) for lo, hi in zip(ends[:-1], ends[1:])]


def _iota(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    row = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return graph.constant(np.broadcast_to(row, shape).astype(_dtype(eqn)))


def _fold(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    axes = tuple(eqn.params["axes"])
    return graph.fold(FOLDS[eqn.primitive.name], ins[0], axes) if axes else ins[0]


def _chain(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    a, axis = ins[0], eqn.params["axis"]
    rows = [a.moved(partial(np.take, indices=i, axis=axis)) for i in range(a.items.shape[axis])]
    way = -1 if eqn.params["reverse"] else 1
    rows = rows[::way]
    for i in range(1, len(rows)):
        rows[i] = graph.map(CHAINS[eqn.primitive.name], a.dtype, rows[i - 1], rows[i])
    return _joined("stack", rows[::way], axis) if rows else a


def _log2(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    scale = _number(graph, 1 / np.log(2), ins[0].dtype)
    return graph.map("mul", ins[0].dtype, graph.map("log", ins[0].dtype, ins[0]), scale)


def _one_minus_square(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    one, a = _number(graph, 1, ins[0].dtype), ins[0]  # a product, which keeps the digits near |a| = 1
    return graph.map("mul", a.dtype, graph.map("add", a.dtype, one, a), graph.map("sub", a.dtype, one, a))


def _polynomial(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> Elements:
    x, *coefficients = ins
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = graph.map("add", x.dtype, graph.map("mul", x.dtype, value, x), c)
    return value


def _moving(move: Callable[[np.ndarray, JaxprEqn], np.ndarray]) -> Rule:
    return lambda graph, eqn, ins: ins[0].moved(lambda items: move(items, eqn))


MOVES: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "slice": _slice,
    "transpose": _moving(lambda items, eqn: items.transpose(eqn.params["permutation"])),
    "tile": _moving(lambda items, eqn: np.tile(items, eqn.params["reps"])),
    "rev": _moving(lambda items, eqn: np.flip(items, eqn.params["dimensions"])),
    "concatenate": lambda graph, eqn, ins: _joined("concatenate", ins, eqn.params["dimension"]),
    "stack": lambda graph, eqn, ins: _joined("stack", ins, eqn.params["axis"]),
    "unstack": _unstack,
    "split": _split,
    "iota": _iota,
} | {name: lambda graph, eqn, ins: ins[0] for name in SAME_ARRAY}
"""Rules of primitives that only arrange elements: they cost nothing when the program runs."""

RULES: dict[str, Rule] = {name: _elementwise for name in SAME}
RULES |= {name: _compare for name in COMPARE} | {name: _fold for name in FOLDS} | {name: _chain for name in CHAINS}
RULES |= {**PICKS, **MOVES} | {
    "square": _square,
    "add_any": lambda graph, eqn, ins: graph.map("add", _dtype(eqn), *ins),
    "log2": _log2,
    "one_minus_square": _one_minus_square,
    "polynomial": _polynomial,
    "integer_pow": _integer_pow,
    "select_n": _select_n,
    "clamp": _clamp,
    "convert_element_type": _convert,
    "bitcast_convert_type": _bitcast,
    "round": _round,
    "is_finite": lambda graph, eqn, ins: graph.map("isfinite", np.dtype(bool), ins[0]),
}
