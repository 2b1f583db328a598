"""Unroll a step: from a jaxpr, traced for one stream, to operations on lanes (`lowering.graph`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from icvi_jax.engine.lowering.graph import Elements, Graph, Unsupported
from icvi_jax.engine.lowering.rules import MOVES, RULES, Tree
from icvi_jax.types import State

CALLS = frozenset(
    "jit pjit closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr checkpoint remat2".split()
)
LONGEST = 4096
"""Most iterations of a loop whose length is only known while it is unrolled."""

MOST = 2_000_000
"""Operations on single elements beyond which a step is not unrolled: it would take minutes and gigabytes."""


class CarryPart(NamedTuple):
    """One leaf of the state or of the outputs: its shape for one stream, its type, its elements."""

    shape: tuple[int, ...]
    dtype: np.dtype
    items: np.ndarray

    @property
    def n(self) -> int:
        return math.prod(self.shape)


class Unrolled(NamedTuple):
    """An unrolled step.

    `state` are the words before it, `after` those after it, in the same order; the last `fixed` leaves of the state are
    numbers that each stream has of its own: no step changes them.
    """

    graph: Graph
    numbers: list[CarryPart]
    state: list[CarryPart]
    sample: list[CarryPart]
    after: list[CarryPart]
    outputs: list[CarryPart]
    fixed: int = 0
    state_tree: State = None  # how JAX says it, where the step was a function on pytrees
    output_tree: State = None


def unroll(
    step: Callable[..., tuple[Tree, Tree]],
    model: Tree,
    state: Tree,
    features: int,
    dtype: np.dtype,
    elapsed: bool,
    own: Sequence[bool] = (),
) -> Unrolled:
    """Take `step(model, state, z[, elapsed]) → (state, outputs)` apart.

    Parameters
    ----------
    model : a pytree of numbers, the same for all streams but for the leaves that are `own`.
    state : the state of one stream: leaves with a shape and a type.
    features : p; z has the shape (p,).
    """
    sample = [jax.ShapeDtypeStruct((features,), dtype)]
    sample += [jax.ShapeDtypeStruct((), dtype)] if elapsed else []
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), state)
    closed, shapes = jax.make_jaxpr(step, return_shape=True)(model, one, *sample)
    before: State = jax.tree.structure(state)
    if before != jax.tree.structure(shapes[0]):
        raise TypeError("the step returns a state of another structure than it takes")
    made = unroll_jaxpr(closed, len(jax.tree.leaves(model)), len(jax.tree.leaves(state)), own)
    return made._replace(state_tree=before, output_tree=jax.tree.structure(shapes[1]))


def unroll_jaxpr(body: ClosedJaxpr, numbers: int, carry: int, by_stream: Sequence[bool] = ()) -> Unrolled:
    """Take a body (numbers…, state…, sample…) → (state…, outputs…) apart.

    Parameters
    ----------
    numbers, carry : how many of the first arguments are numbers, and how many of the next ones the state.
    by_stream : for each of the numbers, whether each stream has its own.
    """
    if (weight := weigh(body.jaxpr)) > MOST:
        raise Unsupported("step", f"written out it has about {weight:,.0f} operations on numbers, {MOST:,} at most")
    graph = Graph()
    kinds = [(v.aval.shape, np.dtype(v.aval.dtype)) for v in body.jaxpr.invars]
    own = list(by_stream) or [False] * numbers
    shared = {i: graph.input("number", *kinds[i]) for i in range(numbers) if not own[i]}
    before = [graph.input("state", *kind) for kind in kinds[numbers : numbers + carry]]
    fixed = {i: graph.input("state", *kinds[i]) for i in range(numbers) if own[i]}
    sampled = [graph.input("sample", *kind) for kind in kinds[numbers + carry :]]
    given = shared | fixed
    out = evaluate(graph, body.jaxpr, body.consts, [*(given[i] for i in range(numbers)), *before, *sampled])
    for old, new in zip(before, out):
        if (old.items.shape, old.dtype) != (new.items.shape, new.dtype):
            change = f"{old.dtype}{old.items.shape} of its state into {new.dtype}{new.items.shape}"
            raise TypeError(f"the step turns {change}")
    words = [*before, *fixed.values()]
    after = [*out[:carry], *fixed.values()]
    inputs = _parts(list(shared.values())), _parts(words), _parts(sampled)
    return Unrolled(graph, *inputs, _parts(after), _parts(out[carry:]), len(fixed))


def _parts(arrays: list[Elements]) -> list[CarryPart]:
    return [CarryPart(a.items.shape, a.dtype, a.items.reshape(-1)) for a in arrays]


def evaluate(graph: Graph, jaxpr: Jaxpr, consts: Sequence[State], args: list[Elements]) -> list[Elements]:
    """The results of `jaxpr` for these arguments, its operations put into the graph."""
    values: dict[object, Elements] = dict(zip(jaxpr.constvars, (graph.constant(np.asarray(c)) for c in consts)))
    values |= zip(jaxpr.invars, args)

    def read(var: State) -> Elements:
        kind: State = var.aval
        return graph.constant(np.asarray(var.val, kind.dtype)) if isinstance(var, Literal) else values[var]

    for eqn in jaxpr.eqns:
        name, ins = eqn.primitive.name, [read(var) for var in eqn.invars]
        if name in CALLS:
            outs = evaluate(graph, *_callee(eqn), ins)
        elif name in CONTROL:
            outs = CONTROL[name](graph, eqn, ins)
        elif name in RULES:
            made = RULES[name](graph, eqn, ins)
            outs = [made] if isinstance(made, Elements) else made
        else:
            raise Unsupported(name)
        values |= zip(eqn.outvars, outs)
    return [read(var) for var in jaxpr.outvars]


def weigh(jaxpr: Jaxpr) -> float:
    """About how many operations on single elements a jaxpr has, seen before any of them is written out."""
    total = 0.0
    for eqn in jaxpr.eqns:
        name, params = eqn.primitive.name, eqn.params
        shapes = [_shape(var) for var in (*eqn.invars, *eqn.outvars)]
        sizes = [math.prod(shape) for shape in shapes]
        if name in CALLS:
            total += weigh(_callee(eqn)[0])
        elif name == "scan":
            total += params["length"] * weigh(_inner(params["jaxpr"])[0])
        elif name == "while":
            total += weigh(_inner(params["body_jaxpr"])[0])
        elif name == "cond":
            total += sum(weigh(_inner(branch)[0]) for branch in params["branches"])
        elif name == "dot_general":
            (left, _), _ = params["dimension_numbers"]
            total += sizes[-1] * math.prod(shapes[0][d] for d in left)
        elif name == "sort":
            total += sum(sizes) * shapes[0][params["dimension"]]
        else:
            total += max(sizes) * (0.05 if name in MOVES else 1)
    return total


def _shape(var: State) -> tuple[int, ...]:
    return tuple(var.aval.shape)


def _inner(inner: ClosedJaxpr | Jaxpr) -> tuple[Jaxpr, Sequence[State]]:
    """A jaxpr and its constants."""
    return (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, [])


def _callee(eqn: JaxprEqn) -> tuple[Jaxpr, Sequence[State]]:
    return _inner(eqn.params["call_jaxpr" if "call_jaxpr" in eqn.params else "jaxpr"])


def scan_sizes(eqn: JaxprEqn) -> tuple[int, int]:
    """How many constants and how many carried values a `scan` has; jax 0.12 keeps them in a tree."""
    if "ft_in" in eqn.params:
        consts, carry, _ = (len(list(part)) for part in eqn.params["ft_in"].unpack())
        return consts, carry
    return eqn.params["num_consts"], eqn.params["num_carry"]


def _scan(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> list[Elements]:
    (fixed, carried), length = scan_sizes(eqn), eqn.params["length"]
    consts, carry, xs = ins[:fixed], ins[fixed : fixed + carried], ins[fixed + carried :]
    rows: list[list[Elements]] = [[] for _ in eqn.outvars[carried:]]
    turns = range(length)
    for t in reversed(turns) if eqn.params["reverse"] else turns:
        now = [x.moved(itemgetter(t)) for x in xs]
        out = evaluate(graph, *_inner(eqn.params["jaxpr"]), [*consts, *carry, *now])
        carry = out[:carried]
        for row, a in zip(rows, out[carried:]):
            row.insert(0 if eqn.params["reverse"] else len(row), a)
    if not length and rows:
        raise Unsupported("scan", "of no steps")
    return carry + [Elements(np.stack([a.items for a in row]), row[0].dtype) for row in rows]


def _while(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> list[Elements]:
    a, b = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test, body, carry = ins[:a], ins[a : a + b], ins[a + b :]
    for _ in range(LONGEST):
        going = evaluate(graph, *_inner(eqn.params["cond_jaxpr"]), [*test, *carry])[0].value
        if going is None:
            raise Unsupported("while", "its length is not known before it runs")
        if not going:
            return carry
        carry = evaluate(graph, *_inner(eqn.params["body_jaxpr"]), [*body, *carry])
    raise Unsupported("while", f"of more than {LONGEST} turns")


def _cond(graph: Graph, eqn: JaxprEqn, ins: list[Elements]) -> list[Elements]:
    which, *rest = ins
    branches = [evaluate(graph, *_inner(branch), rest) for branch in eqn.params["branches"]]
    if which.value is not None:
        return branches[int(np.clip(which.value, 0, len(branches) - 1))]
    chosen = branches[0]
    for i, branch in enumerate(branches[1:], start=1):
        here = graph.map("ge", np.dtype(bool), which, graph.constant(np.asarray(i, which.dtype)))
        chosen = [graph.map("select", a.dtype, here, a, b) for a, b in zip(chosen, branch)]
    return chosen


CONTROL = {"scan": _scan, "while": _while, "cond": _cond}
