"""Readings as figures and HTML."""

from __future__ import annotations

import numpy as np

import icvi_jax as icvi
from icvi_jax.report.notebook import html_of, plot_readings

PIPE = icvi.Pipeline(
    clusterer=icvi.SequentialKMeans(k=2),
    panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9),
    monitors={"xb": icvi.Distress()},
)


def samples():
    x = np.random.default_rng(0).normal(size=(3, 200, 1)).astype(np.float32)
    x[:, 120:] += 50
    return x


def test_one_stream():
    run = icvi.run(PIPE, samples()[0])
    axes = plot_readings(run.readings, np.datetime64("2024-01-01", "s") + np.arange(200)).axes
    assert [one.get_yscale() for one in axes] == ["log", "log"] and "small is good" in axes[0].get_ylabel()
    shown = html_of(run)
    assert "200 samples" in shown and "something new arrived" in shown and "data:image/png" in shown


def test_a_fleet():
    shown = html_of(icvi.run_fleet(PIPE, samples()))
    assert "3 streams of 200 samples" in shown and "alarms: 3" in shown
