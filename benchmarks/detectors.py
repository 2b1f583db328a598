"""Detectors of changes to be compared: ours, river's and classical charts; each with a few settings to pick from.

A detector takes streams (T, p) and a setting and gives the rows of its alarms. Detectors of one number run on each
feature, and any of them raises the alarm. Rivals see features scaled by mean and spread of the first 200 rows, since
their settings have units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from river import drift

import icvi_jax as icvi

Streams = list[np.ndarray]
Setting = dict[str, float]


class Detector(NamedTuple):
    """A way to raise alarms; the first setting is its default."""

    alarms: Callable[[Streams, Setting], list[list[int]]]
    settings: list[Setting]


def pipeline_alarms(pipe: icvi.Pipeline, streams: Streams, name: str) -> list[list[int]]:
    """Spikes and distress of a monitor, all streams at once."""
    x = np.full((len(streams), max(map(len, streams)), streams[0].shape[1]), np.nan)
    for i, stream in enumerate(streams):
        x[i, : len(stream)] = stream
    code = np.asarray(icvi.run_fleet(pipe, x, keep=("alarms",)).readings.alarms[name].code)
    return [np.flatnonzero(np.isin(row, (1, 3))).tolist() for row in code]


def change(streams: Streams, setting: Setting) -> list[list[int]]:
    """`Change` alone."""
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change(**setting)})
    return pipeline_alarms(pipe, streams, "change")


def distress(streams: Streams, setting: Setting) -> list[list[int]]:
    """`Distress` on Xie–Beni of a k-means with a finite memory."""
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=3, memory=50, seeding="distinct"),
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
        monitors={"xb": icvi.Distress(**setting)},
        standardize=icvi.Standardize(),
    )
    return pipeline_alarms(pipe, streams, "xb")


def scaled(stream: np.ndarray) -> np.ndarray:
    """Features by mean and spread of the first 200 rows."""
    spread = stream[:200].std(0)
    return (stream - stream[:200].mean(0)) / np.where(spread > 0, spread, 1)


def of_river(make: Callable[[Setting], object]) -> Callable[[Streams, Setting], list[list[int]]]:
    """A detector of river on each feature."""

    def alarms(streams: Streams, setting: Setting) -> list[list[int]]:
        return [sorted({t for column in scaled(x).T for t in one(column, make(setting))}) for x in streams]

    def one(column: np.ndarray, detector) -> list[int]:
        found = []
        for t, value in enumerate(column.tolist()):
            detector.update(value)
            if detector.drift_detected:
                found.append(t)
        return found

    return alarms


def chart(statistic: Callable[[np.ndarray, Setting], Callable[[np.ndarray], bool]]):
    """A chart that learns mean and covariance of `warm` rows, watches, and after an alarm learns anew."""

    def alarms(streams: Streams, setting: Setting) -> list[list[int]]:
        found = []
        for x in map(scaled, streams):
            rows, start, watch, warm = [], 0, None, int(setting["warm"])
            for t in range(len(x)):
                if t - start == warm:
                    watch = statistic(x[start:t], setting)
                if t - start >= warm and watch(x[t]):
                    rows.append(t)
                    start = t + 1
            found.append(rows)
        return found

    return alarms


def _whitened(past: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    mean, p = past.mean(0), past.shape[1]
    cov = np.cov(past.T).reshape(p, p) + 1e-3 * np.eye(p)
    root = np.linalg.cholesky(np.linalg.inv(cov))
    return lambda x: (x - mean) @ root


def _each(past: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    mean, spread = past.mean(0), past.std(0)
    spread = np.where(spread > 0, spread, 1)
    return lambda x: (x - mean) / spread


def hotelling(past: np.ndarray, setting: Setting) -> Callable[[np.ndarray], bool]:
    """T² of a row against `limit` times its number of features."""
    white = _whitened(past)
    return lambda x: float((white(x) ** 2).sum()) > setting["limit"] * past.shape[1]


def mewma(past: np.ndarray, setting: Setting) -> Callable[[np.ndarray], bool]:
    """The same of a fading mean of rows, in units of its own variance."""
    white, lam, z = _whitened(past), setting["lam"], np.zeros(past.shape[1])

    def watch(x: np.ndarray) -> bool:
        z[:] = lam * white(x) + (1 - lam) * z
        return float((z**2).sum() * (2 - lam) / lam) > setting["limit"] * past.shape[1]

    return watch


def ewma(past: np.ndarray, setting: Setting) -> Callable[[np.ndarray], bool]:
    """A fading mean of each feature, in units of its own spread."""
    unit, lam, z = _each(past), setting["lam"], np.zeros(past.shape[1])

    def watch(x: np.ndarray) -> bool:
        z[:] = lam * unit(x) + (1 - lam) * z
        return bool((np.abs(z) * np.sqrt((2 - lam) / lam) > setting["limit"]).any())

    return watch


def cusum(past: np.ndarray, setting: Setting) -> Callable[[np.ndarray], bool]:
    """Sums of what each feature exceeds `slack` by, up and down."""
    unit, up, down = _each(past), np.zeros(past.shape[1]), np.zeros(past.shape[1])

    def watch(x: np.ndarray) -> bool:
        up[:] = np.maximum(0, up + unit(x) - setting["slack"])
        down[:] = np.maximum(0, down - unit(x) - setting["slack"])
        return bool((np.maximum(up, down) > setting["limit"]).any())

    return watch


def grid(**choices: tuple[float, ...]) -> list[Setting]:
    """All combinations; the first of each is the default."""
    settings: list[Setting] = [{}]
    for name, values in choices.items():
        settings = [{**setting, name: value} for setting in settings for value in values]
    return settings


RATES = (1e-3, 3e-4, 3e-3, 1e-2)
OURS = {
    "Change": Detector(change, grid(false_alarms=RATES, silent=(200, 50))),
    "Change, slower": Detector(change, grid(false_alarms=RATES, slower=(True,))),
    "Change, slower, spread": Detector(change, grid(false_alarms=RATES, slower=(True,), spread=(True,))),
    "Change, slower, jumps": Detector(
        change, grid(false_alarms=RATES, silent=(200, 50), slower=(True,), jumps=(True,))
    ),
    "Distress, XB, factor 6": Detector(distress, [{}]),
    "Distress, XB, learned": Detector(distress, grid(false_alarms=RATES)),
}
WARM = (100, 50, 200)
RIVALS = {
    "ADWIN": Detector(of_river(lambda s: drift.ADWIN(**s)), grid(delta=(2e-3, 0.05, 1e-4, 1e-6, 1e-9))),
    "Page–Hinkley": Detector(
        of_river(lambda s: drift.PageHinkley(**s)),
        grid(threshold=(50.0, 5.0, 10.0, 20.0, 100.0), delta=(0.005, 0.1, 0.5)),
    ),
    "KSWIN": Detector(of_river(lambda s: drift.KSWIN(seed=0, **s)), grid(alpha=(5e-3, 1e-4, 1e-6, 1e-9))),
    "EWMA": Detector(chart(ewma), grid(limit=(3.0, 5.0, 8.0, 12.0, 20.0), lam=(0.2, 0.05), warm=WARM)),
    "MEWMA": Detector(chart(mewma), grid(limit=(4.0, 8.0, 16.0, 40.0, 100.0), lam=(0.1, 0.3), warm=WARM)),
    "Hotelling T²": Detector(chart(hotelling), grid(limit=(4.0, 8.0, 16.0, 40.0, 100.0), warm=WARM)),
    "CUSUM": Detector(chart(cusum), grid(limit=(5.0, 10.0, 20.0, 40.0, 80.0), slack=(0.5, 1.0), warm=WARM)),
}
