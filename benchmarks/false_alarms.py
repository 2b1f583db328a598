"""False alarms: what a promised rate turns out to be on streams that nobody labelled, and on noise.

    python benchmarks/false_alarms.py [--shared ../shared/data] [--samples 1000000] [--variant slower]

Measured over promised, pooled over the streams of a set. The real streams do change now and then, and nobody says
when: every alarm counts as false. Noise has one and four features, half of the samples each, in streams of 10,000
samples; both and the two together are printed. `Distress` listens to the Xie–Beni index of a k-means with k = 3. With
`--write` the tables go to docs/results.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
from made import CYCLE, KINDS, noise
from power import VARIANTS, alone, codes
from tables import write

import icvi_jax as icvi

RATES = (1e-2, 1e-3, 3e-4, 1e-4, 1e-5)
LENGTH = 10_000


def recorded(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The label-free sets as (N, T, p); NaN where there is no reading."""
    intel = np.load(folder / "intel_temp_even_cols.npz")["temp_centi_c"]
    return {
        "Intel": intel.T[:, :, None] / 100.0,
        "Beijing": np.load(folder / "beijing_air_6stations.npz")["X"].astype(float),
        "Grand St Bernard": np.load(folder / "gsb_nodes_10min.npz")["X"].astype(float),
    }


def at_rate(pipe: icvi.Pipeline, rate: float) -> icvi.Pipeline:
    """The pipeline with another promise."""
    return pipe.within(icvi.Budget.of(rate))


def measured(pipe: icvi.Pipeline, parts: list[np.ndarray], rate: float) -> tuple[float, int]:
    """Measured over promised, and how many alarms there were; pooled over the parts of a set."""
    alarms = sum(int(codes(at_rate(pipe, rate), x).sum()) for x in parts)
    rows = sum(int(np.isfinite(x).any(2).sum()) for x in parts)
    return alarms / rows / rate, alarms


LEARNED = icvi.Pipeline(
    clusterer=icvi.SequentialKMeans(k=3, memory=50, seeding="distinct"),
    panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
    monitors={"change": icvi.Distress(false_alarms=1e-3, index="xb")},
    standardize=icvi.Standardize(warmup=200),
)
SEASONS = {"Beijing": 24, "Grand St Bernard": CYCLE, "cycle": CYCLE}
"""Rows in a day, where streams have days."""

ALSO = {"season": {}, "season, slower, spread": {"slower": True, "spread": True}}
"""Variants with the season of each set, and their other options."""

CHOICES = {name: pipe for name, pipe in VARIANTS.items() if name not in ALSO} | {"Distress, XB": LEARNED}


def table(name: str, sets: dict[str, list[np.ndarray]]) -> list[tuple[str, ...]]:
    """Print and give the rows: a set, and measured over promised at each rate."""
    rows = []
    for label, parts in sets.items():
        season = SEASONS.get(label.split(",")[0])
        if name in ALSO and season is None:
            continue
        pipe = alone(icvi.Change(season=season, **ALSO[name])) if name in ALSO else CHOICES[name]
        cells = [measured(pipe, parts, rate) for rate in RATES]
        print(f"{label:30}" + "".join(f"{ratio:9.2f} {f'({count:,})':>8}" for ratio, count in cells), flush=True)
        rows.append((label, *(f"{ratio:.2f}" for ratio, _ in cells)))
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--variant", choices=[*CHOICES, *ALSO], action="append")
    parser.add_argument("--write", action="store_true", help="write docs/results/false_alarms_*.csv")
    given = parser.parse_args(argv)
    real = recorded(given.shared) if given.shared.is_dir() else {}
    sets = {name: [x] for name, x in real.items()}
    rng = np.random.default_rng(0)
    for kind in KINDS:
        parts = [noise(kind, max(1, given.samples // LENGTH // 2), LENGTH, p, rng) for p in (1, 4)]
        sets |= {f"{kind}, p = 1": parts[:1], f"{kind}, p = 4": parts[1:], kind: parts}
    for name in given.variant or ("definition", "slower, spread", "slower, jumps", *ALSO, "Distress, XB"):
        print(f"\n{name}\n{'measured/promised (alarms)':30}" + "".join(f"{rate:>18g}" for rate in RATES))
        rows = table(name, sets)
        if given.write:
            file = "false_alarms_" + name.replace(", ", "_").lower()
            write(file, ("stream", *(f"{rate:g}" for rate in RATES)), rows)


if __name__ == "__main__":
    main()
