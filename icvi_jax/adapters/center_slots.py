"""Slots: keep a changing set of centres in a fixed number of places, and recognise each centre."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from icvi_jax.indices import Index, catalogue
from icvi_jax.spec import one_of, whole


class Slots:
    """Places for centres that appear, disappear and may get other numbers.

    A centre keeps its slot and its name as long as it exists; slots are used again, names are not. A slot is free again
    one sample after its centre disappeared: a panel that never saw it inactive would take the new centre for the old
    one, moved.

    Parameters
    ----------
    capacity : most centres. Further ones wait until a slot is free, and `overflow` is True.
    features : p.
    identity : "key": a centre is identified by its name. "nearest": names are ignored; an old and a new centre are the
        same if each is the nearest of the other. Old ones without a partner have died, new ones are born.

    Attributes
    ----------
    centers : (capacity, p); undefined where not active.
    active : (capacity,), boolean.
    names : (capacity,), integer: the persistent name of the centre in each slot, −1 where there is none.
    overflow : whether a centre found no free slot at the last update.

    Examples
    --------
    >>> slots = Slots(3, 1)
    >>> slots.update({0: np.array([0.0]), 1: np.array([9.0])})
    {0: 0, 1: 1}
    >>> slots.update({0: np.array([9.1])})  # the other one is gone, and this one renumbered
    {0: 1}
    >>> slots.names.tolist()
    [-1, 1, -1]
    """

    def __init__(self, capacity: int, features: int, identity: str = "nearest"):
        whole("Slots", "capacity", capacity)
        whole("Slots", "features", features)
        one_of("Slots", "identity", identity, ("nearest", "key"))
        self.identity = identity
        self.centers = np.zeros((capacity, features))
        self.active = np.zeros(capacity, dtype=bool)
        self.overflow = False
        self.names = np.full(capacity, -1)
        self._slots: dict[Hashable, int] = {}
        self._next = 0

    def update(self, centers: Mapping[Hashable, NDArray[np.floating]]) -> dict[Hashable, int]:
        """Set the present centres; returns the slot of each by name, without centres that have no slot."""
        expected = self.centers.shape[1:]
        for name, center in centers.items():
            if np.shape(center) != expected:
                raise ValueError(f"Slots.update: centre {name!r} has shape {np.shape(center)}, expected {expected}")
        free = np.flatnonzero(~self.active).tolist()
        if self.identity == "key":
            kept = {name: self._slots[name] for name in centers if name in self._slots}
        else:
            kept = self._partners(centers)
        newborn = [name for name in centers if name not in kept]
        born = dict(zip(newborn, free))
        self._slots = kept | born
        self.overflow = len(newborn) > len(free)
        self.active = np.zeros_like(self.active)
        self.centers = self.centers.copy()  # the caller may have kept the old array
        for name, slot in self._slots.items():
            self.active[slot] = True
            self.centers[slot] = centers[name]
        self.names = np.where(self.active, self.names, -1)
        for slot in born.values():
            self.names[slot], self._next = self._next, self._next + 1
        return dict(self._slots)

    def _partners(self, centers: Mapping[Hashable, NDArray[np.floating]]) -> dict[Hashable, int]:
        """Slots of the new centres for which an old centre is the nearest, and the other way round."""
        old, names = np.flatnonzero(self.active), list(centers)
        if not len(old) or not names:
            return {}
        new = np.stack([np.asarray(centers[name], dtype=float) for name in names])
        gaps = ((self.centers[old][:, None] - new[None]) ** 2).sum(-1)
        heir, parent = gaps.argmin(1), gaps.argmin(0)
        return {names[j]: int(old[i]) for j, i in enumerate(parent.tolist()) if heir[i] == j}


def index_of(name: str) -> Index:
    """The index with this name."""
    known = {entry.name: entry for entry in catalogue()}
    if name not in known:
        raise ValueError(f"index {name!r}: expected one of {', '.join(known)}")
    return known[name].index()
