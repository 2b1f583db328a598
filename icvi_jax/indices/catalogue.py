"""Catalogue: every index of the package, and what a person should know to choose one."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax import indices
from icvi_jax.indices.base import Index
from icvi_jax.statistics import closure


class Entry(NamedTuple):
    """One index.

    Attributes
    ----------
    name : under which its values are found, such as "xb".
    index : its class; `index()` has the defaults.
    goal : "min" or "max", the direction that is good.
    range : smallest and largest value.
    needs : names of the statistics it reads.
    grouped : whether it needs a clusterer with several prototypes a cluster.
    path : whether it depends on where the centres have been, so that two shards do not combine to the whole.
    meaning : one line in words.
    """

    name: str
    index: type[Index]
    goal: str
    range: tuple[float, float]
    needs: tuple[str, ...]
    grouped: bool
    path: bool
    meaning: str


def catalogue() -> tuple[Entry, ...]:
    """All indices that `icvi_jax.indices` exports.

    Examples
    --------
    >>> for entry in catalogue()[:2]:
    ...     print(entry.name, entry.goal, entry.meaning)
    xb min Compactness over separation; small is good.
    db min Mean over clusters of the worst ratio of spread to distance; small is good.
    """
    parts = (vars(indices)[name] for name in indices.__all__)
    return tuple(_entry(p) for p in parts if isinstance(p, type) and issubclass(p, Index) and p is not Index)


def _entry(part):
    needs, meaning = tuple(need.name for need in part.needs), part.__doc__.strip().splitlines()[0]
    path = not all(need.shards for need in closure(part.needs))
    return Entry(part.name, part, part.goal, part.range, needs, part.grouped, path, meaning)
