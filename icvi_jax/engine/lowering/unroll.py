"""Unroll a step: from a jaxpr on arrays `(lead…, streams)` to operations on lanes (`lowering.graph`)."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple, Protocol

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from icvi_jax.engine.lowering.graph import Array, Graph, Unsupported
from icvi_jax.engine.lowering.rules import LANES, RULES, Tree, unstack
from icvi_jax.types import State

CALLS = frozenset(
    "jit pjit closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr checkpoint remat2".split()
)
LONGEST = 4096
"""Most iterations of a loop whose length is only known while it is unrolled."""


class Leaf(Protocol):
    """Anything with a shape and a type."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...


class Part(NamedTuple):
    """One leaf of the state or of the outputs: its shape for one stream, its type, its elements."""

    shape: tuple[int, ...]
    dtype: np.dtype
    items: np.ndarray


class Unrolled(NamedTuple):
    """An unrolled step. `state` are the words before it, `after` those after it, in the same order."""

    graph: Graph
    numbers: list[Part]
    state: list[Part]
    sample: list[Part]
    after: list[Part]
    outputs: list[Part]
    state_tree: State  # how JAX says it
    output_tree: State


def unroll(
    step: Callable[..., tuple[Tree, Tree]], model: Tree, state: Tree, features: int, dtype: np.dtype, elapsed: bool
) -> Unrolled:
    """Take `step(model, state, z[, elapsed]) → (state, outputs)` apart.

    Parameters
    ----------
    model : a pytree; its leaves are numbers that are the same for all streams.
    state : the state of one stream: leaves with a shape and a type.
    features : p; z has the shape (p, *streams).
    """

    def wide(a: Leaf) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*a.shape, LANES), a.dtype)

    leaves: list[State]
    state_tree: State
    leaves, state_tree = jax.tree.flatten(state)
    sample = [jax.ShapeDtypeStruct((features, LANES), dtype)]
    sample += [jax.ShapeDtypeStruct((LANES,), dtype)] if elapsed else []
    closed, shapes = jax.make_jaxpr(step, return_shape=True)(model, jax.tree.map(wide, state), *sample)
    if state_tree != jax.tree.structure(shapes[0]):
        raise TypeError("the step returns a state of another structure than it takes")
    graph = Graph()
    numbers = [
        graph.input("number", np.shape(a), np.dtype(v.dtype), False)
        for a, v in zip(jax.tree.leaves(model), closed.in_avals)
    ]
    before = [graph.input("state", a.shape, np.dtype(a.dtype), True) for a in leaves]
    sampled = [graph.input("sample", a.shape[:-1], np.dtype(a.dtype), True) for a in sample]
    out = evaluate(graph, closed.jaxpr, closed.consts, [*numbers, *before, *sampled])
    for old, new in zip(before, out):
        if (old.items.shape, old.dtype) != (new.items.shape, new.dtype):
            change = f"{old.dtype}{old.items.shape} of its state into {new.dtype}{new.items.shape}"
            raise TypeError(f"the step turns {change}")
    after, outputs = _parts(out[: len(before)]), _parts(out[len(before) :])
    inputs = _parts(numbers), _parts(before), _parts(sampled)
    return Unrolled(graph, *inputs, after, outputs, state_tree, jax.tree.structure(shapes[1]))


def _parts(arrays: list[Array]) -> list[Part]:
    return [Part(a.items.shape, a.dtype, a.items.reshape(-1)) for a in arrays]


def evaluate(graph: Graph, jaxpr: Jaxpr, consts: list[State], args: list[Array]) -> list[Array]:
    """The results of `jaxpr` for these arguments, its operations put into the graph."""
    values: dict[object, Array] = dict(zip(jaxpr.constvars, (known(graph, c) for c in consts)))
    values |= zip(jaxpr.invars, args)

    def read(var: State) -> Array:
        kind: State = var.aval
        return known(graph, np.asarray(var.val, kind.dtype)) if isinstance(var, Literal) else values[var]

    for eqn in jaxpr.eqns:
        name, ins = eqn.primitive.name, [read(var) for var in eqn.invars]
        if name in CALLS:
            outs = evaluate(graph, *callee(eqn.params["call_jaxpr" if "call_jaxpr" in eqn.params else "jaxpr"]), ins)
        elif name in CONTROL:
            outs = CONTROL[name](graph, eqn, ins)
        elif name in RULES:
            outs = [RULES[name](graph, eqn, ins)]
        else:
            raise Unsupported(name)
        values |= zip(eqn.outvars, outs)
    return [read(var) for var in jaxpr.outvars]


def known(graph: Graph, value: object) -> Array:
    """A constant of the jaxpr; one that has the axis of streams must be the same for all of them."""
    value = np.asarray(value)
    if not (value.ndim and value.shape[-1] == LANES):
        return graph.constant(value)
    if not (value == value[..., :1]).all():
        raise Unsupported("constant", "it differs from stream to stream")
    return graph.constant(value[..., 0], lanes=True)


def callee(inner: ClosedJaxpr | Jaxpr) -> tuple[Jaxpr, list[State]]:
    """A jaxpr and its constants."""
    return (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, [])


def scan_sizes(eqn: JaxprEqn) -> tuple[int, int]:
    """How many constants and how many carried arrays a `scan` has, whose arguments begin with them."""
    params = eqn.params
    if "num_consts" in params:  # JAX before 0.11
        return params["num_consts"], params["num_carry"]
    constants, carry, _ = params["ft_in"].unpack()
    return len(constants), len(carry)


def _scan(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> list[Array]:
    (fixed, carried), length = scan_sizes(eqn), eqn.params["length"]
    consts, carry, xs = ins[:fixed], ins[fixed : fixed + carried], ins[fixed + carried :]
    rows: list[list[Array]] = [[] for _ in eqn.outvars[carried:]]
    turns = range(length)
    for t in reversed(turns) if eqn.params["reverse"] else turns:
        now = [x.moved(itemgetter(t)) for x in xs]
        out = evaluate(graph, *callee(eqn.params["jaxpr"]), [*consts, *carry, *now])
        carry = out[:carried]
        for row, a in zip(rows, out[carried:]):
            row.insert(0 if eqn.params["reverse"] else len(row), a)
    if not length and rows:
        raise Unsupported("scan", "of no steps")
    return carry + [Array(np.stack([a.items for a in row]), row[0].dtype, row[0].lanes) for row in rows]


def _while(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> list[Array]:
    a, b = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test, body, carry = ins[:a], ins[a : a + b], ins[a + b :]
    for _ in range(LONGEST):
        going = evaluate(graph, *callee(eqn.params["cond_jaxpr"]), [*test, *carry])[0].value
        if going is None:
            raise Unsupported("while", "its length is not known before it runs")
        if not going:
            return carry
        carry = evaluate(graph, *callee(eqn.params["body_jaxpr"]), [*body, *carry])
    raise Unsupported("while", f"of more than {LONGEST} turns")


def _cond(graph: Graph, eqn: JaxprEqn, ins: list[Array]) -> list[Array]:
    which, *rest = ins
    branches = [evaluate(graph, *callee(branch), rest) for branch in eqn.params["branches"]]
    chosen = branches[0]
    for i, branch in enumerate(branches[1:], start=1):
        here = graph.map("ge", np.dtype(bool), which, graph.constant(np.asarray(i, which.dtype)))
        chosen = [graph.map("select", a.dtype, here, a, b) for a, b in zip(chosen, branch)]
    return chosen


CONTROL = {"scan": _scan, "while": _while, "cond": _cond, "unstack": unstack}
"""Operations with several results."""
