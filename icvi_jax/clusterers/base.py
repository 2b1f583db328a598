"""The base class of clusterers: a pure step from (state, sample) to (state, event)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from icvi_jax.numerics.arrays import namespace, squares
from icvi_jax.types import Array, DType, Event, Namespace, Prototypes, State


def prototypes_of(state: State) -> Prototypes:
    """The prototypes of the last event, from a clusterer's state: its `prototypes`, or its centres and active slots."""
    try:
        return getattr(state, "prototypes", None) or Prototypes(state.centers, state.active)
    except AttributeError:
        needs = "`centers` (k, p, *streams) and `active` (k, *streams), or a property `prototypes`"
        raise ValueError(f"the state of a clusterer needs {needs}; {type(state).__name__} has neither") from None


class Clusterer(ABC):
    """A pair of pure functions, `init` and `step`, with a fixed number of slots.

    A state is a named tuple of arrays with streams as the last axes. It has `centers` (k, p, *streams) and `active`
    (k, *streams), as fields or properties; one whose events have names or masses has a property `prototypes`. A missing
    sample does not change it.

    >>> import icvi_jax as icvi
    >>> clusterer = icvi.SequentialKMeans(k=3)
    >>> isinstance(clusterer, icvi.Clusterer), clusterer.slots
    (True, 3)

    Attributes
    ----------
    name : its name on the command line, such as "sk-means".
    crisp : whether memberships are always 0 or 1, so that the fuzzifier has no effect.
    grouped : whether a cluster may have several slots: then prototypes have names.
    local : whether a sample changes few slots and events say which, `Event.moved`: then what indices compute for each
        pair of slots is kept from step to step, and only the pairs of those slots are computed again.
    size : the field with the number of slots: "k", "capacity" or "slots"; `usual` is its default on the command line.
    finds_k : whether it finds the number of clusters; otherwise it is given.
    cost : arithmetic per sample, with k slots and p features.
    forgets, avoid : what happens to old samples; when not to use it.
    """

    name: ClassVar[str]
    crisp: ClassVar[bool]
    grouped: ClassVar[bool] = False
    size: ClassVar[str] = "k"
    usual: ClassVar[int] = 3
    finds_k: ClassVar[bool] = False
    cost: ClassVar[str] = "k p"
    forgets: ClassVar[str] = "nothing."
    avoid: ClassVar[str] = "Nothing is known yet."

    @property
    def local(self) -> bool:
        """Whether events say which slots a sample changed."""
        return False

    @property
    def slots(self) -> int:
        """The number of slots: the field that `size` names."""
        return int(getattr(self, self.size))

    def least(self, features: int) -> int:
        """The fewest samples a stream must have for this clusterer to start."""
        return 1

    @abstractmethod
    def init(self, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> State:
        """The state before any sample."""

    @abstractmethod
    def step(self, state: State, x: Array, seen: Array) -> tuple[State, Event]:
        """Learn the sample `x` (p, *streams), finite everywhere; `seen` (*streams) is False where it is missing."""


def surprise(e: Array, active: Array, seen: Array) -> Array:
    """Squared distance from the nearest centre in use, (*streams), from the differences `e` (k, p, *streams).

    NaN where there is no centre yet and where the sample is missing.
    """
    xp = namespace(e)
    nearest = xp.min(xp.where(active, squares(e, 1), xp.inf), axis=0)
    return xp.where(seen & xp.any(active, axis=0), nearest, xp.nan)
