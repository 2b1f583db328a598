"""Adapters: clusterers of other libraries with our panel; the number of their centres may change.

>>> import numpy as np, icvi_jax as icvi
>>> from icvi_jax.adapters import Snapshot, Watch
>>> class Halves:
...     "Your own clusterer: anything with a `learn` that says where the sample went and where the centres are."
...     def learn(self, x):
...         return Snapshot(bool(x[0] > 0), {False: np.array([-1.0]), True: np.array([1.0])})
>>> watch = Watch(icvi.Panel(indices=(icvi.XieBeni(),)), Halves(), features=1, capacity=4)
>>> [round(float(watch.tick([x])["xb"]), 3) for x in (1.0, -1.0, 1.5, -1.5)]
[nan, nan, 0.021, 0.031]
"""

from typing import TYPE_CHECKING

from icvi_jax.adapters.center_slots import Slots
from icvi_jax.adapters.external_models import Foreign, River, Scikit, Snapshot
from icvi_jax.adapters.run_external import Followed, Watch, follow

if TYPE_CHECKING:
    from icvi_jax.adapters.river_metric import ValidityMetric
    from icvi_jax.adapters.sklearn_validity import StreamValidity

__all__ = [
    "Followed",
    "Foreign",
    "River",
    "Scikit",
    "Slots",
    "Snapshot",
    "StreamValidity",
    "ValidityMetric",
    "Watch",
    "follow",
]


def __getattr__(name: str) -> object:
    """The metric for river and the estimator for scikit-learn: their libraries are loaded when they are asked for."""
    if name == "ValidityMetric":
        from icvi_jax.adapters.river_metric import ValidityMetric

        return ValidityMetric
    if name == "StreamValidity":
        from icvi_jax.adapters.sklearn_validity import StreamValidity

        return StreamValidity
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
