"""Catalogue: every index of the package, and what a person should know to choose one."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax import indices
from icvi_jax.indices.base import Index


class Entry(NamedTuple):
    """One index.

    Attributes
    ----------
    name : under which its values are found, such as "xb".
    index : its class; `index()` has the defaults.
    goal : "min" or "max", the direction that is good.
    range : smallest and largest value.
    needs : names of the statistics it reads.
    meaning : one line in words.
    """

    name: str
    index: type[Index]
    goal: str
    range: tuple[float, float]
    needs: tuple[str, ...]
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
    return tuple(
        Entry(part.name, part, part.goal, part.range, tuple(need.name for need in part.needs), _meaning(part))
        for part in parts
        if isinstance(part, type) and issubclass(part, Index) and part is not Index
    )


def _meaning(part):
    return part.__doc__.strip().splitlines()[0]
