"""Clusterers on labelled streams: how right, how many, how loud at a change, at what cost; rivals in the same run.

    python benchmarks/clusterers.py                 the four orders of six labelled sets, S1–S3, gas sensors, SKAB
    python benchmarks/clusterers.py --full          more seeds, all sets (held-out ones too) and river's clusterers
    python benchmarks/clusterers.py --river         river's clusterers beside ours, without the rest of --full
    python benchmarks/clusterers.py --speed         cost a sample alone: a fleet on two threads, in processor time

ARI: mean adjusted Rand index by persistent name in windows of 500 samples, noise and transitions left out. Windows of
one mode are left out too: they score 1 or 0, and one stray label makes it 0. k error: mean
|k − modes in the window| at the windows' ends. AUC at changes: the largest rise of the logarithm of the score within 50
samples after a change over its median in the 100 before, against the same at all other places of the stream, by rank.
All streams are scaled by mean and spread of their first 200 rows. Sets are read from ICVI_SHARED, or from ../shared
beside the project.
"""

import argparse
import os
import pathlib
import sys
import time
import warnings

import numpy as np

import icvi_jax as icvi
from icvi_jax.evaluation import adjusted_rand_index

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("ICVI_SHARED", ROOT.parent / "shared")) / "data"
sys.path.append(str(SHARED))
ORDERS = ("shuffled", "appear", "turns", "moving")
TUNED = ("fcps_hepta", "fcps_lsun", "fcps_tetra", "fcps_twodiamonds", "sipu_s1", "uci_wine")
WINDOW, AFTER, BEFORE = 500, 50, 100
OURS = {
    "MacQueen 3": icvi.SequentialKMeans(k=3),
    "A memory 100": icvi.SequentialKMeans(k=3, memory=100.0, seeding="distinct"),
    "A memory 50": icvi.SequentialKMeans(k=3, memory=50.0, seeding="distinct"),
    "B merge-split": icvi.MergeSplit(),
    "C rebirth 10": icvi.RebirthKMeans(k=10),
    "D fuzzy 3": icvi.FuzzyCMeans(k=3),
    "OEC": icvi.OnlineEllipsoidal(capacity=16),
    "E OEC memory 100": icvi.OnlineEllipsoidal(capacity=16, memory=100.0),
}


def scaled(X):
    """X by mean and spread of its first 200 rows."""
    mean, spread = X[:200].mean(0), X[:200].std(0)
    return (X - mean) / np.where(spread == 0, 1, spread)


def gas(step=None):
    """The gas sensors: means of 100 rows, or every `step`-th row."""
    if step is None:
        d = np.genfromtxt(SHARED / "gsa_mean100.csv", delimiter=",", skip_header=1)
        return d[:, :11], d[:, 11].astype(int)
    d = np.load(SHARED / "gsa_chenaghlou.npz")
    return d["X"][::step].astype(float), d["label"].ravel()[::step].astype(int)


def streams(full):
    """Yield (group, X, mode, changes)."""
    from replay import replay

    for order in ORDERS:
        for seed in range(3 if full else 1):
            for name, X, mode, changes in replay(order, seed=seed, names=None if full else TUNED):
                yield f"{order}" if name in TUNED else f"{order}, held out", X, mode, changes
    for make in (icvi.streams.s1, icvi.streams.s2, icvi.streams.s3):
        for seed in range(5 if full else 1):
            s = make(seed=seed)
            yield make.__name__.upper(), s.x, np.where(s.noise, -1, s.mode), list(s.changes)
    for name, step in (("GSA means", None), ("GSA every 10th", 10)):
        X, mode = gas(step)
        yield name, X, mode, (np.flatnonzero(np.diff(mode)) + 1).tolist()
    skab = np.load(SHARED / "skab_valve1.npz")
    for i in sorted({key.split("_")[1] for key in skab.files if key.startswith("valve1_")}, key=int):
        X = skab[f"valve1_{i}_X"].astype(float)
        yield "SKAB valve1", X, None, np.flatnonzero(skab[f"valve1_{i}_changepoint"]).tolist()


def follow(clusterer, everything, forgetting):
    """Names, k, surprise and values of every stream; those with the same p run as one fleet, holes at the ends."""
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=forgetting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = icvi.Pipeline(clusterer=clusterer, panel=panel)
    found = [None] * len(everything)
    for p in sorted({X.shape[1] for _, X, _, _ in everything}):
        here = [i for i, (_, X, _, _) in enumerate(everything) if X.shape[1] == p]
        fleet = np.full((len(here), max(len(everything[i][1]) for i in here), p), np.nan, np.float32)
        for row, i in enumerate(here):
            fleet[row, : len(everything[i][1])] = scaled(everything[i][1])
        r = icvi.run_fleet(pipe, fleet, keep=("values", "k", "cluster", "surprise")).readings
        fields = {"cluster": r.cluster, "k": r.k, "surprise": r.surprise, **r.values}
        fields = {name: np.asarray(a) for name, a in fields.items()}
        for row, i in enumerate(here):
            found[i] = {name: a[row, : len(everything[i][1])] for name, a in fields.items()}
    return found


def agreement(mode, label):
    """Mean adjusted Rand index in windows with more than one mode."""
    got = []
    for start in range(0, len(mode), WINDOW):
        m, found = mode[start : start + WINDOW], label[start : start + WINDOW]
        m, found = m[m >= 0], found[m >= 0]
        if len(set(m.tolist())) > 1:
            got.append(adjusted_rand_index(m, found))
    return float(np.mean(got)) if got else np.nan


def wrong_k(mode, k):
    """Mean |k − modes in the window| at the windows' ends."""
    ends = range(WINDOW, len(mode) + 1, WINDOW)
    off = [abs(int(k[end - 1]) - len(set(mode[end - WINDOW : end].tolist()) - {-1})) for end in ends]
    return float(np.mean(off)) if off else np.nan


def rises(score, changes):
    """The rises of the logarithm of a score at changes, and elsewhere."""
    y = np.log(np.where(score > 0, score, np.nan))
    spots = range(BEFORE, len(y) - AFTER, AFTER)
    spots = [c for c in spots if all(c + AFTER <= t or c >= t + 2 * AFTER for t in changes)]
    found = []
    for where in (changes, spots):
        ends = [(np.nanmax(y[c : c + AFTER]), np.nanmedian(y[max(c - BEFORE, 0) : c])) for c in where
                if np.isfinite(y[c : c + AFTER]).any() and np.isfinite(y[max(c - BEFORE, 0) : c]).any()]  # fmt: skip
        found.append(np.array([top - base for top, base in ends]))
    return found


def rank(pairs):
    """The probability that a rise at a change is larger than one elsewhere in the same stream; mean over streams."""
    found = [(a[:, None] > b).mean() + (a[:, None] == b).mean() / 2 for a, b in pairs if len(a) and len(b)]
    return float(np.mean(found)) if found else np.nan


def river_names(make, X):
    """Labels of a river clusterer, each sample learned first."""
    model, found = make(), []
    for x in scaled(X):
        sample = dict(enumerate(map(float, x)))
        model.learn_one(sample)
        try:
            found.append(model.predict_one(sample))
        except (KeyError, ValueError):  # DenStream before it has clusters
            found.append(-1)
    return np.array(found)


def rivals(modes):
    from river import cluster

    return {
        "river KMeans, true k": lambda: cluster.KMeans(n_clusters=modes, halflife=0.5, sigma=1, seed=0),
        "river DBSTREAM": lambda: cluster.DBSTREAM(),
        "river DenStream": lambda: cluster.DenStream(decaying_factor=0.01, beta=0.5, mu=2.5, epsilon=0.5),
        "river CluStream": lambda: cluster.CluStream(n_macro_clusters=modes, max_micro_clusters=50, seed=0),
    }


def table(everything, forgetting, with_river):
    titles = list(dict.fromkeys(title for title, *_ in everything))
    print(f"{'stream':20s} {'clusterer':22s}   ARI  k err  XB AUC  DB AUC  surprise AUC")
    for name, clusterer in OURS.items():
        clock = time.perf_counter()
        found = follow(clusterer, everything, forgetting)
        took = time.perf_counter() - clock
        for title in titles:
            mine = [(mode, changes, f) for (t, _, mode, changes), f in zip(everything, found) if t == title]
            known = [(mode, f) for mode, _, f in mine if mode is not None]
            ari = np.nanmean([agreement(m, f["cluster"]) for m, f in known] or [np.nan])
            k = np.nanmean([wrong_k(m, f["k"]) for m, f in known]) if known else np.nan
            loud = [rank([rises(f[s], changes) for _, changes, f in mine]) for s in ("xb", "db", "surprise")]
            print(f"{title:20s} {name:22s} {ari:5.2f} {k:6.2f} " + "  ".join(f"{a:6.2f}" for a in loud), flush=True)
        print(f"{name}: {took:.1f} s for {sum(len(s[1]) for s in everything)} samples, compiling included")
    for title in titles if with_river else ():
        mine = [(X, mode) for t, X, mode, _ in everything if t == title and mode is not None]
        for name in rivals(1) if mine else ():
            clock = time.perf_counter()
            got = [agreement(m, river_names(rivals(len(set(m.tolist()) - {-1}))[name], X)) for X, m in mine]
            cost = (time.perf_counter() - clock) / sum(len(m) for _, m in mine)
            print(f"{title:20s} {name:22s} {np.nanmean(got):5.2f}   {1e6 * cost:.0f} µs a sample", flush=True)


def speed():
    """Million samples a second, of two cores' processor time: fleets of 1024 streams, p = 4, XB and DB."""
    from icvi_jax.drive.llvm.program import compile_step

    def step(pipe, state, z):
        state, reading = pipe.step(state, z)
        return state, (reading.values, reading.cluster)

    rng, N, T, p = np.random.default_rng(0), 1024, 50, 4
    homes = 6 * rng.normal(size=(N, 5, p))
    X = np.take_along_axis(homes, rng.integers(0, 5, (N, T))[:, :, None], axis=1) + rng.normal(size=(N, T, p))
    X = X.astype(np.float32)
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    parts = {"k-means 16": icvi.SequentialKMeans(k=16), "k-means 16, memory": icvi.SequentialKMeans(k=16, memory=50.0)}
    parts |= OURS
    calls = {}
    for name, clusterer in parts.items():
        pipe = icvi.Pipeline(clusterer=clusterer, panel=panel)
        clock = time.process_time()
        program = compile_step(step, pipe, pipe.init(p), p, np.dtype("f4"))
        compiled = time.process_time() - clock
        start, numbers = program.words(pipe.init(p, (N,), xp=np, dtype=np.float32)), program.numbers(pipe)
        calls[name] = program, start, numbers, program.outputs(N, T), compiled
    best = dict.fromkeys(calls, np.inf)
    for _ in range(7):  # in turns: a busy machine is busy for all
        for name, (program, start, numbers, out, _) in calls.items():
            clock = time.process_time()
            program.run(start.copy(), numbers, X, out=out, threads=1)
            best[name] = min(best[name], time.process_time() - clock)
    for name, took in best.items():
        rate, compiled = 2 * N * T / took / 1e6, calls[name][-1]
        print(f"{name:22s} {rate:7.2f} million samples a second on two cores; compiled in {compiled:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all sets, more seeds, river")
    parser.add_argument("--river", action="store_true", help="river's clusterers too")
    parser.add_argument("--forgetting", type=float, default=0.9, help="of the panel (default 0.9)")
    parser.add_argument("--only", nargs="*", default=(), help="streams whose name begins so")
    parser.add_argument("--clusterer", nargs="*", default=(), help="clusterers whose name begins so")
    parser.add_argument("--speed", action="store_true", help="cost a sample alone")
    options = parser.parse_args()
    for name in list(OURS):
        if options.clusterer and not name.startswith(tuple(options.clusterer)):
            del OURS[name]
    if options.speed:
        return speed()
    chosen = [s for s in streams(options.full) if not options.only or s[0].startswith(tuple(options.only))]
    table(chosen, options.forgetting, options.full or options.river)


if __name__ == "__main__":
    main()
