"""What a clusterer of another library must return after each sample, and adapters for river and scikit-learn."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icvi_jax.spec import whole

Centers = Mapping[Hashable, Mapping[Hashable, float]]
"""The centres of a clusterer of river, by name and by feature."""


class Snapshot(NamedTuple):
    """The result of a clusterer after one sample."""

    label: Hashable | None  # name of the centre the sample belongs to; None, or a name that no centre has, is noise
    centers: Mapping[Hashable, NDArray[np.floating]]  # the present centres (p,), by name


class Foreign(Protocol):
    """A clusterer of any kind: it learns one sample and returns a snapshot."""

    def learn(self, x: NDArray[np.floating]) -> Snapshot:
        """Learn the sample x (p,)."""


class RiverClusterer(Protocol):
    """The methods of river's clusterers that are used."""

    centers: Centers

    def learn_one(self, x: dict[Hashable, float]) -> object:
        """Learn a sample."""

    def predict_one(self, x: dict[Hashable, float]) -> int:
        """The cluster of a sample."""


class River:
    """A clusterer of river: KMeans, STREAMKMeans, CluStream, DBSTREAM, DenStream.

    The sample is learned first and labelled after, so that label and centres belong together. Before there are centres,
    every sample is noise. CluStream, DBSTREAM and DenStream change the numbers of their clusters: use
    ``identity="nearest"``, the default. KMeans and STREAMKMeans keep theirs: ``identity="key"``.

    Parameters
    ----------
    model : the clusterer.
    names : names of the features in river's dictionaries; 0, 1, … by default.

    Examples
    --------
    >>> from river import cluster
    >>> model = River(cluster.KMeans(n_clusters=2, halflife=0.5, sigma=1, seed=0))
    >>> snapshot = model.learn(np.array([3.0, 4.0]))
    >>> sorted(snapshot.centers), snapshot.label in snapshot.centers
    ([0, 1], True)
    """

    def __init__(self, model: RiverClusterer, names: Sequence[Hashable] | None = None) -> None:
        self.model = model
        self.names = None if names is None else tuple(names)

    def learn(self, x: NDArray[np.floating]) -> Snapshot:
        """Learn the sample, then ask for its label and for the centres."""
        names = range(len(x)) if self.names is None else self.names
        if len(names) != len(x):
            raise ValueError(f"River(names=…): {len(names)} names, the sample has {len(x)} features")
        sample = dict(zip(names, map(float, x)))
        self.model.learn_one(sample)
        label = self.model.predict_one(sample)  # DenStream makes its clusters here, so ask for centres later
        return Snapshot(label, points(self.model.centers, names))


def points(centers: Centers, names: Sequence[Hashable]) -> dict[Hashable, NDArray[np.floating]]:
    """The centres of river that have all the names, as arrays (p,)."""
    full = (key for key, center in centers.items() if all(name in center for name in names))  # some are defaultdicts
    return {key: np.array([centers[key][name] for name in names], dtype=float) for key in full}


CENTERS = ("cluster_centers_", "subcluster_centers_")
"""Attributes of scikit-learn's clusterers with their centres."""


class ScikitClusterer(Protocol):
    """The methods of scikit-learn's incremental clusterers that are used."""

    n_clusters: int | None

    def partial_fit(self, X: ArrayLike) -> object:
        """Learn some samples."""


class Scikit:
    """An incremental clusterer of scikit-learn: MiniBatchKMeans, or Birch.

    The label of a sample is the nearest centre: calling `predict` would take longer than all the rest. Centres of Birch
    are its subclusters, as with its ``n_clusters=None``; their numbers change: ``identity="nearest"``. MiniBatchKMeans
    keeps its numbers: ``identity="key"``.

    Parameters
    ----------
    model : has `partial_fit` and, once fitted, centres.
    first : samples collected for the first `partial_fit`, from which MiniBatchKMeans takes its first centres; its
        `n_clusters` by default. Until then every sample is noise.
    batch : samples learned at a time after that; in between, labels come from the present centres.
    centers : name of the fitted attribute; ``"cluster_centers_"`` by default, or where there is none, as in Birch,
        ``"subcluster_centers_"``.

    Examples
    --------
    >>> from sklearn.cluster import MiniBatchKMeans
    >>> model = Scikit(MiniBatchKMeans(n_clusters=2, n_init=1, random_state=0))
    >>> [len(model.learn(np.array([x])).centers) for x in (0.0, 9.0, 1.0)]
    [0, 2, 2]
    """

    def __init__(
        self, model: ScikitClusterer, first: int | None = None, batch: int = 1, centers: str | None = None
    ) -> None:
        self.model, self.batch = model, batch
        self.attributes = CENTERS if centers is None else (centers,)
        self._waiting: list[NDArray[np.floating]] = []
        self._wanted, self._fitted = first if first is not None else model.n_clusters or 1, False
        whole("Scikit", "first", self._wanted)
        whole("Scikit", "batch", batch)

    def learn(self, x: NDArray[np.floating]) -> Snapshot:
        """Learn the sample, or keep it until there are enough; the label is the nearest centre."""
        self._waiting.append(np.array(x, dtype=float))
        if len(self._waiting) >= self._wanted:
            self.model.partial_fit(np.stack(self._waiting))
            self._waiting, self._wanted, self._fitted = [], self.batch, True
        if not self._fitted:
            return Snapshot(None, {})
        found = (getattr(self.model, attribute, None) for attribute in self.attributes)
        rows = next((rows for rows in found if rows is not None), None)
        if rows is None:
            names = " or ".join(map(repr, self.attributes))
            raise ValueError(f"Scikit(model=…): a fitted {type(self.model).__name__} has no {names}; give centers=…")
        centers = np.array(rows, dtype=float)
        return Snapshot(int(((centers - x) ** 2).sum(1).argmin()), dict(enumerate(centers)))
