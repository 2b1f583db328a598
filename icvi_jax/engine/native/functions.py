"""The functions that a program calls, as text of LLVM."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from icvi_jax.engine.native import maths, powers
from icvi_jax.engine.native.code import Code, element
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
    maker = Maker(code, dtype, fused, vector)
    arguments = ["%a", "%b"][: 2 if name == "pow" else 1]
    result = FUNCTIONS[name](maker, *(Value(maker, a, dtype) for a in arguments))
    kind = code.type(dtype)
    code.do(f"ret {kind} {result.name}")
    inputs = ", ".join(f"{kind} {a}" for a in arguments)
    return code.function(f"define internal {kind} @{name}_{element(dtype)}({inputs})", attributes), code.declared
