"""Show readings in Python: a figure, and HTML for notebooks."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from icvi_jax.indices.catalogue import catalogue
from icvi_jax.report.alarm_text import story
from icvi_jax.report.plot import ALARMS, DIRECTION, PALETTE
from icvi_jax.report.result import CHANGE, CODES
from icvi_jax.types import Alarm, Reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CURVES, MOST_SENTENCES = 12, 5


def plot_readings(readings: Reading, times: Sequence[object] | None = None) -> Figure:
    """Draw the index values of `run` or `run_fleet`; for a fleet, the median and the middle 80 % of its streams.

    Parameters
    ----------
    readings
        With values that lead with (T,) or (N, T).
    times
        (T,), the horizontal axis; None counts samples.
    """
    from matplotlib.figure import Figure

    names = list(readings.values or {})[:MOST_CURVES]
    if not names:
        raise ValueError('plot: the readings have no values; add "values" to keep=(…)')
    drawn = Figure(figsize=(9, 1.6 * len(names) + 0.6), layout="constrained")
    axes = drawn.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    goals = {entry.name: entry for entry in catalogue()}
    for one, name in zip(axes, names):
        values = np.atleast_2d(np.asarray(readings.values[name], np.float64))
        values = np.where(np.isfinite(values), values, np.nan)
        x = np.arange(values.shape[1]) if times is None else np.asarray(times)
        blank = np.isnan(values).all(axis=0)
        low, middle, high = np.nanpercentile(np.where(blank, 0.0, values), (10, 50, 90), axis=0)
        one.plot(x, np.where(blank, np.nan, middle), lw=0.9, color=PALETTE[0])
        if len(values) > 1:
            one.fill_between(x, low, high, where=~blank, color=PALETTE[0], alpha=0.2, lw=0)
        if name in goals and goals[name].index.positive and (values > 0).any():
            one.set_yscale("log")
        direction = f"\n({DIRECTION[goals[name].goal]})" if name in goals else ""
        one.set_ylabel(name + direction, fontsize=8)
        one.grid(alpha=0.25, lw=0.5)
        if readings.alarms and name in readings.alarms and len(values) == 1:
            codes = np.atleast_2d(np.asarray(readings.alarms[name].code))[0]
            for code, (color, marker) in ALARMS.items():
                at = np.flatnonzero(codes == code)
                if at.size:
                    one.plot(x[at], values[0, at], marker, color=color, ms=5, ls="", label=CODES[code])
            if one.get_legend_handles_labels()[0]:
                one.legend(loc="upper right", fontsize=7)
    axes[-1].set_xlabel("sample" if times is None else "time", fontsize=9)
    return drawn


def html_of(readings: Reading) -> str:
    """The readings as HTML: size, last values, what happened, and the figure where matplotlib is installed."""
    shape = next((np.shape(values) for values in (readings.values or {}).values()), ())
    many = len(shape) > 1
    size = (
        f"{shape[0]:,} streams of {shape[1]:,} samples" if many else f"{shape[0]:,} samples" if shape else "no values"
    )
    parts = [f"<p><b>Run</b>: {size}</p>"]
    for name, alarm in (readings.alarms or {}).items():
        codes = np.asarray(alarm.code)
        if many:
            told = [f"{int((codes == code).sum()):,} × {CODES[code]}" for code in (1, 2, 3)]
        else:
            told = _columns(alarm) if name == CHANGE else story(codes)
            told = [
                *told[:MOST_SENTENCES],
                *([f"… and {len(told) - MOST_SENTENCES} more"] if len(told) > MOST_SENTENCES else []),
            ]
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in told) or "<li>no alarm</li>"
        parts.append(f"<p>{html.escape(name)}:</p><ul>{items}</ul>")
    try:
        picture = io.BytesIO()
        if shape:
            plot_readings(readings).savefig(picture, format="png", dpi=90)
            parts.append(f'<img src="data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}">')
    except ImportError:
        parts.append("<p>Curves need matplotlib: pip install 'icvi-jax[cli]'</p>")
    return "".join(parts)


def _columns(alarm: Alarm) -> list[str]:
    """One sentence for each alarm of a column."""
    at, cause = np.flatnonzero(np.asarray(alarm.code)), np.asarray(alarm.cause)
    return [f"at sample {t} {f'column {cause[t]}' if cause[t] >= 0 else 'something'} changed" for t in at]
