"""A whole scan as one machine-code kernel, for CPUs.

XLA makes of a step some hundred small kernels, and calling them costs more than running them while the arrays are
small. Two annotations, which XLA for CPUs understands and others never see, change that:

- a call marked `xla_cpu_small_call` becomes one function of machine code, its loops included;
- a call marked `inlineable="false"` is a *fence*: what passes it is stored once. Without fences XLA copies each cheap
  expression into everything that uses it and computes it there again.

`rewritten` makes one list of a step's operations, in which nothing is computed twice (behind fences XLA sees no
equality), puts fences behind values that are dear to compute again, and turns reductions over short axes into chains
(XLA hands long ones to a library, which cannot be called from inside a kernel).

The annotations are no part of what JAX promises. They are used with the versions of JAX they were tried with; the
environment variable `ICVI_ONE_KERNEL` set to 0 or 1 overrules that.
"""

from __future__ import annotations

import math
import os
from collections import Counter, deque
from collections.abc import Callable
from functools import reduce
from itertools import count
from typing import NamedTuple

import jax
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

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
    program = _Program(closed)
    if not ENABLED or not program.possible or program.size > LARGEST:
        return None, shapes
    tree = jax.tree.structure(shapes)
    return lambda *args: jax.tree.unflatten(tree, program(jax.tree.leaves(args))), shapes


def loops(steps: int) -> bool:
    """Whether a scan of so many steps stays a loop: XLA unrolls a single step and cannot make a kernel of it then."""
    return steps > 1


def one_kernel(function: Callable, *args: object) -> object:
    """`function(*args)`, compiled for CPUs into one kernel."""
    return set_xla_metadata(jax.jit(function)(*args), xla_cpu_small_call="true", inlineable="false")


class _Operation(NamedTuple):
    """A primitive, and which of the program's values go in and come out, by their numbers."""

    eqn: JaxprEqn
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.eqn.primitive.name

    @property
    def terms(self) -> int:
        """How many operations it becomes: a reduction as many as it takes in."""
        if self.name not in REDUCTIONS:
            return 1
        return 2 * math.prod(self.eqn.invars[0].aval.shape[axis] for axis in self.eqn.params["axes"])

    @property
    def possible(self) -> bool:
        """Whether a kernel can hold it."""
        if self.name in REDUCTIONS:
            return self.eqn.invars[0].aval.ndim - 1 not in self.eqn.params["axes"]
        return self.name in ELEMENTWISE or self.name in MOVES


class _Program:
    """A step as one list of operations: its calls opened, nothing in it twice and nothing that no result needs."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.constants: dict[int, object] = {}
        self._numbers: dict[object, tuple[int, ...]] = {}  # of values by what they are
        self._values = count()
        self._all: list[_Operation] = []
        self.inputs = [next(self._values) for _ in closed.jaxpr.invars]
        self.outputs = self._open(closed.jaxpr, closed.consts, self.inputs)
        self.operations, wanted = deque[_Operation](), set(self.outputs)
        for operation in reversed(self._all):
            if wanted.intersection(operation.outputs):
                self.operations.appendleft(operation)
                wanted.update(operation.inputs)
        self.size = sum(operation.terms for operation in self.operations)
        self.possible = all(operation.possible for operation in self.operations)

    def _open(self, jaxpr: Jaxpr, consts: list, inputs: list[int]) -> list[int]:
        """Put the operations of `jaxpr` into the list, and return the numbers of its results."""
        numbers = dict(zip(jaxpr.invars, inputs))
        numbers |= {var: self._constant(id(value), value) for var, value in zip(jaxpr.constvars, consts)}

        def number(var):
            if not isinstance(var, Literal):
                return numbers[var]
            return self._constant((var.aval, np.asarray(var.val).tobytes()), var.val)

        for eqn in jaxpr.eqns:
            into = tuple(number(var) for var in eqn.invars)
            out = self._open(*_callee(eqn), into) if eqn.primitive.name in CALLS else self._operation(eqn, into)
            numbers |= zip(eqn.outvars, out)
        return [number(var) for var in jaxpr.outvars]

    def _operation(self, eqn: JaxprEqn, inputs: tuple[int, ...]) -> tuple[int, ...]:
        key = eqn.primitive, tuple(sorted(eqn.params.items())), inputs
        if key not in self._numbers:
            self._numbers[key] = tuple(next(self._values) for _ in eqn.outvars)
            self._all.append(_Operation(eqn, inputs, self._numbers[key]))
        return self._numbers[key]

    def _constant(self, key: object, value: object) -> int:
        if key not in self._numbers:
            self._numbers[key] = (next(self._values),)
            self.constants[self._numbers[key][0]] = value
        return self._numbers[key][0]

    def _uses(self) -> Counter:
        """How many operations use each value, through slices and other views of it."""
        uses = Counter(number for operation in self.operations for number in set(operation.inputs))
        for operation in reversed(self.operations):
            if operation.name in VIEWS:
                uses[operation.inputs[0]] += uses[operation.outputs[0]] - 1
        return uses

    def __call__(self, args: list) -> list:
        uses = self._uses()
        costs = Counter[int]()  # operations since the last stored values
        values = self.constants | dict(zip(self.inputs, args))
        for operation in self.operations:
            eqn, name, inputs = operation.eqn, operation.name, [values[number] for number in operation.inputs]
            if name in REDUCTIONS:
                outputs = [_chain(REDUCTIONS[name], *inputs, eqn.params["axes"])]
            else:
                outputs = eqn.primitive.bind(*inputs, **eqn.params)
                outputs = outputs if eqn.primitive.multiple_results else [outputs]
            cost = (0 if name in MOVES else DEAR.get(name, 1)) + sum(costs[n] for n in set(operation.inputs))
            for number, value in zip(operation.outputs, outputs):
                often = name not in MOVES and (uses[number] - 1) * cost >= AGAIN
                fenced = (often or name in REDUCTIONS) and value.ndim and value.dtype != bool
                values[number], costs[number] = (_fence(value), 0) if fenced else (value, cost)
        return [values[number] for number in self.outputs]


def _callee(eqn) -> tuple[Jaxpr, list]:
    inner = eqn.params["call_jaxpr" if "call_jaxpr" in eqn.params else "jaxpr"]
    return (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, [])


def _chain(pick: Callable, a, axes: tuple[int, ...]):
    for axis in sorted(axes, reverse=True):
        a = reduce(pick, [lax.index_in_dim(a, i, axis, keepdims=False) for i in range(a.shape[axis])])
    return a


def _fence(a):
    return set_xla_metadata(_same(a), inlineable="false")


@jax.jit
def _same(a):
    return a
