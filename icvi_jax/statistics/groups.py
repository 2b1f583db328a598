"""Groups: clusters of several slots, from exactly combined statistics.

A cluster stands in its lowest slot. Its statistics are those of its slots merged one after the other, its centre is the
mean of its members; without members, the mean of its slots by the clusterer's masses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from icvi_jax.numerics.arrays import namespace, slots
from icvi_jax.statistics.base import AnyStatistic, States
from icvi_jax.types import Array, Merge, Prototypes, State


def homes(prototypes: Prototypes) -> Array:
    """The lowest active slot (k, *streams) with the same name as each slot; an inactive slot is its own."""
    xp = namespace(prototypes.centers)
    active, names = prototypes.active, prototypes.names
    if names is None:
        raise ValueError("these prototypes have no names: the cluster of each slot is not known")
    k = active.shape[0]
    own = slots(active, k) + xp.zeros_like(names)
    home = own
    for e in range(k - 1, -1, -1):
        same = active & active[e, ...] & (names == names[e, ...])
        home = xp.where(same, e, home)
    return home


def gathered(
    parts: Iterable[type[AnyStatistic]], states: Mapping[str, State], prototypes: Prototypes
) -> tuple[dict[str, State], Prototypes]:
    """States and prototypes of the named clusters, each in its lowest slot; the other slots are free."""
    xp = namespace(prototypes.centers)
    k = prototypes.active.shape[0]
    home, index = homes(prototypes), slots(prototypes.active, k)
    parts = [part for part in parts if part.gathers]
    for c in range(1, k):
        moves = home[c, ...] != c
        merge = Merge((index == home[c, ...]) & moves, (index == c) & moves)
        found = {part.name: part.merge(States(states), merge) for part in parts}
        states = dict(states) | {name: new for name, new in found.items() if new is not None}
    active = prototypes.active & (home == index)
    centers = _middle(prototypes, home)
    if "dispersion" in states:
        mass, mean, _ = states["dispersion"]
        centers = xp.where((mass > 0)[:, None, ...], mean, centers)
    return dict(states), Prototypes(xp.where(active[:, None, ...], centers, 0.0), active)


def _middle(prototypes: Prototypes, home: Array) -> Array:
    """The mean (k, p, *streams) of the centres of each cluster's slots: where a cluster without members is."""
    xp = namespace(prototypes.centers)
    weight = xp.astype(prototypes.active, prototypes.centers.dtype)
    weight = weight if prototypes.masses is None else weight * prototypes.masses
    rows = []
    for g in range(home.shape[0]):
        mine = xp.where(home == g, weight, 0.0)
        total = xp.sum(mine, axis=0)
        place = xp.sum(mine[:, None, ...] * prototypes.centers, axis=0)
        rows.append(place / xp.where(total > 0, total, 1.0))
    return xp.stack(rows)
