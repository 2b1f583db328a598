"""Forgetting factors from half-lives."""

from __future__ import annotations

from icvi_jax.spec import is_number, number


def forgetting_of(half_life: float) -> float:
    """The forgetting factor with which the weight of a sample is halved after `half_life` samples (or time units).

    Examples
    --------
    >>> round(forgetting_of(half_life=7), 4)
    0.9057
    """
    if is_number(half_life):
        number("forgetting_of", "half_life", half_life, half_life > 0, "a positive number")
    forgetting: float = 0.5 ** (1 / half_life)
    return forgetting
