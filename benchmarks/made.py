"""Streams made for benchmarks of alarms: noise of several kinds, each of mean 0 and standard deviation 1."""

from __future__ import annotations

import numpy as np

CYCLE = 144
"""Samples in a cycle: a day of means over ten minutes."""

KINDS = ("white", "AR .9", "AR .99", "cycle", "t3", "lognormal")


def noise(kind: str, streams: int, samples: int, features: int, rng: np.random.Generator) -> np.ndarray:
    """(streams, samples, features): white, autocorrelated, white on a cycle (80 % of the variance), or heavy-tailed."""
    shape = streams, samples, features
    if kind == "t3":
        return rng.standard_t(3, size=shape) / np.sqrt(3)
    e = rng.normal(size=shape)
    if kind == "lognormal":
        return (np.exp(e) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
    if kind == "cycle":
        phase = rng.uniform(0, 2 * np.pi, (streams, 1, features))
        turn = 2 * np.pi * np.arange(samples)[:, None] / CYCLE
        return np.sqrt(1.6) * np.sin(turn + phase) + np.sqrt(0.2) * e
    if kind.startswith("AR"):
        rho = float(kind.split()[1])
        for t in range(1, samples):
            e[:, t] = rho * e[:, t - 1] + np.sqrt(1 - rho**2) * e[:, t]
    return e
