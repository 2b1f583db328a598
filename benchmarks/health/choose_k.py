"""How good the partition of `icvi.Portfolio` is on the real streams, beside every single k of 2 … 12.

    python benchmarks/health/choose_k.py --data DIRECTORY

The windowed index and the rule are those of README.md. Writes docs/results/choose_k.csv.
"""

from __future__ import annotations

import argparse
import csv
import pathlib

import numpy as np
from evaluate import HERE, real_streams
from runs import STRIDE, WINDOW, judged

import icvi_jax as icvi

SIZES = tuple(range(2, 13))
MEMORY = 50.0


def windowed(y, names) -> float:
    """The mean of the adjusted Rand index over windows."""
    found = [judged(y[end - WINDOW : end], names[end - WINDOW : end]) for end in range(WINDOW, len(y) + 1, STRIDE)]
    return float(np.mean([f[0] for f in found if f is not None]))


def changes(y) -> int:
    """How often the set of classes present changes: births, deaths, and at least one."""
    seen = [frozenset(y[a : a + 250][y[a : a + 250] >= 0]) for a in range(0, len(y), 250)]
    return max(1, sum(a != b for a, b in zip(seen, seen[1:])))


def renamed(names, k) -> int:
    """How often the portfolio showed another candidate after the first choice."""
    return int((np.diff(k[100:]) != 0).sum())


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    given = parser.parse_args()
    fleets: dict[tuple[int, int], list] = {}
    for name, x, y in real_streams(given.data):
        wide = next(p for p in (4, 16, 32) if x.shape[1] <= p)
        padded = np.c_[x, np.zeros((len(x), wide - x.shape[1]), np.float32)]
        fleets.setdefault((wide, len(x)), []).append((name, padded, y))
    lines = []
    for streams in fleets.values():
        x = np.stack([s[1] for s in streams])
        parts = tuple(icvi.SequentialKMeans(k=k, memory=MEMORY, seeding="distinct") for k in SIZES)
        got = icvi.run_fleet(
            icvi.Pipeline(clusterer=icvi.Portfolio(candidates=parts), panel=None), x, keep=("cluster", "k")
        ).readings
        alone = [
            np.asarray(icvi.run_fleet(icvi.Pipeline(clusterer=part, panel=None), x, keep=("cluster",)).readings.cluster)
            for part in parts
        ]
        for n, (name, _, y) in enumerate(streams):
            single = [windowed(y, one[n]) for one in alone]
            k = np.asarray(got.k)[n]
            lines.append(
                {
                    "stream": name,
                    "portfolio": windowed(y, np.asarray(got.cluster)[n]),
                    "k = 3": single[1],
                    "best k": SIZES[int(np.argmax(single))],
                    "best single": max(single),
                    "true k": int(y.max()) + 1,
                    "k at the end": int(k[-1]),
                    "changes of candidate": renamed(np.asarray(got.cluster)[n], k),
                    "true changes": changes(y),
                }
            )
            print(lines[-1], flush=True)
    with (HERE.parents[1] / "docs/results/choose_k.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in line.items()} for line in lines)
    mine, three, best = (np.array([line[c] for line in lines]) for c in ("portfolio", "k = 3", "best single"))
    per = np.array([line["changes of candidate"] / line["true changes"] for line in lines])
    print(
        f"mean windowed index: portfolio {mine.mean():.3f}, k = 3 {three.mean():.3f}, best single k {best.mean():.3f}"
    )
    print(f"times k = 3: {mine.mean() / three.mean():.2f}; share of the best single k: {mine.mean() / best.mean():.3f}")
    print(f"worse than k = 3 by more than .05: {(mine < three - 0.05).mean():.2f} of {len(mine)} streams")
    print(f"changes of candidate per true change: median {np.median(per):.2f}")


if __name__ == "__main__":
    main()
