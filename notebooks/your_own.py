# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Bring your own
#
# Your own clusterer, one of another library, or your own index: each in a cell.

# %%
import warnings
from typing import ClassVar, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from river import cluster
from sklearn.cluster import Birch, MiniBatchKMeans

import icvi_jax as icvi
import plots
from icvi_jax.adapters import River, Scikit, Snapshot, Watch, follow
from icvi_jax.clusterers import Clusterer
from icvi_jax.clusterers.base import surprise
from icvi_jax.indices.base import Comparison, divide
from icvi_jax.numerics.arrays import count, namespace, position, smallest, squares
from icvi_jax.spec import required, spec, static
from icvi_jax.statistics import Dispersion, Separation
from icvi_jax.testing import check_clusterer, check_index
from icvi_jax.types import Event, Prototypes, Diagnostics

plots.style()
warnings.filterwarnings("ignore", module="sklearn")

# %% [markdown]
# ## Clusterers of river and scikit-learn with our panel
#
# Their states are Python objects, and the number of clusters may change. `icvi_jax.adapters` lets them learn one sample at
# a time, puts their centres into slots, and recognises each cluster when a library changes its numbers. Nothing is
# approximated: the indices are exact for the centres that the library reports.

# %%
stream = icvi.streams.s2(seed=0)
X = stream.x[300:1500]
changes = [change - 300 for change in stream.changes if 300 < change < 1500]
models = {
    "DBSTREAM": River(
        cluster.DBSTREAM(clustering_threshold=4, fading_factor=0.02, cleanup_interval=20, minimum_weight=2)
    ),
    "DenStream": River(
        cluster.DenStream(decaying_factor=0.5, beta=0.75, mu=2.5, epsilon=4, n_samples_init=30, stream_speed=10)
    ),
    "CluStream": River(
        cluster.CluStream(
            n_macro_clusters=5,
            max_micro_clusters=30,
            time_window=300,
            time_gap=50,
            seed=0,
            halflife=0.4,
            mu=80,
            sigma=10,
        )
    ),
    "MiniBatchKMeans": Scikit(MiniBatchKMeans(n_clusters=5, n_init=1, random_state=0), first=50, batch=25),
    "Birch": Scikit(Birch(n_clusters=None, threshold=3.0), batch=25, centers="subcluster_centers_"),
}
panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
followed = {name: follow(model, X, capacity=16) for name, model in models.items()}
values = {name: one.values(panel, X) for name, one in followed.items()}
ours = icvi.run(icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=16), panel=panel), X).readings

# %%
shades = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.VERMILION, plots.PURPLE)
figure, axes = plt.subplots(6, 1, figsize=(8.5, 8.5), sharex=True)
for one, (name, xb, k), color in zip(
    axes,
    [("OEC (ours)", ours.values["xb"], ours.k), *((n, values[n]["xb"], followed[n].k) for n in models)],
    ("#333333", *shades),
):
    plots.series(one, xb, changes, None, None, color)
    one.set(title=f"{name}", ylabel="XB$_λ$")
    right = one.twinx()
    right.plot(k, color="#aaaaaa", lw=0.8)
    right.set(ylim=(0, 16), ylabel="centres")
    right.grid(False)
axes[-1].set(xlabel="sample")
# %% [markdown]
# *Black and colours: XB_λ, small is good; grey, right scale: how many centres there are. Dotted lines: the stream moves.
# With OEC and DBSTREAM most moves are a spike and a sharp drop: learned, though DBSTREAM splits and merges all the time.
# Birch learns 25 samples at a time: the index is high until its next batch, then drops; its clusters are never removed.
# DenStream, with these settings, ends with one cluster and a slow decline after each move. CluStream makes new centres
# every 50 samples, and the index has a step there. MiniBatchKMeans has only five centres; its index climbs, until one of
# them gets another place near sample 1000. These are single settings on one stream, not a judgement of the methods.*

# %%
for name, one in followed.items():
    xb = np.asarray(values[name]["xb"])
    ups, downs = (np.diff(one.k) > 0).sum(), (np.diff(one.k) < 0).sum()
    print(
        f"{name:16} centres {one.k[-1]:2} in the end, {ups:2} times more, {downs:2} times fewer; median XB_λ {np.nanmedian(xb):.3g}"
    )

# %% [markdown]
# Live, one sample at a time, with a clusterer of three lines: everything with a method `learn` works.


# %%
class Nearest:
    def __init__(self):
        self.centers = {}

    def learn(self, x):
        gaps = {name: np.linalg.norm(x - center) for name, center in self.centers.items()}
        name = min(gaps, key=gaps.get) if gaps and min(gaps.values()) < 6 else len(self.centers)
        self.centers[name] = self.centers.get(name, x) + 0.1 * (x - self.centers.get(name, x))
        return Snapshot(name, self.centers)


watch = Watch(panel, Nearest(), features=2, capacity=16, identity="key")
for sample in X[:300]:
    reading = watch.tick(sample)
print(
    {name: round(float(value), 4) for name, value in reading.items()}, "with", int(watch.slots.active.sum()), "centres"
)

# %% [markdown]
# ## Your own clusterer in the pipeline
#
# A pure step on arrays, `(k, p, *streams)`; then fleets, scans, monitors and checkpoints work without more code. This one
# is k-means with a constant rate, so that centres move with drift.


# %%
class TrackingState(NamedTuple):
    centers: object
    active: object


@spec
class TrackingKMeans(Clusterer):
    """k-means whose centres move towards each member by a constant share."""

    k: int = required()
    rate: float = 0.1
    crisp = True

    @property
    def slots(self):
        return self.k

    def least(self, features):
        return self.k

    def init(self, features, streams, xp, dtype):
        return TrackingState(
            xp.zeros((self.k, features, *streams), dtype=dtype), xp.zeros((self.k, *streams), dtype=xp.bool)
        )

    def step(self, state, x, seen):
        xp = namespace(x)
        v, active = state
        full = active[-1, ...]
        free = ~active & xp.concat([xp.ones_like(active[:1, ...]), active[:-1, ...]], axis=0)
        hit = xp.where(full, smallest(squares(x - v, 1)), free) & seen
        u = xp.astype(hit, x.dtype)
        rate = xp.where(active, u * xp.asarray(self.rate, dtype=x.dtype), u)  # a new centre is its first sample
        new = TrackingState(v + rate[:, None, ...] * (x - v), active | hit)
        none, label = xp.zeros_like(seen), position(hit)
        event = Event(
            x=x,
            u=u,
            before=Prototypes(v, active),
            after=Prototypes(*new),
            seen=seen,
            ready=full,
            shown=Diagnostics(label, count(new.active), none, none, label, surprise(x - v, active, seen)),
        )
        return new, event


check_clusterer(TrackingKMeans(k=3), backends=("numpy", "jax32"))
print("TrackingKMeans obeys the laws of clusterers")

# %% [markdown]
# ## Your own index
#
# A formula of existing statistics; written once it is incremental, forgets, and works for fleets and soft memberships.
# Here the largest spread over the smallest separation.


# %%
@spec
class WidestOverNearest(Comparison):
    """max L_i / min D_ij: the widest cluster over the smallest squared distance between centres; small is good."""

    name: str = static("won")
    goal: ClassVar = "min"
    needs: ClassVar = (Dispersion, Separation)

    def compare(self, stats, forgetting):
        return divide(stats.dispersion.widest, stats.separation.smallest, stats.xp.inf)


check_index(WidestOverNearest(), backends=("numpy", "jax32"))
print("WidestOverNearest obeys the laws of indices")

# %%
pipe = icvi.Pipeline(
    clusterer=TrackingKMeans(k=3),
    panel=icvi.Panel(indices=(icvi.XieBeni(), WidestOverNearest()), forgetting=0.9),
    monitors={"won": icvi.Distress()},
)
readings = icvi.run(pipe, X).readings
figure, one = plt.subplots(figsize=(8, 2.8))
plots.series(one, readings.values["won"], changes, readings.alarms["won"].code, "own index, own clusterer")
one.set(xlabel="sample", ylabel="won")
one.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.2))

# %% [markdown]
# *Our own clusterer with our own index and the monitor. Every move is a short spike, since a centre moves with it; the
# thresholds of the monitor, made for XB, do not raise an alarm at the smaller ones.*
