"""Which k on real data: what every index says over time, the true number, and MergeSplit's own count.

    python benchmarks/study/which_k.py            gas sensors and three labelled sets
    python benchmarks/study/which_k.py --full     all sets; docs/study/results/which_k.csv

At every look k-means clusters the last 500 samples (of the gas sensors: all so far) for each k, and each index takes
the k whose value is best. That is more than a live clusterer can do: an index that fails here fails live. A second row
a look says whether the index likes the true labels better than all of these partitions. A blind rule says k = 3 always.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from reading import entries
from store import RESULTS, SHARED, recordings, write

import icvi_jax as icvi

KS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20)
WINDOW, LEAST = 500, 5
SETS = 13
SMALL = ("fcps_hepta", "fcps_lsun", "uci_wine")


def streams(full):
    """Yield (set, order, X, mode, looks, whole past or not)."""
    table = np.genfromtxt(recordings("gsa_mean100.csv"), delimiter=",", skip_header=1)
    X, mode = table[:, :11], table[:, 11].astype(int)
    yield "gas sensors", "as recorded", (X - X.mean(0)) / X.std(0), mode, range(90, len(X) + 1, 45), True
    recordings("clusterbench_shared.npz")
    sys.path.append(str(SHARED))
    from replay import replay

    for order in ("shuffled", "appear"):
        for name, X, mode, _ in replay(order, seed=0, names=None if full else SMALL):
            yield name, order, X, mode, range(WINDOW, len(X) + 1, WINDOW), False


def partitions(X, ks):
    """k-means labels for every k."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with (
        warnings.catch_warnings(),
        threadpool_limits(1),
    ):  # small fits: threads wait for each other longer than they work
        warnings.simplefilter("ignore")
        return {k: KMeans(n_clusters=k, n_init=2, random_state=0).fit_predict(X) for k in ks if k < len(X) / 2}


def values(X, labels, parts):
    """Value of every index of a crisp partition, from the definitions, without forgetting; large is good."""
    names = np.unique(labels)
    u = (labels[:, None] == names).astype(float)
    centers = (u.T @ X) / u.sum(0)[:, None]
    plain = tuple(index for index in parts if index.name != "health")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = icvi.batch(icvi.Panel(indices=plain), X, u, np.broadcast_to(centers, (len(X), *centers.shape)))
        if len(plain) < len(parts):
            found["health"] = health(X, u, centers)
    sign = {index.name: 1.0 if index.goal == "max" else -1.0 for index in parts}
    return {name: sign[name] * float(value) for name, value in found.items()}


def health(X, u, centers):
    """Health after all samples, with the centres where they are at the end; of slots for the largest k, so that all
    partitions are one shape. It is a loop, and its definition would be one in Python."""
    k, p = centers.shape
    slots = max(*KS, k)
    spare, at = slots - k, np.zeros((slots, p))
    at[:k] = centers
    active = np.broadcast_to(np.arange(slots) < k, (len(X), slots))
    given = {"memberships": np.pad(u, ((0, 0), (0, spare))), "centers": np.broadcast_to(at, (len(X), slots, p))}
    return icvi.validate(icvi.Panel(indices=(icvi.Health(),)), X, active=active, **given)["health"][-1]


def best(scores, index):
    """The k whose value is best, and the value; the lowest k on ties, NaN is the worst."""
    ranked = {k: np.nan_to_num(found[index], nan=-np.inf) for k, found in scores.items()}
    k = max(ranked, key=ranked.get)
    return k, ranked[k]


def merge_split(streams):
    """MergeSplit's number of clusters after every sample (N, T) of streams of one shape, as one fleet in NumPy.

    To compile it for two or three features takes longer than to run it so.
    """
    panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.99)
    pipe, X = icvi.Pipeline(clusterer=icvi.MergeSplit(), panel=panel), np.moveaxis(np.stack(streams), 0, -1)
    state, found = pipe.init(X.shape[1], (X.shape[2],), xp=np, dtype=np.float64), []
    for x in X:
        state, reading = pipe.step(state, x)
        found.append(reading.k)
    return np.stack(found, axis=1)


def looks(X, mode, ends, whole, own, ks=KS, names=None):
    """Two rows a look: the k that each index takes; whether the truth beats all of them (1 or 0; with one mode NaN)."""
    parts = tuple(index for name, index in entries().items() if name != "osil" and (names is None or name in names))
    for end in ends:
        part = slice(0 if whole else end - WINDOW, end)
        x, truth = X[part], mode[part]
        counts = np.unique(truth, return_counts=True)[1]
        facts = {"end": end, "true": int((counts >= LEAST).sum()), "mergesplit": int(own[end - 1])}
        scores = {k: values(x, labels, parts) for k, labels in partitions(x, ks).items()}
        chosen = {index.name: best(scores, index.name) for index in parts}
        yield {"row": "k", **facts, **{name: k for name, (k, _) in chosen.items()}}
        if facts["true"] > 1:
            true = values(x, truth, parts)
            wins = {name: int(np.nan_to_num(true[name], nan=-np.inf) >= top) for name, (_, top) in chosen.items()}
            yield {"row": "truth", **facts, **wins}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all sets; writes docs/study/results/which_k.csv")
    parser.add_argument("--out", help="a CSV file")
    options = parser.parse_args()
    rows, chosen, own = [], list(streams(options.full)), {}
    for shape in dict.fromkeys(X.shape for _, _, X, *_ in chosen):
        clock, alike = time.perf_counter(), [i for i, (_, _, X, *_) in enumerate(chosen) if X.shape == shape]
        own |= dict(zip(alike, merge_split([chosen[i][2] for i in alike])))
        print(f"merge-split on {len(alike)} streams {shape}: {time.perf_counter() - clock:.0f} s", flush=True)
    for i, (name, order, X, mode, ends, whole) in enumerate(chosen):
        clock = time.perf_counter()
        rows += [{"set": name, "order": order, **row} for row in looks(X, mode, ends, whole, own[i])]
        print(f"{name}, {order}: {time.perf_counter() - clock:.0f} s", flush=True)
    if options.full or options.out:
        write(rows, Path(options.out) if options.out else RESULTS / "which_k.csv")
    from k_table import as_text, table

    print(as_text(table(rows)))


if __name__ == "__main__":
    main()
