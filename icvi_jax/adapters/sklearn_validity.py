"""Stream clustering with its validity as an estimator of scikit-learn: `fit`, `partial_fit`, `transform`; needs it."""

from __future__ import annotations

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from icvi_jax.adapters.center_slots import index_of
from icvi_jax.clusterers import SequentialKMeans
from icvi_jax.panel import Panel
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.run import run, run_fleet


class StreamValidity(TransformerMixin, BaseEstimator):
    """Sequential k-means and a panel of indices, along the rows of X.

    `transform` says, for each row by itself, what the indices would be if it came next: a row that spoils the clusters
    has another value than one that fits. It learns nothing.

    Parameters
    ----------
    n_clusters : k.
    indices : names of the indices, as `icvi indices` lists them.
    forgetting : λ in (0, 1]; 1 forgets nothing.

    Attributes
    ----------
    cluster_centers_ : (k, p).
    values_ : (T, number of indices), after each row of the last `fit` or `partial_fit`; NaN before there are clusters.
    state_ : of the pipeline, after the last row.

    Examples
    --------
    >>> rows = [[0.0], [9.0], [1.0], [8.0]]
    >>> StreamValidity(n_clusters=2, indices=("xb",)).fit(rows).transform([[0.5], [4.5]]).round(2)
    array([[0.  ],
           [0.05]])
    """

    state_: PipelineState

    def __init__(self, n_clusters: int = 3, indices: tuple[str, ...] = ("xb", "db"), forgetting: float = 1.0) -> None:
        self.n_clusters, self.indices, self.forgetting = n_clusters, indices, forgetting

    def fit(self, X: ArrayLike, y: object = None) -> StreamValidity:
        """Learn the rows of X in order, from nothing."""
        return self._learn(X, first=True)

    def partial_fit(self, X: ArrayLike, y: object = None) -> StreamValidity:
        """Learn further rows."""
        return self._learn(X, first="state_" not in vars(self))

    def _learn(self, X: ArrayLike, first: bool) -> StreamValidity:
        rows = validate_data(self, X, reset=first, dtype=np.float64)
        pipe = self._pipeline()
        state = pipe.init(rows.shape[1], xp=np, dtype=np.float64) if first else self.state_
        self.state_, made = run(pipe, rows, state=state, keep=("values", "centers"), backend="numpy")
        self.values_ = np.stack([made.values[name] for name in self.indices], axis=-1)
        self.cluster_centers_ = made.centers[-1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """What the indices would be if each row came next, (n, number of indices)."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        wide = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[..., None], len(rows), -1), self.state_)
        made = run_fleet(self._pipeline(), rows[:, None, :], state=wide, keep=("values",), backend="numpy")
        return np.concatenate([made.readings.values[name] for name in self.indices], axis=-1)

    def _pipeline(self) -> Pipeline:
        panel = Panel(indices=tuple(map(index_of, self.indices)), forgetting=self.forgetting)
        return Pipeline(clusterer=SequentialKMeans(k=self.n_clusters), panel=panel)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """The names of the indices."""
        check_is_fitted(self)
        return np.array(self.indices, dtype=object)
