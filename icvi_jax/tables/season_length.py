"""Cycle: the number of rows after which a recording repeats itself, such as 144 for days of ten-minute means.

A cycle of m rows is judged by how well each period of the recording is foretold by the others: slow moves are taken out
(a running mean over m rows), the mean of the periods with odd numbers is the forecast of those with even numbers and
the other way round, and the *share* is the part of the variance that the forecasts explain. Noise of any kind has a
share of about 0 or less, since no period says anything about the others; so a share well above 0 is a cycle, without a
threshold that depends on the length of the recording. Which m to try is read off the largest peaks of the spectrum, and
of the autocorrelation: a job that runs at the same minute each day has many harmonics of one height, but one lag.
Columns that hardly ever move have no say, as in `Change`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icvi_jax.monitors.change_statistics import MODE, REPEATS

LEAST, PERIODS = 4, 10
"""Rows of the shortest cycle, and how many cycles a recording must hold."""
SHARE, NEARLY = 0.3, 0.05
"""From this share on a column has a cycle. A cycle of two thirds or less is preferred if its share is at most this much
smaller: two days are one day twice."""
PEAKS, LONGEST, NODES = 8, 2**17, 12
"""Peaks of each column's spectrum, and of its autocorrelation, that are tried; rows and nodes that are looked at."""


class Cycle(NamedTuple):
    """Rows of the cycle and the share of each column's variance that it explains; 0 rows where there is none."""

    rows: int
    share: np.ndarray


def cycle(x: np.ndarray) -> Cycle:
    """The cycle of a recording (T, p), or of a fleet (N, T, p): one for all; holes are NaN.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(1000, 2))
    >>> cycle(noise).rows
    0
    >>> day = np.sin(2 * np.pi * np.arange(1000) / 24)
    >>> cycle(noise + 2 * day[:, None]).rows
    24
    """
    nodes = x[None] if x.ndim == 2 else x[np.unique(np.linspace(0, len(x) - 1, NODES).astype(int))]
    columns = [[_filled(one[-LONGEST:]) for one in node.T] for node in nodes]
    known = [one for node in columns for one in node if one is not None]
    tried = sorted({m for one in known for m in _candidates(one) if _share(one, m) > SHARE})
    nothing = Cycle(0, np.zeros(x.shape[-1]))
    if not tried:
        return nothing
    table = [[[0.0 if one is None else _share(one, m) for one in node] for node in columns] for m in tried]
    shares = np.median(np.array(table), axis=1)
    strength = np.where(shares > SHARE, shares, 0.0).sum(axis=1)
    best = int(np.argmax(strength))
    while strength[best] > 0:
        shorter = [i for i in range(best) if 3 * tried[i] <= 2 * tried[best] and strength[i] >= strength[best] - NEARLY]
        if not shorter:
            return Cycle(tried[best], np.clip(shares[best], 0.0, 1.0))
        best = max(shorter, key=lambda i: strength[i])
    return nothing


def _filled(x: np.ndarray) -> np.ndarray | None:
    """A column without its holes; None where more than half is missing, or nearly always has one value."""
    there = np.flatnonzero(np.isfinite(x))
    if there.size < max(len(x) / 2, LEAST * PERIODS):
        return None
    often = np.unique(x[there], return_counts=True)[1].max() / there.size
    if often > MODE and (np.diff(x[there]) == 0).mean() > REPEATS:  # so often the same that no changes are looked for
        return None
    x = x[there[0] : there[-1] + 1]
    filled = np.interp(np.arange(len(x)), there - there[0], x[there - there[0]])
    scale = filled.std()
    return (filled - filled.mean()) / scale if scale > 0 else None


def _candidates(x: np.ndarray) -> list[int]:
    """Periods at the largest peaks of the spectrum, with the whole numbers that a peak cannot tell apart, and lags at
    the largest peaks of the autocorrelation."""
    n = len(x)
    t = np.linspace(-1, 1, n)
    level = x - t * (x @ t) / (t @ t)
    power = np.abs(np.fft.rfft(level * np.hanning(n))) ** 2
    low, high = PERIODS, n // LEAST
    if high <= low:
        return []
    inner = power[low : high + 1]
    peaks = np.flatnonzero((inner >= power[low - 1 : high]) & (inner >= power[low + 1 : high + 2])) + low
    found = []
    for f in peaks[np.argsort(power[peaks])[::-1][:PEAKS]]:
        first, last = int(np.ceil(n / (f + 1))), int(n / (f - 1))
        span = range(max(first, LEAST), min(last, n // PERIODS) + 1)
        found += [int(m) for m in np.unique(np.linspace(span.start, span.stop - 1, 9).round())] if len(span) else []
    alike = np.fft.irfft(np.abs(np.fft.rfft(level, 2 * n)) ** 2)[: n // PERIODS + 2]
    lags = np.arange(LEAST, n // PERIODS + 1)
    lags = lags[(alike[lags] > alike[lags - 1]) & (alike[lags] >= alike[lags + 1])]
    return found + [int(lag) for lag in lags[np.argsort(alike[lags])[::-1][:PEAKS]]]


def _share(x: np.ndarray, m: int) -> float:
    """The share of the variance that the other periods explain; 0 where there are too few of them."""
    periods = (len(x) - m + 1) // m
    if periods < PERIODS - 1:
        return 0.0
    sums = np.concatenate([[0.0], np.cumsum(x)])
    slow = (sums[m:] - sums[:-m]) / m
    start = m // 2
    rest = (x[start : start + len(slow)] - slow)[: periods * m].reshape(periods, m)
    odd, even = rest[1::2], rest[::2]
    left = ((odd - even.mean(0)) ** 2).sum() + ((even - odd.mean(0)) ** 2).sum()
    total = (rest**2).sum()
    return float(1 - left / total) if total > 0 else 0.0
