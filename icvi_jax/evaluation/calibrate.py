"""Calibrate: the false-alarm rate that a pipeline really has on rows like yours.

The rows around alarms are left out, an autoregression is fitted to each column of the rest, and its residuals are drawn
again, whole rows at a time (a sieve bootstrap). Such streams have the memory, the tails and the units of the recording
and no change at all: every alarm on them is false.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from icvi_jax.monitors.budget import PROMISED, rate_of
from icvi_jax.numerics.arrays import usable
from icvi_jax.pipeline import Pipeline
from icvi_jax.run import run, run_fleet
from icvi_jax.spec import changed, whole

ORDER = 5
"""Rows back that the autoregression looks."""

AROUND = 30, 60
"""Rows before and after an alarm that are left out."""

LEAST = 200
"""Quiet rows that are needed."""

TRIES, KEPT = 6, 1.2
"""Rates that are tried, and up to which multiple of the promised rate a promise counts as kept."""


class Calibration(NamedTuple):
    """What was promised and what was measured, in false alarms a sample."""

    promised: float  # the sum of the rates of all monitors that take one
    measured: float  # on the replicas
    low: float  # of its 95 % interval
    high: float
    ask: float  # a rate to ask for that keeps what was promised; NaN: none does
    got: float  # what it gave on the same replicas
    replicas: int  # streams
    samples: int  # in each
    quiet: int  # rows of the recording they were made from

    def __str__(self) -> str:
        return (
            f"promised {1e4 * self.promised:.3g} false alarms in 10,000 samples, measured {1e4 * self.measured:.3g} "
            f"({1e4 * self.low:.3g} to {1e4 * self.high:.3g}) on {self.replicas} quiet streams of {self.samples:,} "
            f"samples made like these {self.quiet:,} quiet rows; "
            + (
                f"asking for {1e4 * self.ask:.3g} gave {1e4 * self.got:.3g}"
                if self.ask > 0
                else "none of the rates that were tried gives what was promised: watch less, or give it more rows"
            )
        )


def calibrate(pipe: Pipeline, X: ArrayLike, *, replicas: int = 200, seed: int = 0) -> Calibration:
    """Measure the false-alarm rate of a pipeline on quiet streams made from the rows of a recording.

    It assumes that the quiet part of each column is an autoregression; cycles and bursts of variance are lost in it.

    Parameters
    ----------
    pipe : with monitors that take `false_alarms`.
    X : (T, p), one recorded stream; NaN where a value is missing.
    replicas : streams that are made.
    seed : of the drawing.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change(false_alarms=5e-3)})
    >>> got = icvi.calibrate(pipe, np.random.default_rng(0).normal(size=(1000, 2)), replicas=20)
    >>> 0.2 < got.measured / got.promised < 1.8 and got.low < got.measured < got.high
    True
    """
    whole("calibrate", "replicas", replicas, 2)
    rates = {name: rate for name, monitor in pipe.monitors.items() if (rate := rate_of(monitor)) is not None}
    names = list(rates)
    if not names:
        raise ValueError("calibrate(pipe=…): no monitor here takes false alarms; add Change()")
    x = np.asarray(X, float)
    if x.ndim != 2:
        raise ValueError(f"calibrate(X=…): expected one stream, (T, p), got shape {x.shape}")
    promised = float(sum(rates.values()))
    found = run(pipe, x, keep=("alarms",)).readings.alarms
    raised = np.any([np.isin(np.asarray(found[name].code), (1, 3)) for name in names], axis=0)
    away = np.array(usable(x).all(axis=1))
    for t in np.flatnonzero(raised):
        away[max(0, t - AROUND[0]) : t + AROUND[1]] = False
    ends = np.flatnonzero(np.convolve(away, np.ones(ORDER + 1), "valid") == ORDER + 1) + ORDER
    if len(ends) < LEAST:
        raise ValueError(f"calibrate(X=…): {len(ends)} complete quiet rows in a run; at least {LEAST} are needed")
    made = _replicas(x, ends, replicas, min(max(len(x), 1000), 4000), np.random.default_rng(seed))
    alarms = _count(pipe, made, names)
    measured, error = float(np.mean(alarms)), float(np.std(alarms) / np.sqrt(replicas))
    least = 1 / (made.shape[0] * made.shape[1])
    low, high = max(measured - 1.96 * error, 0.0), max(measured + 1.96 * error, 3 * least)
    tried = [(promised, measured)]
    while len(tried) < TRIES and not 0.8 <= tried[-1][1] / promised <= KEPT:
        step = float(np.clip(promised / max(tried[-1][1], least), 1 / 8, 8))
        new = float(np.clip(tried[-1][0] * step, PROMISED, 0.06))
        if any(np.isclose(new, known) for known, _ in tried):
            break
        asked = {n: changed(pipe.monitors[n], false_alarms=rate * new / promised) for n, rate in rates.items()}
        other = changed(pipe, monitors=dict(pipe.monitors) | asked)
        tried.append((new, float(np.mean(_count(other, made, names)))))
    ask, got = max((one for one in tried if one[1] <= KEPT * promised), default=(np.nan, np.nan))
    return Calibration(promised, measured, low, high, ask, got, replicas, made.shape[1], len(ends))


def _count(pipe: Pipeline, made: np.ndarray, names: list[str]) -> np.ndarray:
    """Alarms a row of each stream."""
    codes = run_fleet(pipe, made, keep=("alarms",)).readings.alarms
    return np.asarray(sum((np.asarray(codes[name].code) == 1).sum(axis=1) for name in names) / made.shape[1])


def _replicas(x: np.ndarray, ends: np.ndarray, count: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Streams (count, length, p): each column its autoregression, driven by whole rows of residuals drawn again."""
    p = x.shape[1]
    center, scale = np.median(x[ends], axis=0), x[ends].std(axis=0)
    scale[~(scale > 0)] = 1.0
    z = (x - center) / scale
    weights, left = np.zeros((p, ORDER)), np.zeros((len(ends), p))
    for j in range(p):
        past = np.stack([z[ends - k, j] for k in range(1, ORDER + 1)], axis=1)
        target = z[ends, j]
        ridge = past.T @ past + 1e-6 * len(ends) * np.eye(ORDER)
        weights[j] = np.linalg.solve(ridge, past.T @ target)
        reach = np.abs(np.roots([1.0, *-weights[j]])).max()
        if reach >= 0.995:  # nearly a random walk: keep the replicas within the recording's range
            weights[j] *= (0.995 / reach) ** np.arange(1, ORDER + 1)
        left[:, j] = target - past @ weights[j]
    left -= left.mean(axis=0)
    warm = 200
    e = left[rng.integers(0, len(ends), (count, length + warm))]
    out = np.zeros_like(e)
    for t in range(ORDER, length + warm):
        back = out[:, t - ORDER : t][:, ::-1]  # (count, ORDER, p), the newest first
        out[:, t] = e[:, t] + np.einsum("ckp,pk->cp", back, weights)
    return np.asarray(out[:, warm:] * scale + center)
