"""Operations on lanes as JAX's own, one function each, in forms that every compiler of kernels has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.lowering.ssa import Lane

BOOL = np.dtype(bool)

PLAIN: dict[str, Callable[..., Array]] = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "neg": lax.neg,
    "abs": lax.abs,
    "sign": lax.sign,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt,
    "exp": lax.exp,
    "exp2": lax.exp2,
    "log": lax.log,
    "log1p": lax.log1p,
    "expm1": lax.expm1,
    "tanh": lax.tanh,
    "logistic": lax.logistic,
    "pow": lax.pow,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "not": lax.bitwise_not,
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "population_count": lax.population_count,
    "clz": lax.clz,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
    "eq": lax.eq,
    "ne": lax.ne,
    "round_even": lambda a: lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round": lax.round,
    "isfinite": lambda a: lax.abs(a) < lax.full_like(a, np.inf),
}

MISSING: dict[str, frozenset[str]] = {
    "interpret": frozenset(),
    "triton": frozenset(("round", "round_even")),
    "mosaic": frozenset(("population_count", "round", "round_even")),
    "tpu": frozenset(),
}
"""Operations that Pallas cannot lower for a platform, and that have no other form here."""


def apply(lane: Lane, args: Sequence[Array], known: Sequence[bool] = (False, False), platform: str = "xla") -> Array:
    """The value of one operation.

    Parameters
    ----------
    args : its arguments, all of one shape.
    known : which arguments are constants that are not NaN.
    """
    name, a = lane.name, args[0]
    if name == "select":
        which, no, yes = args
        if lane.dtype == BOOL:  # predicates are joined, not chosen
            return (which & yes) | (~which & no)
        return _signed(lax.select(which, yes, no), platform)
    if name in ("max", "min"):
        return _extreme(name, a, args[1], known)
    if a.dtype == BOOL and name in ("eq", "ne"):
        return a ^ args[1] if name == "ne" else ~(a ^ args[1])
    if a.dtype == BOOL and name in ("add", "mul"):
        return a | args[1] if name == "add" else a & args[1]
    if name == "convert":
        return _signed(converted(a, lane.dtype), platform)
    if name == "bitcast":
        return lax.bitcast_convert_type(a, lane.dtype)
    if name in FORMS.get(platform, {}):
        return FORMS[platform][name](*args)
    if name not in PLAIN:
        raise Unsupported(name)
    return PLAIN[name](*args)


def _extreme(name: str, a: Array, b: Array, known: Sequence[bool]) -> Array:
    """The larger or smaller of two, NaN if one of them is, as XLA has it; Triton's own gives the one that is not."""
    if a.dtype == BOOL:
        return a | b if name == "max" else a & b
    if a.dtype.kind != "f":
        return lax.max(a, b) if name == "max" else lax.min(a, b)
    if known[1]:
        a, b = b, a
    best = lax.select(a > b if name == "max" else a < b, a, b)  # b where one is NaN
    return best if any(known) else lax.select(a != a, a, best)


def converted(a: Array, to: np.dtype) -> Array:
    """`a` in another type."""
    if a.dtype == to:
        return a
    if a.dtype == BOOL:
        return lax.select(a, lax.full_like(a, 1, to), lax.full_like(a, 0, to))
    return a != lax.full_like(a, 0) if to == BOOL else lax.convert_element_type(a, to)


def _signed(a: Array, platform: str) -> Array:
    """Integers that were chosen; Mosaic GPU takes them for unsigned if one choice is a constant (JAX 0.10)."""
    if platform != "mosaic" or a.dtype != jnp.int32:
        return a
    return lax.bitcast_convert_type(lax.bitcast_convert_type(a, jnp.float32), jnp.int32)


def _sqrt(a: Array) -> Array:
    """From 1/√a, and one step of Newton's for the last bits."""
    r = lax.rsqrt(a)
    y = a * r
    y = y + (a - y * y) * (r * lax.full_like(a, 0.5))
    return lax.select((a == lax.full_like(a, 0)) | (a == lax.full_like(a, np.inf)), a, y)


def _log1p(a: Array) -> Array:
    """log(1 + a), whose error in 1 + a is undone by the same error in the quotient."""
    one = lax.full_like(a, 1)
    u = a + one
    plain = (u == one) | (u == lax.full_like(a, np.inf))
    return lax.select(plain, a, lax.log(u) * (a / lax.select(plain, one, u - one)))


def _expm1(a: Array) -> Array:
    """exp(a) − 1, whose error in exp(a) is undone by the same error in the quotient."""
    one = lax.full_like(a, 1)
    u = lax.exp(a)
    plain = (u == one) | (u == lax.full_like(a, np.inf))
    below = u - one
    size = below * (a / lax.log(lax.select(plain, one + one, u)))
    return lax.select(plain, lax.select(u == one, a, u), lax.select(below == -one, below, size))


def _floor(a: Array) -> Array:
    whole = lax.convert_element_type(lax.convert_element_type(a, jnp.int32), a.dtype)
    down = lax.select(whole > a, whole - lax.full_like(a, 1), whole)
    return lax.select(lax.abs(a) < lax.full_like(a, 2.0**23), down, a)  # larger ones are whole; NaN stays


def _pow(x: Array, y: Array) -> Array:
    """x to the y; the error grows with the exponent of the result, to 1e-5 at the ends of the range."""
    one, half, two = (lax.full_like(x, c) for c in (1, 0.5, 2))
    size = lax.exp(y * lax.log(lax.abs(x)))
    odd = (_floor(y * half) * two != y) & (_floor(y) == y)
    below = x < lax.full_like(x, 0)
    size = lax.select(below & odd, -size, size)
    size = lax.select(below & (_floor(y) != y), lax.full_like(x, np.nan), size)
    return lax.select((y == lax.full_like(x, 0)) | (x == one), one, size)


FORMS: dict[str, dict[str, Callable[..., Array]]] = {
    "mosaic": {
        "sqrt": _sqrt,
        "log1p": _log1p,
        "expm1": _expm1,
        "floor": _floor,
        "ceil": lambda a: -_floor(-a),
        "pow": _pow,
    },
    "triton": {"pow": _pow},  # its own has a dozen branches
    "tpu": {"expm1": _expm1},
}
"""Forms of operations that Pallas lacks on a platform."""
