"""How each primitive of JAX becomes operations on lanes, one rule a primitive or family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from jax.extend.core import JaxprEqn

from icvi_jax.engine.lowering.gather_rules import PICKS, outcome
from icvi_jax.engine.lowering.graph import Elements, Graph, Unsupported
from icvi_jax.types import State

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


def _number(graph: Graph, value: float, dtype: np.dtype) -> Elements:
    return graph.constant(np.asarray(value, dtype))


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
