"""The picture: index curves with alarms over the readings, or a fleet's heat map over its worst nodes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icvi_jax.report.result import CHANGE, CODES, GOOD, STUCK, About, Result, columns_of, true_changes, worst_first
from icvi_jax.tables.table import Times, seconds_of, some_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of Okabe and Ito, which people with any kind of colour vision can distinguish.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
ALARMS = {1: ("#D55E00", "v"), 2: ("#009E73", "^"), 3: ("#7A0177", "X")}
MOST_INDICES, MOST_FEATURES, MOST_ROWS, MOST_POINTS, MOST_PIXELS = 6, 16, 200, 20_000, 1500
GAP = 8  # a curve is interrupted after a gap of so many times the usual interval
DAY = 86_400  # seconds
FEW = 20  # the first values of a node have too short a past to be unusual
DID = {CHANGE: "changed", STUCK: "is stuck"}


def figure(result: Result) -> Figure:
    """Draw a result as a matplotlib figure."""
    return _fleet(result) if len(result.nodes) > 1 else _single(result)


def axis_of(result: Result) -> tuple[Times, str]:
    """The horizontal axis and its label."""
    if result.times is None:
        return np.arange(result.label.shape[1], dtype=np.float64), "sample"
    return result.times, result.time_name or "time"


def interrupted(x: Times, y: NDArray[np.float64]) -> tuple[Times, NDArray[np.float64]]:
    """A curve thinned to what a picture can show, with a gap wherever there were no samples for long.

    Examples
    --------
    >>> interrupted(np.array([0.0, 1.0, 2.0, 3.0, 90.0]), np.ones(5))[1].tolist()
    [1.0, 1.0, 1.0, 1.0, nan, 1.0]
    """
    thin = slice(None, None, 1 + len(x) // MOST_POINTS)
    x, y = x[thin], y[thin]
    steps = np.diff(seconds_of(x))
    later = steps[steps > 0]
    holes = 1 + np.flatnonzero(steps > GAP * np.median(later)) if later.size else np.zeros(0, np.int64)
    return np.insert(x, holes, x[holes]), np.insert(y, holes, np.nan)


def curve(axes: Axes, result: Result, node: int, name: str) -> None:
    """Draw one index of one node, its alarms, and the spans of distress."""
    about, (x, _) = result.about[name], axis_of(result)
    values = _shown(result, node, name)
    axes.plot(*interrupted(x, values), lw=0.9, color=PALETTE[0])
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
                label="in distress",
            )
        mark_alarms(axes, x, values, result.codes[name][node])
    for key in columns_of(result):
        for n, sample in enumerate(np.flatnonzero(result.codes[key][node])):
            axes.axvline(x[sample], color=ALARMS[1][0], lw=0.7, alpha=0.7, label=None if n else f"a column {DID[key]}")
    changes = true_changes(result)
    for n, change in enumerate(changes):
        axes.axvline(x[change], color="#888888", lw=0.6, ls=":", label=None if n else "true change")
    axes.set_ylabel(f"{name}\n({GOOD[about.goal]} is good)", fontsize=8)
    legend(axes)


def mark_alarms(axes: Axes, x: NDArray[np.generic], y: NDArray[np.float64], codes: NDArray[np.int8]) -> None:
    """Mark the alarms of an index on its curve."""
    for code, (color, marker) in ALARMS.items():
        at = np.flatnonzero(codes == code)
        if at.size:
            axes.plot(x[at], y[at], marker, color=color, ms=6, mec="white", mew=0.5, ls="", label=CODES[code])


def column_changes(axes: Axes, result: Result, feature: int) -> None:
    """Mark the alarms of a column on its curve."""
    x, _ = axis_of(result)
    color, marker = ALARMS[1]
    for name in columns_of(result):
        at = np.flatnonzero((result.codes[name][0] > 0) & (result.causes[name][0] == feature))
        for sample in at:
            axes.axvline(x[sample], color=color, lw=0.7, alpha=0.7)
        if at.size:
            y = result.x[0, at, feature]
            axes.plot(
                x[at], y, marker, color=color, ms=6, mec="white", mew=0.5, ls="", label=f"this column {DID[name]}"
            )
    legend(axes)


def legend(axes: Axes) -> None:
    """Put the legend above the axes, where there is no curve."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.1,
            fontsize=7,
            ncols=6,
            frameon=False,
            handletextpad=0.3,
            columnspacing=1.2,
        )


def _shown(result: Result, node: int, name: str) -> NDArray[np.float64]:
    """Values of an index; NaN where a sample was missing, since there the last value is only repeated."""
    values = result.values[name][node].astype(np.float64)
    return np.where(np.isfinite(values) & result.seen[node], values, np.nan)


def _subplots(rows: int, heights: list[float]) -> tuple[Figure, list[Axes]]:
    """A figure made without pyplot: no window, no global state."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, sum(heights) + 0.8), layout="constrained")
    axes = drawn.subplots(rows, 1, sharex=False, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for one in axes:
        one.tick_params(labelsize=8)
        one.grid(alpha=0.25, lw=0.5)
    return drawn, list(axes)


def _single(result: Result) -> Figure:
    names, features = list(result.values)[:MOST_INDICES], range(min(MOST_FEATURES, len(result.features)))
    drawn, axes = _subplots(len(names) + len(features) + 1, [1.7] * len(names) + [1.1] * len(features) + [1.2])
    x, label = axis_of(result)
    for one, name in zip(axes, names):
        curve(one, result, 0, name)
    thin = slice(None, None, 1 + len(x) // MOST_POINTS)
    clusters = result.label[0][thin]
    colors = np.array(PALETTE)[clusters % len(PALETTE)]
    for one, feature in zip(axes[len(names) :], features):
        one.plot(*interrupted(x, result.x[0, :, feature]), lw=0.5, color="#bbbbbb", zorder=1)
        one.scatter(x[thin], result.x[0, thin, feature], s=2, c=colors, lw=0)
        one.set_ylabel(_wrapped(result.features[feature], 14, 3), fontsize=8)
        column_changes(one, result, feature)
    axes[-1].scatter(x[thin], np.where(clusters >= 0, clusters, np.nan), s=2, c=colors, lw=0)
    count = np.where(result.seen[0], result.k[0], np.nan)
    axes[-1].plot(*interrupted(x, count), lw=0.8, color="#555555", label="number of clusters")
    axes[-1].set_ylabel("cluster", fontsize=8)
    legend(axes[-1])
    for one in axes[:-1]:
        one.sharex(axes[-1])
        one.tick_params(labelbottom=False)
    axes[-1].set_xlabel(_math_safe(label), fontsize=9)
    drawn.suptitle(
        _math_safe(f"{result.name}: {result.settings[0][1]}, forgetting {result.settings[1][1]}"), fontsize=10
    )
    absent = [*list(result.values)[MOST_INDICES:], *result.features[MOST_FEATURES:]]
    if absent:
        said = _math_safe(f"not drawn here, but in the report: {some_names(absent)}", 160)
        drawn.supxlabel(said, fontsize=8, color="#555555", x=0.01, ha="left")
    return drawn


def _fleet(result: Result) -> Figure:
    """The heat map of a fleet, worst nodes first, and the curves of the three worst."""
    order, name = worst_first(result), next(iter(result.values))
    rows, worst = order[:MOST_ROWS], order[:3]
    noun = "candidates" if result.settings[0][0] == "candidates" else "nodes"
    drawn, axes = _subplots(1 + len(worst), [4.0] + [1.5] * len(worst))
    about, (x, label) = result.about[name], axis_of(result)
    shown, extent = _heat(x, np.stack([_shown(result, int(n), name) for n in rows]), about)
    picture = axes[0].imshow(
        unusual(shown, about.goal),
        aspect="auto",
        interpolation="nearest",
        cmap="cividis",
        vmin=0,
        vmax=1,
        extent=(*extent, len(rows), 0),
    )
    axes[0].grid(visible=False)
    axes[0].set_facecolor("#e6e8eb")
    axes[0].set_ylabel(
        f"{noun}, worst first" + (f" (worst {MOST_ROWS} of {len(order)})" if len(order) > MOST_ROWS else ""), fontsize=8
    )
    bar = drawn.colorbar(picture, ax=axes[0], label=f"{name}: how rare so bad a value\nis for the {noun[:-1]} itself")
    bar.set_ticks([0, 1 / 3, 2 / 3, 1], labels=["usual", "1 in 10", "1 in 100", "1 in 1000"], fontsize=7)
    if len(rows) <= 30:
        axes[0].set_yticks(np.arange(len(rows)) + 0.5, [_fitted(result.nodes[n], 28) for n in rows], fontsize=6)
    for one, node in zip(axes[1:], worst):
        curve(one, result, int(node), name)
        one.set_title(_fitted(result.nodes[node], 60), fontsize=8, loc="left")
        one.set_xlim(*extent)
    if x.dtype.kind == "M":
        axes[0].xaxis_date()
    for one in axes[:-1]:
        one.tick_params(labelbottom=False)
    axes[-1].set_xlabel(_math_safe(label), fontsize=9)
    drawn.suptitle(_math_safe(f"{result.name}: {len(order)} {noun}, {result.settings[0][1]}"), fontsize=10)
    return drawn


def _heat(x: Times, values: NDArray[np.float64], about: About) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Columns of equal time, each with its worst value; and where the first begins and the last ends."""
    number = seconds_of(x) / (DAY if x.dtype.kind == "M" else 1.0)  # matplotlib counts days since 1970
    width = (number[-1] - number[0]) / max(len(number) - 1, 1) or 1.0
    columns = min(len(number), MOST_PIXELS)
    low, high = number[0] - width / 2, number[-1] + width / 2
    column = np.minimum((columns * (number - low) / (high - low)).astype(int), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    worst = (np.fmax if about.goal == "min" else np.fmin).reduceat(values, starts, axis=1)
    out = np.full((len(values), columns), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        out[:, column[starts]] = np.log10(np.where(worst > 0, worst, np.nan)) if about.positive else worst
    # A column between two samples shows the earlier one, if they are not far apart.
    left = low + np.arange(columns) * (high - low) / columns
    before = np.maximum(np.searchsorted(number, left, side="right") - 1, 0)
    near = left - number[before] < GAP * np.median(np.diff(number)) if len(number) > 1 else left < low
    return np.where(near & ~np.isin(np.arange(columns), column), out[:, column[before]], out), (float(low), float(high))


def unusual(values: NDArray[np.float64], goal: str) -> NDArray[np.float64]:
    """How unusual each value (N, T) is for its node, 0 to 1: its rank among the values before it, in thirds of nines.

    The same as `unusual` in the report's script. Values are compared in 256 steps of the range of their node.

    Examples
    --------
    >>> unusual(np.array([[1.0] * 99 + [2.0]]), "min")[0, [50, 99]].round(2).tolist()
    [0.0, 0.67]
    """
    out = np.full(values.shape, np.nan)
    for row, one in zip(out, values if goal == "min" else -values):
        known = np.flatnonzero(np.isfinite(one))
        if not known.size:
            continue
        low, span = one[known].min(), np.ptp(one[known]) or 1.0
        step = ((one[known] - low) / span * 255).round().astype(int)
        counts = np.cumsum(np.eye(257, dtype=np.int32)[step + 1], axis=0)  # how often each step came so far
        n = np.arange(len(known))
        below = np.cumsum(counts, axis=1)[n, step]
        row[known] = np.where(n < FEW, 0.0, np.minimum(1.0, np.log10((n + 1) / (n + 1 - below)) / 3))
    return out


def _wrapped(text: str, width: int, lines: int) -> str:
    parts = textwrap.wrap(text, width) or [text]
    return "\n".join(_fitted(part, width) for part in parts[:lines]) + ("…" if len(parts) > lines else "")


def _fitted(text: str, width: int) -> str:
    """A name cut in the middle if it is too long, since names of nodes often differ at the end."""
    tail = (width - 1) // 2
    return _math_safe(text if len(text) <= width else f"{text[: width - 1 - tail]}…{text[-tail:]}")


def _math_safe(text: str, most: int = 120) -> str:
    """Escape names so that matplotlib does not take them for formulas."""
    return text.replace("$", r"\$")[:most]
