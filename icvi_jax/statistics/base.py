"""The base class of statistics: everything recursive in a panel, updated once per sample for all indices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from inspect import isabstract
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

from icvi_jax.numerics.arrays import namespace, pointed, widened
from icvi_jax.types import Array, DType, Merge, Namespace, Prototypes, State

if TYPE_CHECKING:
    from icvi_jax.statistics.index_view import Stats


class Step(NamedTuple):
    """One sample as statistics see it."""

    x: Array  # (p, *streams), the sample; anything finite where it is missing
    u: Array  # (k, *streams), memberships; 0 in inactive slots and where the sample is missing
    w: Array  # (k, *streams), the weights u^m
    fade: Array  # (*streams), what the past is multiplied by: λ^Δt; 1 where the sample is missing
    seen: Array  # (*streams), boolean
    # before, after: the prototypes before and after the sample
    before: Prototypes
    after: Prototypes
    born: Array | None = None  # (k, *streams), boolean, or None: slots that start again with this sample; see `Event`
    # clusters that became one, or None; the old states are already merged, and `born` slots have no past
    merge: Merge | None = None


class RecordedClustering(NamedTuple):
    """All samples of a stream, for batch definitions; missing samples are already left out."""

    # x, u: (n, p) and (n, k), samples, and memberships at the time of each sample; 0 in inactive slots
    x: Array
    u: Array
    w: Array  # (n, k), the weights u^m, 0 before the last birth of a slot
    fades: Array  # (n,), the weight λ^(n−j) that is left of each sample
    # centers, active: (n, k, p) and (n, k), the path of the prototypes
    centers: Array
    active: Array
    given: Array  # (n, k), the weights u^m at the time of each sample
    names: Array | None = None  # (n, k), which cluster each slot belonged to, or None


S = TypeVar("S")
V = TypeVar("V")


class Statistic(ABC, Generic[S, V]):
    """Pure functions `init`, `update` and more, and the `batch` definition that they must agree with.

    Subclasses are never instantiated: `Statistic[S, V]` has states of type S, named tuples of arrays with streams as
    the last axes, and indices get a V. `name` is the key of its state in a panel, `needs` the statistics whose states
    `update` or `view` uses besides its own. On a panel of clusters with several slots, states are merged before indices
    are computed, unless not `gathers`; a statistic that `follows` the clusters is updated after the others, with the
    prototypes of clusters. `shards`: two shards combine exactly.
    """

    gathers: ClassVar[bool] = True
    follows: ClassVar[bool] = False
    shards: ClassVar[bool] = True

    name: ClassVar[str]
    needs: ClassVar[tuple[type[AnyStatistic], ...]] = ()

    @staticmethod
    @abstractmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> S:
        """The state before any sample."""

    @staticmethod
    @abstractmethod
    def update(old: States, step: Step) -> S:
        """The state after one more sample; `old` has the states before it."""

    @staticmethod
    @abstractmethod
    def batch(recording: RecordedClustering) -> S:
        """The state after all samples of a recording, from the definition."""

    @staticmethod
    @abstractmethod
    def combine(a: States, b: States) -> S:
        """The state of two shards taken together."""

    @staticmethod
    @abstractmethod
    def remove(old: States, step: Step) -> S:
        """The state without a sample that was added before.

        `step.fade` is the weight that is left of the sample, and `step.w` what is left of its weights.
        """

    @staticmethod
    def begin(old: States, prototypes: Prototypes, mass: Array) -> S | None:
        """The state at the start of evaluation with `warmup="paper"`; by default nothing changes."""
        return None

    @staticmethod
    def shift(state: S, by: Array) -> S:
        """The state after all coordinates grew by `by` (p, *streams); by default it has no coordinates."""
        return state

    @staticmethod
    def fade(state: S, by: Array, alive: Array) -> S:
        """The state after all weights were multiplied by `by` (*streams), and those of slots that are not `alive`
        (k, *streams) by 0; by default it has no weights.
        """
        return state

    @staticmethod
    def merge(old: States, merge: Merge) -> S | None:
        """The state after the members of `merge.gone` went to `merge.into`; None if it does not depend on slots."""
        return None

    @staticmethod
    def forget(state: S, born: Array) -> S:
        """The state in which the slots `born` (k, *streams) have no past; by default it does not depend on slots."""
        return state

    @staticmethod
    def view(stats: Stats, state: S) -> V:
        """What indices get; by default the state itself."""
        return cast(V, state)


AnyStatistic: TypeAlias = Statistic[State, State]
"""Any statistic."""


class States:
    """The states of the statistics on a panel: `states[Count]` is a `CountState`."""

    def __init__(self, by_name: Mapping[str, State]) -> None:
        self._by_name = by_name

    def __getitem__(self, statistic: type[Statistic[S, V]]) -> S:
        state: S = self._by_name[statistic.name]
        return state


def closure(statistics: Iterable[type[AnyStatistic]]) -> tuple[type[AnyStatistic], ...]:
    """`statistics` with all that they need, each once, in a fixed order of names."""
    found: dict[str, type[AnyStatistic]] = {}
    queue = list(statistics)
    while queue:
        part = queue.pop()
        if isabstract(part):
            missing = ", ".join(sorted(part.__abstractmethods__))
            raise TypeError(f"the statistic {part.__name__} is not complete: it does not define {missing}")
        if part.name not in found:
            found[part.name] = part
            queue.extend(part.needs)
    return tuple(found[name] for name in sorted(found))


T = TypeVar("T", bound=tuple[Array, ...])


def chosen(state: T, mask: Array) -> T:
    """The slot of `state` that the one-hot `mask` (k, *streams) points at, as a state of one slot; zeros for none."""
    return _alike(state, (pointed(a, mask)[None, ...] for a in state))


def placed(state: T, part: T, merge: Merge) -> T:
    """`state` with `part` (one slot) in the slot `merge.into` and zeros in `merge.gone`."""

    def put(a: Array, new: Array) -> Array:
        xp, (into, gone) = namespace(a), (widened(mask, a) for mask in merge)
        return xp.where(into, new, xp.where(gone, 0, a))

    return _alike(state, (put(a, new) for a, new in zip(state, part)))


def pick(condition: Array, yes: T, no: T) -> T:
    """`where` over the fields of two states; `condition` is (*streams)."""
    return _alike(yes, (namespace(a).where(condition, a, b) for a, b in zip(yes, no)))


def _alike(state: T, fields: Iterable[Array]) -> T:
    """A named tuple of the kind of `state`."""
    make: Callable[..., T] = type(state)
    return make(*fields)
