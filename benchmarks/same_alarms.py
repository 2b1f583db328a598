"""The same alarms: float32 beside float64, at offsets up to 1e9, with gaps, and cut in two by a checkpoint.

    python benchmarks/same_alarms.py [--shared ../shared/data]

Of all alarms that either run raises, the share that both raise at the same sample for the same column, on the shared
sets; at least 0.99 is expected. Offsets are added in float64 to samples rounded to 2⁻¹⁰, so that nothing is lost by
adding them. The last line is the time of a fleet with `Change` over one without, p = 2 and k = 10; run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time

import numpy as np
from false_alarms import recorded
from labelled import SETS

import icvi_jax as icvi

PIPE = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})


def stacked(streams: list[np.ndarray]) -> np.ndarray:
    """(N, T, p), shorter streams filled up with NaN."""
    x = np.full((len(streams), max(map(len, streams)), streams[0].shape[1]), np.nan)
    for i, stream in enumerate(streams):
        x[i, : len(stream)] = stream
    return x


def raised(x: np.ndarray, backend: str | None = None) -> np.ndarray:
    """Column + 1 where an alarm was raised, else 0: (N, T)."""
    alarm = icvi.run_fleet(PIPE, x, keep=("alarms",), backend=backend).readings.alarms["change"]
    return np.where(np.asarray(alarm.code) == 1, np.asarray(alarm.cause) + 1, 0)


def resumed(x: np.ndarray) -> np.ndarray:
    """The same, saved and loaded again in the middle."""
    half = x.shape[1] // 2
    first = icvi.run_fleet(PIPE, x[:, :half], keep=("alarms",))
    with tempfile.TemporaryDirectory() as folder:
        state = icvi.load(icvi.save(folder + "/half.icvi", PIPE, first.state), PIPE)
    second = icvi.run_fleet(PIPE, x[:, half:], state=state, keep=("alarms",))
    alarms = [run.readings.alarms["change"] for run in (first, second)]
    both = [np.where(np.asarray(a.code) == 1, np.asarray(a.cause) + 1, 0) for a in alarms]
    return np.concatenate(both, axis=1)


def shared(a: np.ndarray, b: np.ndarray) -> float:
    """Of all alarms of either, the share that is the same in both; 1 where there are none."""
    either = (a > 0) | (b > 0)
    return float((a == b)[either].mean()) if either.any() else 1.0


def cost(streams: int = 1024, samples: int = 400, repeats: int = 25) -> float:
    """Time of a fleet with `Change` over one without, both keeping what is kept by default: the best of many runs."""
    x = np.random.default_rng(0).normal(size=(streams, samples, 2)).astype(np.float32)
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    pipes = [
        icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=10), panel=panel, monitors=monitors)
        for monitors in ({}, {"change": icvi.Change()})
    ]
    best = [np.inf, np.inf]
    for _ in range(repeats):
        for i, pipe in enumerate(pipes):
            began = time.perf_counter()
            icvi.run_fleet(pipe, x)
            best[i] = min(best[i], time.perf_counter() - began)
    return best[1] / best[0]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "shared" / "data")
    folder = parser.parse_args(argv).shared
    sets = {name: stacked(load(folder).streams) for name, load in SETS.items()} | recorded(folder)
    print(f"{'':20}{'alarms':>8}{'float32':>10}{'offset 1e6':>12}{'offset 1e9':>12}{'restart':>10}")
    for name, x in sets.items():
        exact = raised(x, "numpy")
        coarse = np.round(x * 1024) / 1024
        base = raised(coarse)
        cells = [shared(exact, raised(x)), *(shared(base, raised(coarse + offset)) for offset in (1e6, 1e9))]
        cells.append(shared(raised(x), resumed(x)))
        widths = (10, 12, 12, 10)
        print(
            f"{name:20}{int((exact > 0).sum()):8,}" + "".join(f"{c:{w}.4f}" for c, w in zip(cells, widths)), flush=True
        )
    print(f"a step with Change takes {cost():.2f} times one without")


if __name__ == "__main__":
    main()
