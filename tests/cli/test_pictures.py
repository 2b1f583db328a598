"""plot.png: every column or a note about those left out, gaps without samples, names that stay different."""

from __future__ import annotations

import numpy as np

from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.compute import compute
from icvi_jax.cli.options import Model
from icvi_jax.report.plot import _heat, figure
from icvi_jax.report.result import About
from icvi_jax.tables import Fleet, Table


def test_pictures_show_all_columns_or_say_which_they_do_not():
    x = np.random.default_rng(0).normal(size=(150, 18))
    x[60:90] = np.nan
    times = np.concatenate([np.arange(120.0), np.arange(120.0, 150) + 500])
    table = Table("t", tuple(f"a column {n}" for n in range(18)), x, times, "t")
    drawn = figure(compute(pipeline_of(Model(k=2)), table))
    labels = [axes.get_ylabel() for axes in drawn.axes]
    assert [f"a column {n}" in labels for n in range(18)] == [True] * 16 + [False] * 2
    assert "not drawn here, but in the report: 'a column 16', 'a column 17'" in drawn.get_supxlabel()
    index = drawn.axes[0].lines[0]
    when, values = np.asarray(index.get_xdata(), float), np.asarray(index.get_ydata(), float)
    assert np.isnan(values[(when >= 60) & (when < 90)]).all(), "missing samples are no flat stretch"
    assert np.isnan(values[when == 620]).any() and np.isfinite(values[when == 620]).any(), "nor is a gap in time"
    for axes in drawn.axes:
        if axes.get_legend():
            drawn.draw_without_rendering()
            assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1 - 1, "above the curves"


def test_the_heat_map_of_the_picture_is_in_time():
    times = np.concatenate([np.arange(50.0), [499.0]])
    heat, (low, high) = _heat(times, np.arange(51.0)[None] + 1, About("", "min", False, ""))
    assert low < 0 and high > 499
    filled = np.isfinite(heat[0])
    assert filled[:5].all() and filled[-1] and not filled[10:-1].any(), "nothing came from 50 to 499"


def test_long_names_of_nodes_stay_apart():
    nodes = tuple(f"a station with a name far too long for a picture of that size, number {n}" for n in range(4))
    fleet = Fleet("f", nodes, ("v",), np.random.default_rng(0).normal(size=(4, 80, 1)))
    drawn = figure(compute(pipeline_of(Model(k=2)), fleet))
    ticks = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    titles = [axes.get_title(loc="left") for axes in drawn.axes[1:4]]
    assert len(set(ticks)) == 4 and len(set(titles)) == 3 and all(len(text) <= 28 for text in ticks)


def test_a_stuck_column_is_no_change():
    x = np.random.default_rng(0).normal(size=(500, 2))
    x[300:340, 1] = 0.5
    drawn = figure(compute(pipeline_of(Model(k=2)), Table("t", ("flow", "hum"), x)))
    words = {text.get_text() for axes in drawn.axes if axes.get_legend() for text in axes.get_legend().get_texts()}
    assert {"a column is stuck", "this column is stuck"} <= words and "this column changed" not in words
