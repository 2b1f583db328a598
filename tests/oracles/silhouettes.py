"""Silhouettes in time: the temporal silhouette, O(n^2), and the online silhouette as a replay.

Readings chosen where the text allows more than one:

* Every label is a cluster, also -1. Rows are sorted by time, equal times keep their order.
* Odd windows run from j - (s-1)/2 to j + (s-1)/2. "Neighbours" and "window" larger than there are: all there are.
* The guard on the scaled MAD (1.4826 MAD): at least 1 for gaps in time, 1 where it is 0 for distances.
* A cluster of one member has mean s_j = 0 (it is its own last member), no gap and no step: TS_k = 0.
* Online: "before the sample" is before its Event, so also before a merge of the same sample. A slot that is not active
  before the sample counts as a birth. The value is NaN until the first sample that counts.
  Noise that counts 0 is left out while no slot is active.
"""

import numpy as np


def outliers(z, times):
    """How many lie further than three scaled MADs from the median."""
    if len(z) == 0:
        return 0
    away = np.abs(z - np.median(z))
    scale = 1.4826 * np.median(away)
    scale = max(scale, 1.0) if times else (scale if scale > 0 else 1.0)
    return int((away > 3 * scale).sum())


def temporal_silhouette(t, X, labels, window=200, neighbours=200, c=1.0):
    """TS of a labelled record."""
    order = np.argsort(t, kind="stable")
    t, X, labels = np.asarray(t, float)[order], np.asarray(X, float)[order], np.asarray(labels)[order]
    total = 0.0
    for cluster in np.unique(labels):
        rows = np.flatnonzero(labels == cluster)
        n_k = len(rows)
        sma = np.array([X[rows[max(0, j - window // 2) : j + (window + 1) // 2]].mean(0) for j in range(n_k)])
        s = [0.0 if j == n_k - 1 else width(X, labels, rows[j], sma[j], neighbours) for j in range(n_k)]
        gaps = np.diff(t[rows])
        steps = np.sqrt((np.diff(sma, axis=0) ** 2).sum(1))
        arrivals = 1 / (1 + c * outliers(gaps, True) / n_k)
        drift = outliers(steps, False) / n_k
        value = (1 + np.mean(s)) * arrivals * (1 - drift) - 1
        total += n_k * np.sign(value) * value**2 / len(X)
    return float(np.sign(total) * np.sqrt(abs(total)))


def width(X, labels, row, average, neighbours):
    """s_j of one row: its moving average against the nearest other cluster in time."""
    a = np.sqrt(((X[row] - average) ** 2).sum())
    others = np.flatnonzero(labels != labels[row])
    if len(others) == 0:
        return 0.0
    near = others[np.argsort(np.abs(others - row), kind="stable")][:neighbours]
    apart = {}
    for r in near:
        apart.setdefault(labels[r], []).append(np.sqrt(((X[r] - X[row]) ** 2).sum()))
    b = min(np.mean(d) for d in apart.values())
    return 0.0 if a == 0 and b == 0 else (b - a) / max(a, b)


def online_silhouette(X, labels, before, active, scatter, mass, born=None, forgetting=1.0, noise="skip"):
    """The value after every sample.

    labels: slot given (-1: noise). before (T, k, p), active, scatter (about the members' mean), mass (T, k): all before
    the sample's Event, for example from `History.read`. born (T,): the sample's slot was born by its Event.
    noise: "skip", or "zero" for a sample that counts 0.
    """
    total, weight, out = 0.0, 0.0, []
    for j in range(len(X)):
        s = sample_silhouette(X[j], labels[j], before[j], active[j], scatter[j], mass[j], noise)
        if born is not None and born[j]:
            s = None
        if s is not None:
            total, weight = forgetting * total + s, forgetting * weight + 1
        out.append(total / weight if weight > 0 else np.nan)
    return np.array(out)


def sample_silhouette(x, own, v, active, scatter, mass, noise):
    """One sample's share, None where it is left out."""
    if not np.isfinite(x).all():
        return None
    if own < 0:
        return 0.0 if noise == "zero" and np.any(active) else None
    others = [i for i in range(len(v)) if active[i] and i != own]
    if not active[own] or not others:
        return None
    a = np.sqrt(((x - v[own]) ** 2).sum())
    b = min(np.sqrt(((x - v[i]) ** 2).sum() + (scatter[i] / mass[i] if mass[i] > 0 else 0.0)) for i in others)
    return 0.0 if a == 0 and b == 0 else (b - a) / max(a, b)
