"""The scale on which monitors use an index: logarithms if it is positive, and large is bad."""

from __future__ import annotations

from collections.abc import Mapping

from icvi_jax.monitors.base import IndexValue
from icvi_jax.numerics.arrays import cast, namespace
from icvi_jax.spec import one_of
from icvi_jax.types import Array


def badness(value: Array, seen: Array, goal: str, positive: bool, like: Array) -> tuple[Array, Array]:
    """How bad an index value is: y = log value (positive) or value (signed), with the sign turned if goal is "max".

    Parameters
    ----------
    value, seen, goal, positive : as in `Monitor.step`.
    like : an array of the state, whose type y gets.

    Returns
    -------
    y : (*streams), 0 where it cannot be used.
    ok : (*streams), False where the sample is missing, or the value NaN, infinite or not positive where it should be.

    Examples
    --------
    >>> import numpy as np
    >>> y, ok = badness(np.array([1.0, 0.0, np.nan]), np.array([True] * 3), "min", True, np.zeros(3))
    >>> y.tolist(), ok.tolist()
    ([0.0, 0.0, 0.0], [True, False, False])
    """
    one_of("Monitor.step", "goal", goal, ("min", "max"))
    xp = namespace(like)
    value = cast(value, like)
    ok = seen & xp.isfinite(value)
    if positive:
        ok = ok & (value > 0)
        y = xp.log(xp.where(ok, value, xp.ones_like(value)))
    else:
        y = xp.where(ok, value, xp.zeros_like(value))
    return (y if goal == "min" else -y), ok


def read_indices(heard: Mapping[str, IndexValue], row: Array, like: Array) -> tuple[Array, Array]:
    """The logarithms of the indices, large is bad, and where they can be used: (q, *streams)."""
    xp = namespace(like)
    y, ok = zip(*(badness(one.value, one.seen & row, one.goal, True, like) for one in heard.values()))
    return xp.stack(y, axis=0), xp.stack(ok, axis=0)
