"""Cycles: whether `icvi run --season auto` finds the day where there is one, and nothing where there is none.

    python benchmarks/cycles.py [--shared ../shared/data] [--streams 200] [--write]

Recordings whose stations have days, each station by itself; then noise, the control, in streams of several lengths: of
"cycle" the share found at its length, of all other kinds the share in which anything was found.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
from false_alarms import SEASONS, recorded
from labelled import SETS
from made import CYCLE, KINDS, noise
from tables import write

from icvi_jax.tables.cycle import cycle

LENGTHS = (600, 2000, 10_000)


def stations(name: str, streams: list[np.ndarray]) -> list[str]:
    """A row: rows of a day, streams, share found at the day, at another length, and not at all."""
    day = SEASONS.get(name, 0)
    found = np.array([cycle(x).rows for x in streams])
    right = (found == day) & (day > 0)
    shares = [np.mean(right), np.mean((found > 0) & ~right), np.mean(found == 0)]
    return [name, str(day or "none"), str(len(streams)), *(f"{share:.2f}" for share in shares)]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="write docs/results/cycles.csv")
    args = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    rows = [stations(name, list(x)) for name, x in recorded(args.shared).items()]
    rows += [stations(name, load(args.shared).streams) for name, load in SETS.items()]
    for kind in KINDS:
        for length in LENGTHS:
            found = stations(kind, list(noise(kind, args.streams, length, 2, rng)))
            rows.append([f"{kind}, {length:,} rows", *found[1:]])
    header = ["streams", "rows of a cycle", "number", "found", "found another", "found none"]
    for row in [header, *rows]:
        print(f"{row[0]:24}" + "".join(f"{cell:>15}" for cell in row[1:]), flush=True)
    if args.write:
        write("cycles", header, rows)


if __name__ == "__main__":
    assert SEASONS["cycle"] == CYCLE
    main()
