"""How the study draws: the palette and style of the notebooks, heat maps with numbers, dots with intervals."""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from store import ROOT

sys.path.insert(0, str(ROOT / "notebooks"))

import plots

FIGURES = ROOT / "docs" / "study" / "figures"


def keep(figure, name):
    """Write a figure of the pages and close it."""
    plots.write(figure, FIGURES / f"{name}.png")
    plt.close(figure)


def heat(axes, values, rows, columns, low=0.0, high=1.0, good="large", digits="{:.0%}"):
    """A heat map with the number in every cell; dark is good; grey where there is none."""
    shown = np.ma.masked_invalid(np.asarray(values, float))
    cmap = plt.get_cmap("cividis_r" if good == "large" else "cividis").copy()
    cmap.set_bad("#eeeeee")
    axes.imshow(shown, cmap=cmap, vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    middle = (low + high) / 2
    for i, j in np.ndindex(shown.shape):
        if not np.ma.is_masked(shown[i, j]):
            dark = shown[i, j] > middle if good == "large" else shown[i, j] < middle
            said = digits.format(shown[i, j]).rstrip("%")
            axes.text(j, i, said, ha="center", va="center", fontsize=6.5, color="white" if dark else "black")


def dots(axes, rows, means, lows, highs, color, marker="o", shift=0.0, label=None):
    """Means with intervals, one row each, from top to bottom."""
    y = np.arange(len(rows)) + shift
    axes.hlines(y, lows, highs, color=color, lw=1.6, alpha=0.5)
    axes.plot(means, y, marker, color=color, ms=4.5, mec="white", mew=0.5, ls="", label=label)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.4, -0.6)
