"""Clusterers on labelled streams: how right, how many, how loud at a change, at what cost; rivals in the same run.

    python benchmarks/clusterers.py                     six labelled sets in four orders, S1–S3, gas sensors, SKAB
    python benchmarks/clusterers.py --seeds 5           several seeds of each, and what the mean is uncertain by
    python benchmarks/clusterers.py --first 100         from this seed on
    python benchmarks/clusterers.py --scale             the labelled sets, too, scaled by their first 200 rows
    python benchmarks/clusterers.py --full              also sets that no setting was chosen on
    python benchmarks/clusterers.py --flat              links of merge-split without the rule for two features
    python benchmarks/clusterers.py --river             river's clusterers alone, and a partition that uses no data
    python benchmarks/clusterers.py --csv FILE          the table as a file; more runs add to it
    python benchmarks/clusterers.py --pages FILE FOLDER from that file the tables of the documentation

ARI: mean adjusted Rand index by persistent name in windows of 500 samples that overlap by half, from sample 200 on;
noise and transitions are left out. ±: twice the standard error of its mean over seeds. k error: mean |k − modes in the
window| at the windows' ends. AUC at changes: the largest rise of the logarithm of the score within 50 samples after a
change over its median in the 100 before, against the same at all other places of the stream, by rank: 0.5 is chance.
Cost is processor time; alone: `speed.py clusterers`. Streams: see `clusterer_streams`.
"""

import argparse
import csv
import pathlib
import time

import clusterer_streams as data
import numpy as np

import icvi_jax as icvi
from icvi_jax.clusterers import mergesplit

OURS = {
    "MacQueen, k = 3": icvi.SequentialKMeans(k=3),
    "sk-means, k = 3, memory 100": icvi.SequentialKMeans(k=3, memory=100.0, seeding="distinct"),
    "sk-means, k = 3, memory 50": icvi.SequentialKMeans(k=3, memory=50.0, seeding="distinct"),
    "merge-split": icvi.MergeSplit(),
    "merge-split, traffic 0.5": icvi.MergeSplit(traffic=0.5),
    "rebirth, k = 10": icvi.RebirthKMeans(k=10),
    "fuzzy, k = 3": icvi.FuzzyCMeans(k=3),
    "oec": icvi.OnlineEllipsoidal(capacity=16),
    "oec, memory 100": icvi.OnlineEllipsoidal(capacity=16, memory=100.0),
}
HEADS = ("stream", "clusterer", "ARI", "±", "k error", "XB AUC", "DB AUC", "surprise AUC", "µs a sample")


def follow(clusterer, everything, forgetting):
    """Names, k, surprise and values of every stream; those with the same p run as one fleet, holes at the ends."""
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=forgetting)
    pipe = icvi.Pipeline(clusterer=clusterer, panel=panel)
    found = [None] * len(everything)
    for p in sorted({X.shape[1] for _, X, _, _ in everything}):
        here = [i for i, (_, X, _, _) in enumerate(everything) if X.shape[1] == p]
        fleet = np.full((len(here), max(len(everything[i][1]) for i in here), p), np.nan, np.float32)
        for row, i in enumerate(here):
            fleet[row, : len(everything[i][1])] = everything[i][1]
        r = icvi.run_fleet(pipe, fleet, keep=("values", "k", "cluster", "surprise")).readings
        fields = {"cluster": r.cluster, "k": r.k, "surprise": r.surprise, **r.values}
        fields = {name: np.asarray(a) for name, a in fields.items()}
        for row, i in enumerate(here):
            found[i] = {name: a[row, : len(everything[i][1])] for name, a in fields.items()}
    return found


def ours(everything, forgetting, seeds):
    """Yield the rows of our clusterers."""
    for name, clusterer in OURS.items():
        found = follow(clusterer, everything, forgetting)
        clock = time.process_time()
        follow(clusterer, everything, forgetting)  # again, with compiled steps
        cost = 1e6 * (time.process_time() - clock) / sum(len(s[1]) for s in everything)
        for title in dict.fromkeys(title for title, *_ in everything):
            mine = [(mode, changes, f) for (t, _, mode, changes), f in zip(everything, found) if t == title]
            known = [(mode, f) for mode, _, f in mine if mode is not None]
            ari = [data.agreement(m, f["cluster"]) for m, f in known]
            k = data.mean([data.wrong_k(m, f["k"]) for m, f in known])
            loud = [data.rank([data.rises(f[s], changes) for _, changes, f in mine]) for s in ("xb", "db", "surprise")]
            yield title, name, data.mean(ari), data.uncertainty(ari, seeds), k, *loud, cost


def rivals(modes, period):
    """How to make river's clusterers for a stream with so many modes, by name, and a partition that uses no data."""
    from river import cluster

    return {
        "river KMeans, true k": lambda: cluster.KMeans(n_clusters=modes, halflife=0.1, sigma=1, seed=0),
        "river DBSTREAM": lambda: cluster.DBSTREAM(),
        "river DenStream": lambda: cluster.DenStream(decaying_factor=0.01, beta=0.5, mu=2.5, epsilon=0.5),
        "river CluStream": lambda: cluster.CluStream(n_macro_clusters=modes, max_micro_clusters=50, seed=0),
        "no data: by the clock": lambda: Clock(period),
    }


class Clock:
    """A control: a new cluster every `period` samples, whatever they are."""

    def __init__(self, period):
        self.period, self.samples = period, 0

    def learn_one(self, sample):
        self.samples += 1

    def predict_one(self, sample):
        return (self.samples - 1) // self.period


def labels(model, X):
    """The label of every row of X, each learned before it is labelled; −1 where there is no cluster yet."""
    found = []
    for x in X:
        sample = dict(enumerate(map(float, x)))
        model.learn_one(sample)
        try:
            found.append(model.predict_one(sample))
        except (KeyError, ValueError):  # DenStream before it has clusters
            found.append(-1)
    return np.array(found)


def theirs(everything, names, seeds):
    """Yield the rows of river's clusterers and of the control, which have a partition alone."""
    for title in dict.fromkeys(title for title, *_ in everything):
        mine = [(X, mode, changes) for t, X, mode, changes in everything if t == title and mode is not None]
        for name in rivals(1, 1) if mine else ():
            if names and not name.startswith(names):
                continue
            clock, got = time.process_time(), []
            for X, mode, changes in mine:
                modes = len(set(mode.tolist()) - {-1})
                model = rivals(modes, len(X) // (len(changes) + 1))[name]()
                got.append(data.agreement(mode, labels(model, X)))
            cost = 1e6 * (time.process_time() - clock) / sum(len(X) for X, _, _ in mine)
            yield title, name, data.mean(got), data.uncertainty(got, seeds), *[np.nan] * 4, cost


def cells(row):
    """A row as text: two digits, empty where there is nothing."""
    return [*row[:2], *("" if np.isnan(a) else f"{a:.2f}" for a in row[2:])]


def tell(rows, path):
    """Print the rows as they come; keep them in a file, in place of those of the same stream and clusterer."""
    print(f"{HEADS[0]:22s}{HEADS[1]:30s}" + "".join(f"{head:>13s}" for head in HEADS[2:]))
    for row in rows:
        line = cells(row)
        print(f"{line[0]:22s}{line[1]:30s}" + "".join(f"{cell or '–':>13s}" for cell in line[2:]), flush=True)
        if path is None:
            continue
        old = list(csv.reader(path.open(encoding="utf-8")))[1:] if path.exists() else []
        table = [*(other for other in old if other[:2] != line[:2]), line]
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADS, *table])


def pages(path, folder):
    """Two tables for people, a row a clusterer and a column a stream: how right, and how loud at changes."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    clusterers, titles = (list(dict.fromkeys(row[head] for row in rows)) for head in ("clusterer", "stream"))
    found = {(row["clusterer"], row["stream"]): row for row in rows}
    for name, heads in {"right": ("ARI",), "loud": ("XB AUC", "surprise AUC")}.items():
        shown = [title for title in titles if any(found[key][heads[0]] for key in found if key[1] == title)]
        table = [["", *shown]]
        for clusterer in clusterers:
            mine = [found.get((clusterer, title), {}) for title in shown]
            cell = [[row.get(head) or "–" for head in heads] for row in mine]
            if name == "right":
                cell = [[f"{a} ± {row['±']}" if row.get("±") else a] for (a,), row in zip(cell, mine)]
            if any(set(pair) != {"–"} for pair in cell):
                table.append([clusterer, *(" / ".join(pair) for pair in cell)])
        with (folder / f"clusterers_{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all sets")
    parser.add_argument("--seeds", type=int, default=1, help="streams of each kind (default 1)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--scale", action="store_true", help="scale the labelled sets, too")
    parser.add_argument("--flat", action="store_true", help="links of merge-split as with three features and more")
    parser.add_argument("--river", action="store_true", help="river's clusterers instead of ours")
    parser.add_argument("--forgetting", type=float, default=0.9, help="of the panel (default 0.9)")
    parser.add_argument("--only", nargs="*", default=(), help="streams whose name begins so")
    parser.add_argument("--clusterer", nargs="*", default=(), help="clusterers whose name begins so")
    parser.add_argument("--csv", type=pathlib.Path, help="write the table here")
    parser.add_argument("--pages", nargs=2, type=pathlib.Path, help="make the tables of the documentation")
    options = parser.parse_args()
    names = tuple(options.clusterer)
    for name in [name for name in OURS if names and not name.startswith(names)]:
        del OURS[name]
    if options.flat:
        mergesplit.NARROW = 0.0
    if options.pages:
        return pages(*options.pages)
    every = data.streams(options.full, options.seeds, options.scale, options.first)
    chosen = [s for s in every if not options.only or s[0].startswith(tuple(options.only))]
    rows = theirs(chosen, names, options.seeds) if options.river else ours(chosen, options.forgetting, options.seeds)
    tell(rows, options.csv)


if __name__ == "__main__":
    main()
