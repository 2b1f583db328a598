"""Degrees of freedom n − k with forgetting, for the indices that divide by them."""

from __future__ import annotations

from icvi_jax.spec import is_number
from icvi_jax.statistics import Stats
from icvi_jax.types import Array


def freedom(stats: Stats, dof: str) -> Array:
    """ω − k, which may be negative; ω for `dof="none"`."""
    return stats.n if dof == "none" else stats.n - stats.k


def caution(owner: str, dof: str, forgetting: float, k: int) -> tuple[str, ...]:
    """A warning if the memory is too short for k clusters: ω < 1/(1 − λ) ≤ k, so n − k is never positive."""
    if dof == "none" or not is_number(forgetting) or forgetting == 1 or (1 - forgetting) * k < 1:
        return ()
    return (
        f"{owner}: with forgetting={forgetting} the panel remembers {1 / (1 - forgetting):.3g} samples, so that n − k "
        f"is negative with k = {k} clusters, and values are NaN. Use dof='none' or a longer memory.",
    )
