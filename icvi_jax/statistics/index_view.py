"""The argument of indices: views of the statistics of a panel, and values cached from the step before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from icvi_jax.numerics.arrays import count, far, namespace, pointed, squares
from icvi_jax.statistics.base import AnyStatistic, S, States, Statistic, V
from icvi_jax.statistics.count import Count
from icvi_jax.statistics.dispersion import Dispersion
from icvi_jax.types import Array, DType, Namespace, Prototypes, State


class Memo:
    """What was computed at the step before and holds again, but for the few slots that a sample changed.

    A sample of a crisp clusterer moves one centre, so that k of the k²/2 distances between centres are new. A clusterer
    that is `local` says which slots moved (`Event.moved`), and a pipeline keeps what its indices name in `kept`.
    Nothing is added up: what changes is computed anew from centres and statistics, so there is no drift.

    Parameters
    ----------
    names : of what is to be kept; all else is computed in full.
    old : what was kept; empty: everything is computed in full, once.
    moved : one-hot masks (k, *streams) of the slots that changed.

    Attributes
    ----------
    new : what is to be kept for the next step.
    """

    def __init__(
        self, names: Sequence[str] = (), old: Mapping[str, Array] | None = None, moved: Sequence[Array] = ()
    ) -> None:
        self._names, self._old, self._moved = frozenset(names), old or {}, moved
        self.new: dict[str, Array] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def of(self, name: str, full: Callable[[], Array], renew: Callable[[Array, Sequence[Array]], Array]) -> Array:
        """The value of this name: from the cache if it is there, otherwise computed in full."""
        if name not in self._names:
            return full()
        if name not in self.new:
            old = self._old.get(name)
            self.new[name] = full() if old is None else renew(old, self._moved)
        return self.new[name]


def empty_memo(names: Sequence[str], k: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> dict[str, Array]:
    """The cache before any sample, when no slot is in use: distances are larger than all real ones."""
    pairs = k * (k - 1) // 2
    sizes = {"logdet": k, "across": 2 * pairs}
    apart = 1.01 * far(dtype, xp)
    values = {"distances": apart, "across": apart, "inverse": 1 / apart, "inverse_root": apart**-0.5}
    return {
        name: xp.full((sizes.get(name, pairs), *streams), values.get(name, 0.0), dtype=dtype) for name in sorted(names)
    }


class Stats:
    """Views of all statistics at one moment: `stats[Dispersion]` is what indices get of a dispersion.

    Each is computed once, for all indices.

    Attributes
    ----------
    centers, active : the prototypes, of slots or of clusters as the panel says.
    slots : the prototypes of slots, with the names of their clusters.
    k : number of active slots, as a float.
    samples : N, the number of samples seen, as a float.
    n : ω, the faded number of samples.
    memo : what is kept from step to step.
    """

    def __init__(
        self,
        parts: Iterable[type[AnyStatistic]],
        states: Mapping[str, State],
        prototypes: Prototypes,
        slots: Prototypes | None = None,
        memo: Memo | None = None,
    ) -> None:
        self._parts = {part.name: part for part in parts}
        self._by_name, self._states = states, States(states)
        self._views: dict[str, State] = {}
        self.centers, self.active = prototypes.centers, prototypes.active
        self.slots = prototypes if slots is None else slots
        self.memo = memo or Memo()

    def __getitem__(self, statistic: type[Statistic[S, V]]) -> V:
        view: V = self._view(statistic.name)
        return view

    if not TYPE_CHECKING:  # a name in place of a statistic works, but a type checker cannot check it

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return self._view(name)

    def _view(self, name: str) -> State:
        if name not in self._parts:
            raise AttributeError(f"no statistic {name!r} on this panel: name it in the index's `needs`")
        if name not in self._views:
            self._views[name] = self._parts[name].view(self, self._by_name[name])
        return self._views[name]

    @cached_property
    def xp(self) -> Namespace:
        return namespace(self.centers)

    @cached_property
    def k(self) -> Array:
        return self.xp.astype(count(self.active), self.centers.dtype)

    @cached_property
    def samples(self) -> Array:
        return self.xp.astype(self._states[Count].samples, self.centers.dtype)

    @cached_property
    def n(self) -> Array:
        return self._states[Count].weight

    @cached_property
    def singletons(self) -> Array:
        """Whether there are two clusters or more, each of one sample: there is no spread to judge yet."""
        return (self.k > 1) & (self.samples <= self.k)

    @cached_property
    def from_mean_center(self) -> Array:
        """Squared distances ‖v_i − v̄‖² of the active centres from their plain mean: (k, *streams), else 0."""
        mean = self.over_slots(self.centers) / self.xp.where(self.k > 0, self.k, 1.0)
        d = squares(self.centers - mean, 1)
        return self.xp.where(self.active, d, 0 * d)

    from_hub = property(lambda self: self.from_mean_center)  # its name before 0.3

    @cached_property
    def constant(self) -> Array:
        """Whether all members and all centres are in one place: then a small spread is not good."""
        return (self[Dispersion].total <= 0) & (self.xp.sum(self.from_mean_center, axis=0) <= 0)

    def over_slots(self, a: Array) -> Array:
        """Sum of `a` (k, …, *streams) over the active slots."""
        return pointed(a, self.active)
