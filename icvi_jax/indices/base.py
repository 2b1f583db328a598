"""The base class of indices: a pure function of statistics, without a state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from icvi_jax.numerics.arrays import namespace
from icvi_jax.statistics import AnyStatistic, Stats
from icvi_jax.types import Array


class Index(ABC):
    """A number that says how good the clusters are, computed from the statistics it `needs`.

    A subclass is a `spec` with a static `name`; its class variables have what users and the tests of laws must know.

    Attributes
    ----------
    goal : "min" or "max": which values are good.
    needs : the statistics it uses.
    range : smallest and largest value it can take.
    positive : whether all values are positive, so that monitors may take logarithms.
    scattered : whether it is built on dispersions or covariances; NaN while all clusters are singletons.
    grouped : whether it is only for clusterers with several prototypes per cluster.
    keeps : what it uses that can be kept from step to step, see `Memo`.
    degree : the power of the samples' unit that the value has.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> index = icvi.XieBeni()
    >>> index.name, index.goal, index.range
    ('xb', 'min', (0.0, inf))
    """

    name: str
    goal: ClassVar[str]
    needs: ClassVar[tuple[type[AnyStatistic], ...]]
    range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    positive: ClassVar[bool] = True
    scattered: ClassVar[bool] = True
    grouped: ClassVar[bool] = False
    keeps: ClassVar[tuple[str, ...]] = ()
    degree: ClassVar[int] = 0

    @abstractmethod
    def value(self, stats: Stats, forgetting: Array) -> Array:
        """The value (*streams); `forgetting` is λ as an array of the state's type."""

    def statistics(self) -> tuple[type[AnyStatistic], ...]:
        """The statistics it uses with its settings: `needs`, unless overridden."""
        return self.needs

    def kept(self) -> tuple[str, ...]:
        """Names of the values it uses, with its settings, that can be cached: `keeps`, unless overridden."""
        return self.keeps

    def scaled(self, value: float, by: float, features: int, k: int) -> float:
        """The new `value` when all samples and centres are multiplied by `by`; see `degree`."""
        return value * by**self.degree

    def cautions(self, forgetting: float, k: int) -> tuple[str, ...]:
        """Warnings for a user of this index with this memory and number of slots."""
        return ()


class Comparison(Index):
    """An index that compares clusters: NaN with fewer than two of them.

    Subclasses define `compare` instead of `value`, and need not check for a single cluster, except for gradients: the
    result of `compare` for k < 2 is discarded.
    """

    def value(self, stats: Stats, forgetting: Array) -> Array:
        """NaN where there is no second cluster, otherwise the result of `compare`."""
        if stats.active.shape[0] == 1:
            return given(stats.k > 1, stats.k)  # always NaN; a constant NaN can make XLA end the process
        return given(stats.k > 1, self.compare(stats, forgetting))

    @abstractmethod
    def compare(self, stats: Stats, forgetting: Array) -> Array:
        """The value (*streams) with two clusters or more."""


def given(ok: Array, value: Array) -> Array:
    """`value` where `ok`, NaN elsewhere."""
    xp = namespace(value)
    return xp.where(ok, value, xp.nan)


def log(a: Array) -> Array:
    """Logarithm; NaN at zero and below, so that it is never the best value. Gradients stay finite."""
    xp = namespace(a)
    return given(a > 0, xp.log(xp.where(a > 0, a, 1.0)))


def root(a: Array) -> Array:
    """Square root, 0 where `a` is not positive; gradients stay finite."""
    xp = namespace(a)
    return xp.where(a > 0, xp.sqrt(xp.where(a > 0, a, 1.0)), 0.0)


def divide(a: Array, b: Array, otherwise: float) -> Array:
    """a / b, and `otherwise` where b is not positive; gradients stay finite, if nothing else is computed from a NaN."""
    xp = namespace(a, b)
    ok = b > 0
    return xp.where(ok, a / xp.where(ok, b, 1.0), otherwise)
