"""What a foreign clusterer must say after each sample, and how river's and scikit-learn's are made to say it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Snapshot(NamedTuple):
    """What a clusterer says after it has learned one sample.

    Attributes
    ----------
    label : name of the centre the sample belongs to; None, or a name that no centre has, is noise.
    centers : the centres (p,) there are now, by name.
    """

    label: Hashable | None
    centers: Mapping[Hashable, NDArray[np.floating]]


class Foreign(Protocol):
    """A clusterer of any kind: it learns one sample and says what came of it."""

    def learn(self, x: NDArray[np.floating]) -> Snapshot:
        """Take in the sample x (p,)."""
        ...


class RiverClusterer(Protocol):
    """The part of river's clusterers that is used."""

    centers: Mapping[int, Mapping[Hashable, float]]

    def learn_one(self, x: dict[Hashable, float]) -> object:
        """Learn a sample."""
        ...

    def predict_one(self, x: dict[Hashable, float]) -> int:
        """The cluster of a sample."""
        ...


class River:
    """A clusterer of river: KMeans, STREAMKMeans, CluStream, DBSTREAM, DenStream.

    The sample is learned first and labelled after, so that label and centres belong together. Before there are centres
    every sample is noise. CluStream, DBSTREAM and DenStream number their clusters anew as they go, so the numbers say
    nothing about which was which: follow them with ``identity="nearest"``, the default. KMeans and STREAMKMeans keep
    theirs: ``identity="key"``.

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
        label = self.model.predict_one(sample)  # DenStream makes its clusters here, so centres come after
        centers: dict[Hashable, NDArray[np.floating]] = {}
        for key, center in self.model.centers.items():
            if all(name in center for name in names):  # asking a defaultdict for a missing one would make it up
                centers[key] = np.array([center[name] for name in names], dtype=float)
        return Snapshot(label, centers)


CENTERS = ("cluster_centers_", "subcluster_centers_")
"""Where scikit-learn's clusterers keep their centres."""


class ScikitClusterer(Protocol):
    """The part of scikit-learn's incremental clusterers that is used."""

    n_clusters: int | None

    def partial_fit(self, X: ArrayLike) -> object:
        """Learn some samples."""
        ...


class Scikit:
    """An incremental clusterer of scikit-learn: MiniBatchKMeans, or Birch.

    The label of a sample is the nearest centre, as these models predict it; asking them would cost more than all else.
    Centres of Birch are its subclusters, so its ``n_clusters=None`` is what is followed; their numbers change as its
    tree is rebuilt: ``identity="nearest"``. MiniBatchKMeans keeps its numbers: ``identity="key"``.

    Parameters
    ----------
    model : has `partial_fit` and, once fitted, centres.
    first : samples gathered for the first `partial_fit`, which MiniBatchKMeans seeds its centres from; its `n_clusters`
        by default. Until then every sample is noise.
    batch : samples learned at a time from then on; in between, labels come from the centres as they are.
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
        wanted = first if first is not None else model.n_clusters or 1
        for field, value in (("first", wanted), ("batch", batch)):
            if value < 1:
                raise ValueError(f"Scikit({field}={value!r}): needs a whole number of at least 1")
        self.model, self.batch = model, batch
        self.attributes = CENTERS if centers is None else (centers,)
        self._waiting: list[NDArray[np.floating]] = []
        self._wanted, self._fitted = wanted, False

    def learn(self, x: NDArray[np.floating]) -> Snapshot:
        """Learn the sample, or keep it until there are enough, then say which centre is nearest."""
        self._waiting.append(np.array(x, dtype=float))
        if len(self._waiting) >= self._wanted:
            self.model.partial_fit(np.stack(self._waiting))
            self._waiting, self._wanted, self._fitted = [], self.batch, True
        if not self._fitted:
            return Snapshot(None, {})
        centers = self._centers()
        return Snapshot(int(((centers - x) ** 2).sum(1).argmin()), dict(enumerate(centers)))

    def _centers(self) -> NDArray[np.floating]:
        """The centres (k, p) that the model has now."""
        found = (getattr(self.model, attribute, None) for attribute in self.attributes)
        centers = next((rows for rows in found if rows is not None), None)
        if centers is None:
            names = " or ".join(map(repr, self.attributes))
            raise ValueError(f"Scikit(model=…): a fitted {type(self.model).__name__} has no {names}; say centers=…")
        return np.array(centers, dtype=float)
