"""What the oracles in tests/oracles do on noise and on labelled streams, to compare with the figures of the definition.

    python benchmarks/oracle_figures.py change            false alarms of Change on white noise, by number of features
    python benchmarks/oracle_figures.py shuffled B A C    adjusted Rand index on one order of the labelled sets
    python benchmarks/oracle_figures.py made B C          S1, S2, S3 (seeds 0-2) and the gas sensors

Labelled sets are read from ICVI_SHARED, or from ../shared beside the project. Streams are scaled by mean and spread of
their first 200 rows. "made" prints two scores: over all windows of 500, and over windows with more than one mode only
(a window of one mode scores 1 or 0: one stray label makes it 0).
"""

import os
import pathlib
import sys

import numpy as np
from sklearn.metrics import adjusted_rand_score

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("ICVI_SHARED", ROOT.parent / "shared"))
sys.path[:0] = [str(ROOT / "tests"), str(SHARED / "data")]

from oracles import clusterers  # noqa: E402
from oracles.change import change  # noqa: E402
from oracles.mergesplit import MergeSplit  # noqa: E402


def merge_split(X):
    m = MergeSplit(16, X.shape[1])
    return [int(m.name[m.step(x)["label"]]) for x in X]


CLUSTERERS = {
    "M": lambda X: [r["label"] for r in clusterers.sequential_kmeans(X, 3)],
    "A": lambda X: [r["label"] for r in clusterers.sequential_kmeans(X, 3, 100, "distinct")],
    "B": merge_split,
    "C": lambda X: [r["cluster"] for r in clusterers.rebirth_kmeans(X, 10)],
    "D": lambda X: [r["label"] for r in clusterers.fuzzy_cmeans(X, 3)],
}


def scaled(X):
    mean, spread = X[:200].mean(0), X[:200].std(0)
    return (X - mean) / np.where(spread == 0, 1, spread)


def score(mode, label, mixed=False):
    """Mean adjusted Rand index in windows of 500; modes of -1 are left out."""
    label, got = np.array(label), []
    for start in range(0, len(mode), 500):
        m, l = mode[start : start + 500], label[start : start + 500]
        m, l = m[m >= 0], l[m >= 0]
        if len(m) and (not mixed or len(set(m)) > 1):
            got.append(adjusted_rand_score(m, l))
    return float(np.mean(got))


def s1(seed):
    rng = np.random.default_rng(seed)
    modes = np.array([[1.018, 0, 1.801, -0.8187], [1, 0.5, 1.5, -0.7]])
    coefficients, mode = [], []
    for segment in range(5):
        old, new = modes[(segment + 1) % 2], modes[segment % 2]
        for part in range(1, 6 if segment else 1):
            coefficients += [old + (new - old) * part / 5] * 10
            mode += [-1] * 10
        length = int(rng.integers(200, 501))
        coefficients += [new] * length
        mode += [segment % 2] * length
    x, y = rng.normal(1, 1, len(mode)), np.zeros(len(mode))
    for t in range(2, len(mode)):
        y[t] = coefficients[t] @ [x[t - 1], x[t - 2], y[t - 1], y[t - 2]]
    return np.column_stack([x, y]), np.array(mode)


def s2(seed):
    rng = np.random.default_rng(seed)
    first, last = np.array([[3.8418, -2.6474], [-2.6474, 4.8478]]), np.array([[1.5239, -0.5390], [-0.5390, 1.6467]])
    rows, mode = [], []
    for j in range(11):
        n, f = (500 if j == 0 else 200), j / 10
        x = rng.multivariate_normal(np.array([95 - 90 * f, 75 - 70 * f]), first + f * (last - first), n)
        noisy = rng.choice(n, n // 100, False)
        x[noisy] += rng.uniform(-10, 10, (len(noisy), 2))
        rows.append(x)
        mode += [j] * n
    return np.concatenate(rows), np.array(mode)


def s3(seed):
    rng = np.random.default_rng(seed)
    rows, mode = [], []
    for j in range(10):
        x = rng.normal(size=(200, 2))
        inside = rng.permutation(200) >= rng.integers(1, 21)  # the others come from the middle
        x[inside] += 10 * np.array([np.cos(j * np.pi / 5), np.sin(j * np.pi / 5)])
        rows.append(x)
        mode += [j] * 200
    return np.concatenate(rows), np.array(mode)


def gas(step):
    d = np.load(SHARED / "data" / "gsa_chenaghlou.npz")
    return d["X"][::step].astype(float), d["label"].ravel()[::step].astype(int)


def gas_means():
    d = np.genfromtxt(SHARED / "data" / "gsa_mean100.csv", delimiter=",", skip_header=1)
    return d[:, :11], d[:, 11].astype(int)


def white_noise():
    for p, q, runs in ((1, 0, 16), (2, 0, 8), (4, 0, 4), (8, 0, 2), (2, 1, 8)):
        fired = rows = 0
        for seed in range(100, 100 + runs):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(8000, p))
            V = np.exp(0.5 * rng.normal(size=(8000, q))) if q else None
            fired += change(X, indices=V)["code"].sum()
            rows += 7800
        rate = 1e4 * fired / rows
        print(f"features {p} indices {q}: {fired} in {rows}, {rate:.1f} per 10,000 (asked for 10)", flush=True)


def main(what, *names):
    if what == "change":
        return white_noise()
    if what == "made":
        sets = [(f.__name__, f, 3) for f in (s1, s2, s3)]
        sets += [("gas, means of 100", lambda seed: gas_means(), 1), ("gas, every 20th", lambda seed: gas(20), 1)]
        for title, make, seeds in sets:
            for name in names:
                runs = [(m, CLUSTERERS[name](scaled(X))) for X, m in map(make, range(seeds))]
                print(title, name, [(round(score(m, l), 2), round(score(m, l, True), 2)) for m, l in runs], flush=True)
        return
    from replay import replay

    for name in names:
        got = {s: score(m, CLUSTERERS[name](scaled(X))) for s, X, m, _ in replay(what)}
        print(what, name, f"{np.mean(list(got.values())):.2f}", {s: round(v, 2) for s, v in got.items()}, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
