"""The series of `signals.py`: XB with forgetting 0.9 on streams with known changes, and our alarms on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

import icvi_jax as icvi

MODES = {"s1": 2, "s2": 11, "s3": 10, "s3 jittered": 10}
TOLERANCE = {"s1": 100, "s2": 15, "s3": 30, "s3 jittered": 30}
CAPACITY = 16


class Series(NamedTuple):
    """One index series and its truth.

    Attributes
    ----------
    values : (T,), the index.
    truths : change points; more than one list where people disagree, and scores are then averaged.
    codes : (T,), codes of Distress.
    standing : (T,), whether distress stands.
    classic : (T,), codes of our Page-Hinkley.
    """

    values: np.ndarray
    truths: list[list[int]]
    codes: np.ndarray
    standing: np.ndarray
    classic: np.ndarray


def watch(clusterer, samples: list[np.ndarray], truths: list[list[list[int]]]) -> list[Series]:
    """Run a fleet of recorded streams, ragged ones padded with missing samples, through clusterer, XB and monitors."""
    x = np.full((len(samples), max(map(len, samples)), samples[0].shape[1]), np.nan)
    for i, sample in enumerate(samples):
        x[i, : len(sample)] = sample
    pipe = icvi.Pipeline(
        clusterer=clusterer,
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
        monitors={"xb": icvi.Distress(), "classic": icvi.PageHinkley(index="xb")},
    )
    readings = icvi.run_fleet(pipe, x, keep=("values", "alarms")).readings
    alarm, classic = readings.alarms["xb"], readings.alarms["classic"]
    parts = [np.asarray(a) for a in (readings.values["xb"], alarm.code, alarm.standing, classic.code)]
    out = []
    for i, (sample, truth) in enumerate(zip(samples, truths)):
        values, codes, standing, heard = (part[i, : len(sample)] for part in parts)
        out.append(Series(values, truth, codes, standing, heard))
    return out


def synthetic(seeds: range) -> dict[tuple[str, str], list[Series]]:
    """S1, S2, S3 and S3 with jittered block lengths, with OEC and with k-means, by (stream, clusterer)."""
    draw = {
        "s1": icvi.streams.s1,
        "s2": icvi.streams.s2,
        "s3": icvi.streams.s3,
        "s3 jittered": lambda seed: icvi.streams.s3(seed=seed, lengths="jittered"),
    }
    streams = {name: [function(seed=seed) for seed in seeds] for name, function in draw.items()}
    every = [stream for some in streams.values() for stream in some]  # one compilation serves all
    found = watch(icvi.OnlineEllipsoidal(capacity=CAPACITY), [s.x for s in every], [[s.changes] for s in every])
    n, cells = len(seeds), {}
    for i, (name, some) in enumerate(streams.items()):
        cells[name, "OEC"] = found[i * n : (i + 1) * n]
        kmeans = icvi.SequentialKMeans(k=MODES[name])
        cells[name, "k-means"] = watch(kmeans, [s.x for s in some], [[s.changes] for s in some])
    return cells


def standardised(x: np.ndarray, rows: int) -> np.ndarray:
    """`x` in units of the mean and standard deviation of its first rows."""
    x = np.asarray(x, dtype=float)
    return (x - x[:rows].mean(0)) / x[:rows].std(0)


def recorded(folder: Path) -> dict[tuple[str, str], list[Series]]:
    """The gas recording, SKAB valve 1 and the well log, where their files are; k is the number of labelled states."""
    sets: dict[str, tuple[int, list[np.ndarray], list[list[list[int]]]]] = {}
    if (folder / "gsa_chenaghlou.npz").exists():
        gas = np.load(folder / "gsa_chenaghlou.npz")
        sets["gsa"] = (14, [standardised(gas["X"], 2000)], [[gas["change_points"].tolist()]])
    if (folder / "skab_valve1.npz").exists():
        skab = np.load(folder / "skab_valve1.npz")
        runs = [f"valve1_{i}" for i in range(16)]
        truths = [[np.flatnonzero(skab[f"{run}_changepoint"]).tolist()] for run in runs]
        sets["skab"] = (2, [standardised(skab[f"{run}_X"], 200) for run in runs], truths)
    if (folder / "tcpd_well_log.json").exists():
        log = json.loads((folder / "tcpd_well_log.json").read_text())
        raw = np.asarray(log["series"][0], dtype=float)[:, None]
        sets["well log"] = (3, [standardised(raw, 50)], [[list(marks) for marks in log["annotations"].values()]])
    cells = {}
    for name, (k, samples, truths) in sets.items():
        cells[name, "OEC"] = watch(icvi.OnlineEllipsoidal(capacity=CAPACITY), samples, truths)
        cells[name, "k-means"] = watch(icvi.SequentialKMeans(k=k, seeding="distinct"), samples, truths)
    return cells
