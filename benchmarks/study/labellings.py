"""Labellings of a stream: the truth, and what six algorithms make of it, each by names that last.

Thresholds of DenStream and Birch are given per √p, since distances grow so. Those that must be told k are told the
true one. Birch sees the whole recording at once; all others go along the stream.
"""

from __future__ import annotations

import warnings

import numpy as np

import icvi_jax as icvi
from icvi_jax.adapters import Slots

NOISE = -1


def birch(X, k, threshold):
    """Batch Birch with k clusters; with as many as it has leaves where those are fewer."""
    from sklearn.cluster import Birch
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return Birch(threshold=threshold * np.sqrt(X.shape[1]), n_clusters=k).fit_predict(X)


def minibatch(X, k, first, block, seed):
    """MiniBatchKMeans, `block` samples at a time, each block labelled after it is learned."""
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    model, found = MiniBatchKMeans(n_clusters=k, n_init=3, random_state=seed), []
    with threadpool_limits(1):
        for lo, hi in [(0, first), *((s, s + block) for s in range(first, len(X), block))]:
            model.partial_fit(X[lo:hi])
            found.append(model.predict(X[lo:hi]))
    return np.concatenate(found)


def blocks(model, X, block, capacity=64):
    """Labels of a river clusterer: centres are asked for after every block, whose samples take the nearest.

    Asking after every sample costs minutes (DenStream clusters anew at each question) and changes little. Centres are
    told apart from block to block by who is whose nearest, so a name lasts; a new centre has a new name.
    """
    slots, names, born, found = Slots(capacity, X.shape[1]), {}, 0, []
    for lo in range(0, len(X), block):
        part = X[lo : lo + block]
        for x in part:
            model.learn_one(dict(enumerate(x.tolist())))
        model.predict_one(dict(enumerate(part[-1].tolist())))
        centers = {key: np.array([c[j] for j in range(X.shape[1])]) for key, c in model.centers.items()}
        now = slots.update(centers)
        names = {slot: names[slot] for slot in now.values() if slot in names}
        for slot in now.values():
            if slot not in names:
                names[slot], born = born, born + 1
        if not now:
            found.append(np.zeros(len(part), int) if not found else np.full(len(part), found[-1][-1]))
            continue
        places = sorted(now.values())
        gaps = ((part[:, None] - slots.centers[places]) ** 2).sum(-1)
        found.append(np.array([names[slot] for slot in places])[gaps.argmin(1)])
    return np.concatenate(found)


def ours(clusterer, X):
    """Persistent names that a clusterer of this package gives."""
    pipe = icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.99))
    return np.asarray(icvi.run(pipe, np.asarray(X, np.float32), keep=("cluster",)).readings.cluster)


def algorithms(settings, seed=0):
    """Each algorithm by name, as a function of (X, true k) that gives labels (T,)."""
    from river import cluster

    use, block = settings["algorithms"], settings["block"]

    def denstream(X, k):
        options = dict(use["denstream"])
        options["epsilon"] *= np.sqrt(X.shape[1])
        return blocks(cluster.DenStream(**options), X, block)

    return {
        "birch": lambda X, k: birch(X, k, **use["birch"]),
        "minibatch": lambda X, k: minibatch(X, k, **use["minibatch"], block=block, seed=seed),
        "clustream": lambda X, k: blocks(
            cluster.CluStream(n_macro_clusters=k, seed=seed, **use["clustream"]), X, block
        ),
        "denstream": denstream,
        "mergesplit": lambda X, k: ours(icvi.MergeSplit(**use["mergesplit"]), X),
        "kmeans": lambda X, k: ours(icvi.SequentialKMeans(k=k, seeding="distinct", **use["kmeans"]), X),
    }


def without_farthest(X, labels, count, window=200):
    """The labels with the `count` samples farthest from their cluster's moving average called noise."""
    away = np.zeros(len(X))
    for name in np.unique(labels):
        rows = np.flatnonzero(labels == name)
        sums = np.concatenate([np.zeros((1, X.shape[1])), np.cumsum(X[rows].astype(float), axis=0)])
        j = np.arange(len(rows))
        first, last = np.maximum(j - window // 2, 0), np.minimum(j + (window + 1) // 2, len(rows))
        away[rows] = np.sqrt(((X[rows] - (sums[last] - sums[first]) / (last - first)[:, None]) ** 2).sum(1))
    dropped = np.array(labels, dtype=int)
    dropped[np.argsort(-away, kind="stable")[:count]] = NOISE
    return dropped
