"""Catalogue: every index of the package, and what a user needs to choose one."""

from __future__ import annotations

from dataclasses import dataclass

from icvi_jax.indices import listing
from icvi_jax.indices.base import Index
from icvi_jax.statistics import closure


@dataclass(frozen=True)
class Entry:
    """One index.

    Attributes
    ----------
    name : the name of its values, such as "xb".
    index : its class; `index()` has the defaults.
    goal : "min" or "max": which values are good.
    range : smallest and largest value.
    needs : names of the statistics it uses.
    grouped : whether it needs a clusterer with several prototypes per cluster.
    path : whether it depends on earlier places of the centres, so that two shards do not combine exactly.
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
    return tuple(_entry(part) for part in vars(listing).values() if isinstance(part, type) and issubclass(part, Index))


def _entry(index: type[Index]) -> Entry:
    needs, meaning = tuple(need.name for need in index.needs), (index.__doc__ or "").strip().splitlines()[0]
    path = not all(need.shards for need in closure(index.needs))
    return Entry(index.name, index, index.goal, index.range, needs, index.grouped, path, meaning)
