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
# # A fleet: which nodes fail?
#
# One pipeline computes thousands of streams in one call. The **score** of the monitor does not depend on the units of a
# node, so nodes can be ranked by it. First a simulated fleet in which the failing nodes are known, then the stations of
# a real one. `ICVI_NOTEBOOK_NODES` sets the size of the simulated fleet.

# %%
import os
import time

import matplotlib.pyplot as plt
import numpy as np

import icvi_jax as icvi
import plots
import recordings

plots.style()
NODES = int(os.environ.get("ICVI_NOTEBOOK_NODES", 5000))

# %% [markdown]
# ## 5000 nodes, one in a hundred failing
#
# A node alternates between two regimes; each node has its own scale and location of its two sensors. At some time in the
# second half, a failing node **drifts** away, becomes **noisy**, or is **stuck** at its last reading.

# %%
T, KINDS = 600, ("drift", "noisy", "stuck")
rng = np.random.default_rng(0)
regime = (np.arange(T) // rng.integers(25, 60, NODES)[:, None]) % 2
X = np.where(regime[..., None] == 0, 0.0, np.array([6.0, 4.0])) + rng.normal(size=(NODES, T, 2))
failing = rng.choice(NODES, size=max(3, NODES // 100), replace=False)
kind = np.full(NODES, "well", dtype="U5")
kind[failing] = np.resize(KINDS, len(failing))
since = np.full(NODES, T)
since[failing] = rng.integers(300, 450, len(failing))
for node in failing:
    t = since[node]
    if kind[node] == "drift":
        X[node, t:] += 0.15 * np.arange(T - t)[:, None]
    elif kind[node] == "noisy":
        X[node, t:] += rng.normal(0, 6, (T - t, 2))
    else:
        X[node, t:] = X[node, t]
X = (X * 10 ** rng.uniform(-2, 2, (NODES, 1, 1)) + rng.normal(0, 1000, (NODES, 1, 2))).astype(np.float32)

pipe = icvi.Pipeline(
    clusterer=icvi.SequentialKMeans(k=2, seeding="distinct"),
    panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.95),
    monitors={"xb": icvi.Distress()},
)
start = time.perf_counter()
readings = icvi.run_fleet(pipe, X, keep=("values", "alarms")).readings
score = np.asarray(readings.alarms["xb"].score)[:, -1]
took = time.perf_counter() - start
order = np.argsort(-score)
print(
    f"{NODES} nodes × {T} samples in {took:.1f} s, compilation included: {NODES * T / took / 1e6:.2f} million samples a second"
)
for each in KINDS:
    own = np.flatnonzero(kind == each)
    print(f"{each}: {np.isin(own, order[: len(failing)]).sum()} of {len(own)} among the {len(failing)} highest scores")

# %%
rank = np.empty(NODES, int)
rank[order] = np.arange(1, NODES + 1)
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(1, 1.5))
well = kind == "well"
axes[0].loglog(rank[well], np.maximum(score[well], 1e-2), ".", color="#bbbbbb", ms=4, label="well")
for each, color, marker in zip(KINDS, (plots.VERMILION, plots.BLUE, plots.ORANGE), "os^"):
    own = kind == each
    axes[0].loglog(rank[own], np.maximum(score[own], 1e-2), marker, color=color, ms=4, label=each)
axes[0].axvline(len(failing), color=plots.GREY, ls=":", lw=0.8)
axes[0].set(xlabel="rank by score at the end", ylabel="score (below 0.01: quiet)", title="The failing stand out")
axes[0].legend()
values = np.asarray(readings.values["xb"])
for each, color in zip(("well", *KINDS), ("#999999", plots.VERMILION, plots.BLUE, plots.ORANGE)):
    axes[1].plot(values[kind == each][0], color=color, label=each)
axes[1].set(yscale="log", xlabel="sample", title="XB$_λ$ of one node of each kind")
axes[1].legend(ncols=4)
# %% [markdown]
# *Left, every node by rank: nearly all drifting and noisy nodes are at the top, far above the healthy ones (the dotted
# line marks as many places as there are failing nodes). Right, why: their index rises and stays up. A stuck node is not found this
# way: all its samples are equal, the index falls, and clusters without spread look best. To find stuck sensors, watch for
# an index that is too good.*

# %%
fall = np.log(np.nanmedian(values[:, 100:300], axis=1) / np.maximum(values[:, -1], 1e-12))
stuck = np.flatnonzero(kind == "stuck")
found = np.isin(stuck, np.argsort(-fall)[: len(stuck)]).sum()
print(f"ranked by how far the index fell below its own median instead: {found} of {len(stuck)} stuck nodes on top")

# %% [markdown]
# ## Grand St Bernard: a cold front crosses the fleet
#
# A dozen stations, air temperature and humidity in 10-minute means, two weeks from 10 October 2007, with all their gaps:
# a missing sample changes nothing. (If the recording is not there: simulated stations with the same front.)

# %%
x, nodes, times, source = recordings.nodes()
Z = (x - np.nanmean(x[:, :288], axis=1, keepdims=True)) / np.nanstd(x[:, :288], axis=(0, 1))
pipe = icvi.Pipeline(
    clusterer=icvi.SequentialKMeans(k=2, seeding="distinct"),
    panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
    monitors={"xb": icvi.Distress(factor=3.0)},
)
readings = icvi.run_fleet(pipe, Z).readings
values, codes = np.asarray(readings.values["xb"]), np.asarray(readings.alarms["xb"].code)
values = np.where(np.isfinite(x).all(-1), values, np.nan)  # a missing sample repeats the last value
usual = np.log2(values / np.nanmedian(values[:, 144:1008], axis=1, keepdims=True))
hours = usual[:, : len(times) // 18 * 18].reshape(len(nodes), -1, 18)
seen = np.isfinite(hours).sum(2)
picture = np.where(seen > 0, np.nansum(hours, 2) / np.maximum(seen, 1), np.nan)

figure, axes = plt.subplots(2, 1, figsize=(9, 5), sharex=True, height_ratios=(2, 1))
axes[0].set_facecolor("#d0d0d0")
drawn = axes[0].imshow(picture, aspect="auto", cmap="PuOr_r", vmin=-4, vmax=4, extent=(0, 14, len(nodes) - 0.5, -0.5))
axes[0].set(yticks=range(len(nodes)), yticklabels=nodes, ylabel="node", title=source)
axes[0].grid(False)
figure.colorbar(drawn, ax=axes[0], label="XB$_λ$ against its usual level (powers of 2)", pad=0.01)
quarter = np.arange(codes.shape[1]) // 36
for code in (1, 3):
    color, _, word = plots.ALARMS[code]
    heard = [(codes[:, quarter == q] == code).any(1).sum() for q in range(56)]
    axes[1].bar(np.arange(56) / 4 + (0.03 if code == 1 else 0.13), heard, 0.1, align="edge", color=color, label=word)
axes[1].set(xlabel="days since 10 October", ylabel="stations in\n6 hours", xlim=(0, 14))
axes[1].legend()
# %%
front, reporting = codes[:, 8 * 144 : 10 * 144], np.isfinite(x[:, 8 * 144 : 10 * 144]).all(-1).mean(1) > 0.5
print(
    f"18 and 19 October: {((front == 1) | (front == 3)).any(1).sum()} of {reporting.sum()} stations that report raise an alarm"
)
rise = 2 ** np.nanmedian(usual[reporting, 9 * 144 : 10 * 144])
print(f"19 October: the median index of the fleet is ×{rise:.1f} its usual level")

# %% [markdown]
# *Above, each row is a station: orange is worse than usual for this station, grey is no reading. The front of 18 October
# is a vertical band across the fleet; for some days after it the old centres fit badly. Below, how many stations raise
# an alarm within six hours: some on the second day, when the first warm noon is new to young clusters, then, after a
# week without alarms, again with the front. One station alone might be a fault; all together it is weather.*
