"""The picture: index curves with alarms over the readings, or a fleet's heat map over its worst nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .result import CODES, Result, true_changes, worst_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
ALARMS = {1: ("#D55E00", "v"), 2: ("#009E73", "^"), 3: ("#7A0177", "X")}
MOST_INDICES, MOST_FEATURES, MOST_ROWS, MOST_POINTS = 6, 4, 200, 20_000
DIRECTION = {"min": "small is good", "max": "large is good"}


def figure(result: Result) -> Figure:
    """Draw a result as a matplotlib figure."""
    return _fleet(result) if len(result.nodes) > 1 else _single(result)


def axis_of(result: Result) -> tuple[NDArray[np.generic], str]:
    """The horizontal axis and its label."""
    if result.times is None:
        return np.arange(result.label.shape[1]), "sample"
    return result.times, result.time_name or "time"


def curve(axes: Axes, result: Result, node: int, name: str) -> None:
    """Draw one index of one node, its alarms, and where distress stands."""
    about, (x, _) = result.about[name], axis_of(result)
    values = result.values[name][node].astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    thin = slice(None, None, 1 + len(values) // MOST_POINTS)
    axes.plot(x[thin], values[thin], lw=0.9, color=PALETTE[0])
    if about.positive and (values > 0).any():
        axes.set_yscale("log")
    if name in result.codes:
        standing = result.standing[name][node]
        if standing.any():
            axes.fill_between(
                x,
                0,
                1,
                where=standing,
                transform=axes.get_xaxis_transform(),
                color=ALARMS[3][0],
                alpha=0.12,
                lw=0,
                label="distress stands",
            )
        for code, (color, marker) in ALARMS.items():
            at = np.flatnonzero(result.codes[name][node] == code)
            if at.size:
                axes.plot(x[at], values[at], marker, color=color, ms=6, mec="white", mew=0.5, ls="", label=CODES[code])
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper right", fontsize=7, ncols=4, framealpha=0.8)
    for change in true_changes(result):
        axes.axvline(x[change], color="#888888", lw=0.6, ls=":")
    axes.set_ylabel(f"{name}\n({DIRECTION[about.goal]})", fontsize=8)


def _subplots(rows: int, heights: list[float]) -> tuple[Figure, list[Axes]]:
    """A figure without pyplot: no window, no global state."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, sum(heights) + 0.8), layout="constrained")
    axes = drawn.subplots(rows, 1, sharex=False, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for one in axes:
        one.tick_params(labelsize=8)
        one.grid(alpha=0.25, lw=0.5)
    return drawn, list(axes)


def _single(result: Result) -> Figure:
    """Curves of one stream: indices, features, clusters."""
    names = list(result.values)[:MOST_INDICES]
    features = range(min(MOST_FEATURES, len(result.features)))
    drawn, axes = _subplots(len(names) + len(features) + 1, [1.7] * len(names) + [1.2] * len(features) + [1.2])
    x, label = axis_of(result)
    for one, name in zip(axes, names):
        curve(one, result, 0, name)
    thin = slice(None, None, 1 + len(x) // MOST_POINTS)
    clusters = result.label[0][thin]
    colors = np.array(PALETTE)[clusters % len(PALETTE)]
    for one, feature in zip(axes[len(names) :], features):
        one.scatter(x[thin], result.x[0, thin, feature], s=2, c=colors, lw=0)
        one.set_ylabel(_math_safe(result.features[feature]), fontsize=8)
    axes[-1].scatter(x[thin], np.where(clusters >= 0, clusters, np.nan), s=2, c=colors, lw=0)
    axes[-1].plot(x[thin], result.k[0][thin], lw=0.8, color="#555555", label="number of clusters")
    axes[-1].legend(loc="upper left", fontsize=7)
    axes[-1].set_ylabel("cluster", fontsize=8)
    for one in axes[:-1]:
        one.sharex(axes[-1])
        one.tick_params(labelbottom=False)
    axes[-1].set_xlabel(_math_safe(label), fontsize=9)
    axes[0].set_title(
        _math_safe(f"{result.name}: {result.settings[0][1]}, forgetting {result.settings[1][1]}"), fontsize=10
    )
    return drawn


def _fleet(result: Result) -> Figure:
    """The heat map of a fleet, worst nodes first, and the curves of the worst three."""
    order, name = worst_first(result), next(iter(result.values))
    rows = order[:MOST_ROWS]
    worst = order[:3]
    drawn, axes = _subplots(1 + len(worst), [4.0] + [1.5] * len(worst))
    values, about = result.values[name][rows].astype(np.float64), result.about[name]
    values[~np.isfinite(values)] = np.nan
    x, label = axis_of(result)
    shown = np.log10(np.where(values > 0, values, np.nan)) if about.positive else values
    low, high = np.nanpercentile(shown, (1, 99)) if np.isfinite(shown).any() else (0, 1)
    picture = axes[0].imshow(
        shown,
        aspect="auto",
        interpolation="nearest",
        cmap="cividis" if about.goal == "min" else "cividis_r",
        vmin=low,
        vmax=high,
        extent=(0, shown.shape[1], len(rows), 0),
    )
    axes[0].grid(visible=False)
    axes[0].set_ylabel(
        "nodes, worst first" + (f" (worst {MOST_ROWS} of {len(order)})" if len(order) > MOST_ROWS else ""), fontsize=8
    )
    axes[0].set_xlabel("sample", fontsize=8)
    unit = f"log₁₀ {name}" if about.positive else name
    drawn.colorbar(picture, ax=axes[0], label=f"{unit} ({DIRECTION[about.goal]})")
    if len(rows) <= 30:
        axes[0].set_yticks(np.arange(len(rows)) + 0.5, [_math_safe(result.nodes[n][:24]) for n in rows], fontsize=6)
    for one, node in zip(axes[1:], worst):
        curve(one, result, int(node), name)
        one.set_title(_math_safe(result.nodes[node]), fontsize=8, loc="left")
    axes[-1].set_xlabel(_math_safe(label), fontsize=9)
    axes[0].set_title(_math_safe(f"{result.name}: {len(order)} nodes, {result.settings[0][1]}"), fontsize=10)
    return drawn


def _math_safe(text: str) -> str:
    """Keep matplotlib from reading mathematics into names."""
    return text.replace("$", r"\$")[:120]
