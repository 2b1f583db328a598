"""The functions that a program calls, as text of LLVM."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import numpy as np

from icvi_jax.engine.lowering.graph import Unsupported
from icvi_jax.engine.native import maths, powers
from icvi_jax.engine.native.code import Code, element
from icvi_jax.engine.native.codegen import LIBM
from icvi_jax.engine.native.values import Maker, Value

FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": maths.exp,
    "exp2": maths.exp2,
    "expm1": maths.expm1,
    "log": maths.log,
    "log1p": maths.log1p,
    "logistic": maths.logistic,
    "pow": powers.power,
    "rsqrt": maths.rsqrt,
    "tanh": maths.tanh,
}


def written(name: str, dtype: np.dtype, width: int, fused: bool, vector: int, attributes: str) -> tuple[str, set[str]]:
    """The text of a function such as @exp_float, and the declarations it needs."""
    code = Code(width)
    arguments = ["%a", "%b"][: 2 if name in ("pow", "atan2") else 1]
    if name in LIBM:
        result = _by_lane(code, name, dtype, arguments, vector)
    else:
        maker = Maker(code, dtype, fused, vector)
        result = FUNCTIONS[name](maker, *(Value(maker, a, dtype) for a in arguments)).name
    kind = code.type(dtype)
    code.do(f"ret {kind} {result}")
    inputs = ", ".join(f"{kind} {a}" for a in arguments)
    return code.function(f"define internal {kind} @{name}_{element(dtype)}({inputs})", attributes), code.declared


def _by_lane(code: Code, name: str, dtype: np.dtype, arguments: list[str], vector: int) -> str:
    """The library's function of each lane."""
    function, one = name + ("f" if dtype.itemsize == 4 else ""), element(dtype)
    if not vector or os.name != "posix" or not _known(function):
        raise Unsupported(name, "there is no such function of one number here")
    code.declared.add(f"declare {one} @{function}({', '.join([one] * len(arguments))})")
    value = "poison"
    for lane in range(code.width):
        ins = [
            a if code.width == 1 else code.let(f"extractelement {code.type(dtype)} {a}, i32 {lane}") for a in arguments
        ]
        value = code.insert(one, value, code.call(function, one, *((one, a) for a in ins)), lane)
    return value


def _known(function: str) -> bool:
    """Whether this process has a function of C."""
    try:
        return bool(ctypes.CDLL(None)[function])
    except AttributeError:
        return False
