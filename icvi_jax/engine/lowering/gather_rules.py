"""Rules of primitives that pick or place elements by an index: known before the program runs, or each lane its own."""

from __future__ import annotations

from functools import partial
from operator import itemgetter

import numpy as np
from jax.extend.core import JaxprEqn

from icvi_jax.engine.lowering.graph import Array, Graph, Unsupported
from icvi_jax.types import State

BOOL = np.dtype(bool)


def outcome(eqn: JaxprEqn) -> State:
    """Shape and type of what an operation makes."""
    return eqn.outvars[0].aval


def _number(graph: Graph, value: float, dtype: np.dtype) -> Array:
    return graph.constant(np.asarray(value, dtype))


def _chosen(graph: Graph, index: Array, options: list[Array], otherwise: Array) -> Array:
    """options[index] lane by lane, `otherwise` where the index is none of theirs."""
    for i, option in enumerate(options):
        here = graph.map("eq", BOOL, index, _number(graph, i, index.dtype))
        otherwise = graph.map("select", option.dtype, here, otherwise, option)
    return otherwise


def _clamped(graph: Graph, index: Array, most: int) -> Array:
    low = graph.map("max", index.dtype, index, _number(graph, 0, index.dtype))
    return graph.map("min", index.dtype, low, _number(graph, most, index.dtype))


def _moved(a: Array, axis: int, to: int) -> Array:
    return a.moved(lambda items: np.moveaxis(items, axis, to))


def _cut(a: Array, axis: int, start: int, stop: int) -> Array:
    return a.moved(lambda items: np.take(items, range(start, stop), axis))


def gather(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> Array:
    """`take` with known indices, and `take_along_axis` with any."""
    a, index = ins
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    clip = "CLIP" in str(eqn.params["mode"]).upper()
    if len(numbers.start_index_map) != 1 or numbers.collapsed_slice_dims != numbers.start_index_map:
        raise Unsupported("gather", "by more than one index")
    axis = numbers.start_index_map[0]
    n = a.items.shape[axis] if axis < a.items.ndim else 0
    if not n or sizes[axis] != 1:
        raise Unsupported("gather", "of streams")
    if numbers.operand_batching_dims:
        if len(numbers.operand_batching_dims) != len(sizes) - 1 or index.items.ndim != a.items.ndim:
            raise Unsupported("gather", "along more than one axis")
        index = _clamped(graph, index, n - 1) if clip else index
        front, by = _moved(a, axis, 0), _moved(index, axis, 0)
        options = [front.moved(itemgetter(i)) for i in range(n)]
        empty = np.nan if a.dtype.kind == "f" else 0 if a.dtype == BOOL else np.iinfo(a.dtype).min
        return _moved(_chosen(graph, by, options, _number(graph, empty, a.dtype)), 0, axis)
    if index.value is None or index.lanes:
        raise Unsupported("gather", "by an index that is not known")
    where = index.value[..., 0]
    where = np.clip(where, 0, n - 1) if clip else where
    if where.size and not (0 <= where.min() and where.max() < n):
        raise Unsupported("gather", "beyond the end")
    rank = len(outcome(eqn).shape) - a.lanes
    spots = [d for d in range(rank) if d not in numbers.offset_dims]

    def move(items: np.ndarray) -> np.ndarray:
        taken = np.moveaxis(np.take(items, where, axis), range(axis, axis + where.ndim), range(where.ndim))
        return np.moveaxis(taken, range(where.ndim), spots)

    return a.moved(move)


def dynamic_slice(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> Array:
    """A slice that begins where a number says."""
    a, *starts = ins
    for axis, start in enumerate(starts[: a.items.ndim]):
        size, n = eqn.params["slice_sizes"][axis], a.items.shape[axis]
        cuts = [_cut(a, axis, i, i + size) for i in range(n - size + 1)]
        if start.value is not None:
            a = cuts[int(np.clip(start.value, 0, n - size))]
        else:
            a = _chosen(graph, _clamped(graph, start, n - size), cuts, cuts[0])
    return a


def dynamic_update_slice(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> Array:
    """An array with a part replaced, where numbers say."""
    a, new, *starts = ins
    for position in np.ndindex(*(n - m + 1 for n, m in zip(a.items.shape, new.items.shape))):
        here = _number(graph, True, BOOL)
        for start, i, n, m in zip(starts, position, a.items.shape, new.items.shape):
            at = graph.map("eq", BOOL, _clamped(graph, start, n - m), _number(graph, i, start.dtype))
            here = graph.map("and", BOOL, here, at)
        spot = tuple(slice(i, i + m) for i, m in zip(position, new.items.shape))
        part = graph.map("select", a.dtype, here, a.moved(itemgetter(spot)), new)
        items = a.items.copy()
        items[spot] = part.items
        a = Array(items, a.dtype, a.lanes)
    return a


def extreme(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> Array:
    """argmax and argmin: the first of equals, NaN before all."""
    a, (axis,), to = ins[0], eqn.params["axes"], np.dtype(eqn.params["index_dtype"])
    if axis >= a.items.ndim:
        raise Unsupported(eqn.primitive.name, "it joins streams")
    rows = [a.moved(partial(np.take, indices=i, axis=axis)) for i in range(a.items.shape[axis])]
    best, where = rows[0], _number(graph, 0, to)
    for i, row in enumerate(rows[1:], start=1):
        better = graph.map("gt" if eqn.primitive.name == "argmax" else "lt", BOOL, row, best)
        if a.dtype.kind == "f":
            lost = graph.map("and", BOOL, graph.map("ne", BOOL, row, row), graph.map("eq", BOOL, best, best))
            better = graph.map("or", BOOL, better, lost)
        best = graph.map("select", a.dtype, better, best, row)
        where = graph.map("select", to, better, where, _number(graph, i, to))
    return Array(np.broadcast_to(where.items, rows[0].items.shape), to, a.lanes)


def dot_general(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> Array:
    """Products of small arrays, of which at most the second has streams."""
    (left, right), (batch, _) = eqn.params["dimension_numbers"]
    a, b = ins
    if batch or a.lanes or any(axis >= b.items.ndim for axis in right):
        raise Unsupported("dot_general", "with streams among its batches")
    first = a.moved(lambda items: np.moveaxis(items, left, range(-len(left), 0)))
    second = b.moved(lambda items: np.moveaxis(items, right, range(-len(right), 0)))
    free = second.items.ndim - len(right)
    first = first.moved(
        lambda items: items.reshape(
            *items.shape[: items.ndim - len(left)], *[1] * free, *items.shape[items.ndim - len(left) :]
        )
    )
    product = graph.map("mul", np.dtype(outcome(eqn).dtype), first, second)
    rank = product.items.ndim
    return graph.fold("add", product, range(rank - len(left), rank))


def pad(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> Array:
    """An array with more around its elements and between them."""
    a, fill = ins
    config = eqn.params["padding_config"][: a.items.ndim]
    if a.lanes and any(any(c) for c in eqn.params["padding_config"][a.items.ndim :]):
        raise Unsupported("pad", "of streams")
    full = [max(0, low + high + n + max(n - 1, 0) * inner) for n, (low, high, inner) in zip(a.items.shape, config)]
    out = np.broadcast_to(fill.items, full).copy()
    spots = [low + np.arange(n) * (inner + 1) for n, (low, _, inner) in zip(a.items.shape, config)]
    inside = [(s >= 0) & (s < size) for s, size in zip(spots, full)]
    out[np.ix_(*(s[ok] for s, ok in zip(spots, inside)))] = a.items[np.ix_(*inside)]
    return Array(out, a.dtype, a.lanes)


PICKS = {
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "argmax": extreme,
    "argmin": extreme,
    "dot_general": dot_general,
    "pad": pad,
}
