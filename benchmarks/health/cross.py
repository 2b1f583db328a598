"""Compare recipes of `train.py` by the rule of README.md: families of training left out in turn, no real stream.

    python benchmarks/health/cross.py --rows rows.npz "mixed, ranked, 30,000 steps"

`--rows` are those that `train.py` keeps. Prints a line for each recipe named, or for all (half an hour of CPU time).
"""

from __future__ import annotations

import argparse
import pathlib
import time

import numpy as np
from evaluate import HERE, auc, calibration, chances
from runs import Rows
from simulate import ORDERS, SHAPES
from train import fit, ways

LEFT_OUT = (
    ("shuffled",),
    ("sequential", "births"),
    ("sticky", "memory"),
    ("drift", "cycle"),
    ("elong",),
    ("ring",),
    ("box",),
)
RECIPES = {
    "version 1": {"steps": 9000, "rank": 0.0, "mixed": False, "first": 250_614},
    "three times the streams": {"steps": 9000, "rank": 0.0, "mixed": False},
    "mixed": {"steps": 9000, "rank": 0.0},
    "mixed, ranked": {"steps": 9000},
    "mixed, ranked, 30,000 steps": {},
    "taught": {"teachers": 4},
}
BALANCES = np.arange(-20, 21) / 20
"""What may be added to the logit of health."""


def taken(rows: Rows, mask) -> Rows:
    """Some of the rows."""
    return Rows(*(a[mask] for a in rows))


def crossed(rows: Rows, first: int | None = None, **recipe) -> tuple[dict[str, tuple[float, float, float]], np.ndarray]:
    """AUC, Brier score and calibration error, for each way to tell k: means over the groups left out.

    And the mean calibration error for each of BALANCES and each way to tell k (b, 3).
    """
    found: dict[str, list] = {}
    errors = []
    for names in LEFT_OUT:
        places = [(SHAPES if name in SHAPES else ORDERS).index(name) for name in names]
        out = np.isin(rows.shape if names[0] in SHAPES else rows.order, places)
        kept = ~out if first is None else ~out & (np.arange(len(out)) < first)
        params, rest = fit(taken(rows, kept), **recipe), taken(rows, out)
        right, chance = rest.ari >= 0.5, chances(rest, params)[0]
        for way, mask in ways(rest).items():
            y, c = right[mask], chance[mask]
            found.setdefault(way, []).append((auc(~y, -c), np.mean((c - y) ** 2), calibration(y, c)))
        logit = np.log(chance / (1 - chance))
        moved = [1 / (1 + np.exp(-logit - b)) for b in BALANCES]
        errors.append([[calibration(right[mask], c[mask]) for mask in ways(rest).values()] for c in moved])
    return {way: tuple(np.mean(lines, 0)) for way, lines in found.items()}, np.mean(errors, 0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recipes", nargs="*", default=list(RECIPES), metavar="RECIPE")
    parser.add_argument("--rows", type=pathlib.Path, default=HERE / "rows.npz")
    given = parser.parse_args()
    rows = Rows(**np.load(given.rows))
    for name in given.recipes:
        start = time.process_time()
        got, errors = crossed(rows, **RECIPES[name])
        best = int(errors.max(1).argmin())
        print(
            f"{name}: Brier {np.mean([line[1] for line in got.values()]):.5f}; "
            + ", ".join(f"{way}: AUC {a:.4f}, Brier {b:.4f}, calibration {c:.4f}" for way, (a, b, c) in got.items())
            + f"; balance {BALANCES[best]:.2f}: calibration {errors[best].round(4).tolist()}"
            + f"; {time.process_time() - start:.0f} s of CPU time",
            flush=True,
        )


if __name__ == "__main__":
    main()
