"""Draw the gauge of the documentation's first page: health on one stream under two clusterers.

python benchmarks/health/gauge.py
"""

import pathlib

import numpy as np
from matplotlib.figure import Figure

import icvi_jax as icvi
from icvi_jax.indices.health import HIGH, LOW

OUT = pathlib.Path(__file__).parents[2] / "docs/results/health_gauge.png"
CLUSTERERS = {"k-means with k = 11": icvi.SequentialKMeans(k=11), "merge-split": icvi.MergeSplit(slots=16)}
BANDS = (("low", 0.0, LOW, "#c2185b"), ("medium", LOW, HIGH, "#b25000"), ("high", HIGH, 1.0, "#00795a"))


def main() -> None:
    """Run both and draw."""
    stream = icvi.streams.s2(seed=0)
    figure = Figure((8, 2.6), layout="constrained")
    axes = figure.add_subplot()
    for word, low, high, color in BANDS:
        axes.axhspan(low, high, color=color, alpha=0.12, lw=0)
        axes.text(len(stream.x) * 1.005, (low + high) / 2, word, color=color, va="center")
    for (name, clusterer), color in zip(CLUSTERERS.items(), ("#D55E00", "#0072B2")):
        pipe = icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=(icvi.Health(),)))
        axes.plot(np.asarray(icvi.run(pipe, stream.x).readings.values["health"]), color=color, lw=1.1, label=name)
    for change in stream.changes:
        axes.axvline(change, color="0.8", lw=0.6, zorder=0)
    axes.set(
        xlim=(0, len(stream.x)), ylim=(0, 1), xlabel="sample (lines: a new cluster appears)", ylabel="trust (health)"
    )
    axes.legend(frameon=False, loc="center left", fontsize=8)
    figure.savefig(OUT, dpi=130)


if __name__ == "__main__":
    main()
