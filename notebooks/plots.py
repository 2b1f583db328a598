"""How the notebooks draw: one palette that colour-blind people can tell apart, and the few marks all figures share."""

from __future__ import annotations

import io
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from PIL import Image

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#777777",
)
ALARMS = {1: (VERMILION, "v", "spike"), 2: (GREEN, "^", "recovered"), 3: (PURPLE, "X", "distress")}


def style() -> None:
    """Small clean axes, for all figures of a notebook."""
    plt.rcParams.update(
        {
            "figure.dpi": 110,
            "savefig.dpi": 150,
            "figure.constrained_layout.use": True,
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10,
            "axes.titlelocation": "left",
            "axes.grid": True,
            "grid.color": "#e6e6e6",
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "legend.frameon": False,
            "legend.fontsize": 8,
            "lines.linewidth": 1.0,
        }
    )


def mark(axes, changes, label: str | None = None) -> None:
    """Thin dotted lines at the true changes, darker than the grid."""
    for i, change in enumerate(changes):
        axes.axvline(change, color="#444444", lw=0.8, ls=(0, (1, 2)), label=label if i == 0 else None, zorder=0)


def series(axes, values, changes=(), codes=None, label=None, color=BLUE, log=True) -> None:
    """An index over the stream, with true changes and, where there are codes, what the monitor said."""
    values = np.asarray(values)
    axes.plot(values, color=color, label=label)
    mark(axes, changes)
    if log:
        axes.set_yscale("log")
    if codes is not None:
        for code, (shade, marker, word) in ALARMS.items():
            at = np.flatnonzero(np.asarray(codes) == code)
            if len(at):
                axes.plot(at, values[at], marker, color=shade, ms=6, mec="white", mew=0.6, ls="", label=word, zorder=3)


def ellipses(axes, centers, covariances, color=VERMILION, sigmas=2.5) -> None:
    """Clusters as ellipses at some standard deviations, with a cross in the middle; NaN centres are no clusters."""
    for center, covariance in zip(np.asarray(centers), np.asarray(covariances)):
        if not np.isfinite(center).all():
            continue
        axes.plot(*center, "+", color=color, ms=6, mew=1.3)
        if np.isfinite(covariance).all():
            size, axis = np.linalg.eigh(covariance)
            angle = np.degrees(np.arctan2(axis[1, 1], axis[0, 1]))
            width, height = 2 * sigmas * np.sqrt(np.maximum(size[::-1], 0))
            axes.add_patch(Ellipse(center, width, height, angle=angle, fill=False, color=color, lw=1.3))


def members(x, label, k):
    """Mean (k, p) and covariance (k, p, p) of the samples with each label; NaN for fewer than three."""
    p = x.shape[1]
    means, covariances = np.full((k, p), np.nan), np.full((k, p, p), np.nan)
    for i in range(k):
        own = x[label == i]
        if len(own):
            means[i] = own.mean(0)
        if len(own) > 2:
            covariances[i] = np.cov(own.T)
    return means, covariances


def save(figure, name: str) -> None:
    """Keep a figure for the README, where the environment variable ICVI_NOTEBOOK_FIGURES asks for it."""
    if os.environ.get("ICVI_NOTEBOOK_FIGURES"):
        write(figure, Path(__file__).resolve().parent / "figures" / f"{name}.png")


def write(figure, path: Path) -> None:
    """Write a figure with few colours: a third of the size, as crisp."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    few = Image.open(drawn).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
