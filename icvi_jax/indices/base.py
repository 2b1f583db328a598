"""What an index is: a pure read-out of statistics that keeps nothing."""

from __future__ import annotations

import math
from typing import ClassVar

from icvi_jax.kernels.arrays import namespace
from icvi_jax.statistics import Statistic, Stats
from icvi_jax.types import Array


class Index:
    """A number that says how good the clusters are, read off the statistics it `needs`.

    A subclass is a `spec` with a static `name`, and says in class variables what a user and the laws must know.

    Attributes
    ----------
    goal : "min" or "max", the direction that is good.
    needs : the statistics it reads.
    range : smallest and largest value it can take.
    positive : whether all values are positive, so that monitors may take logarithms.
    scattered : whether it is built on dispersions or covariances; NaN while all clusters are singletons.
    """

    name: str
    goal: ClassVar[str]
    needs: ClassVar[tuple[type[Statistic], ...]]
    range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    positive: ClassVar[bool] = True
    scattered: ClassVar[bool] = True

    def value(self, stats: Stats, forgetting: Array) -> Array:
        """The value (*streams); `forgetting` is λ as an array of the state's type."""
        raise TypeError("an index defines value")

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        """What `value` becomes when all samples and centres are multiplied by `by`; unchanged unless overridden."""
        return value

    def cautions(self, forgetting: float, k: int) -> tuple[str, ...]:
        """Warnings for a person who asks for this index with this memory and this many slots."""
        return ()


def divide(a: Array, b: Array, otherwise: float) -> Array:
    """a / b, and `otherwise` where b is not positive; gradients stay finite."""
    xp = namespace(a, b)
    ok = b > 0
    return xp.where(ok, a / xp.where(ok, b, xp.ones_like(b)), xp.full_like(a / xp.ones_like(b), otherwise))
