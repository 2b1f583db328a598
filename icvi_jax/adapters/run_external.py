"""Run a clusterer of another library along a stream: recorded for `validate`, or live with a panel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icvi_jax.adapters.center_slots import Slots
from icvi_jax.adapters.external_models import Foreign
from icvi_jax.numerics.arrays import usable
from icvi_jax.panel import Panel
from icvi_jax.types import Array
from icvi_jax.validation import validate


class Followed(NamedTuple):
    """What a clusterer of another library did along a stream, as input for `icvi_jax.validate` and `icvi_jax.batch`."""

    memberships: NDArray[np.floating]  # (T, capacity), one-hot; all zero is noise
    centers: NDArray[np.floating]  # (T, capacity, p), the centres after each sample
    active: NDArray[np.bool_]  # (T, capacity), the slots in use after each sample
    label: NDArray[np.integer]  # (T,), slot of each sample; −1 is noise or missing
    overflow: NDArray[np.bool_]  # (T,), a centre found no slot at this sample: use more capacity
    cluster: NDArray[np.integer]  # (T,), the persistent name of the cluster of each sample; −1 is noise or missing

    @property
    def k(self) -> NDArray[np.integer]:
        """Number of centres after each sample, (T,)."""
        k: NDArray[np.integer] = np.count_nonzero(self.active, axis=1)
        return k

    def values(self, panel: Panel, X: ArrayLike) -> dict[str, Array]:
        """Index values of `panel` after every sample of X (T, p)."""
        return validate(panel, X, memberships=self.memberships, centers=self.centers, active=self.active)


def follow(model: Foreign, X: ArrayLike, capacity: int, identity: str = "nearest") -> Followed:
    """Let a clusterer of another library learn a recorded stream, one sample at a time.

    Parameters
    ----------
    model : such as `River(…)`, `Scikit(…)` or your own; it is changed.
    X : (T, p); rows that are not finite are missing, and the clusterer does not get them.
    capacity : most centres at a time.
    identity : how centres are recognised from sample to sample; see `Slots`.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> from icvi_jax.adapters import River
    >>> from river import cluster
    >>> X = icvi.streams.s2(seed=0).x[:300]
    >>> model = River(cluster.KMeans(n_clusters=3, halflife=0.1, sigma=30, mu=80, seed=0))
    >>> followed = follow(model, X, capacity=3, identity="key")
    >>> followed.values(icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9), X)["xb"].shape
    (300,)
    """
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"follow(X=…): expected the axes (T, p) and at least one sample, got shape {X.shape}")
    slots = Slots(capacity, X.shape[1], identity)
    return Followed(*(np.stack(parts) for parts in zip(*(_learn(model, slots, x) for x in X))))


class Watch:
    """A clusterer of another library and a panel, live: each sample gives index values.

    Parameters
    ----------
    panel : the indices.
    model : such as `River(…)`, `Scikit(…)` or your own.
    features : p.
    capacity : most centres at a time.
    identity : how centres are recognised from sample to sample; see `Slots`.

    Attributes
    ----------
    state : the panel's state, for `icvi_jax.explain`.
    label, cluster : slot of the last sample, and the persistent name of its cluster; −1 is noise or missing.
    overflow : whether a centre found no slot at the last sample.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> from sklearn.cluster import MiniBatchKMeans
    >>> from icvi_jax.adapters import Scikit
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
    >>> watch = Watch(panel, Scikit(MiniBatchKMeans(n_clusters=2, n_init=1, random_state=0)), features=1, capacity=2)
    >>> for x in (0.0, 9.0, 1.0, 8.0):
    ...     values = watch.tick([x])
    >>> sorted(values)
    ['xb']
    """

    def __init__(self, panel: Panel, model: Foreign, features: int, capacity: int, identity: str = "nearest") -> None:
        self.panel, self.model = panel, model
        self.slots = Slots(capacity, features, identity)
        self.state = panel.init(capacity, features, xp=np)
        self.label, self.cluster, self.overflow = -1, -1, False

    def tick(self, x: ArrayLike) -> dict[str, Array]:
        """Process the sample x (p,); if it is not finite, it is missing and nothing changes."""
        x = np.asarray(x, dtype=float)
        if x.shape != self.slots.centers.shape[1:]:
            raise ValueError(f"Watch.tick(x=…): expected shape {self.slots.centers.shape[1:]}, got {x.shape}")
        u, centers, active, self.label, self.overflow, self.cluster = _learn(self.model, self.slots, x)
        self.state, values = self.panel.step(self.state, x, u, centers, active)
        return values


def _learn(
    model: Foreign, slots: Slots, x: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.bool_], int, bool, int]:
    """The fields of `Followed` after one sample."""
    u, label, seen = np.zeros(len(slots.active)), -1, bool(usable(x).all())
    if seen:
        said = model.learn(x)
        label = slots.update(said.centers).get(said.label, -1)
        if label >= 0:
            u[label] = 1.0
    cluster = int(slots.names[label]) if label >= 0 else -1
    return u, slots.centers, slots.active, label, seen and slots.overflow, cluster
