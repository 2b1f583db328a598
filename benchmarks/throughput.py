"""The picture of throughput against the number of streams, beside C, `jax.vmap`, river and cvi.

python benchmarks/throughput.py [--core] [--out throughput.png]
"""

from __future__ import annotations

import argparse
import os
import pathlib

import fleet
import matplotlib.pyplot as plt
import numpy as np
import rivals


def plot(rows, path):
    """Draw what `fleet.by_streams` found."""
    N = [int(r["case"].split()[0][2:]) for r in rows]
    few = rivals.blobs(1, 300, 10, 2)[0]
    peers = fleet.best({"river": rivals.river(few, 10), "cvi": rivals.cvi(few, 10)}, 2)
    lines = {"hand-written SIMD C": "simd", "icvi_jax": "ours", "scalar C": "scalar", "jax.vmap of a scan": "vmap"}
    colours = iter(["#999999", "#0072b2", "#000000", "#e69f00", "#009e73", "#cc79a7"])  # told apart by everybody
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for label, name in lines.items():
        rates = [r["rates"].get(name, np.nan) for r in rows]
        axes.loglog(N, rates, "o-", color=next(colours), label=label, lw=3 if name == "ours" else 1.5)
    for name, seconds in peers.items():
        axes.axhline(len(few) / seconds / 1e6, ls=":", color=next(colours), label=f"{name}, one stream")
    used = "one core" if fleet.CORE in os.environ else f"{len(os.sched_getaffinity(0))} cores"
    title = f"k-means, XB and DB, k = 10, p = 2, {used}"
    axes.set(xlabel="streams", ylabel="million samples a second", title=title)
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110)


def main():
    """Measure and draw."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--core", action="store_true", help="one core, by its processor time")
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).with_suffix(".png"))
    given = options.parse_args()
    if given.core:
        fleet.one_core()
    plot(fleet.by_streams(5), given.out)


if __name__ == "__main__":
    main()
