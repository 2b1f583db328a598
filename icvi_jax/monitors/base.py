"""What a monitor is: a pure step from (state, index value) to (state, alarm)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from icvi_jax.kernels.arrays import namespace
from icvi_jax.types import Alarm, Array, DType, Namespace, State


class Listener(ABC):
    """What all monitors have: a name under which their alarm is found, and the indices they listen to."""

    name: str | None

    @property
    @abstractmethod
    def watched(self) -> tuple[str, ...]:
        """Names of the indices this monitor listens to."""

    @property
    def needs_company(self) -> bool:
        """Whether it does not listen to indices while there is one cluster, when they have nothing to compare."""
        return False


class Monitor(Listener):
    """A pair of pure functions, `init` and `step`, that watches one index.

    A subclass is a `spec` with two static fields, `name` (the key of its alarm in a reading) and `index` (the name of
    the index it watches); a pipeline fills in both from the key under which the monitor was given.

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
        """Take in the index value (*streams).

        Parameters
        ----------
        value : what the index says after this sample; NaN in warm-up.
        seen : False where the sample was missing: nothing changes and no alarm is raised.
        goal : the index's direction, "min" or "max".
        positive : whether the index is positive, so that its logarithm may be taken.
        """


class SampleMonitor(Listener):
    """A monitor that listens to the samples themselves, and to indices if it names any.

    It sees samples about the anchor and before any standardising. A hole in one column concerns that column only.
    """

    @abstractmethod
    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> State:
        """The state before any sample."""

    @abstractmethod
    def step(self, state: State, x: Array, there: Array, heard: Mapping[str, Heard]) -> tuple[State, Alarm]:
        """Take in the sample.

        Parameters
        ----------
        x : (p, *streams), 0 in holes.
        there : (p, *streams), False in holes.
        heard : what the indices in `watched` say after this sample, by name.
        """


class Heard(NamedTuple):
    """What an index says at one sample, and how to take it: see `Monitor.step`."""

    value: Array
    goal: str
    positive: bool
    seen: Array


def alarm(code: Array, score: Array, standing: Array) -> Alarm:
    """An alarm of a monitor that blames no column and knows no probabilities."""
    xp = namespace(score)
    return Alarm(code, score, standing, xp.full_like(code, -1), xp.full_like(score, xp.nan))
