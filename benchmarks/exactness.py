"""What exactness is worth: the error of ignoring that centres move, and of recentring a float32 sum.

    python benchmarks/exactness.py

First table: Xie–Beni with λ = 0.9 over sequential k-means on S1–S3, against the shortcut that adds each sample's
squared distance from the centre *as it was then* and never corrects it. Second table: the dispersion about a centre
that wanders and comes back, in float32, by the recursion in C, G, M and by mass, mean and scatter, against float64.
"""

from __future__ import annotations

import json

import jax
import numpy as np

import icvi_jax as icvi

LAMBDA = 0.9


def shortcut(X: np.ndarray, labels: np.ndarray, centers: np.ndarray, lam: float) -> np.ndarray:
    """XB_λ with a dispersion that is never recentred: C ← λ C + u ‖x − v‖²."""
    k = centers.shape[1]
    C, values = np.zeros(k), np.full(len(X), np.nan)
    off = ~np.eye(k, dtype=bool)
    for t, (x, label) in enumerate(zip(X, labels)):
        C *= lam
        C[label] += ((x - centers[t, label]) ** 2).sum()
        if t >= k:
            gaps = ((centers[t][:, None] - centers[t][None]) ** 2).sum(-1)
            values[t] = (1 - lam) * C.sum() / gaps[off].min()
    return values


def moving_centres() -> list[dict]:
    """Relative error of the shortcut along S1–S3: median and worst tenth, over five seeds."""
    rows = []
    for name, k in (("s1", 2), ("s2", 11), ("s3", 10)):
        errors = []
        for seed in range(5):
            X = getattr(icvi.streams, name)(seed=seed).x
            panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=LAMBDA)
            with jax.enable_x64(True):
                r = icvi.run(icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k), panel=panel), X).readings
                exact, labels, centers = (np.asarray(a) for a in (r.values["xb"], r.label, r.centers))
            errors.append(np.abs(shortcut(X, labels, centers, LAMBDA) / exact - 1)[k:])
        e = np.concatenate(errors)
        rows.append({"stream": name, "median": float(np.median(e)), "worst tenth": float(np.quantile(e, 0.9))})
    return rows


def wandering_centre(distances=(1e1, 1e2, 1e3, 1e4), n: int = 2000) -> list[dict]:
    """Relative error in float32 of C about a centre that goes `distance` away and comes back."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    rows = []
    for distance in distances:
        away = np.where((np.arange(n) > n // 3) & (np.arange(n) < 2 * n // 3), distance, 0.0)
        V = (np.stack([away, away], 1) * np.sin(np.arange(n) / 50)[:, None]).astype(np.float32)
        V[-1] = 0
        C, G, M, old = np.float32(0), np.zeros(2, np.float32), np.float32(0), V[0]
        panel = icvi.Panel(indices=(icvi.BallHall(),))
        state = panel.init(1, 2, xp=np, dtype=np.float32)
        for x, v in zip(X, V):
            d, old = old - v, v
            e = x - v
            C = C + 2 * (d @ G) + M * (d @ d) + e @ e
            G = G + M * d + e
            M = M + np.float32(1)
            state, _ = panel.step(state, x, np.ones(1, np.float32), v[None])
        truth = ((X.astype(float) - V[-1]) ** 2).sum()
        ours = float(panel.stats(state.statistics, state.prototypes).dispersion.total)
        rows.append({"away": distance, "C, G, M": abs(C / truth - 1), "mass, mean, scatter": abs(ours / truth - 1)})
    return [{key: float(value) for key, value in row.items()} for row in rows]


def show(title: str, rows: list[dict]) -> None:
    print(f"\n{title}\n")
    print("  ".join(f"{key:>20}" for key in rows[0]))
    for row in rows:
        print("  ".join(f"{v:>20}" if isinstance(v, str) else f"{v:>20.3g}" for v in row.values()))


if __name__ == "__main__":
    tables = {"centres that are taken not to move": moving_centres(), "a centre that wanders": wandering_centre()}
    for title, rows in tables.items():
        show(f"Relative error: {title}", rows)
    print("\n" + json.dumps(tables))
