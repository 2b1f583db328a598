"""Norm: distances weighted by a positive definite matrix,      ‖x‖² = xᵀAx with A = LLᵀ."""

from __future__ import annotations

import jax
import numpy as np

from icvi_jax.numerics.arrays import cast, namespace
from icvi_jax.types import Array


def factor_of(norm: Array) -> np.ndarray:
    """The factor L of a positive definite matrix, or an error."""
    a = np.asarray(jax.device_get(norm), dtype=float)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not np.allclose(a, a.T):
        raise ValueError(f"Panel(norm=…): expected a symmetric matrix (p, p), got shape {a.shape}")
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        raise ValueError("Panel(norm=…): the matrix is not positive definite") from None


def transform(factor: Array, x: Array) -> Array:
    """Lᵀx for x (p, *streams), a row at a time."""
    xp = namespace(x)
    lower = cast(factor, x)
    p = x.shape[0]
    wide = (p,) + (1,) * (x.ndim - 1)
    return xp.stack([xp.sum(xp.reshape(lower[:, i], wide) * x, axis=0) for i in range(p)])
