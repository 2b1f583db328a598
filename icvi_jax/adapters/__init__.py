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

from icvi_jax.adapters.follow import Followed, Watch, follow
from icvi_jax.adapters.models import Foreign, River, Scikit, Snapshot
from icvi_jax.adapters.slots import Slots

__all__ = ["Followed", "Foreign", "River", "Scikit", "Slots", "Snapshot", "Watch", "follow"]
