"""How cost grows with k, p, N, T and the number of indices, and whether XLA's own scan is ever cheaper.

    python benchmarks/growth.py [--quick] [--only TEXT] [--engines auto xla flat loops] [--json FILE] [--write]
    python benchmarks/growth.py --forms [--json FILE] [--write]
    python benchmarks/growth.py --picture [--write]

Each cell is a new process on one core: processor seconds of the first call (imports not counted), processor
microseconds a sample of the next ones, and memory beyond that of the imported package. `auto` is what a user gets,
`xla` is `lax.scan` over the same step with all streams side by side, `flat` and `loops` are the two forms of native
code, forced. The grid is k × p × {XB DB, all indices} × {k-means, fuzzy, OEC up to 16 slots, merge-split up to 31, its
most}, 64 streams; `--quick` has thirty cells of it. A cell that takes longer than 60 processor seconds to compile is
said to, and one whose states exceed 1 GB is left out and said to be. `--write` puts what ran into
docs/results/growth.csv. `--forms` runs both forms of native code around the border between them and prints the
coefficients by which `icvi_jax.engine.native.program` chooses: the rule is the form that takes least time a sample
among those whose first call is predicted to take 5 processor seconds at most; with `--write` they go into
docs/results/forms.csv. `--picture` measures how the cost of a sample grows with k, p, streams, samples a call and the
number of indices; with `--write` it draws docs/results/growth.png and says the slopes in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import rivals
import speed

import icvi_jax as icvi
from icvi_jax.engine import executor
from icvi_jax.engine.native import program

FIRST, LONGEST = 5.0, 60.0
"""Processor seconds that a first call may take, and after which XLA is given up."""

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "results"

STATE = 2**30
"""Bytes of the states of a cell, at most."""


class Cell(NamedTuple):
    """A pipeline and a fleet."""

    clusterer: str
    k: int
    p: int
    indices: str = "xb db"
    streams: int = 64
    samples: int = 0

    @property
    def length(self) -> int:
        """Samples a stream and call, enough for every cluster to be born and for the call not to matter."""
        return self.samples or int(np.clip(2**22 // (64 * self.k * self.p), 256, 4096))

    def pipeline(self) -> icvi.Pipeline:
        """The pipeline."""
        made = next(e for e in icvi.clusterers.catalogue() if e.name == self.clusterer)
        every = {index.name: index for index in speed.every_index()}
        chosen = every if self.indices == "all" else self.indices.split()
        return speed.pipeline(0, made.clusterer(**{made.size: self.k}), [every[name] for name in chosen])

    @property
    def state(self) -> int:
        """Bytes of the states of all streams."""
        one = self.pipeline().init(self.p, (1,), xp=np, dtype=np.float32)
        return self.streams * sum(a.nbytes for a in jax.tree.leaves(one))

    def __str__(self) -> str:
        return f"{self.clusterer} k={self.k} p={self.p} {self.indices}"


K, P = (2, 10, 32, 64, 128), (1, 2, 8, 32, 64, 128)
QUICK = [
    *(Cell("sk-means", k, p) for k, p in [(2, 1), (10, 2), (10, 32), (32, 8), (32, 16)]),
    *(Cell("sk-means", k, p) for k, p in [(32, 64), (64, 2), (64, 64), (128, 8), (128, 128)]),
    *(Cell("sk-means", k, p, "all") for k, p in [(2, 2), (10, 2), (10, 32), (32, 8), (64, 2)]),
    *(Cell("fuzzy", k, p) for k, p in [(10, 2), (32, 32), (64, 64), (128, 8)]),
    Cell("fuzzy", 10, 8, "all"),
    *(Cell("oec", k, p) for k, p in [(10, 2), (16, 8), (16, 10), (16, 30)]),
    Cell("oec", 10, 8, "all"),
    *(Cell("merge-split", k, p) for k, p in [(10, 2), (16, 8), (31, 32), (31, 8)]),
    Cell("merge-split", 10, 8, "all"),
]
BORDER = [
    *(Cell("sk-means", k, p) for k, p in [(32, 2), (32, 8), (32, 16), (32, 32), (48, 2), (64, 2), (64, 4), (10, 64)]),
    *(Cell("fuzzy", k, p) for k, p in [(10, 32), (32, 8)]),
    *(Cell("oec", k, p) for k, p in [(8, 8), (16, 8), (16, 10)]),
    *(Cell("merge-split", k, p) for k, p in [(16, 2), (16, 8)]),
    *(Cell("sk-means", 10, p, "all") for p in (2, 8)),
]
GRID = [
    Cell(clusterer, k, p, indices)
    for clusterer in ("sk-means", "fuzzy", "oec", "merge-split")
    for indices in ("xb db", "all")
    for k in {"oec": (2, 10, 16), "merge-split": (2, 10, 31)}.get(clusterer, K)
    for p in P
]
BEFORE = {
    Cell("sk-means", 32, 16): 6.2,
    Cell("sk-means", 32, 64): 32,
    Cell("sk-means", 64, 64): 180,
    Cell("sk-means", 10, 32, "all"): 194,
    Cell("oec", 16, 10): 1.4,
    Cell("oec", 16, 30): 26,
}
"""Microseconds a sample of version 0.2.0, where SIMD C of k = 10, p = 2 does 93 million a second on two cores."""

GOALS = {
    Cell("sk-means", 64, 64): 20,
    Cell("sk-means", 32, 64): 10,
    Cell("sk-means", 32, 16): 2.5,
    Cell("sk-means", 10, 32, "all"): 40,
    Cell("oec", 16, 30): 10,
}
"""Microseconds a sample that these may take there."""

SIMD = 93 / 2
"""Million samples a second that SIMD C does there on one core; goals are scaled by what it does here."""


def measure(cell: Cell, engine: str) -> dict[str, float | str]:
    """In this process: the first call and the next ones."""
    speed.use_one_core()
    if engine in ("flat", "loops"):
        program.FORCED = engine
    pipe, X = cell.pipeline(), rivals.blobs(cell.streams, cell.length, cell.k, cell.p)
    call, now, before = speed.fleet(pipe, X), time.process_time, speed.held("VmRSS")
    resource.setrlimit(resource.RLIMIT_CPU, (int(now() + LONGEST + 1), resource.RLIM_INFINITY))
    start = now()
    call()
    first = now() - start
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    calls, start = 0, now()
    while calls < 3 or now() - start < 0.4:  # all of them count: the clock of some machines is coarse
        call()
        calls += 1
        if now() - start > 20:
            break
    took = (now() - start) / calls
    samples = cell.streams * cell.length
    found = {"first": first, "micros": 1e6 * took / samples, "beyond": speed.held("VmHWM") - before}
    if engine == "flat":  # as the choice sees it; loops are made from another list
        step = executor._programs[next(reversed(executor._programs))].layout.unrolled
        found |= {"operations": step.graph.weight, "words": sum(part.n for part in step.state)}
        found |= {"arrays": len(step.graph.operations), "predicted": program.first_call(step)}
    return found


def ask(cell: Cell, engine: str) -> dict[str, float | str]:
    """What a new process measures, or why it did not."""
    if cell.state > STATE:
        return {"problem": "states above 1 GB"}
    backend = {"ICVI_BACKEND": engine if engine == "xla" else "" if engine == "auto" else "native", "ICVI_CACHE": ""}
    command = [sys.executable, __file__, "--cell", json.dumps(cell), "--engines", engine]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **backend}, timeout=20 * LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return {"problem": "not done in 20 minutes"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"problem": f"no code in {LONGEST:.0f} CPU-s" if done.returncode == -24 else last[-100:]}
    found: dict[str, float | str] = json.loads(done.stdout.splitlines()[-1])
    return found


def grid(cells: list[Cell], engines: list[str], file: str | None, write: bool) -> None:
    """Print a line a cell, and keep what is known so far in files."""
    speed.use_one_core()
    X = rivals.blobs(1024, 500, 10, 2)
    slow = SIMD / speed.rates(rivals.c_programs(X, 10), X.shape[0] * X.shape[1], 5)["simd"]
    print(f"SIMD C of k = 10, p = 2 takes {slow:.2f} times as long as where the goals were set")
    rows, slower, late = [], [], []
    before = json.loads(pathlib.Path(file).read_text()) if file and pathlib.Path(file).exists() else []
    known = {Cell(**row["cell"]): row for row in before}
    for cell in cells:
        found = {engine: known.get(cell, {}).get(engine) or ask(cell, engine) for engine in engines}
        rows.append({"cell": cell._asdict(), **found})
        if write:
            table(rows, engines)
        if file:
            pathlib.Path(file).write_text(json.dumps(rows, indent=1))
        text = []
        for engine, one in found.items():
            if "problem" in one:
                text.append(f"{engine}: {one['problem']}")
            else:
                text.append(f"{engine} {one['micros']:.3g} µs, first {one['first']:.2f} s, {one['beyond']:.0f} MB")
        mine, xla = (found.get(engine, {}).get("micros") for engine in ("auto", "xla"))
        if mine and xla:
            text.append(f"XLA takes {xla / mine:.2f}×")
            slower += [str(cell)] if mine > xla else []
        if mine and cell in BEFORE:
            text.append(f"0.2.0 took {BEFORE[cell] / mine:.1f}×")
        if mine and cell in GOALS:
            most = slow * GOALS[cell]
            text.append(f"at most {most:.3g} µs: {'ok' if mine <= most else 'ABOVE'}")
        late += [str(cell)] if found.get("auto", {}).get("first", 0) > slow * FIRST else []
        print(f"{cell!s:34} {'   '.join(text)}", flush=True)
    print(f"{len(slower)} cells slower than XLA: {'; '.join(slower) or 'none'}")
    print(f"{len(late)} first calls above {slow * FIRST:.1f} CPU-s: {'; '.join(late) or 'none'}")


def forms(file: str | None, write: bool) -> None:
    """Both forms of native code around the border, the coefficients of the choice, and how good it is."""
    before = json.loads(pathlib.Path(file).read_text()) if file and pathlib.Path(file).exists() else []
    known = {Cell(**row["cell"]): row for row in before}
    rows = []
    for cell in BORDER:
        rows.append(
            {"cell": cell._asdict()} | {e: known.get(cell, {}).get(e) or ask(cell, e) for e in ("flat", "loops")}
        )
        print(cell, rows[-1], flush=True)
        if file:
            pathlib.Path(file).write_text(json.dumps(rows, indent=1))
    flat = [row["flat"] for row in rows]
    first, size, arrays = (
        np.array(column)
        for column in zip(*((f["first"], f["operations"] + program.WORD * f["words"], f["arrays"]) for f in flat))
    )
    columns = np.stack([np.ones_like(first), size**program.GROWTH, arrays], 1)
    found = np.linalg.lstsq(columns / first[:, None], np.ones_like(first), rcond=None)[0]
    guess = columns @ found
    off = guess / first
    print(
        f"SECONDS = ({', '.join(f'{c:.2g}' for c in found)}); predicted {off.min():.2f} to {off.max():.2f} of measured"
    )
    lines = [
        "clusterer,k,p,indices,operations,words,arrays,flat_first_cpu_s,predicted,loops_first_cpu_s,flat_micros,loops_micros"
    ]
    for row, seconds in zip(rows, guess):
        cell, one, two = row["cell"], row["flat"], row["loops"]
        numbers = (one["first"], seconds, two["first"], one["micros"], two["micros"])
        start = [*list(cell.values())[:4], one["operations"], one["words"], one["arrays"]]
        lines.append(",".join([*map(str, start), *(f"{n:.3g}" for n in numbers)]))
    print("\n".join(lines))
    if write:
        (RESULTS / "forms.csv").write_text("\n".join(lines) + "\n")


def table(rows: list[dict], engines: list[str]) -> None:
    """What ran, as a file of the documentation."""
    lines = ["clusterer,k,p,indices,streams,engine,micros_a_sample,first_call_cpu_s,mb_beyond,problem"]
    for row in rows:
        start = ",".join(str(part) for part in list(row["cell"].values())[:5])
        for engine in engines:
            one = row[engine]
            numbers = [f"{one[name]:.4g}" if name in one else "" for name in ("micros", "first", "beyond")]
            lines.append(f"{start},{engine},{','.join(numbers)},{str(one.get('problem', '')).replace(',', ';')}")
    (RESULTS / "growth.csv").write_text("\n".join(lines) + "\n")


def curves() -> dict[str, dict[int, Callable[[], tuple[icvi.Pipeline, np.ndarray]]]]:
    """By what grows and how large it is: a pipeline and its samples. k = 10, p = 2, XB and DB, 64 × 500 unless said."""
    order = list(speed.every_index())

    def case(k=10, p=2, streams=64, samples=500, indices=None):
        chosen = None if indices is None else order[:indices]
        return speed.pipeline(k, indices=chosen), rivals.blobs(streams, samples, k, p)

    doubled = [2**i for i in range(7)]
    counts = sorted({1, 2, 5, 10, len(order)})
    return {
        "clusters k": {k: partial(case, k=k) for k in doubled[1:]},
        "features p": {p: partial(case, p=p) for p in doubled},
        "streams N": {N: partial(case, streams=N, samples=100) for N in (1, 10, 100, 1000, 10_000)},
        "samples a call T": {T: partial(case, streams=100, samples=T) for T in (10, 100, 1000, 10_000)},
        "indices": {n: partial(case, indices=n) for n in counts},
    }


def picture(write: bool) -> None:
    """Measure the curves; draw them, and say their slopes."""
    import matplotlib.pyplot as plt

    speed.use_one_core()
    figure, panes = plt.subplots(1, 5, figsize=(13, 3), layout="constrained", sharey=True)
    lines = ["| what grows | from | to | µs a sample, first | last | exponent of the last step |", "|---" * 6 + "|"]
    for pane, (name, points) in zip(panes, curves().items()):
        found = {}
        for size, make in points.items():
            pipe, X = make()
            call, each = speed.fleet(pipe, X), []
            call()
            while len(each) < 3 or sum(each) < 0.3:
                start = time.process_time()
                call()
                each.append(time.process_time() - start)
            found[size] = 1e6 * float(np.median(each)) / (X.shape[0] * X.shape[1])
        sizes, micros = list(found), list(found.values())
        slope = np.log(micros[-1] / micros[-2]) / np.log(sizes[-1] / sizes[-2])
        ends = f"{sizes[0]:,} | {sizes[-1]:,} | {micros[0]:.3g} | {micros[-1]:.3g}"
        lines.append(f"| {name} | {ends} | {slope:+.2f} |")
        print(lines[-1], flush=True)
        pane.loglog(sizes, micros, "o-", color="#0072b2")
        pane.set(xlabel=name)
        pane.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        pane.minorticks_off()
    panes[0].set(ylabel="processor µs a sample")
    how = f"Sequential k-means, XB and DB, k = 10, p = 2 unless said. {speed.machine()}. An exponent of 1: "
    lines += ["", how + "twice as large takes twice as long; 0: no longer; below 0: less for each sample."]
    if write:
        figure.savefig(RESULTS / "growth.png", dpi=110)
        page = RESULTS.parent / "benchmarks.md"
        before, _, rest = page.read_text().partition("<!-- growth -->\n")
        page.write_text(f"{before}<!-- growth -->\n{chr(10).join(lines)}\n{rest[rest.index('<!-- /growth -->') :]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="thirty cells")
    parser.add_argument("--forms", action="store_true", help="both forms of native code around the border")
    parser.add_argument("--only", default="", help="cells whose name has this text (a regular expression)")
    parser.add_argument("--engines", nargs="+", default=["auto", "xla"], choices=["auto", "xla", "flat", "loops"])
    parser.add_argument("--json", help="results, kept cell by cell; cells that it has are not measured again")
    parser.add_argument("--write", action="store_true", help="into docs")
    parser.add_argument("--picture", action="store_true", help="the curves instead of the grid")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        print(json.dumps(measure(Cell(*json.loads(given.cell)), given.engines[0])))
        return
    if given.forms:
        forms(given.json, given.write)
        return
    if given.picture:
        picture(given.write)
        return
    print(f"{speed.machine()}; processor time of one core")
    cells = [cell for cell in (QUICK if given.quick else GRID) if re.search(given.only, str(cell))]
    grid(cells, given.engines, given.json, given.write)


if __name__ == "__main__":
    main()
