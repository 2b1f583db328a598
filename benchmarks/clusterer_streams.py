"""Labelled streams for clusterers, and the scores of what was found in them.

Sets are read from ICVI_SHARED, or from ../shared beside the project. S1–S3, gas sensors and SKAB are scaled by mean and
spread of their first 200 rows; the replayed sets are already standardised, and scaled so where
that is asked for.
"""

import os
import pathlib
import sys

import numpy as np

import icvi_jax as icvi
from icvi_jax.evaluation import adjusted_rand_index

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("ICVI_SHARED", ROOT.parent / "shared")) / "data"
sys.path.append(str(SHARED))
ORDERS = ("shuffled", "appear", "turns", "moving")
TUNED = ("fcps_hepta", "fcps_lsun", "fcps_tetra", "fcps_twodiamonds", "sipu_s1", "uci_wine")
FIRST, WINDOW, EVERY = 200, 500, 250
AFTER, BEFORE = 50, 100


def scaled(X):
    """X by mean and spread of its first rows."""
    mean, spread = X[:FIRST].mean(0), X[:FIRST].std(0)
    return (X - mean) / np.where(spread == 0, 1, spread)


def gas(rows):
    """The gas sensors in means of so many rows, and the mode at the first of them."""
    d = np.load(SHARED / "gsa_chenaghlou.npz")
    X, mode = d["X"].astype(float), d["label"].ravel().astype(int)
    n = len(X) // rows
    return X[: n * rows].reshape(n, rows, -1).mean(1), mode[: n * rows : rows]


def streams(full=False, seeds=1, scale=False, first=0):
    """Yield (group, X, mode, changes), seed by seed; `full` adds sets that no setting was chosen on, and all gas rows.

    `scale`: the labelled sets, too, by their first rows. `first`: the first seed.
    """
    from replay import replay

    for order in ORDERS:
        for seed in range(first, first + seeds):
            for name, X, mode, changes in replay(order, seed=seed, names=None if full else TUNED):
                X = scaled(X) if scale else X
                yield order if name in TUNED else f"{order}, held out", X, mode, changes
    for make in (icvi.streams.s1, icvi.streams.s2, icvi.streams.s3):
        for seed in range(first, first + seeds):
            s = make(seed=seed)
            yield make.__name__.upper(), scaled(s.x), np.where(s.noise, -1, s.mode), list(s.changes)
    for title, rows in (("GSA", 10), *([("GSA, all rows", 1)] if full else [])):
        X, mode = gas(rows)
        yield title, scaled(X), mode, (np.flatnonzero(np.diff(mode)) + 1).tolist()
    skab = np.load(SHARED / "skab_valve1.npz")
    for i in sorted({key.split("_")[1] for key in skab.files if key.startswith("valve1_")}, key=int):
        X = skab[f"valve1_{i}_X"].astype(float)
        yield "SKAB valve1", scaled(X), None, np.flatnonzero(skab[f"valve1_{i}_changepoint"]).tolist()


def windows(n):
    """The windows of a stream of n samples: from the 200th on, half over the next."""
    return [slice(start, start + WINDOW) for start in range(FIRST, n - WINDOW + 1, EVERY)]


def agreement(mode, label):
    """Mean adjusted Rand index in windows; noise and transitions are left out."""
    got = []
    for window in windows(len(mode)):
        m, found = mode[window], label[window]
        got.append(adjusted_rand_index(m[m >= 0], found[m >= 0]))
    return float(np.mean(got)) if got else np.nan


def uncertainty(values, seeds):
    """Twice the standard error of the mean over seeds, whose values follow each other; NaN where there is one."""
    if seeds < 2 or len(values) % seeds or len(values) < seeds:
        return np.nan
    return float(2 * np.reshape(values, (seeds, -1)).mean(1).std(ddof=1) / np.sqrt(seeds))


def wrong_k(mode, k):
    """Mean |k − modes in the window| at the windows' ends."""
    off = [abs(int(k[w.stop - 1]) - len(set(mode[w].tolist()) - {-1})) for w in windows(len(mode))]
    return float(np.mean(off)) if off else np.nan


def rises(score, changes):
    """The rises of the logarithm of a score at changes, and elsewhere."""
    y = np.log(np.where(score > 0, score, np.nan))
    spots = range(BEFORE, len(y) - AFTER, AFTER)
    spots = [c for c in spots if all(c + AFTER <= t or c >= t + 2 * AFTER for t in changes)]
    found = []
    for where in (changes, spots):
        parts = [(y[c : c + AFTER], y[max(c - BEFORE, 0) : c]) for c in where]
        parts = [(a, b) for a, b in parts if np.isfinite(a).any() and np.isfinite(b).any()]
        found.append(np.array([np.nanmax(a) - np.nanmedian(b) for a, b in parts]))
    return found


def rank(pairs):
    """The probability that a rise at a change is larger than one elsewhere in the same stream; mean over streams."""
    found = [(a[:, None] > b).mean() + (a[:, None] == b).mean() / 2 for a, b in pairs if len(a) and len(b)]
    return float(np.mean(found)) if found else np.nan


def mean(values):
    """The mean of those that are there."""
    values = [value for value in values if np.isfinite(value)]
    return float(np.mean(values)) if values else np.nan
