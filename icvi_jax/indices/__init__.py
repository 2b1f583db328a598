"""Indices, a file for each family, with the equation in the docstring. A new one is a class and a line in `listing`."""

from dataclasses import dataclass as _dataclass

from icvi_jax.indices.base import Index as Index
from icvi_jax.indices.listing import *  # noqa: F403
from icvi_jax.spec import public_names as _public_names
from icvi_jax.statistics import closure as _closure


@_dataclass(frozen=True)
class IndexEntry:
    """One index: its class, the first line of its docstring (`meaning`), and its class variables; see `Index`.

    `needs` has names of statistics; `path` says whether the index depends on earlier places of the centres, so that two
    shards do not combine exactly.
    """

    name: str
    index: type[Index]
    goal: str
    range: tuple[float, float]
    needs: tuple[str, ...]
    grouped: bool
    path: bool
    meaning: str


def catalogue() -> tuple[IndexEntry, ...]:
    """All indices that `icvi_jax.indices` exports.

    Examples
    --------
    >>> for entry in catalogue()[:2]:
    ...     print(entry.name, entry.goal, entry.meaning)
    xb min Compactness over separation; small is good.
    db min Mean over clusters of the worst ratio of spread to distance; small is good.
    """
    from icvi_jax.indices import listing  # here: an index in the listing may import from this package

    return tuple(_entry(part) for part in vars(listing).values() if isinstance(part, type) and issubclass(part, Index))


def _entry(index: type[Index]) -> IndexEntry:
    needs, meaning = tuple(need.name for need in index.needs), (index.__doc__ or "").strip().splitlines()[0]
    path = not all(need.shards for need in _closure(index.needs))
    return IndexEntry(index.name, index, index.goal, index.range, needs, index.grouped, path, meaning)


globals()["__all__"] = _public_names(globals())
