"""Show readings in Python: a figure, and HTML for notebooks."""

from __future__ import annotations

import base64
import html
import importlib.util
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icvi_jax.indices import catalogue
from icvi_jax.report.alarm_text import alarm_word, count_alarms, story
from icvi_jax.report.plot import PALETTE, legend, mark_alarms
from icvi_jax.report.result import COLUMN_ALARMS, GOOD, in_short
from icvi_jax.run import Run
from icvi_jax.types import Reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CURVES, MOST_LINES = 12, 20
WORDS = ("first", "median", "worst", "last")


def plot_readings(readings: Reading, times: Sequence[object] | None = None) -> Figure:
    """Draw the index values of `run` or `run_fleet` over `times` or samples; for a fleet, the median and the middle 80
    % of its streams.
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
        direction = f"\n({GOOD[goals[name].goal]} is good)" if name in goals else ""
        one.set_ylabel(name + direction, fontsize=8)
        one.grid(alpha=0.25, lw=0.5)
        if readings.alarms and name in readings.alarms and len(values) == 1:
            mark_alarms(one, x, values[0], np.ravel(np.asarray(readings.alarms[name].code)))
            legend(one)
    axes[-1].set_xlabel("sample" if times is None else "time", fontsize=9)
    return drawn


def html_of(run: Run) -> str:
    """A run as HTML: what `summary_of` says, and the figure where matplotlib is installed."""
    said = f"<pre>{html.escape(summary_of(run))}</pre>"
    try:
        picture = io.BytesIO()
        if run.readings.values:
            plot_readings(run.readings).savefig(picture, format="png", dpi=90)
            said += f'<img src="data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}">'
    except ImportError:
        said += "<p>Curves need matplotlib: pip install 'icvi-jax[cli]'</p>"
    return said


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]:,} streams of {shape[1]:,} samples" if shape[1:] else f"{shape[0] if shape else 0:,} samples"


def summary_of(run: Run) -> str:
    """A run in a few lines: its size, the values of its indices, and what happened."""
    shape = _shape(run.readings)
    values, alarms = run.readings.values or {}, run.readings.alarms or {}
    lines = [f"Run: {_size(shape)}"]
    goals = {entry.name: entry.goal for entry in catalogue()}
    for name, one in values.items():
        goal = goals.get(name, "min")
        cells = [f"{word} {value:.3g}" for word, value in zip(WORDS, in_short(np.asarray(one, np.float64), goal))]
        cells = cells if len(shape) == 1 else cells[1:3]
        lines.append(f"{name} ({GOOD[goal]} is good): {', '.join(cells)}" if cells else f"{name}: no value yet")
    if run.readings.k is not None and len(shape) == 1:
        lines.append(f"clusters at the end: {int(np.asarray(run.readings.k)[-1])}")
    counted = count_alarms({name: np.atleast_2d(np.asarray(alarm.code)) for name, alarm in alarms.items()})[0]
    if alarms:
        lines.append(f"alarms: {counted or 'none'}")
    said = story(run) if len(shape) == 1 and alarms else []
    lines += [f"  {sentence}" for sentence in said[:MOST_LINES]]
    return "\n".join(
        [*lines, *([f"  … and {len(said) - MOST_LINES} more: icvi.story(run)"] if len(said) > MOST_LINES else [])]
    )


def _shape(readings: Reading) -> tuple[int, ...]:
    kept = [*(readings.values or {}).values(), readings.label, readings.k, readings.seen]
    kept += [alarm.code for alarm in (readings.alarms or {}).values()]
    return next((np.shape(one) for one in kept if one is not None), ())


def frame_of(run: Run, library: str | None = None) -> object:
    """The readings as a table: sample, values, cluster, k, and for each monitor its alarm, score and column."""
    import narwhals

    libraries = ("pandas", "polars", "pyarrow")
    if library is not None and library not in libraries:
        raise ValueError(f"to_frame(library={library!r}): choose one of {', '.join(map(repr, libraries))}")
    found = library or next((name for name in libraries if importlib.util.find_spec(name)), None)
    if found is None:
        raise ImportError("to_frame: needs pandas, polars or pyarrow", name="polars")
    readings, shape = run.readings, _shape(run.readings)
    if not shape:
        raise ValueError("to_frame: the readings are empty; run with keep=('values', 'label', 'alarms')")
    columns: dict[str, NDArray[np.generic]] = {}
    if len(shape) > 1:
        columns["stream"] = np.repeat(np.arange(shape[0]), shape[1])
    columns["sample"] = np.tile(np.arange(shape[-1]), shape[0] if len(shape) > 1 else 1)
    columns |= {name: np.asarray(one).reshape(-1) for name, one in (readings.values or {}).items()}
    for name, one in (("label", readings.label), ("cluster", readings.cluster), ("clusters", readings.k)):
        if one is not None:
            columns[name] = np.asarray(one).reshape(-1)
    for name, alarm in (readings.alarms or {}).items():
        words = np.array(["", *(alarm_word(name, code) for code in (1, 2, 3))])
        columns[f"{name}_alarm"] = words[np.asarray(alarm.code).reshape(-1)]
        columns[f"{name}_score"] = np.asarray(alarm.score).reshape(-1)
        if name in COLUMN_ALARMS:
            columns[f"{name}_column"] = np.asarray(alarm.cause).reshape(-1)
    return narwhals.from_dict(
        columns, backend=narwhals.Implementation.from_string(found).to_native_namespace()
    ).to_native()
