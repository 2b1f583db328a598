"""The paper's claims about its two recordings, where the published files are."""

from __future__ import annotations

import numpy as np
from claim_tools import Claim, rise
from study import CAPACITY

import icvi_jax as icvi


def watched(X, k):
    """XB_λ on one recording with k-means and OEC, on features scaled by their first tenth, and the spikes of each."""
    head = X[: max(20, len(X) // 10)]
    X = (X - np.nanmean(head, 0)) / np.maximum(np.nanstd(head, 0), 1e-9)
    kmeans, oec = icvi.SequentialKMeans(k=k, seeding="distinct"), icvi.OnlineEllipsoidal(capacity=CAPACITY)
    out = {}
    for name, clusterer in (("kmeans", kmeans), ("oec", oec)):
        panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
        pipe = icvi.Pipeline(clusterer=clusterer, panel=panel, monitors={"xb": icvi.Distress()})
        readings = icvi.run(pipe, X, keep=("values", "alarms")).readings
        values = {index: np.asarray(v) for index, v in readings.values.items()}
        out[name] = values, np.flatnonzero(np.asarray(readings.alarms["xb"].code) == 1)
    return out


def le_genepi(text, path):
    """Spikes within a day after the two changes of the paper's labels that lie a day apart, and median XB_λ."""
    recording = icvi.streams.read_sensorscope(path, labels="paper")
    runs = watched(recording.x, 3)
    close = recording.changes[:2]
    heard = {c: [any(0 <= t - change <= 144 for t in spikes) for change in close] for c, (_, spikes) in runs.items()}
    km, oec = (np.nanmedian(runs[c][0]["xb"]) for c in ("kmeans", "oec"))
    ok = (any(all(h) for h in heard.values()), km < oec)
    said = ", ".join(f"{sum(h)} of 2 with {c}" for c, h in heard.items())
    return Claim(
        text,
        f"spikes within a day: {said}; median XB_λ k-means {km:.3g}, OEC {oec:.3g}",
        "holds" if all(ok) else "partly" if any(ok) else "fails",
        "One half of the claim only.",
    )


def gas(text, path, start, length):
    """Rise of XB_λ with OEC after each of the first three set points, and median XB_λ."""
    recording = icvi.streams.read_gas(path, start=start, length=length)
    runs = watched(recording.x, max(2, len(set(recording.mode.tolist()))))
    values = runs["oec"][0]["xb"]
    jumps = [rise(values, c, 60, min(c, 50)) for c in recording.changes[:3] if c > 20]
    km, oec = (np.nanmedian(runs[c][0]["xb"]) for c in ("kmeans", "oec"))
    ok = (len(jumps) == 3 and jumps[2] < min(jumps[:2]), oec < km)
    return Claim(
        text,
        f"rises {', '.join(f'×{j:.1f}' for j in jumps)}; median XB_λ k-means {km:.3g}, OEC {oec:.3g}",
        "holds" if all(ok) else "partly" if any(ok) else "fails",
        "One half of the claim only.",
    )
