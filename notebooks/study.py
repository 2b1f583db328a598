"""Runs that claims and figures share: S1, S2 and S3, many seeds, k-means and OEC, with and without forgetting."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

import icvi_jax as icvi

STREAMS = {name: (entry.function, entry.k) for name, entry in icvi.streams.catalogue().items()}
TOLERANCE = {"s1": 100, "s2": 15, "s3": 30}  # samples after a change within which an alarm is heard in time
CAPACITY = 16
CHUNK = 100  # samples between two looks at the shapes of the clusters
LENGTH = 2700  # S1 is at most that long; one length for all means one compilation


class Cell(NamedTuple):
    """One clusterer on all seeds of one stream.

    Attributes
    ----------
    streams : the streams with their truth.
    values : by index name, (N, T), NaN after the end of a stream.
    codes : by index name, (N, T), codes of the monitor on that index.
    standing : (N, T), whether distress stands on XB.
    label, k : (N, T).
    centers : (N, looks, slots, p), after every CHUNK samples; NaN where there is no cluster.
    shapes : (N, looks, slots, p, p), covariances; None for k-means, which has none.
    """

    streams: list[icvi.streams.Stream]
    values: dict[str, np.ndarray]
    codes: dict[str, np.ndarray]
    standing: np.ndarray
    label: np.ndarray
    k: np.ndarray
    centers: np.ndarray
    shapes: np.ndarray | None

    def part(self, some: slice) -> Cell:
        """Some of the seeds."""

        def cut(field):
            return {name: a[some] for name, a in field.items()} if isinstance(field, dict) else field[some]

        return Cell(*(None if field is None else cut(field) for field in self))


def seeds(default: int = 40) -> range:
    """Seeds to run, as many as the environment variable ICVI_NOTEBOOK_SEEDS says."""
    return range(int(os.environ.get("ICVI_NOTEBOOK_SEEDS", default)))


def follow(clusterer, streams, forgetting: float) -> Cell:
    """All streams together, ragged ones padded with missing samples, CHUNK samples at a time."""
    pipe = icvi.Pipeline(
        clusterer=clusterer,
        panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=forgetting),
        monitors={"xb": icvi.Distress(), "db": icvi.Distress()},
    )
    X = np.full((len(streams), LENGTH, 2), np.nan, np.float32)
    for row, stream in zip(X, streams):
        row[: len(stream.x)] = stream.x
    state, looks, parts = None, [], []
    for start in range(0, LENGTH, CHUNK):
        state, readings = icvi.run_fleet(pipe, X[:, start : start + CHUNK], state, ("values", "label", "k", "alarms"))
        parts.append(readings)
        own, anchor = state.clusterer, np.asarray(state.anchor.high)
        centers = np.where(np.asarray(own.active)[:, None], np.asarray(own.centers) + anchor, np.nan)
        shapes = np.asarray(own.covariances) if isinstance(clusterer, icvi.OnlineEllipsoidal) else None
        looks.append((np.moveaxis(centers, -1, 0), None if shapes is None else np.moveaxis(shapes, -1, 0)))

    def over_time(read):
        return np.concatenate([np.asarray(read(part)) for part in parts], axis=1)

    over = np.arange(LENGTH) >= np.array([len(stream.x) for stream in streams])[:, None]
    names = ("xb", "db")
    return Cell(
        streams,
        {n: np.where(over, np.nan, over_time(lambda r: r.values[n])) for n in names},
        {n: over_time(lambda r: r.alarms[n].code) for n in names},
        over_time(lambda r: r.alarms["xb"].standing),
        over_time(lambda r: r.label),
        over_time(lambda r: r.k),
        np.stack([centers for centers, _ in looks], 1),
        None if looks[0][1] is None else np.stack([shapes for _, shapes in looks], 1),
    )


def run_all(which: range) -> dict[tuple[str, str, float], Cell]:
    """Every (stream, clusterer, forgetting), forgetting being 0.9 or 1."""
    drawn = {name: [function(seed=seed) for seed in which] for name, (function, _) in STREAMS.items()}
    n, every = len(which), [stream for some in drawn.values() for stream in some]
    study = {}
    for forgetting in (0.9, 1.0):
        oec = follow(icvi.OnlineEllipsoidal(capacity=CAPACITY), every, forgetting)  # one compilation serves all streams
        for i, (name, (_, k)) in enumerate(STREAMS.items()):
            study[name, "oec", forgetting] = oec.part(slice(i * n, (i + 1) * n))
            study[name, "kmeans", forgetting] = follow(icvi.SequentialKMeans(k=k), drawn[name], forgetting)
    return study
