"""The base classes of monitors: a pure step from (state, index value) to (state, alarm)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from icvi_jax.numerics.arrays import namespace
from icvi_jax.types import Alarm, Array, DType, Namespace, State


class Listener(ABC):
    """What all monitors have: the name of their alarm, and the indices they watch."""

    name: str | None
    by_logarithm: ClassVar[bool] = False
    """Whether it takes logarithms of the indices it watches, which then must be positive."""

    @property
    @abstractmethod
    def watched(self) -> tuple[str, ...]:
        """Names of the indices this monitor listens to."""

    @property
    def needs_company(self) -> bool:
        """Whether it ignores indices while there is one cluster, when they have nothing to compare."""
        return False


class Monitor(Listener):
    """A pair of pure functions, `init` and `step`, that watches one index.

    A subclass is a `spec` with two static fields, `name` (of its alarm in a reading) and `index` (that it watches); a
    pipeline sets both from the key of the monitor.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> monitor = icvi.Distress(index="xb")
    >>> isinstance(monitor, icvi.Monitor), monitor.watched
    (True, ('xb',))
    """

    name: str | None
    index: str | None

    @property
    def watched(self) -> tuple[str, ...]:
        """Names of the indices this monitor listens to."""
        return () if self.index is None else (self.index,)

    @abstractmethod
    def init(self, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> State:
        """The state before any value."""

    @abstractmethod
    def step(self, state: State, value: Array, seen: Array, goal: str, positive: bool) -> tuple[State, Alarm]:
        """Process the index value (*streams).

        Parameters
        ----------
        value : the value of the index after this sample; NaN in warm-up.
        seen : False where the sample was missing: nothing changes and no alarm is raised.
        goal : the index's direction, "min" or "max".
        positive : whether the index is positive, so that its logarithm may be taken.
        """

    def again(self, state: State, where: Array) -> State:
        """The state where the index begins again with other clusters, before its first value; as it was by default."""
        return state


class SampleMonitor(Listener):
    """A monitor of the samples themselves, and of indices if it names any.

    It gets samples relative to the anchor, before standardising. A missing value only concerns its own column. `finds`
    says what it looks for: "steps", and whatever else a step brings, or something else, which laws do not test.
    """

    finds: ClassVar[str] = "steps"

    @abstractmethod
    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> State:
        """The state before any sample."""

    @abstractmethod
    def step(self, state: State, x: Array, there: Array, heard: Mapping[str, IndexValue]) -> tuple[State, Alarm]:
        """Process the sample.

        Parameters
        ----------
        x : (p, *streams), 0 where a value is missing.
        there : (p, *streams), False where a value is missing.
        heard : the indices in `watched` after this sample, by name.
        """


class IndexValue(NamedTuple):
    """The value of an index at one sample, and its meaning: see `Monitor.step`."""

    value: Array
    goal: str
    positive: bool
    seen: Array


def alarm(code: Array, score: Array, standing: Array) -> Alarm:
    """An alarm of a monitor that names no column and has no probabilities."""
    xp = namespace(score)
    return Alarm(code, score, standing, xp.full_like(code, -1), xp.full_like(score, xp.nan))
