"""From labels alone to what each index says of them over time, and one number a labelling: the score."""

from __future__ import annotations

import functools
import json
import warnings
from pathlib import Path

import numpy as np

import icvi_jax as icvi
from icvi_jax.indices import catalogue

HERE = Path(__file__).resolve().parent
COVARIANCES = ("ni", "rcip", "rh")


def settings():
    """What was written down before the run."""
    return json.loads((HERE / "settings.json").read_text(encoding="utf-8"))


@functools.cache
def entries():
    """The indices that say something of crisp labels, by name, with the settings written down."""
    use = settings()
    kept = [e for e in catalogue() if e.name not in use["left_out"]]
    return {e.name: e.index(**use["options"].get(e.name, {})) for e in kept}


def follow(X, labels, memory, idle, capacity):
    """Memberships (T, K), centres (T, K, p) and active slots (T, K) of a labelling, and nothing but the labels.

    A centre is the mean of its members, the last `memory` counting most. A cluster that was not fed for `idle` samples,
    or longest of all when a slot is needed, is gone; if it comes back it is new.
    """
    T, p = X.shape
    u, centers, active = (
        np.zeros((T, capacity), X.dtype),
        np.zeros((T, capacity, p), X.dtype),
        np.zeros((T, capacity), bool),
    )
    place, fed, mass, now, alive = {}, {}, np.zeros(capacity), np.zeros((capacity, p)), np.zeros(capacity, bool)
    freed = {}
    for t in range(T):
        name = int(labels[t])
        if t % 10 == 0:
            for old in [n for n, last in fed.items() if last < t - idle and n != name]:
                _leave(old, place, fed, alive, freed, t)
        if name != -1:
            if name not in place:
                free = [s for s in range(capacity) if not alive[s] and freed.get(s, -1) < t]
                if not free:  # the panel must see a slot empty once, so the newcomer waits a sample as noise
                    _leave(min(fed, key=fed.get), place, fed, alive, freed, t)
                else:
                    place[name], mass[free[0]], alive[free[0]] = free[0], 0.0, True
            if name in place:
                s = place[name]
                fed[name] = t
                mass[s] += 1
                now[s] += max(1 / mass[s], 1 / memory) * (X[t] - now[s])
                u[t, s] = 1
        centers[t], active[t] = now, alive
    return u, centers, active


def _leave(name, place, fed, alive, freed, t):
    """Take a cluster off its slot."""
    slot = place.pop(name)
    alive[slot], freed[slot] = False, t
    del fed[name]


def series(X, labels, names, reading):
    """Values (T,) of the named indices; those with covariances at every `every`-th sample alone, NaN between."""
    X = np.asarray(X, np.float32)
    u, centers, active = follow(X, labels, reading["memory"], reading["idle"], reading["capacity"])
    parts = entries()
    cheap = tuple(parts[n] for n in names if n not in COVARIANCES)
    other = tuple(parts[n] for n in names if n in COVARIANCES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {}
        if cheap:
            panel = icvi.Panel(indices=cheap, forgetting=reading["forgetting"])
            found = icvi.validate(panel, X, memberships=u, centers=centers, active=active)
        if other:
            found |= _looks(icvi.Panel(indices=other, forgetting=reading["forgetting"]), X, u, centers, active, reading)
    return {n: np.asarray(found[n], float) for n in names}


def _looks(panel, X, u, centers, active, reading):
    """The definitions at every `every`-th sample, from the samples that still weigh 1e-6."""
    fade = reading["forgetting"]
    span = len(X) if fade == 1 else int(np.ceil(np.log(1e-6) / np.log(fade)))
    out = {index.name: np.full(len(X), np.nan) for index in panel.indices}
    for end in range(reading["every"], len(X) + 1, reading["every"]):
        part, now = slice(max(0, end - span), end), active[end - 1]
        if not now.any():
            continue
        kept = (X[part].astype(float), u[part][:, now].astype(float), centers[end - 1, now].astype(float))
        values = icvi.batch(panel, *kept, active=active[part][:, now])
        for name, value in values.items():
            out[name][end - 1] = float(value)
    return out


def score(values, index, warmup, clip):
    """One number, large is good: the mean over time of the (signed) logarithm; NaN where most values are missing."""
    values = np.asarray(values, float)[warmup:]
    sign = 1.0 if index.goal == "max" else -1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        y = sign * (np.log(values) if index.positive else values)
    y = y[~np.isnan(y)]
    if not len(y) or (len(y) < len(values) / 2 and index.name not in COVARIANCES):
        return float("nan")
    return float(np.mean(np.clip(y, -clip, clip) if index.positive else y))


def scores(X, labels, names, reading):
    """The score of every named index for one labelling."""
    found, parts = series(X, labels, names, reading), entries()
    return {n: score(found[n], parts[n], reading["warmup"], reading["clip"]) for n in names}
