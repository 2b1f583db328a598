"""Recordings for the notebooks: stand-ins from a folder beside the project where it is there, else small made-up files.

The made-up files have the published formats and go through the package's readers; they show how, not what nature does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import icvi_jax as icvi

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


class Recorded(NamedTuple):
    """A recording: samples (T, p), what the axis counts, known changes, number of clusters, and where it comes from."""

    x: np.ndarray
    unit: str
    changes: list[int]
    k: int
    source: str


def weather() -> Recorded:
    """Surface temperature and humidity, 10-minute means over two weeks."""
    file = FOLDER / "gsb_node18_lg_standin.csv"
    if file.exists():
        x = np.genfromtxt(file, delimiter=",", skip_header=1, usecols=(1, 2))
        source = "Grand St Bernard, node 18: a stand-in for LG, same project and weeks, another mountain"
        return Recorded(x, "10-minute means from 2007-10-10", [], 3, source)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "meteo.txt"
        path.write_text(_meteo())
        got = icvi.streams.read_sensorscope(path, labels="paper")
    return Recorded(got.x, "10-minute means", got.changes, 3, "made-up weather in the format of SensorScope")


def gas() -> Recorded:
    """Gas sensors, 1-second means."""
    file = FOLDER / "gsa_mean100.csv"
    if file.exists():
        table = np.genfromtxt(file, delimiter=",", skip_header=1)
        changes = (1 + np.flatnonzero(np.diff(table[:, -1]))).tolist()
        source = "11 gas sensors, 14 steady states spliced: a stand-in for GSA"
        return Recorded(table[:, :-1], "means of 100 samples", changes, 14, source)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ethylene_CO.txt"
        path.write_text(_gas())
        got = icvi.streams.read_gas(path, rows=10)
    return Recorded(got.x, "means of 10 samples", got.changes, 4, "made-up gas recording in the format of UCI")


def nodes() -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Air temperature and humidity of a dozen stations, (N, T, 2), their numbers, times (UTC), and the source."""
    file = FOLDER / "gsb_nodes_10min.npz"
    if file.exists():
        with np.load(file) as data:
            x, ids, times = data["X"][:, :, [2, 1]], data["node_id"], data["time_utc"].astype("datetime64[s]")
        keep = (times >= np.datetime64("2007-10-10")) & (times < np.datetime64("2007-10-24"))
        return x[:, keep], ids, times[keep], "Grand St Bernard, 12 nodes"
    rng = np.random.default_rng(0)
    step = np.arange(14 * 144)
    front = np.where((step > 8 * 144) & (step < 12 * 144), 1.0, 0.0)
    day = np.sin(2 * np.pi * step / 144)
    x = np.stack([4 * day - 7 * front, 75 - 8 * day + 15 * front], 1) + rng.normal(0, [0.7, 2.0], (12, len(step), 2))
    times = np.datetime64("2007-10-10", "s") + step * np.timedelta64(600, "s")
    return x.astype(np.float32), np.arange(12), times, "12 made-up stations"


def _meteo() -> str:
    """Two weeks of one station, a line every 10 minutes, in the order of the paper's days."""
    rng, lines = np.random.default_rng(0), []
    mode = np.array([0] * 6 + [1] + [2] * 2 + [0] * 5)[np.arange(14 * 144) // 144]
    home = np.array([[4.0, 70.0], [-4.0, 85.0], [-6.0, 97.0]])
    x = home[mode] + rng.normal(0, [1.0, 2.0], (len(mode), 2))
    first = int(np.datetime64("2007-10-09T22:00", "s").astype(int))  # midnight in Swiss summer time
    for i, (temperature, humidity) in enumerate(x):
        day, minute = 10 + i // 144, 10 * (i % 144)
        when = f"18 2007 10 {day} {minute // 60} {minute % 60} 0 {first + 600 * i}"
        lines.append(f"{when} {temperature:.2f} {temperature:.2f} 0 {humidity:.2f} NaN NaN NaN 1.0 270")
    return "\n".join(lines) + "\n"


def _gas() -> str:
    """Four set points in turn, 3000 rows at 100 Hz; the sensors follow at once."""
    rng, lines = np.random.default_rng(0), ["Time (seconds), CO conc (ppm), Ethylene conc (ppm), sensor readings"]
    points = np.array([[0.0, 0.0], [500.0, 0.0], [0.0, 15.0], [0.0, 16.0]])[np.arange(3000) * 4 // 3000]
    gain = rng.uniform(0.5, 2, (2, 16)) * np.array([[1.0], [30.0]])
    sensors = 1000 + points @ gain + rng.normal(0, 10, (3000, 16))
    for i, (point, row) in enumerate(zip(points, sensors)):
        lines.append(f"{i / 100:.2f} {point[0]:.2f} {point[1]:.2f} " + " ".join(f"{v:.2f}" for v in row))
    return "\n".join(lines) + "\n"
