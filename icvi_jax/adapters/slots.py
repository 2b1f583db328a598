"""Slots: which of a changing set of centres is which, in a fixed number of places."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from icvi_jax.spec import one_of, whole


class Slots:
    """Places for centres that come, go and may be renumbered.

    A centre keeps its slot and its name for life; slots are used again, names are not. A slot is free again from the
    sample after its centre went, never at the same one: the panel must see it inactive once, or it would take the
    newcomer for the old centre moved.

    Parameters
    ----------
    capacity : most centres there can be. Further ones wait, and `overflow` says so, until a slot is free.
    features : p.
    identity : "key": a centre is who its name says. "nearest": names mean nothing; an old and a new centre are the same
        if each is the other's nearest. Old ones without a partner died, new ones without one were born.

    Attributes
    ----------
    centers : (capacity, p); of no meaning where not active.
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
        """Take in the centres there are now; the slot of each by name. Centres without a slot are left out."""
        wanted = self.centers.shape[1:]
        for name, center in centers.items():
            if np.shape(center) != wanted:
                raise ValueError(f"Slots.update: centre {name!r} has shape {np.shape(center)}, wanted is {wanted}")
        free = np.flatnonzero(~self.active).tolist()
        if self.identity == "key":
            kept = {name: self._slots[name] for name in centers if name in self._slots}
        else:
            kept = self._partners(centers)
        newborn = [name for name in centers if name not in kept]
        born = dict(zip(newborn, free))
        self._slots = {**kept, **born}
        self.overflow = len(newborn) > len(free)
        self.active = np.zeros_like(self.active)
        self.centers = self.centers.copy()  # earlier ones may be kept by whoever asked
        for name, slot in self._slots.items():
            self.active[slot] = True
            self.centers[slot] = centers[name]
        self.names = np.where(self.active, self.names, -1)
        for slot in born.values():
            self.names[slot], self._next = self._next, self._next + 1
        return dict(self._slots)

    def _partners(self, centers: Mapping[Hashable, NDArray[np.floating]]) -> dict[Hashable, int]:
        """Slots of the centres that are the nearest of their own nearest."""
        old, names = np.flatnonzero(self.active), list(centers)
        if not len(old) or not names:
            return {}
        new = np.stack([np.asarray(centers[name], dtype=float) for name in names])
        gaps = ((self.centers[old][:, None] - new[None]) ** 2).sum(-1)
        heir, parent = gaps.argmin(1), gaps.argmin(0)
        return {names[j]: int(old[i]) for j, i in enumerate(parent.tolist()) if heir[i] == j}
