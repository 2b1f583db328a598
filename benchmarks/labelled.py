"""The shared labelled streams as trials: a half to tune on, a half to report."""

from __future__ import annotations

import csv
import json
import pathlib
from typing import NamedTuple

import numpy as np

from icvi_jax.evaluation import Trial


class Labelled(NamedTuple):
    """A set of streams.

    Attributes
    ----------
    streams : the samples of each, (T, p).
    tune, report : which stream a trial is of, and the trial.
    files : whether the trials are separate files, over which intervals make sense.
    repeats : whether changes come at the same time in all files, so that a clock can tell them.
    """

    streams: list[np.ndarray]
    tune: list[tuple[int, Trial]]
    report: list[tuple[int, Trial]]
    files: bool
    repeats: bool = False


def skab(folder: pathlib.Path) -> Labelled:
    """SKAB valve 1: even files tune, odd ones report; from row 400, an alarm counts up to 60 rows late."""
    z = np.load(folder / "skab_valve1.npz")
    streams = [z[f"valve1_{i}_X"].astype(float) for i in range(16)]
    changes = [np.flatnonzero(z[f"valve1_{i}_changepoint"]).tolist() for i in range(16)]
    trials = [(i, Trial.of(f"valve1/{i}", len(x), c, 60, 400)) for i, (x, c) in enumerate(zip(streams, changes))]
    return Labelled(streams, trials[::2], trials[1::2], True, True)


def gsa(folder: pathlib.Path) -> Labelled:
    """Gas sensors in means of 10 rows: the first 3000 tune; an alarm counts up to 50 late."""
    z = np.load(folder / "gsa_chenaghlou.npz")
    rows = len(z["X"]) // 10
    x = z["X"][: 10 * rows].astype(float).reshape(rows, 10, -1).mean(1)
    changes = [int(c) // 10 for c in z["change_points"]]  # the first mean that has a row of the new segment
    return _halves("gsa", x, changes, 3000, 50)


def well_log(folder: pathlib.Path) -> Labelled:
    """TCPD well log, by each of five annotators: the first half of the rows tunes; an alarm counts up to 20 late."""
    data = json.loads((folder / "tcpd_well_log.json").read_text())
    x = np.asarray(data["series"], float).T
    parts = [_halves(f"well_log/{who}", x, cuts, len(x) // 2, 20) for who, cuts in data["annotations"].items()]
    return Labelled([x], [t for part in parts for t in part.tune], [t for part in parts for t in part.report], False)


def suthaharan(folder: pathlib.Path) -> Labelled:
    """Four motes: 1 and 2 tune, 3 and 4 report; an alarm counts within the event."""
    with open(folder / "suthaharan_singlehop.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    streams, trials = [], []
    for i, mote in enumerate(sorted({row["mote_id"] for row in rows})):
        mine = [row for row in rows if row["mote_id"] == mote]
        label = np.array([row["label"] != "0" for row in mine])
        edges = np.flatnonzero(np.diff(np.concatenate([[0], label.astype(int), [0]])))
        windows = tuple((int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2]))
        streams.append(np.array([[float(row["humidity"]), float(row["temperature"])] for row in mine]))
        trials.append((i, Trial(f"mote {mote}", len(mine), windows, 0, 30)))
    return Labelled(streams, trials[:2], trials[2:], True)


SETS = {"SKAB": skab, "GSA": gsa, "TCPD": well_log, "Suthaharan": suthaharan}


def _halves(name: str, x: np.ndarray, changes: list[int], cut: int, tolerance: int) -> Labelled:
    early, late = [c for c in changes if c < cut], [c for c in changes if c >= cut]
    tune = Trial.of(name, cut, early, tolerance)
    return Labelled([x], [(0, tune)], [(0, Trial.of(name, len(x), late, tolerance, cut))], False)
