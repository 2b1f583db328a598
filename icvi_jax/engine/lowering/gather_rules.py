"""Rules of primitives that pick, place or order elements: by an index known before the program runs, or by a lane's."""

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
