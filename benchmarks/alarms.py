"""Alarms: everything that `Change` and `Distress` must hold, measured.

    python benchmarks/alarms.py [--quick] [--only rates] [--shared ../shared/data] [--rows 40000] [--version 2]
                                [--write]

*rates* and *recordings*: alarms over those promised, at 1e-3; on recordings every alarm counts as false, those within
30 rows of each other once, so that it is an upper bound. *power*: four columns, a change at row 1000, found within 100
rows (the drift: 300). *blindness*: an error code, then a step of ten σ at row 2000, found within 50 rows; four shares
in a cell: float32, a state in float64, with Standardize, by `Live`; and by `icvi watch`. *gate*: rows it takes from
streams without codes. *distress*: the learned threshold on XB; *one_column*: with many
clusters. *incidents*: what a budget promises over a fleet.
*fresh_power*, *fresh_rates*: the same on seeds and kinds of noise on which nothing was tuned.
*labelled*: F1 on the tuning halves beside that of as many random alarms. *cycles*: whether a day is found where there
is one; *seasons*: live, with the rates that come of it. *cost*: processor time, and whether other digits, offsets and
a restart give the same alarms.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import jax
import numpy as np
from labelled import SETS
from tables import write

import icvi_jax as icvi
from icvi_jax.evaluation import judge
from icvi_jax.monitors.budget import KEPT, PROMISED
from icvi_jax.tables.season_length import cycle

KINDS = (
    "white", "AR .5", "AR .9", "AR .99", "t3", "lognormal", "Poisson .3", "Poisson 4", "quantised", "GARCH", "sine",
    "5 % missing", "30 % missing", "AR .9, t3",
)  # fmt: skip
FRESH = (
    "Laplace", "uniform", "logistic", "gamma .5", "contaminated", "two humps", "MA 5", "AR -.5", "AR 2, swinging",
    "lognormal, AR .8", "stochastic volatility", "one factor", "held", "heights of a tide",
)  # fmt: skip
"""Kinds on which nothing was tuned, with seeds that nobody had looked at: measured once, printed as they are."""

COLUMNS, LENGTH, CHANGE = (1, 4, 16, 64), 5000, 1000
CODES = (-9999, 65535, 85, 1e6, 2147483647)
PLACES: dict[str, list[int] | None] = {
    "row 0": [0],
    "row 50": [50],
    "row 400": [400],
    "rows 0 and 1": [0, 1],
    "rows 0 to 2": [0, 1, 2],
    "rows 50 and 51": [50, 51],
    "rows 400 to 402": [400, 401, 402],
}
PLACES |= {"1 % of rows": None}
DAYS = {"Intel": 0, "Beijing without rain": 24, "Grand St Bernard": 144}
"""Rows in a day, where the rows are evenly spaced."""

Table = list[list[str]]


def noise(kind: str, streams: int, samples: int, features: int, rng: np.random.Generator) -> np.ndarray:
    """Streams (streams, samples, features) in which nothing changes."""
    e = rng.normal(size=(streams, samples, features))
    if "t3" in kind:
        e = rng.standard_t(3, size=e.shape)
    if kind.startswith("AR"):
        rho = float(kind.split()[1].rstrip(","))
        for t in range(1, samples):
            e[:, t] = rho * e[:, t - 1] + np.sqrt(1 - rho**2) * e[:, t]
    elif kind == "lognormal":
        e = np.exp(e)
    elif kind.startswith("Poisson"):
        e = rng.poisson(float(kind.split()[1]), size=e.shape).astype(float)
    elif kind == "quantised":
        e = np.round(e)
    elif kind == "GARCH":
        v = np.ones((streams, features))
        for t in range(samples):
            e[:, t] *= np.sqrt(v)
            v = 0.05 + 0.1 * e[:, t] ** 2 + 0.85 * v
    elif kind == "sine":
        phase = rng.uniform(0, 2 * np.pi, (streams, 1, features))
        e = np.sqrt(1.6) * np.sin(2 * np.pi * np.arange(samples)[:, None] / 144 + phase) + np.sqrt(0.2) * e
    elif kind.endswith("missing"):
        e[rng.random(e.shape) < float(kind.split()[0]) / 100] = np.nan
    return e


def fresh_noise(kind: str, streams: int, samples: int, features: int, rng: np.random.Generator) -> np.ndarray:
    """The same for the kinds in `FRESH`."""
    shape = streams, samples, features
    e = rng.normal(size=shape)
    drawn = {
        "Laplace": rng.laplace, "uniform": rng.uniform, "logistic": rng.logistic,
        "gamma .5": lambda size: rng.gamma(0.5, size=size),
        "contaminated": lambda size: e * np.where(rng.random(size) < 0.05, 5, 1),
        "two humps": lambda size: e + 3 * rng.choice((-1, 1), size=size),
    }  # fmt: skip
    if kind in drawn:
        return drawn[kind](size=shape)
    if kind == "MA 5":
        return np.stack([np.roll(e, i, axis=1) for i in range(5)]).sum(0)[:, 5:]
    if kind == "one factor":
        return e + 2 * rng.normal(size=(streams, samples, 1))
    if kind == "heights of a tide":
        when = np.arange(samples)[:, None]
        return sum(np.sin(2 * np.pi * (when / m + rng.random((streams, 1, features)))) for m in (74.5, 77.5)) + 0.5 * e
    first, second = {"AR -.5": (-0.5, 0), "AR 2, swinging": (1.5, -0.8)}.get(kind, (0.8, 0))
    if kind == "stochastic volatility":
        first = 0.98
    x, moves = e.copy(), rng.random(shape) < 0.5
    for t in range(1, samples):
        if kind == "held":
            x[:, t] = np.where(moves[:, t], e[:, t], x[:, t - 1])
        else:
            x[:, t] = first * x[:, t - 1] + second * x[:, t - 2] * (t > 1) + e[:, t]
    if kind == "lognormal, AR .8":
        return np.exp(x)
    if kind == "stochastic volatility":
        return np.exp(0.2 * x) * rng.normal(size=shape)
    return x


def raised(x: np.ndarray, version: int, rate: float = 1e-3, dtype: type = np.float32) -> np.ndarray:
    """Whether an alarm was raised, (N, T)."""
    pipe = icvi.Pipeline(
        clusterer=None, panel=None, monitors={"change": icvi.Change(version=version, false_alarms=rate)}
    )
    return np.asarray(icvi.run_fleet(pipe, x.astype(dtype), keep=("alarms",)).readings.alarms["change"].code) == 1


def rates(
    rows: int, version: int, kinds: tuple[str, ...] = KINDS, seed: int = 0, make: Callable[..., np.ndarray] = noise
) -> Table:
    """By kind: measured over promised for each number of columns at 1e-3, at 1e-4 with four, and in rows 60 to 400."""
    table = []
    for kind in kinds:
        cells, rng = [], np.random.default_rng(seed)
        for p in COLUMNS:
            streams = max(2, rows // LENGTH if p < 64 else rows // LENGTH // 2)
            got = raised(make(kind, streams, LENGTH, p, rng), version)[:, 400:]
            cells.append(f"{got.mean() / 1e-3:.2f}")
        x = make(kind, max(2, 2 * rows // LENGTH), LENGTH, 4, rng)
        cells.append(f"{raised(x, version, 1e-4).mean() / 1e-4:.2f}")
        early = raised(make(kind, rows // 100, 400, 4, rng), version)[:, 60:]
        table.append([kind, *cells, f"{early.mean() / 1e-3:.2f}"])
    return table


def recorded(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The recordings without labels, (N, T, p); NaN where there is no reading."""
    intel = np.load(folder / "intel_temp_even_cols.npz")["temp_centi_c"].T[:, :, None] / 100.0
    beijing = np.load(folder / "beijing_air_6stations.npz")
    dry = [name != "RAIN" for name in beijing["features"].tolist()]
    return {
        "Intel": intel,
        "Beijing without rain": beijing["X"].astype(float)[:, :, dry],
        "Grand St Bernard": np.load(folder / "gsb_nodes_10min.npz")["X"].astype(float),
    }


def recordings(folder: pathlib.Path, version: int) -> Table:
    """Alarms on recordings, merged within 30 rows, over those promised."""
    table = []
    for name, x in recorded(folder).items():
        rows = [np.flatnonzero(one) for one in raised(x, version)]
        alarms = sum(len(at) - int((np.diff(at) <= 30).sum()) for at in rows)
        table.append([name, f"{alarms / np.isfinite(x).any(2).sum() / 1e-3:.2f}"])
    return table


def power(streams: int, version: int, seed: int = 5) -> Table:
    """The share of streams in which each change was found in time, and their mean."""
    rng, samples = np.random.default_rng(seed), 1310
    white, memory, heavy = (noise(kind, streams, samples, 4, rng) for kind in ("white", "AR .9", "t3"))
    ramp = 2 * np.minimum(1, np.arange(samples - CHANGE) / 300)[:, None]
    one, after = np.array([0, 1, 0, 0]), np.arange(samples)[:, None] >= CHANGE
    drift = white.copy()
    drift[:, CHANGE:] += ramp
    cases = {
        "1σ in one": white + after * one, "2σ in one": white + 2 * after * one, "1σ in all": white + after,
        "AR .9, 2σ in one": memory + 2 * after * one, "AR .9, 2σ in all": memory + 2 * after,
        "AR .9, 3σ in one": memory + 3 * after * one, "drift of 2σ in all": drift,
        "variance ×4": white * np.where(after, 2, 1), "variance ×16": white * np.where(after, 4, 1),
        "t3, step of 2 in one": heavy + 2 * after * one,
    }  # fmt: skip
    table = []
    for name, x in cases.items():
        window = 300 if name.startswith("drift") else 100
        table.append([name, f"{raised(x, version)[:, CHANGE : CHANGE + window + 1].any(1).mean():.2f}"])
    table.append(["mean of these", f"{np.mean([float(row[1]) for row in table]):.3f}"])
    six = noise("white", streams, samples, 2, rng)
    six[:, CHANGE:, 1] += 6
    table.append(
        ["6σ in one of two, within 5 rows", f"{raised(six, version)[:, CHANGE : CHANGE + 6].any(1).mean():.2f}"]
    )
    return table


def after_codes(code: float, rows: list[int] | None, streams: int) -> np.ndarray:
    """N(20, .1) in two columns, an error code in the second, and there a step of ten σ at row 2000."""
    rng = np.random.default_rng(1)
    x = rng.normal(20, 0.1, size=(streams, 2060, 2))
    x[:, 2000:, 1] += 1
    if rows is None:
        x[..., 1][rng.random((streams, 2060)) < 0.01] = code
    else:
        x[:, rows, 1] = code
    return x


def on_change(standardize: bool = False) -> icvi.Pipeline:
    scale = icvi.Standardize() if standardize else None
    return icvi.Pipeline(clusterer=None, panel=None, monitors={"alarm": icvi.Change()}, standardize=scale)


def on_index(
    standardize: bool = False,
    k: int = 3,
    rate: float | None = 1e-3,
    clusterer: icvi.clusterers.Clusterer | None = None,
) -> icvi.Pipeline:
    """Distress on the Xie–Beni index of a k-means, or of another clusterer."""
    return icvi.Pipeline(
        clusterer=clusterer or icvi.SequentialKMeans(k=k, memory=50),
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
        monitors={"alarm": icvi.Distress(false_alarms=rate, index="xb")},
        standardize=icvi.Standardize() if standardize else None,
    )


def codes(pipe: icvi.Pipeline, x: np.ndarray) -> np.ndarray:
    return np.asarray(icvi.run_fleet(pipe, x, keep=("alarms",)).readings.alarms["alarm"].code)


def ticked(pipe: icvi.Pipeline, x: np.ndarray) -> np.ndarray:
    """The same codes, row by row."""
    live = icvi.Live(pipe, features=x.shape[2], streams=len(x))
    return np.stack([np.array(live.tick(x[:, t]).alarms["alarm"].code) for t in range(x.shape[1])], 1)


def blindness(of: Callable[[bool], icvi.Pipeline], streams: int) -> Table:
    """The share of streams in which the step is found, after each code at each place."""
    table = []
    for code in CODES:
        cells = []
        for rows in PLACES.values():
            x = after_codes(code, rows, streams)
            ways = [codes(of(False), x.astype(np.float32)), codes(of(True), x), ticked(of(False), x)]
            with jax.enable_x64(True):
                ways.insert(1, codes(of(False), x))
            found = [np.isin(way[:, 2000:2051], (1, 3)).any(1).mean() for way in ways]
            cells.append(" / ".join(f"{share:.2f}" for share in found))
        table.append([f"{code:g}", *cells])
    return table


def watched(streams: int) -> Table:
    """The same by `icvi watch` with its defaults: an alarm of any kind within 50 rows."""
    table, begin = [], datetime.datetime(2026, 1, 1)
    for code in CODES:
        x = [after_codes(code, rows, streams) for rows in PLACES.values()]
        lines = ["time,node,a,b"]
        for t in range(2060):
            when = (begin + datetime.timedelta(minutes=t)).isoformat()
            lines += [
                f"{when},{place}-{i},{row[t, 0]:.4f},{row[t, 1]:.10g}"
                for place, many in enumerate(x)
                for i, row in enumerate(many)
            ]
        command = [sys.executable, "-m", "icvi_jax.cli", "watch"]
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=900)
        seen = set()
        for alarm in map(json.loads, done.stdout.splitlines()):
            moment = datetime.datetime.fromisoformat(str(alarm["time"]).rstrip("Z")).replace(tzinfo=None)
            if alarm["alarm"] not in ("recovered", "clock") and 0 <= (moment - begin).total_seconds() / 60 - 2000 <= 50:
                seen.add(alarm["node"])
        found = [np.mean([f"{place}-{i}" in seen for i in range(streams)]) for place in range(len(PLACES))]
        table.append([f"{code:g}", *(f"{share:.2f}" for share in found)])
    return table


def gated(folder: pathlib.Path, streams: int) -> Table:
    """Rows in 10,000 that the gate takes from streams without codes, and streams that it begins anew."""
    many: dict[str, np.ndarray] = {}
    for name in ("s1", "s2", "s3"):
        draws = [getattr(icvi.streams, name)(seed=seed).x for seed in range(streams // 4)]
        many[name.upper()] = np.stack([x[: min(map(len, draws))] for x in draws])
    rng = np.random.default_rng(0)
    many |= {kind: noise(kind, streams, 3000, 4, rng) for kind in KINDS} | recorded(folder)
    table = []
    for name, x in many.items():
        run = icvi.run_fleet(on_index(), x, keep=("seen",))
        there, seen = np.isfinite(x).all(2), np.asarray(run.readings.seen)
        anew = np.asarray(run.state.statistics["count"].samples) != seen.sum(1)
        table.append([name, f"{1e4 * (there & ~seen).sum() / there.sum():.2f}", f"{anew.sum()} of {len(x)}"])
    return table


def distress(draws: int, samples: int) -> Table:
    """Recall on S2 and S3 with the learned threshold and with the factor; spikes on noise over those promised."""
    table = []
    for name, k in (("S2", 11), ("S3", 10)):
        streams = [getattr(icvi.streams, name.lower())(seed=seed) for seed in range(100, 100 + draws)]
        x, row = np.stack([one.x for one in streams]).astype(np.float32), [name]
        for rate in (1e-3, None):
            code = np.isin(codes(on_index(k=k, rate=rate), x), (1, 3))
            hits = [code[i, t : t + 31].any() for i, one in enumerate(streams) for t in one.changes]
            row.append(f"{np.mean(hits):.2f}")
        table.append([f"{name}: changes found by the learned threshold, by the factor", " / ".join(row[1:])])
    for kind in ("white", "AR .9", "t3", "lognormal", "GARCH"):
        cells, rng = [], np.random.default_rng(2)
        for p in (1, 2, 4):
            x = noise(kind, max(2, samples // LENGTH), LENGTH, p, rng).astype(np.float32)
            cells.append(f"{(codes(on_index(), x)[:, 200:] == 1).mean() / 1e-3:.2f}")
        table.append([f"{kind}, p = 1, 2, 4: measured over promised", " / ".join(cells)])
    for kind in ("white", "AR .9", "t3", "lognormal", "GARCH"):
        x = noise(kind, max(2, samples // LENGTH), LENGTH, 2, np.random.default_rng(4)).astype(np.float32)
        early, rare = (codes(on_index(rate=rate), x) == 1 for rate in (1e-3, 1e-4))
        cells = [f"{early[:, 50:400].mean() / 1e-3:.2f}", f"{rare[:, 400:].mean() / 1e-4:.2f}"]
        table.append([f"{kind}, p = 2: in rows 50 to 400, and at 1e-4 in later ones", " / ".join(cells)])
    return table


def one_column(streams: int) -> Table:
    """Spikes of XB over those promised, on noise of 1,500 rows, as the command clusters files: k fixed and chosen."""
    table = []
    for p in (1, 2):
        x = np.random.default_rng(31).normal(size=(streams, 1500, p)).astype(np.float32)
        for k in (3, 6, 9, 12, "auto"):
            sizes = range(2, 13) if k == "auto" else (k,)
            several = tuple(icvi.SequentialKMeans(k=size, memory=50, seeding="distinct") for size in sizes)
            cells = []
            for rate in (1e-3, 2e-4):
                clusterer = icvi.Portfolio(candidates=several) if k == "auto" else several[0]
                cells.append(f"{(codes(on_index(True, rate=rate, clusterer=clusterer), x) == 1).mean() / rate:.2f}")
            table.append([f"p = {p}, k = {k}", *cells])
    return table


def within_five_rows(raised: np.ndarray, budget: icvi.Budget) -> np.ndarray:
    """So many alarms within five rows that Chernoff's bound of a Poisson number allows no more incidents."""
    mean, enough = 5 * KEPT * PROMISED * len(raised), 2
    while enough <= mean or np.exp(enough - mean - enough * np.log(enough / mean)) > 1 / budget.rows:
        enough += 1
    over = np.convolve(raised.sum(axis=0), np.ones(5))[: raised.shape[1]] >= enough
    return over & ~np.concatenate([[False], over[:-1]])


def by_streams(raised: np.ndarray, budget: icvi.Budget, bet: float = 0.05) -> np.ndarray:
    """e-d-BH: an e-detector of each stream, on its own alarms, and the e-BH rule over all of them."""
    m, out, nodes = np.zeros(len(raised)), np.zeros(raised.shape[1], bool), len(raised)
    for t in range(raised.shape[1]):
        m = np.where(raised[:, t], 1 - bet + bet / (KEPT * PROMISED), 1 - bet) * (m + 1)
        out[t] = (np.sort(m)[::-1] * np.arange(1, nodes + 1) >= nodes * budget.rows).any()
        m = np.zeros_like(m) if out[t] else m
    return out


RULES: dict[str, tuple[str, Callable[[np.ndarray, icvi.Budget], np.ndarray]]] = {
    "one e-detector of the fleet (ours)": (
        "independent given the past, each at most 5e-4 a row",
        lambda raised, budget: budget.incidents(raised),
    ),
    "so many within five rows": ("independent, each at most 5e-4 a row", within_five_rows),
    "e-d-BH": ("each at most 5e-4 a row given the past; may depend on each other", by_streams),
}


def incidents(weeks: int) -> Table:
    """By rule: false incidents a week on quiet nodes, and how many nodes must change to be found nine times in ten."""
    budget, rng = icvi.Budget.parse("1/week", streams=10_000, interval=600), np.random.default_rng(3)
    table = []
    for name, (assumes, rule) in RULES.items():
        cells = []
        for rate, group in ((PROMISED, 1), (KEPT * PROMISED, 1), (KEPT * PROMISED, 10)):
            found = 0
            for _ in range(weeks):
                quiet = rng.random((10_000 // group, 1008), np.float32) < rate
                found += int(rule(np.repeat(quiet, group, 0), budget).sum())
            cells.append(f"{found / weeks:.2f}")
        table.append([name, assumes, *cells, *(needed(rule, budget, spread, rng) for spread in (1, 30))])
    return table


def needed(rule: Callable[..., np.ndarray], budget: icvi.Budget, spread: int, rng: np.random.Generator) -> str:
    """The fewest nodes, in steps of a tenth, whose alarms within `spread` rows are found nine times in ten."""
    nodes, n, at = budget.streams, 4, 100
    while n < nodes:
        hits = 0
        for _ in range(10):
            raised = rng.random((nodes, at + spread + 6), np.float32) < PROMISED
            raised[np.arange(n), at + rng.integers(0, spread, n)] = True
            hits += int(rule(raised, budget)[at:].any())
        if hits >= 9:
            return str(n)
        n = max(n + 1, n * 11 // 10)
    return f"over {nodes:,}"


def labelled(folder: pathlib.Path, version: int) -> Table:
    """F1 on the tuning halves, beside random alarms of the same number, and false alarms in 10,000 rows."""
    table, scores = [], []
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"alarm": icvi.Change(version=version)})
    for name, load in SETS.items():
        data = load(folder)
        alarms = [np.flatnonzero(np.asarray(icvi.run(pipe, x).readings.alarms["alarm"].code)) for x in data.streams]
        trials = [trial for _, trial in data.tune]
        row = judge(trials, [[int(t) for t in alarms[i] if t < trial.samples] for i, trial in data.tune])
        scores.append((row.outcome.f1, row.random, row.outcome.false_per_10000))
        table.append([name, *(f"{value:.2f}" for value in scores[-1][:2]), f"{scores[-1][2]:.1f}"])
    f1, random, false = np.mean(scores, axis=0)
    return [*table, ["mean", f"{f1:.2f}", f"{random:.2f}", f"{false:.1f}"]]


def cycles(folder: pathlib.Path, streams: int) -> Table:
    """Streams in which the day was found, another length, none; on noise everything that is found is wrong."""
    sets = {name: (DAYS[name], list(x)) for name, x in recorded(folder).items()}
    rng = np.random.default_rng(0)
    for kind in ("white", "AR .9", "AR .99", "sine", "t3"):
        sets[f"{kind}, 2,000 rows"] = 144 if kind == "sine" else 0, list(noise(kind, streams, 2000, 2, rng))
    table = []
    for name, (day, many) in sets.items():
        found = np.array([cycle(x).rows for x in many])
        right = (found == day) & (day > 0)
        shares = np.mean(right), np.mean((found > 0) & ~right), np.mean(found == 0)
        table.append([name, str(day or "none"), str(len(many)), *(f"{share:.2f}" for share in shares)])
    return table


def found_live(folder: pathlib.Path, streams: int) -> Table:
    """What `season="auto"` finds in 4,000 rows: shares, the median row, and alarms over those promised."""
    rng, when = np.random.default_rng(0), np.arange(4000)[:, None]
    shape = streams, 4000, 2
    sets = {kind: (0, noise(kind, *shape, rng)) for kind in ("white", *KINDS[1:4], "t3", "lognormal", "GARCH")}
    sets["random walk"] = 0, np.cumsum(rng.normal(size=shape), axis=1)
    for m in (24, 48, 144, 37, 74.5, 310):
        phase = 2 * np.pi * (when + rng.integers(0, 1000, (streams, 1, 1))) / m
        shapes = {"sine": np.sqrt(2) * np.sin(phase)}
        if m in (24, 48, 144):
            shapes |= {"peak": (phase % (2 * np.pi) < np.pi / 4) * 3.02, "two": np.sin(phase) + np.sin(2 * phase + 1)}
        sets |= {f"{name} of {m} rows": (m, one + rng.normal(size=shape)) for name, one in shapes.items()}
    sets |= {name: (DAYS[name], x) for name, x in recorded(folder).items()}
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change(season="auto")})
    table = []
    for name, (m, x) in sets.items():
        run = icvi.run_fleet(pipe, x.astype(np.float32), keep=("alarms",))
        season, raised = run.state.monitors["change"].season, np.asarray(run.readings.alarms["change"].code) == 1
        period, begun = np.asarray(season.period), x.shape[1] - np.asarray(season.known)
        shares = [np.mean(one) for one in ((period == m) & (m > 0), (period > 0) & (period != m), period == 0)]
        at, rates = [f"{np.median(begun[period > 0]):.0f}" if period.any() else ""], []
        for since in (np.zeros_like(begun), np.where(period > 0, begun, x.shape[1])):
            rows = [np.flatnonzero(one[t:]) for one, t in zip(raised, since)]
            alarms = sum(len(one) - int((np.diff(one) <= 30).sum()) for one in rows)
            length = sum(int(np.isfinite(one[t:]).any(1).sum()) for one, t in zip(x, since))
            rates.append(f"{alarms / length / 1e-3:.2f}" if length else "")
        table.append([name, *(f"{share:.2f}" for share in shares), *at, *rates])
    return table


def cost(folder: pathlib.Path, repeats: int) -> Table:
    """Processor time a sample that `Change` adds, and the share of alarms that digits, offsets, a restart keep."""
    x = np.random.default_rng(0).normal(size=(1024, 400, 2)).astype(np.float32)
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    best = []
    for monitors in ({}, {"change": icvi.Change()}):
        pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=10), panel=panel, monitors=monitors)
        times = []
        for _ in range(repeats):
            began = time.process_time()
            icvi.run_fleet(pipe, x)
            times.append(time.process_time() - began)
        best.append(min(times))
    table = [["µs a sample that Change adds", f"{(best[1] - best[0]) / x[..., 0].size * 1e6:.3f}"]]
    pipe, same = on_change(), {"float32 and float64": [], "offset of 1e6": [], "offset of 1e9": [], "restart": []}

    def causes(x: np.ndarray, state: object = None, backend: str | None = None) -> tuple[np.ndarray, object]:
        run = icvi.run_fleet(pipe, x, state=state, keep=("alarms",), backend=backend)
        alarm = run.readings.alarms["alarm"]
        return np.where(np.asarray(alarm.code) == 1, np.asarray(alarm.cause) + 1, 0), run.state

    for x in recorded(folder).values():
        plain, half = causes(x)[0], x.shape[1] // 2
        coarse = np.round(x * 1024) / 1024
        base = causes(coarse)[0]
        first, state = causes(x[:, :half])
        with tempfile.TemporaryDirectory() as place:
            state = icvi.load(icvi.save(place + "/half.icvi", pipe, state), pipe)
        restarted = np.concatenate([first, causes(x[:, half:], state)[0]], axis=1)
        pairs = (plain, causes(x, backend="numpy")[0]), (base, causes(coarse + 1e6)[0])
        for name, (a, b) in zip(same, (*pairs, (base, causes(coarse + 1e9)[0]), (plain, restarted))):
            same[name].append((a == b)[(a > 0) | (b > 0)])
    return table + [[f"same alarms, {name}", f"{np.concatenate(parts).mean():.4f}"] for name, parts in same.items()]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=40_000, help="of noise in a cell of the rates")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--version", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write docs/results/alarms_*.csv")
    parser.add_argument("--only", action="append", help="a part, such as rates; may be repeated")
    given = parser.parse_args(argv)
    share, folder, version = (10 if given.quick else 1), given.shared, given.version
    places, twenty = ["code", *PLACES], 20 // min(share, 5)
    parts: dict[str, tuple[list[str], Callable[[], Table]]] = {
        "power": (["change", "found"], lambda: power(100 // min(share, 5), version)),
        "rates": (
            ["noise", *(f"p = {p}" for p in COLUMNS), "1e-4, p = 4", "rows 60 to 400, p = 4"],
            lambda: rates(max(given.rows // share, 10_000), version),
        ),
        "fresh_power": (["change", "found"], lambda: power(400 // share, version, 20281)),
        "fresh_rates": (
            ["noise", *(f"p = {p}" for p in COLUMNS), "1e-4, p = 4", "rows 60 to 400, p = 4"],
            lambda: rates(max(given.rows // share, 10_000), version, FRESH, 20282, fresh_noise),
        ),
        "recordings": (["recording", "1e-3"], lambda: recordings(folder, version)),
        "blindness": (places, lambda: blindness(on_change, twenty)),
        "blindness_distress": (places, lambda: blindness(on_index, twenty)),
        "blindness_watch": (places, lambda: watched(twenty // 4)),
        "gate": (["streams", "rows in 10,000", "begun anew"], lambda: gated(folder, 40)),
        "distress": (["Distress(false_alarms=1e-3) on XB", ""], lambda: distress(4 * twenty, 200_000 // share)),
        "one_column": (["columns, k-means", "at 1e-3", "at 2e-4"], lambda: one_column(200 // share)),
        "incidents": (
            ["1/week over 10,000 nodes", "quiet nodes", "false a week at 1e-4", "at 5e-4", "in groups of ten"]
            + ["nodes needed at once", "within 30 rows"],
            lambda: incidents(20 // min(share, 5)),
        ),
        "labelled": (["set", "F1", "random", "false per 10,000"], lambda: labelled(folder, version)),
        "cycles": (
            ["streams", "rows of a cycle", "number", "found", "found another", "found none"],
            lambda: cycles(folder, 100 // share),
        ),
        "seasons": (
            ["streams", "found", "another", "none", "median row", "rate", "since"],
            lambda: found_live(folder, 100 // share),
        ),
        "cost": (["", ""], lambda: cost(folder, 30 // min(share, 5))),
    }
    for name, (head, measure) in parts.items():
        if given.only and name not in given.only:
            continue
        rows = measure()
        print(f"\n{name}")
        width = 28 if " / " in rows[0][-1] else 12
        for row in [head, *rows]:
            print(
                f"{row[0]:58}" + "".join(f"{cell:>{width}}" for cell in row[1:]),
                flush=True,
            )
        if given.write:
            write(f"alarms_{name}", head, rows)


if __name__ == "__main__":
    main()
