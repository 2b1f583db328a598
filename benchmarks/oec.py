"""What online ellipsoidal clustering finds: the synthetic streams over fresh draws, and recordings as they come.

Run `python benchmarks/oec.py` (minutes). `--seeds` says how many draws of each stream; `--data` where the reference
recordings are, if anywhere. A birth is the sample at which the reading's k grows. On S2 and S3 it is matched to the
last change before it, one to one; what is left over is false.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import icvi_jax as icvi
from icvi_jax.evaluation import adjusted_rand_index, match

FIRST_SEED = 1000
STREAMS = {  # name: draw, capacity, true k, how many of 40 must find it
    "S2": (lambda seed: icvi.streams.s2(seed=seed), 16, 11, 40),
    "S3 noise at random": (lambda seed: icvi.streams.s3(seed=seed, place="random"), 16, 10, 35),
    "S3 noise at block ends": (lambda seed: icvi.streams.s3(seed=seed, place="end"), 16, 10, 35),
    "S1": (lambda seed: icvi.streams.s1(seed=seed), 8, 2, 18),
}


def pipeline(capacity, **options):
    """The clusterer with XB_λ and DB_λ."""
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    return icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=capacity, **options), panel=panel)


def births(k):
    """Samples at which the number of clusters grew, the first cluster left out."""
    return (np.flatnonzero(np.diff(k) > 0) + 1)[1:].tolist()


def peaks(xb, changes):
    """XB in multiples of its level before each change: most within 10 samples, least by 60, level from 60 to 80."""
    rows = []
    for change in changes:
        level = np.median(xb[change - 50 : change])
        after = xb[change : change + 80] / level
        rows.append((after[:10].max(), after[10:61].min(), np.median(after[60:])))
    return rows


def synthetic(seeds):
    """The table over fresh draws."""
    print(f"Synthetic streams, {seeds} draws each, float32, seeds {FIRST_SEED} to {FIRST_SEED + seeds - 1}\n")
    names = {"right k": 9, "wanted": 8, "most k": 8, "delay": 7, "false": 7, "missed": 8, "ARI": 7, "ARI all": 9}
    print(f"{'stream':24}" + "".join(f"{name:>{width}}" for name, width in names.items()))
    for name, (draw, capacity, k, wanted) in STREAMS.items():
        streams = [draw(FIRST_SEED + i) for i in range(seeds)]
        length = max(len(s.x) for s in streams)
        X = np.full((seeds, length, 2), np.nan, np.float32)
        for i, s in enumerate(streams):
            X[i, : len(s.x)] = s.x
        readings = icvi.run_fleet(pipeline(capacity), X, keep=("values", "label", "k")).readings
        ks, labels, xb = np.asarray(readings.k), np.asarray(readings.label), np.asarray(readings.values["xb"])
        scores = [match(births(ks[i]), s.changes, 199, length) for i, s in enumerate(streams)]
        delays = [alarm - change for score in scores for change, alarm in score.matched]
        clean = [s.mode[~s.noise & (s.mode >= 0)] for s in streams]
        found = [labels[i, : len(s.x)][~s.noise & (s.mode >= 0)] for i, s in enumerate(streams)]
        ari = np.mean([adjusted_rand_index(a, b) for a, b in zip(clean, found)])
        every = np.mean([adjusted_rand_index(s.mode, labels[i, : len(s.x)]) for i, s in enumerate(streams)])
        right = sum(ks[i, len(s.x) - 1] == k for i, s in enumerate(streams))
        false, missed = (sum(len(getattr(score, what)) for score in scores) for what in ("false", "missed"))
        print(
            f"{name:24}{f'{right}/{seeds}':>9}{f'{wanted}/40':>8}{ks.max():8d}{np.median(delays):7.1f}{false:7d}"
            f"{missed:8d}{ari:7.3f}{every:9.3f}"
        )
        if name == "S2":
            rise, back, later = np.array([row for i, s in enumerate(streams) for row in peaks(xb[i], s.changes)]).T
    print("\nXB_λ on S2, multiples of its level before a change (all draws, all 10 changes)")
    print(f"  most within 10 samples    least {rise.min():5.1f}  median {np.median(rise):5.1f}")
    print(f"  least by 60 samples later worst {back.max():5.2f}  median {np.median(back):5.2f}")
    within = np.mean(later <= 2)
    print(
        f"  level from 60 to 80       worst {later.max():5.2f}  median {np.median(later):5.2f}  within 2 {within:.0%}\n"
    )


def report(name, X, changes, settings, tolerance):
    """One recording with each setting: clusters, births against known changes, NaN values."""
    print(f"\n{name}: {len(X)} samples, {X.shape[1]} features")
    print(f"  known changes {changes}; a birth within {tolerance} samples after one is at it")
    for what, options in settings.items():
        options = {"capacity": 32, **options}
        start = time.perf_counter()
        readings = icvi.run(
            pipeline(**options), X.astype(np.float32), keep=("values", "label", "k", "overflow", "outlier", "u")
        ).readings
        k, xb = np.asarray(readings.k), np.asarray(readings.values["xb"])
        ready = k > 0
        bad = int(np.isnan(xb[ready]).sum() + np.isnan(np.asarray(readings.u)).sum())
        score = match(births(k), changes, tolerance, len(X))
        full = np.asarray(readings.overflow)
        born = births(k)
        print(
            f"  {what:36} k {k[-1]:2d}  births at changes {len(score.matched):2d}, elsewhere {len(score.false):2d}"
            f"  outliers {np.mean(np.asarray(readings.outlier)):5.1%}  NaN {bad}"
            + (f"  full from {np.argmax(full)}" if full.any() else "")
            + f"  ({time.perf_counter() - start:.0f} s)\n{'':40}births {born}"
        )


def recordings(folder):
    """The recordings, standardised over their whole length."""

    def scaled(X):
        return (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)

    print("Recordings, standardised, float32")
    table = np.genfromtxt(folder / "gsb_node18_lg_standin.csv", delimiter=",", names=True, encoding="utf-8")
    X = np.stack([table["surface_temp"], table["rel_hum"]], 1)
    report(
        "Grand St Bernard, node 18 (a cold front passes from 1150 to 1300, and is gone from 1870 on)",
        scaled(X),
        [1150, 1870],
        {
            "defaults": {},
            "outlier=0.99999": {"outlier": 0.99999},
            "stabilization=144 (a day)": {"stabilization": 144},
            "trigger='window', stabilization=144": {"trigger": "window", "stabilization": 144},
        },
        150,
    )
    table = np.genfromtxt(folder / "gsa_mean100.csv", delimiter=",", skip_header=1)
    labels = table[:, -1]
    report(
        "Gas sensors, means of 100",
        scaled(table[:, :-1]),
        (np.flatnonzero(np.diff(labels)) + 1).tolist(),
        {"defaults": {}, "seed='buffer'": {"seed": "buffer"}, "c=0.5": {"c": 0.5}, "c=0.2": {"c": 0.2}},
        30,
    )
    with np.load(folder / "gsa_chenaghlou.npz") as file:
        X, changes = file["X"].astype(float), file["change_points"].astype(int).ravel().tolist()
    report("Gas sensors, every sample", scaled(X), changes, {"defaults": {}, "c=0.5": {"c": 0.5}}, 100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    synthetic(arguments.seeds)
    if arguments.data.is_dir():
        recordings(arguments.data)
    else:
        print(f"No recordings at {arguments.data}: give --data")


if __name__ == "__main__":
    main()
