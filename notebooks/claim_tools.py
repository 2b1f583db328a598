"""What the measures of the paper's claims share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icvi_jax.evaluation import adjusted_rand_index


class Claim(NamedTuple):
    """One claim: what is said, what was measured, "holds", "partly", "fails" or "not run", and why if not "holds"."""

    text: str
    measured: str
    verdict: str
    why: str = ""


def rise(values, change, within=30, before=50):
    """How many times the index rises at a change: largest value soon after over the median before."""
    return np.nanmax(values[change : change + within]) / np.nanmedian(values[change - before : change])


def rises(cell, index):
    """Median over seeds of the rise at each change, (changes,)."""
    return np.median([[rise(v, c) for c in s.changes] for v, s in zip(cell.values[index], cell.streams)], axis=0)


def agreement(cell):
    """Adjusted Rand index of each seed's labels with the true modes, transitions left out."""
    pairs = [(label[: len(s.mode)], s.mode) for label, s in zip(cell.label, cell.streams)]
    return np.array([adjusted_rand_index(label[mode >= 0], mode[mode >= 0]) for label, mode in pairs])


def level(cell, index="xb"):
    """Median of each seed's index over the whole stream but the first 50 samples."""
    return np.nanmedian(cell.values[index][:, 50:], axis=1)


def drops(values, width=40, least=2.0, apart=80):
    """Where the median of the next 40 values is less than half that of the last 40: sharpest first, then apart."""
    y = np.log(values)
    step = np.array([np.median(y[t : t + width]) - np.median(y[t - width : t]) for t in range(100, len(y) - width)])
    found = []
    while step.min() < -np.log(least):
        t = int(step.argmin())
        found.append(t + 100)
        step[max(0, t - apart) : t + apart] = 0
    return sorted(found)
