"""The paper again, with clusterers that forget: its claims with each pair, and seven clusterers on its streams.

    python benchmarks/study/paper_again.py            5 draws of each stream
    python benchmarks/study/paper_again.py --full     40 draws; docs/study/results/paper_*.csv

A claim is measured by the same rule (`notebooks/claims.py`) for the paper's pair, k-means and OEC, and for the pair
that forgets: the same two with a memory of 100 samples. Beside the F1 of spikes stands that of as many random alarms.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from store import RESULTS, ROOT, write

import icvi_jax as icvi
from icvi_jax.evaluation import Trial, adjusted_rand_index, judge

sys.path.insert(0, str(ROOT / "notebooks"))

import claims
import study

MEMORY, FULL = 100.0, 40


def clusterers(k):
    """The clusterers: the two of the paper, the same with memories, and newer ones."""
    return {
        "k-means": icvi.SequentialKMeans(k=k),
        "k-means, memory": icvi.SequentialKMeans(k=k, memory=MEMORY, seeding="distinct"),
        "OEC": icvi.OnlineEllipsoidal(capacity=study.CAPACITY),
        "OEC, memory": icvi.OnlineEllipsoidal(capacity=study.CAPACITY, memory=MEMORY),
        "rebirth k-means": icvi.RebirthKMeans(k=k),
        "fuzzy c-means": icvi.FuzzyCMeans(k=k),
        "merge-split": icvi.MergeSplit(),
    }


def pair(seeds, memory):
    """The study of `notebooks/study.py` for one pair of clusterers."""
    out = {}
    for name, (function, k) in study.STREAMS.items():
        drawn, all_ = [function(seed=seed) for seed in seeds], clusterers(k)
        for key, title in (("kmeans", "k-means"), ("oec", "OEC")):
            for forgetting in (0.9, 1.0):
                clusterer = all_[title + ", memory" if memory else title]
                out[name, key, forgetting] = study.follow(clusterer, drawn, forgetting)
    return out


def verdicts(seeds):
    """One row a claim and pair."""
    for title, memory in (("the paper's", False), ("with memory", True)):
        found = pair(seeds, memory)
        for measure in claims.MEASURES:
            claim = measure(found)
            yield {"pair": title, "claim": claim.text, "verdict": claim.verdict, "measured": claim.measured}


def followed(clusterer, streams):
    """Names, XB_λ, the monitor's spikes and where distress stands; ragged streams end in missing samples."""
    panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
    pipe = icvi.Pipeline(clusterer=clusterer, panel=panel, monitors={"xb": icvi.Distress()})
    X = np.full((len(streams), study.LENGTH, 2), np.nan, np.float32)
    for row, stream in zip(X, streams):
        row[: len(stream.x)] = stream.x
    readings = icvi.run_fleet(pipe, X, keep=("values", "cluster", "alarms")).readings
    alarm = readings.alarms["xb"]
    return tuple(np.asarray(a) for a in (readings.cluster, readings.values["xb"], alarm.code, alarm.standing))


def on_streams(seeds):
    """One row a stream and clusterer: agreement, rises of XB_λ at the first and last change, spikes and distress."""
    for name, (function, k) in study.STREAMS.items():
        streams = [function(seed=seed) for seed in seeds]
        trials = [Trial.of(f"{name} {i}", len(s.x), s.changes, study.TOLERANCE[name]) for i, s in enumerate(streams)]
        for title, clusterer in clusterers(k).items():
            names, values, codes, standing = followed(clusterer, streams)
            rand = [
                adjusted_rand_index(c[: len(s.mode)][s.mode >= 0], s.mode[s.mode >= 0]) for c, s in zip(names, streams)
            ]
            rises = np.median(
                [[claims.rise(v, s.changes[i]) for i in (0, -1)] for v, s in zip(values, streams)], axis=0
            )
            score = judge(trials, [np.flatnonzero(c[: len(s.x)] == 1).tolist() for c, s in zip(codes, streams)])
            ends = [bool(d[len(s.x) - 1]) for d, s in zip(standing, streams)]
            yield {
                "stream": name,
                "clusterer": title,
                "rand": float(np.median(rand)),
                "first_rise": float(rises[0]),
                "last_rise": float(rises[1]),
                "f1": float(score.outcome.f1),
                "random_f1": float(score.random),
                "distress": float(np.mean(ends)),
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="40 draws; writes the files")
    parser.add_argument("--out", help="a folder for the files")
    options = parser.parse_args()
    seeds, folder = range(FULL if options.full else 5), Path(options.out) if options.out else RESULTS
    rows, told = list(on_streams(seeds)), list(verdicts(seeds))
    if options.full or options.out:
        write([row | {"draws": len(seeds)} for row in rows], folder / "paper_streams.csv")
        write([row | {"draws": len(seeds)} for row in told], folder / "paper_claims.csv")
    for row in rows:
        print("  ".join(f"{v:.2f}" if isinstance(v, float) else f"{v:16s}" for v in row.values()))
    for row in told:
        print(f"{row['pair']:12s} {row['verdict']:7s} {row['claim']}: {row['measured']}")


if __name__ == "__main__":
    main()
