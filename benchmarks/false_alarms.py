"""False alarms: what a promised rate turns out to be on streams that nobody labelled, and on noise.

    python benchmarks/false_alarms.py [--shared ../shared/data] [--samples 1000000] [--variant slower]

Measured over promised, pooled over the streams of a set. The real streams do change now and then, and nobody says
when: every alarm counts as false. Noise has one and four features, in streams of 10,000 samples.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
from made import KINDS, noise
from power import VARIANTS, codes

import icvi_jax as icvi

RATES = (1e-2, 1e-3, 1e-4)
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
    return icvi.Pipeline(
        clusterer=pipe.clusterer, panel=pipe.panel, monitors=icvi.Budget.of(rate).over(pipe.monitors)
    )


def measured(pipe: icvi.Pipeline, x: np.ndarray, rate: float) -> tuple[float, int]:
    """Measured over promised, and how many alarms there were."""
    alarms = int(codes(at_rate(pipe, rate), x).sum())
    rows = int(np.isfinite(x).any(2).sum())
    return alarms / rows / rate, alarms


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--variant", choices=list(VARIANTS), action="append")
    given = parser.parse_args(argv)
    sets = recorded(given.shared) if given.shared.is_dir() else {}
    rng = np.random.default_rng(0)
    for kind in KINDS:
        for features in (1, 4):
            sets[f"{kind}, p = {features}"] = noise(kind, max(1, given.samples // LENGTH), LENGTH, features, rng)
    for name in given.variant or ("definition", "slower", "slower, spread"):
        print(f"{name + ': measured/promised (alarms)':44}" + "".join(f"{rate:>18g}" for rate in RATES))
        for label, x in sets.items():
            cells = (measured(VARIANTS[name], x, rate) for rate in RATES)
            print(f"{label:44}" + "".join(f"{ratio:9.2f} {f'({count:,})':>8}" for ratio, count in cells), flush=True)


if __name__ == "__main__":
    main()
