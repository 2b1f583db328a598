"""Clusterers: one file each, a pure step that turns a sample into an `Event`. Adding one is a line in `listing`."""

from typing import NamedTuple as _NamedTuple

from icvi_jax.clusterers.base import Clusterer as Clusterer
from icvi_jax.clusterers.listing import *  # noqa: F403
from icvi_jax.spec import public_names as _public_names


class ClustererEntry(_NamedTuple):
    """One clusterer: its class, the first line of its docstring as `purpose`, its class variables; see `Clusterer`."""

    name: str
    clusterer: type[Clusterer]
    size: str
    finds_k: bool
    purpose: str
    cost: str
    forgets: str
    avoid: str


def catalogue() -> tuple[ClustererEntry, ...]:
    """All clusterers of the package.

    For an index that jumps at a change, use a clusterer that does not learn the change at once: a fixed k and a finite
    memory (sk-means with memory, fuzzy). For a partition that is right, use one that does (merge-split, rebirth, oec),
    and watch the surprise instead of an index.

    Examples
    --------
    >>> for entry in catalogue()[:5]:
    ...     print(f"{entry.name}: {entry.purpose}")
    sk-means: k centres, each the mean of its members; with a finite memory they follow, and indices jump at changes.
    rebirth: k-means for regimes that come and go: a far sample takes over the centre that is used least.
    fuzzy: k centres and soft memberships, for clusters that overlap; indices jump at changes.
    merge-split: Finds and follows the number of clusters, of any shape, and gives them names that last.
    oec: Gaussian clusters of any orientation; a new one when the stream settles elsewhere.
    """
    from icvi_jax.clusterers import listing  # here: a clusterer in the listing may import from this package

    parts = (part for part in vars(listing).values() if isinstance(part, type) and issubclass(part, Clusterer))
    purpose = {part: (part.__doc__ or "").strip().splitlines()[0] for part in parts}
    return tuple(
        ClustererEntry(part.name, part, part.size, part.finds_k, what, part.cost, part.forgets, part.avoid)
        for part, what in purpose.items()
    )


globals()["__all__"] = _public_names(globals())
