"""What the field knows for one column, beside `Change`: rates on noise, power, and F1 on the labelled recordings.

    python benchmarks/alternatives.py [--shared ../shared/data] [--streams 60] [--write]

Each learns mean, spread and memory from medians of the first 200 rows, works on the residuals of an AR(1), and after an
alarm takes its mean from the next 30 rows. Its threshold is what white noise exceeds at 1e-3, drawn beforehand (with
more columns at 1e-3 over their number, on an exponential tail), but where the method has one of its own:

- *FOCuS* (Romano et al. 2023): max over all starts of S²/n, on the hull of the sums; *with a GPD*: its threshold from
  the maxima of blocks of 15 so far, with a learned shape (moments), anew every 150 rows;
- *self-normalised*: of the last 100 rows the largest |S_k − k/n S_n| over the spread of its own sums (Shao & Zhang);
- *conformal CUSUM*: p-values of |e| among the first 200, bets of p^(−½)/2, an alarm at 1/α (a guaranteed rate).
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Callable

import numpy as np
from alarms import noise
from labelled import SETS
from tables import known, write

import icvi_jax as icvi
from icvi_jax.evaluation import judge

RATE, WARM, AGAIN = 1e-3, 200, 30

Alarms = list[int]


def residuals(x: np.ndarray, start: int, model: tuple[float, float] | None) -> tuple[np.ndarray, tuple[float, float]]:
    """Of the rows after `start`, by the mean of the first rows; spread and memory from them too, or as they were."""
    first = x[start : start + (WARM if model is None else AGAIN)]
    z = x - np.median(first)
    if model is None:
        spread = 1.4826 * np.median(np.abs(z[start : start + WARM])) or 1.0
        c = np.clip(z[start : start + WARM] / spread, -3, 3)
        phi = float(np.clip((c[1:] @ c[:-1]) / max(c @ c, 1e-9), 0, 0.98))
        left = np.diff(z[start : start + WARM]) + (1 - phi) * z[start : start + WARM - 1]
        model = (1.4826 * float(np.median(np.abs(left))) or 1.0), phi
    e = z.copy()
    e[1:] -= model[1] * z[:-1]
    return np.clip(e / model[0], -30, 30), model


def focus(e: np.ndarray) -> np.ndarray:
    """max over starts of S²/n, by row: starts that cannot be best any more are dropped."""
    out, total = np.zeros(len(e)), 0.0
    hulls: list[list[tuple[int, float]]] = [[(0, 0.0)], [(0, 0.0)]]
    for t, one in enumerate(e.tolist(), start=1):
        total += one
        for sign, hull in zip((1, -1), hulls):
            s = sign * total
            best = max((s - b) * abs(s - b) / (t - a) for a, b in hull)
            out[t - 1] = max(out[t - 1], best)
            while len(hull) > 1 and (s - hull[-1][1]) * (hull[-1][0] - hull[-2][0]) <= (hull[-1][1] - hull[-2][1]) * (
                t - hull[-1][0]
            ):
                hull.pop()
            hull.append((t, s))
    return out


def self_normalised(e: np.ndarray, n: int = 100) -> np.ndarray:
    """Of the last n rows."""
    out = np.zeros(len(e))
    if len(e) < n:
        return out
    k = np.arange(1, n)
    s = np.cumsum(np.lib.stride_tricks.sliding_window_view(e, n), axis=1)
    bridge = np.abs(s[:, :-1] - k / n * s[:, -1:])
    for i in range(9, n - 10, 5):
        head, tail = s[:, : i + 1], s[:, -1:] - s[:, i:-1]
        v = ((head - head[:, -1:] * np.arange(1, i + 2) / (i + 1)) ** 2).sum(1)
        v += ((tail - tail[:, :1] * np.arange(n - 1 - i, 0, -1) / (n - 1 - i)) ** 2).sum(1)
        out[n - 1 :] = np.maximum(out[n - 1 :], bridge[:, i] / np.sqrt(np.maximum(v / n, 1e-12)))
    return out


def conformal(e: np.ndarray) -> np.ndarray:
    """The CUSUM of bets, in units of 1/α."""
    past, out, m = np.sort(np.abs(e[:WARM])), np.zeros(len(e)), 0.0
    p = (len(past) - np.searchsorted(past, np.abs(e)) + 1) / (len(past) + 1)
    for t in range(WARM, len(e)):
        m = min(max(m, 1.0) * 0.5 * p[t] ** -0.5, 1e9)
        out[t] = m
    return out


def gpd(y: np.ndarray) -> np.ndarray:
    """The threshold of each row from the block maxima before it."""
    out, blocks = np.full(len(y), np.inf), y[: len(y) // 15 * 15].reshape(-1, 15).max(1)
    for t in range(WARM, len(y), 150):
        seen = blocks[: t // 15]
        u = np.quantile(seen, 0.7)
        over = seen[seen > u] - u
        if not len(over):
            continue
        mean, var = over.mean(), over.var() + 1e-9
        shape = np.clip(0.5 * (1 - mean**2 / var), -0.3, 0.4)
        scale = mean * (1 - shape)
        ratio = RATE * 15 / 0.3
        grown = -np.log(ratio) if abs(shape) < 1e-3 else (ratio**-shape - 1) / shape
        out[t : t + 150] = u + scale * grown
    return out


Statistic = Callable[[np.ndarray], np.ndarray]
METHODS: dict[str, tuple[Statistic, Statistic | None]] = {
    "FOCuS, AR(1)": (focus, None),
    "FOCuS, AR(1), GPD": (focus, gpd),
    "self-normalised": (self_normalised, None),
    "conformal CUSUM": (conformal, lambda y: np.full(len(y), 1 / RATE)),
}


def limits(statistic: Statistic, streams: int) -> tuple[float, float]:
    """What white noise exceeds at `RATE`, restarted by the alarm, and the slope of its tail."""
    rng = np.random.default_rng(11)
    tops = np.sort(
        np.concatenate([statistic(rng.normal(size=800))[WARM:].reshape(-1, 15).max(1) for _ in range(streams)])
    )
    q = np.quantile(tops, [0.9, 1 - 15 * RATE])
    return float(q[1]), float((q[1] - q[0]) / np.log(0.1 / (15 * RATE)))


def column(x: np.ndarray, statistic: Statistic, own: Statistic | None, limit: float) -> Alarms:
    """Rows of the alarms of one column."""
    x, found, start, model = np.where(np.isfinite(x), x, np.nanmedian(x)), [], 0, None
    while start + WARM < len(x):
        e, model = residuals(x, start, model)
        y = statistic(e[start:])
        first = WARM if start == 0 else AGAIN
        hit = np.flatnonzero(y[first:] > (limit if own is None else own(y)[first:]))
        if not len(hit):
            break
        start += first + int(hit[0]) + 1
        found.append(start - 1)
    return found


def ours(x: np.ndarray) -> list[Alarms]:
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    code = np.asarray(icvi.run_fleet(pipe, x, keep=("alarms",)).readings.alarms["change"].code)
    return [np.flatnonzero(row).tolist() for row in code]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--write", action="store_true", help="write docs/results/alarms_alternatives.csv")
    parser.add_argument("--noise", action="store_true", help="leave out the labelled recordings, which take longest")
    parser.add_argument("--only", action="append", help="a method, such as FOCuS; may be repeated")
    given = parser.parse_args(argv)
    rng, n, samples, at = np.random.default_rng(31), given.streams, 2000, 1000
    kinds = {kind: noise(kind, n, samples, 1, rng) for kind in ("white", "AR .9", "t3", "lognormal", "GARCH")}
    after = np.arange(samples)[:, None] >= at
    steps = {"1σ": ("white", 1), "2σ": ("white", 2), "AR .9, 2σ": ("AR .9", 2), "t3, 2": ("t3", 2)}
    head = ["method", *kinds, *steps, "F1", "false per 10,000"]
    table = []
    for name, (statistic, own) in {"Change()": (None, None), **METHODS}.items():
        if given.only and name not in given.only:
            continue
        limit, slope = (0.0, 0.0) if own or statistic is None else limits(statistic, 4 * n)

        def raised(x: np.ndarray) -> list[Alarms]:
            if statistic is None:
                return ours(x)
            high = limit + slope * np.log(x.shape[2])
            return [sorted({t for one in stream.T for t in column(one, statistic, own, high)}) for stream in x]

        began = time.process_time()
        cells = [
            f"{np.mean([sum(t >= 400 for t in a) for a in raised(x)]) / (samples - 400) / RATE:.2f}"
            for x in kinds.values()
        ]
        cost = (time.process_time() - began) / (len(kinds) * n * samples) * 1e6
        for kind, size in steps.values():
            cells.append(
                f"{np.mean([any(at <= t <= at + 100 for t in a) for a in raised(kinds[kind] + size * after)]):.2f}"
            )
        scores = []
        for load in () if given.noise else SETS.values():
            data = load(given.shared)
            alarms = [raised(x[None])[0] for x in data.streams]
            for half in (data.tune, data.report):
                row = judge([t for _, t in half], [[t for t in alarms[i] if t < trial.samples] for i, trial in half])
                scores.append((row.outcome.f1, row.outcome.false_per_10000))
        f1, false = np.mean(scores, axis=0) if scores else (np.nan, np.nan)
        table.append(
            [
                name,
                *cells,
                *("" if np.isnan(f1) else f"{f1:.2f}", "" if np.isnan(f1) else f"{false:.1f}"),
                f"{cost:.2f}",
            ]
        )
        print(*(f"{cell:>12}" for cell in table[-1]), flush=True)
    if given.write:
        rows = {row[0]: row for row in (*known("alarms_alternatives"), *(row[:-1] for row in table))}
        write("alarms_alternatives", head, rows.values())


if __name__ == "__main__":
    main()
