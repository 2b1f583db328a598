"""The tables of speeds in docs/benchmarks.md and the README, measured in the same run as C and river.

    python benchmarks/speed.py [--core] [--write]

k-means with XB and DB, as in `fleet.py` and `live.py`, NumPy in and out. `--core`: one core, by its processor time, for
machines that others use. Without `--write` the table is printed only.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re

import fleet
import live
import numpy as np
import rivals

import icvi_jax as icvi

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile("(<!-- speed -->\n).*(<!-- /speed -->)", re.DOTALL)
FLEETS = [(1024, 1000, 10, 2), (4096, 300, 4, 2), (1024, 1000, 3, 8), (1024, 300, 32, 2)]
HEAD = """| recorded streams | million samples a second | times plain C | times SIMD C | times river |
|---|---|---|---|---|"""
TICKS = """| one live tick, with a monitor | µs | river's time for as many samples |
|---|---|---|"""


def machine() -> str:
    """The processor and how much of it was used."""
    with open("/proc/cpuinfo") as file:
        lines = [line.split(":", 1) for line in file if ":" in line]
    facts = {name.strip(): value.strip() for name, value in lines}
    wide = "AVX-512" if "avx512f" in facts["flags"] else "AVX2" if "avx2" in facts["flags"] else "SSE"
    cores = len(os.sched_getaffinity(0))
    used = "one core, processor time" if fleet.CORE in os.environ else f"{cores} cores"
    return f"{facts['model name']}, {wide}, {used}"


def row(label: str, call, X: np.ndarray, k: int, repeats: int) -> str:
    """One row: our rate, and how many times the others' it is."""
    rates = fleet.rates({"ours": call, **rivals.c_programs(X, k)}, X.shape[0] * X.shape[1], repeats)
    few = X[0, :300]
    rates["river"] = len(few) / fleet.best({"river": rivals.river(few, k)}, 2)["river"] / 1e6
    ratios = [f"{rates['ours'] / rates[name]:.2g}×" if name in rates else "" for name in ("scalar", "simd")]
    text = f"| {label} | {rates['ours']:.3g} | {' | '.join(ratios)} | {rates['ours'] / rates['river']:,.0f}× |"
    print(text, flush=True)
    return text


def table(repeats: int) -> list[str]:
    """The rows of recorded streams."""
    rows = []
    for N, T, k, p in FLEETS:
        X = rivals.blobs(N, T, k, p)
        label = f"{N:,} streams, k = {k}, {p} features"
        rows.append(row(label, fleet.fleet(fleet.pipeline(k), X), X, k, repeats))
    X = rivals.blobs(1024, 500, 8, 2)
    pipe = fleet.pipeline(8, icvi.OnlineEllipsoidal(capacity=8))
    rows.append(row("1,024 streams, OEC of 8 slots (others: k-means)", fleet.fleet(pipe, X), X, 8, repeats))
    X = rivals.blobs(1, 200_000, 10, 2)
    alone = row("one stream, k = 10", lambda: icvi.run(fleet.pipeline(10), X[0], keep=fleet.KEEP), X, 10, repeats)
    return [*rows, alone]


def ticks() -> list[str]:
    """The rows of live ticks beside river's updates."""
    rng, rows = np.random.default_rng(0), []
    for streams, name in ((1, "one stream"), (1000, "1,000 streams")):
        for k in (3, 10):
            took, ratio, _ = live.side_by_side(k, streams, 100, rng)
            rows.append(f"| {name}, k = {k} | {took * 1e6:.2g} | {ratio:.2g}× |")
    return rows


def main() -> None:
    """Measure, print, and write if asked to."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--core", action="store_true")
    options.add_argument("--write", action="store_true", help="into docs/benchmarks.md and README.md")
    options.add_argument("--repeats", type=int, default=7)
    given = options.parse_args()
    if given.core:
        fleet.one_core()
    about = f"Sequential k-means with XB and DB. {machine()}. `benchmarks/speed.py` measures all of it in one run."
    note = "The C is written by hand and does less: no missing data, no anchor; SIMD C gets its samples transposed."
    rows = table(given.repeats)
    text = "\n".join([HEAD, *rows, "", TICKS, *ticks(), "", about, note, ""])
    print(text)
    if given.write:
        write(ROOT / "docs" / "benchmarks.md", text)
        write(ROOT / "README.md", "\n".join([HEAD, rows[0], rows[-1], "", f"{machine()}.", ""]))


def write(path: pathlib.Path, text: str) -> None:
    """Put `text` between the marks `<!-- speed -->` of a page."""
    path.write_text(BLOCK.sub(lambda found: found[1] + text + found[2], path.read_text()))


if __name__ == "__main__":
    main()
