"""Any index as a metric of river, for river's own clusterers and loops; needs river."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping

import numpy as np
from river.metrics.base import ClusteringMetric

from icvi_jax.adapters.center_slots import Slots, index_of
from icvi_jax.adapters.external_models import Centers, points
from icvi_jax.panel import Panel, PanelState

Sample = dict[Hashable, float]


class ValidityMetric(ClusteringMetric):
    """An incremental cluster validity index as a metric of river.

    The value is exact after every sample, for a number of centres that changes. Forgetting costs nothing. river's
    `Rolling` and `TimeRolling` need `window`: centres have moved since a sample came, so that the value is computed
    again from the samples that are left.

    Parameters
    ----------
    index : name of the index, as `icvi indices` lists it.
    forgetting : λ in (0, 1]; 1 forgets nothing.
    capacity : most centres at a time.
    identity : how centres are recognised from sample to sample; see `Slots`.
    window : samples that are kept, so that `revert` can take back the oldest; the window of `Rolling`, or more.

    Examples
    --------
    >>> from river import cluster
    >>> model, metric = cluster.KMeans(n_clusters=2, halflife=0.4, sigma=3, seed=0), ValidityMetric("xb")
    >>> for x in ({"a": 1.0}, {"a": 9.0}, {"a": 1.5}, {"a": 9.5}):
    ...     model.learn_one(x)
    ...     metric.update(x, model.predict_one(x), model.centers)
    >>> metric.bigger_is_better, metric.get() < 1
    (False, True)
    """

    def __init__(
        self,
        index: str = "xb",
        forgetting: float = 1.0,
        capacity: int = 16,
        identity: str = "nearest",
        window: int = 0,
    ) -> None:
        if window < 0:
            raise ValueError(f"ValidityMetric(window={window!r}): expected 0 samples or more")
        self.index, self.forgetting, self.capacity = index, forgetting, capacity
        self.identity, self.window = identity, window
        self._panel = Panel(indices=(index_of(index),), forgetting=forgetting)
        self._names: tuple[Hashable, ...] = ()
        self._slots: Slots | None = None
        self._state: PanelState | None = None
        self._value = float("nan")
        self._kept: deque[tuple[Sample, int, dict[Hashable, Sample]]] = deque(maxlen=window)
        self._reverted = False

    def update(self, x: Mapping[Hashable, float], y_pred: int, centers: Centers, w: float = 1.0) -> None:
        """Process a sample, its cluster and the centres; a sample without a centre is noise."""
        if w != 1.0:
            raise ValueError(f"ValidityMetric.update(w={w!r}): samples have no weights here")
        if self.window:
            self._kept.append((dict(x), y_pred, {key: dict(center) for key, center in centers.items()}))
        if not self._reverted:
            self._step(x, y_pred, centers)

    def _step(self, x: Mapping[Hashable, float], y_pred: int, centers: Centers) -> None:
        if self._slots is None or self._state is None:
            self._names = tuple(x)
            self._slots = Slots(self.capacity, len(x), self.identity)
            self._state = self._panel.init(self.capacity, len(x), xp=np)
        label = self._slots.update(points(centers, self._names)).get(y_pred, -1)
        u = (np.arange(self.capacity) == label).astype(float)
        sample = np.array([x[name] for name in self._names], dtype=float)
        self._state, values = self._panel.step(self._state, sample, u, self._slots.centers, self._slots.active)
        self._value = float(values[self.index])

    def revert(self, x: Mapping[Hashable, float], y_pred: object, centers: object, w: float = 1.0) -> None:
        """Take back the oldest sample that is kept."""
        if not self._kept or self._kept[0][0] != x:
            raise ValueError(
                f"ValidityMetric(window={self.window}): only the oldest sample that is kept can be taken back; for "
                "river's Rolling give window=, at least as many samples as it has, or use forgetting < 1 instead"
            )
        self._kept.popleft()
        self._reverted = True

    def get(self) -> float:
        """The value now; NaN before there are two clusters."""
        if self._reverted:
            self._slots, self._reverted, self._value = None, False, float("nan")
            for x, y_pred, centers in self._kept:
                self._step(x, y_pred, centers)
        return self._value

    @property
    def bigger_is_better(self) -> bool:
        """Whether a large value is good."""
        return index_of(self.index).goal == "max"

    @property
    def works_with_weights(self) -> bool:
        """No: samples count once."""
        return False
