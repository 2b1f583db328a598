"""Catalogue: every clusterer of the package, and what a person should know to choose one."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.clusterers.base import Clusterer
from icvi_jax.clusterers.fuzzy import FuzzyCMeans
from icvi_jax.clusterers.kmeans import SequentialKMeans
from icvi_jax.clusterers.mergesplit import MergeSplit
from icvi_jax.clusterers.oec import OnlineEllipsoidal
from icvi_jax.clusterers.rebirth import RebirthKMeans


class Entry(NamedTuple):
    """One clusterer.

    Attributes
    ----------
    name : as the command knows it, such as "sk-means".
    clusterer : its class.
    size : the field that says how many slots there are: "k", "capacity" or "slots".
    finds_k : whether the number of clusters is found; else it is given.
    purpose : what it is for.
    cost : arithmetic a sample, with k slots and p features.
    forgets : what becomes of old samples.
    avoid : when not to use it.
    """

    name: str
    clusterer: type[Clusterer]
    size: str
    finds_k: bool
    purpose: str
    cost: str
    forgets: str
    avoid: str


def catalogue() -> tuple[Entry, ...]:
    """All clusterers of the package.

    Two jobs need two kinds. For an index that jumps at a change, take one that does not solve the change at once: a
    fixed k and a finite memory (sk-means with memory, fuzzy). For a partition that is right, take one that does
    (merge-split, rebirth, oec), and watch the surprise instead of an index.

    Examples
    --------
    >>> for entry in catalogue():
    ...     print(f"{entry.name}: {entry.purpose}")
    sk-means: k centres, each the mean of its members; with a finite memory they follow, and indices jump at changes.
    rebirth: k-means for regimes that come and go: a far sample takes over the centre that is used least.
    fuzzy: k centres and soft memberships, for clusters that overlap; indices jump at changes.
    merge-split: finds and follows the number of clusters, of any shape, and gives them names that last.
    oec: Gaussian clusters of any orientation; a new one when the stream settles elsewhere.
    """
    return (
        Entry(
            "sk-means", SequentialKMeans, "k", False,
            "k centres, each the mean of its members; with a finite memory they follow, and indices jump at changes.",
            "k p",
            "nothing; with memory=, each centre all but the last so many members of its cluster.",
            "Where the partition itself must be right and k is not known; without memory= on streams that move.",
        ),
        Entry(
            "rebirth", RebirthKMeans, "k", True,
            "k-means for regimes that come and go: a far sample takes over the centre that is used least.",
            "k p",
            "each centre all but the last `memory` members; a cluster without a tenth of its share may be given up.",
            "Where one cluster is to have one name: it cuts a wide cluster among several of its k centres.",
        ),
        Entry(
            "fuzzy", FuzzyCMeans, "k", False,
            "k centres and soft memberships, for clusters that overlap; indices jump at changes.",
            "k p, with k logarithms",
            "weights fade by `forgetting` a sample, also those of a cluster that gets nothing.",
            "Where clusters differ much in size: every centre feels every sample, and small clusters are drawn away.",
        ),
        Entry(
            "merge-split", MergeSplit, "slots", True,
            "finds and follows the number of clusters, of any shape, and gives them names that last.",
            "k² p: about five times k-means with as many slots",
            "each prototype all but the last `memory` members, masses over `mass_memory` samples; nothing ends.",
            "Where clusters overlap and drift together: they become one. An index of its slots hardly sees a change.",
        ),
        Entry(
            "oec", OnlineEllipsoidal, "capacity", True,
            "Gaussian clusters of any orientation; a new one when the stream settles elsewhere.",
            "k p²",
            "nothing; with memory=, each cluster all but so much weight of its members.",
            "Where modes are interleaved from the start: the first cluster takes them all in, and it stays at one.",
        ),
    )  # fmt: skip
