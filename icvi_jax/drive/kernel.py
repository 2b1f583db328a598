"""A whole scan as one machine-code kernel, for CPUs.

XLA makes of a step some hundred small kernels, and calling them costs more than running them while the arrays are
small. Two annotations, which XLA for CPUs understands and others never see, change that:

- a call marked `xla_cpu_small_call` becomes one function of machine code, its loops included;
- a call marked `inlineable="false"` is a *fence*: what passes it is stored once. Without fences XLA copies each cheap
  expression into everything that uses it and computes it there again.

`rewritten` puts fences behind values that are dear to compute again, and turns reductions over short axes into chains
(XLA hands long ones to a library, which cannot be called from inside a kernel). Nothing else about a step changes.

The annotations are no part of what JAX promises. They are used with the versions of JAX they were tried with; the
environment variable `ICVI_ONE_KERNEL` set to 0 or 1 overrules that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import reduce

import jax
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

CALLS = frozenset("jit pjit closed_call custom_jvp_call custom_vjp_call".split())
VIEWS = frozenset("broadcast_in_dim reshape squeeze slice transpose convert_element_type copy".split())
MOVES = VIEWS | frozenset("concatenate stack iota rev".split())
ELEMENTWISE = frozenset(
    "abs add and clamp cos div eq exp expm1 floor ge gt integer_pow is_finite le log log1p logistic lt max min mul ne "
    "neg not or pow rem round rsqrt select_n sign sin sqrt square sub tanh xor".split()
)
REDUCTIONS = {
    "reduce_sum": lax.add,
    "reduce_max": lax.max,
    "reduce_min": lax.min,
    "reduce_and": lax.bitwise_and,
    "reduce_or": lax.bitwise_or,
}

ENABLED = os.environ.get("ICVI_ONE_KERNEL", "1" if jax.__version_info__[:2] == (0, 10) else "0") == "1"
"""Whether scans on CPUs are made into kernels at all."""

AGAIN = 16
"""A value is stored where computing it again for all its uses would take so many operations."""

DEAR = {"div": 4, "sqrt": 4, "rsqrt": 4, "exp": 20, "log": 20}
"""Operations that count for several."""

LARGEST = 6000
"""Steps of more operations than this are left to XLA's own devices: as one kernel they would take long to compile."""


def rewritten(step: Callable, *args: object) -> tuple[Callable | None, object]:
    """`step` for these arguments, ready to be scanned inside one kernel, and what it returns as shapes.

    The first is None if the step has operations that no kernel can hold, or too many of them.
    """
    closed, shapes = jax.make_jaxpr(step, return_shape=True)(*args)
    size = _operations(closed.jaxpr)
    if not ENABLED or size is None or size > LARGEST:
        return None, shapes
    tree = jax.tree.structure(shapes)
    return lambda *args: jax.tree.unflatten(tree, _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(args))), shapes


def loops(steps: int) -> bool:
    """Whether a scan of so many steps stays a loop: XLA unrolls a single step and cannot make a kernel of it then."""
    return steps > 1


def one_kernel(function: Callable, *args: object) -> object:
    """`function(*args)`, compiled for CPUs into one kernel."""
    return set_xla_metadata(jax.jit(function)(*args), xla_cpu_small_call="true", inlineable="false")


def _operations(jaxpr: Jaxpr) -> int | None:
    """How many operations the rewritten program has, or None if one of them cannot be part of a kernel."""
    total = 0
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in CALLS:
            inner = _operations(_callee(eqn)[0])
            if inner is None:
                return None
            total += inner
        elif name in REDUCTIONS and eqn.invars[0].aval.ndim - 1 not in eqn.params["axes"]:
            total += 2 * int(np.prod([eqn.invars[0].aval.shape[axis] for axis in eqn.params["axes"]]))
        elif name in ELEMENTWISE or name in MOVES:
            total += 1
        else:
            return None
    return total


def _callee(eqn) -> tuple[Jaxpr, list]:
    inner = eqn.params["call_jaxpr" if "call_jaxpr" in eqn.params else "jaxpr"]
    return (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, [])


def _evaluate(jaxpr: Jaxpr, consts: list, args: list) -> list:
    uses = _uses(jaxpr)
    costs: dict[Var, int] = {}  # operations since the last stored values
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))

    def read(var):
        return var.val if isinstance(var, Literal) else values[var]

    for eqn in jaxpr.eqns:
        name, inputs = eqn.primitive.name, [read(var) for var in eqn.invars]
        if name in CALLS:
            outputs = _evaluate(*_callee(eqn), inputs)
        elif name in REDUCTIONS:
            outputs = [_chain(REDUCTIONS[name], *inputs, eqn.params["axes"])]
        else:
            outputs = eqn.primitive.bind(*inputs, **eqn.params)
            outputs = outputs if eqn.primitive.multiple_results else [outputs]
        for var, value in zip(eqn.outvars, outputs):
            costs[var] = (0 if name in MOVES else DEAR.get(name, 1)) + sum(costs.get(v, 0) for v in _operands(eqn))
            often = name not in MOVES and (uses[var] - 1) * costs[var] >= AGAIN
            if (often or name in REDUCTIONS) and value.ndim and value.dtype != bool:
                value, costs[var] = _fence(value), 0
            values[var] = value
    return [read(var) for var in jaxpr.outvars]


def _operands(eqn) -> set[Var]:
    return {var for var in eqn.invars if not isinstance(var, Literal)}


def _uses(jaxpr: Jaxpr) -> Counter:
    """How many operations use each value, through slices and other views of it."""
    uses = Counter(var for eqn in jaxpr.eqns for var in _operands(eqn))
    for eqn in reversed(jaxpr.eqns):
        if eqn.primitive.name in VIEWS and not isinstance(eqn.invars[0], Literal):
            uses[eqn.invars[0]] += uses[eqn.outvars[0]] - 1
    return uses


def _chain(pick: Callable, a, axes: tuple[int, ...]):
    for axis in sorted(axes, reverse=True):
        a = reduce(pick, [lax.index_in_dim(a, i, axis, keepdims=False) for i in range(a.shape[axis])])
    return a


def _fence(a):
    return set_xla_metadata(_same(a), inlineable="false")


@jax.jit
def _same(a):
    return a
