"""How fast, as ratios to hand-written C, `jax.vmap`, river and cvi that are measured in the same run.

    python benchmarks/speed.py [PART …] [--core] [--write] [--repeats 7] [--json FILE]

All parts unless named: `table` (the tables of docs/benchmarks.md and the README; `--write` puts them there), `scaling`
(by streams, samples, k and p), `memory`, `start` (the first call), `indices`, `clusterers` (what more of them cost),
`live` (ticks and checkpoints), `picture` (throughput.png).

NumPy in, NumPy out, compilation not counted; k-means, XB and DB, forgetting 0.9, float32, with missing data, anchor and
exact warm-up. The C programs do less: no missing data, no anchor. Rivals take turns and the best of the turns counts,
so that a busy machine slows all of them. `--core` goes further, for machines that others use: one core, and the clock
is that of its processor time. `ICVI_BACKEND=xla` measures the fallback.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings
from typing import NamedTuple

import numpy as np
import rivals

import icvi_jax as icvi

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEEP = ("values", "label")
CORE = "ICVI_BENCHMARK_CORE"  # in the environment: processor time of one core counts


class Shape(NamedTuple):
    """A fleet, and how many times the rate of scalar and of SIMD C it shall have; 0: no target."""

    streams: int
    samples: int
    k: int
    features: int
    scalar: float = 0
    simd: float = 0
    label: str = ""
    clusterer: icvi.Clusterer | None = None
    listed: bool = False

    def __str__(self):
        return self.label or f"{self.streams:,} streams, k = {self.k}, {self.features} features"


SHAPES = [
    Shape(1024, 1000, 10, 2, 3, 0.5, listed=True),
    Shape(8192, 200, 10, 2, 3, 0.5),
    Shape(4096, 300, 4, 2, 2.5, 0.4, listed=True),
    Shape(1024, 1000, 3, 8, 1.2, listed=True),
    Shape(1024, 300, 32, 2, 2, listed=True),
    Shape(1024, 500, 4, 16),
    Shape(
        1024,
        500,
        8,
        2,
        1,
        0,
        "1,024 streams, OEC of 8 slots (others: k-means)",
        icvi.OnlineEllipsoidal(capacity=8),
        True,
    ),
    Shape(1, 200_000, 10, 2, 0.8, 0, "one stream, k = 10", None, True),
]
"""What comparisons of recorded streams run; those `listed` are in the documentation, first and last in the README."""

HEAD = """| recorded streams | million samples a second | times plain C | times SIMD C | times river |
|---|---|---|---|---|"""
TICKS = """| one live tick, with a monitor | µs | river's time for as many samples |
|---|---|---|"""


def pipeline(k, clusterer=None, indices=None, monitors=None):
    indices = indices or (icvi.XieBeni(), icvi.DaviesBouldin())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some indices warn of a short memory
        panel = icvi.Panel(indices=tuple(indices), forgetting=rivals.FORGETTING)
        clusterer = clusterer or icvi.SequentialKMeans(k=k)
        return icvi.Pipeline(clusterer=clusterer, panel=panel, monitors=monitors or {})


def every_index():
    return tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.grouped)


def fleet(pipe, X, keep=KEEP):
    if len(X) == 1:
        return lambda: icvi.run(pipe, X[0], keep=keep)
    return lambda: icvi.run_fleet(pipe, X, keep=keep)


def use_one_core():
    """From now on: one core, and its processor time."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", CORE: "1"}


def clock():
    """The clock that counts: the wall's, or that of the processor."""
    return time.process_time if CORE in os.environ else time.perf_counter


def best(calls, repeats):
    """Seconds of each call, the best of `repeats` turns, after one that compiles."""
    for call in calls.values():
        call()
    now = clock()
    times = {name: np.inf for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = now()
            call()
            times[name] = min(times[name], now() - start)
    return times


def rates(calls, samples, repeats):
    """Million samples a second; of the SIMD programs the faster."""
    found = {name: samples / seconds / 1e6 for name, seconds in best(calls, repeats).items()}
    if "simd, wide" in found:
        found["simd"] = max(found["simd"], found.pop("simd, wide"))
    return found


def peers(X, k, *names):
    """Rates of the packages in Python, from a few samples."""
    few = X[0, :300]
    found = best({name: getattr(rivals, name)(few, k) for name in names}, 2)
    return {name: len(few) / seconds / 1e6 for name, seconds in found.items()}


def against_c(shape, repeats, *packages):
    X = rivals.blobs(shape.streams, shape.samples, shape.k, shape.features)
    calls = {"ours": fleet(pipeline(shape.k, shape.clusterer), X), **rivals.c_programs(X, shape.k)}
    return rates(calls, X.shape[0] * X.shape[1], repeats) | peers(X, shape.k, *packages)


def say(label, found, *wanted):
    """Print our rate and its ratios to the others', and whether they are what is wanted."""
    ratios = {name: found["ours"] / rate for name, rate in found.items() if name != "ours"}
    verdict = " ".join("ok" if ratios[n] >= least else "BELOW" for n, least in wanted if n in ratios and least)
    text = "  ".join(f"{name} {found[name]:9.4f} ({ratio:8.2f}×)" for name, ratio in ratios.items())
    print(f"{label!s:48s} ours {found['ours']:7.2f} Ms/s   {text}   {verdict}", flush=True)
    return {"case": str(label), "rates": found, "ratios": ratios}


def table(given):
    """All shapes beside C, river and cvi, and ticks beside river."""
    found, rows = [], []
    for shape in SHAPES:
        packages = ("river", "cvi") if shape.streams == 8192 else ("river",)
        case = say(shape, against_c(shape, given.repeats, *packages), ("scalar", shape.scalar), ("simd", shape.simd))
        found.append(case)
        if shape.listed:
            ratios = case["ratios"]
            beside = " | ".join(f"{ratios[name]:.2g}×" if name in ratios else "" for name in ("scalar", "simd"))
            rows.append(f"| {shape} | {case['rates']['ours']:.3g} | {beside} | {ratios['river']:,.0f}× |")
    about = f"Sequential k-means with XB and DB. {machine()}. `benchmarks/speed.py` measures all of it in one run."
    note = "The C is written by hand and does less: no missing data, no anchor; SIMD C gets its samples transposed."
    text = "\n".join([HEAD, *rows, "", TICKS, *ticks(), "", about, note, ""])
    print(text)
    if given.write:
        write(ROOT / "docs" / "benchmarks.md", text)
        write(ROOT / "README.md", "\n".join([HEAD, rows[0], rows[-1], "", f"{machine()}.", ""]))
    return found


def machine():
    """The processor and how much of it was used."""
    with open("/proc/cpuinfo") as file:
        facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in file)}
    wide = "AVX-512" if "avx512f" in facts["flags"] else "AVX2" if "avx2" in facts["flags"] else "SSE"
    cores = len(os.sched_getaffinity(0))
    return f"{facts['model name']}, {wide}, {'one core, processor time' if CORE in os.environ else f'{cores} cores'}"


def write(path, text):
    """Put `text` between the marks `<!-- speed -->` of a page."""
    block = re.compile("(<!-- speed -->\n).*(<!-- /speed -->)", re.DOTALL)
    path.write_text(block.sub(lambda found: found[1] + text + found[2], path.read_text()))


def scaling(given):
    """By the number of streams and of samples, a million stream-samples a call, then by k and p."""
    found = []
    for name, sizes, least, most in (
        ("N", (64, 1024, 8192, 65536), 0.75, 2**20),
        ("N", (64, 1024, 8192, 65536), 0.75, 2**22),
        ("T", (50, 500, 5000), 0.7, 2**20),
    ):
        calls, samples = {}, {}
        for size in sizes:
            N, T = (size, most // size) if name == "N" else (-(-most // size), size)
            calls[f"{name}={size}"] = fleet(pipeline(10), rivals.blobs(N, T, 10, 2))
            samples[f"{name}={size}"] = N * T
        each = {case: samples[case] / seconds / 1e6 for case, seconds in best(calls, given.repeats).items()}
        spread = min(each.values()) / max(each.values())
        cases = "  ".join(f"{case} {rate:.1f}" for case, rate in each.items())
        verdict = "ok" if spread >= least else "BELOW"
        print(
            f"Ms/s by {name}, {most / 1e6:.0f} million: {cases}   slowest {spread:.2f} ({least})   {verdict}",
            flush=True,
        )
        found.append({"case": f"by {name}, {most}", "rates": each, "ratios": {"slowest of fastest": spread}})
    found += by_streams(given.repeats)
    for k, p in [(2, 2), (5, 2), (16, 2), (4, 1), (4, 4)]:
        shape = Shape(1024, 500, k, p)
        found.append(say(shape, against_c(shape, given.repeats)))
    return found


def by_streams(repeats):
    """Throughput by the number of streams, with C and a plain `jax.vmap`."""
    found = []
    for N, T in {1: 50_000, 64: 5000, 1024: 500, 8192: 200}.items():
        X = rivals.blobs(N, T, 10, 2)
        calls = {"ours": fleet(pipeline(10), X), **rivals.c_programs(X, 10)}
        calls["vmap"] = rivals.vmapped(pipeline(10), X[:1024, :200])
        each = rates(calls, N * T, repeats)
        each["vmap"] *= min(N, 1024) * min(T, 200) / (N * T)
        found.append(say(f"N={N} T={T}", each))
    return found


def picture(given):
    """Draw throughput against the number of streams."""
    import matplotlib.pyplot as plt

    rows = by_streams(given.repeats)
    N = [int(row["case"].split()[0][2:]) for row in rows]
    lines = {"hand-written SIMD C": "simd", "icvi_jax": "ours", "scalar C": "scalar", "jax.vmap of a scan": "vmap"}
    colours = iter(["#999999", "#0072b2", "#000000", "#e69f00", "#009e73", "#cc79a7"])  # for the colour-blind too
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for label, name in lines.items():
        each = [row["rates"].get(name, np.nan) for row in rows]
        axes.loglog(N, each, "o-", color=next(colours), label=label, lw=3 if name == "ours" else 1.5)
    for name, rate in peers(rivals.blobs(1, 300, 10, 2), 10, "river", "cvi").items():
        axes.axhline(rate, ls=":", color=next(colours), label=f"{name}, one stream")
    used = "one core" if CORE in os.environ else f"{len(os.sched_getaffinity(0))} cores"
    title = f"k-means, XB and DB, k = 10, p = 2, {used}"
    axes.set(xlabel="streams", ylabel="million samples a second", title=title)
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(pathlib.Path(__file__).with_name("throughput.png"), dpi=110)
    return rows


def child(code, **environment):
    """What a new process prints as JSON."""
    command, env = [sys.executable, "-c", code], {**os.environ, **environment}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=rivals.HERE, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def held(what):
    """Memory of this process in MB: "VmRSS" now, "VmHWM" at its highest. (`getrusage` also knows the parent's.)"""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith(what))


def memory(given):
    """Peak memory of 65,536 streams beyond input and output, in MB."""
    code = """if True:
        import json, speed, rivals, icvi_jax as icvi
        icvi.run_fleet(speed.pipeline(10), rivals.blobs(64, 20, 10, 2), keep=speed.KEEP)
        X = rivals.blobs(65536, 200, 10, 2)
        before = speed.held("VmRSS")
        run = icvi.run_fleet(speed.pipeline(10), X, keep=speed.KEEP)
        out = sum(a.nbytes for a in (*run.readings.values.values(), run.readings.label))
        beyond = speed.held("VmHWM") - before - out / 1e6
        print(json.dumps({"input MB": X.nbytes / 1e6, "output MB": out / 1e6, "beyond MB": beyond}))
    """
    found = child(code)
    print("memory, N=65536 T=200:", {name: round(value) for name, value in found.items()}, flush=True)
    return found


STARTS = {  # what, the seconds that its first call may take, and those with code of an earlier process
    "k-means, k=10 p=2": ("speed.pipeline(10)", 10, 2, 1.5, 0.5),
    "all indices, k=10 p=2": ("speed.pipeline(10, indices=speed.every_index())", 10, 2, 6, 6),
    "OEC of 16, p=8": ("speed.pipeline(0, icvi.OnlineEllipsoidal(capacity=16))", 8, 8, 3, 3),
    "OEC of 8, p=30": ("speed.pipeline(0, icvi.OnlineEllipsoidal(capacity=8))", 8, 30, 10, 10),
    "k-means, k=64 p=16": ("speed.pipeline(64)", 64, 16, 10, 10),
}


def start(given):
    """Seconds of the first call in a new process, and in a next one that finds the code; imports are not counted."""
    found = {}
    for what, (pipe, k, p, most, again) in STARTS.items():
        code = f"""if True:
            import json, speed, rivals, icvi_jax as icvi
            pipe, X, clock = {pipe}, rivals.blobs(64, 200, {k}, {p}), speed.clock()
            start = clock()
            icvi.run_fleet(pipe, X, keep=speed.KEEP)
            print(json.dumps(clock() - start))
        """
        with tempfile.TemporaryDirectory() as cache:
            took = [child(code, ICVI_CACHE=cache) for _ in range(2)]
        found[what] = dict(zip(("first", "cached"), took))
        verdict = " ".join("ok" if seconds <= limit else "ABOVE" for seconds, limit in zip(took, (most, again)))
        print(f"first call, {what}: {took[0]:.2f} s (at most {most}), cached {took[1]:.2f} s ({again})   {verdict}")
    return found


def cost(X, pipes, repeats, keep):
    """Print the seconds of each pipeline, and their ratio to the first."""
    times = best({name: fleet(pipe, X, keep) for name, pipe in pipes.items()}, repeats)
    first = next(iter(times.values()))
    for name, took in times.items():
        rate = X.shape[0] * X.shape[1] / took / 1e6
        print(f"{name:34} {took * 1e3:8.1f} ms {took / first:5.2f}x {rate:6.2f} Ms/s", flush=True)
    return times


def indices(given):
    """Every index alone, the six cheapest and all of them, compared with XB and DB."""
    X, every = rivals.blobs(1024, 400, 10, 2), {index.name: index for index in every_index()}
    pipes = {"xb + db": pipeline(10), **{name: pipeline(10, indices=(index,)) for name, index in every.items()}}
    times = cost(X, pipes, given.repeats, ("values",))
    cheap = sorted(every, key=times.get)[:6]
    pipes = {"xb + db": pipeline(10), " ".join(cheap): pipeline(10, indices=[every[name] for name in cheap])}
    pipes[f"all {len(every)}"] = pipeline(10, indices=every.values())
    return times | cost(X, pipes, given.repeats, ("values",))


def clusterers(given):
    """Clusterers of 16 slots, compared with plain k-means."""
    parts = {"sk-means, memory 50": icvi.SequentialKMeans(k=16, memory=50.0)}
    parts |= {entry.name: entry.clusterer(**{entry.size: 16}) for entry in icvi.clusterers.catalogue()[1:]}
    parts["merge-split, traffic"] = icvi.MergeSplit(slots=16, traffic=0.5)
    pipes = {"sk-means": pipeline(16), **{name: pipeline(16, part) for name, part in parts.items()}}
    return cost(rivals.blobs(1024, 200, 5, 4), pipes, given.repeats, ("values", "cluster"))


def live_turn(k, streams, rng, keep):
    monitors = {"xb": icvi.Distress()}
    live = icvi.Live(pipeline(k, monitors=monitors), 2, streams, keep=keep)
    samples = rng.normal(size=(20, streams, 2))
    for x in samples:
        live.tick(x)

    def turn(calls):
        start = time.perf_counter()
        for i in range(calls):
            live.tick(samples[i % 20])
        return (time.perf_counter() - start) / calls

    return live, turn


def river_turn(k, rng):
    """river does one sample a call in Python dictionaries; a tick takes one sample of every stream."""
    from river import cluster, metrics

    model, silhouette = cluster.KMeans(n_clusters=k, seed=0), metrics.Silhouette()

    def turn(calls):
        samples = [{0: float(a), 1: float(b)} for a, b in rng.normal(size=(calls, 2))]
        start = time.perf_counter()
        for x in samples:
            model.learn_one(x)
            label = model.predict_one(x)
            silhouette.update(x, label, model.centers)
            silhouette.get()
        return (time.perf_counter() - start) / calls

    return turn


def side_by_side(k, streams, turns, rng):
    """Seconds of a tick, and its ratio to river's samples: of the first decile of the turns, and of the median."""
    _, ours = live_turn(k, streams, rng, icvi.Reading._fields)
    theirs = river_turn(k, rng)
    theirs(50)
    times = np.array([(ours(20), theirs(20)) for _ in range(turns)])
    low, middle = np.quantile(times, (0.1, 0.5), axis=0)
    ratios = low[0] / low[1] / streams, middle[0] / middle[1] / streams
    print(f"k={k:2} streams={streams:5}: tick {low[0] * 1e6:8.1f} µs, river {low[1] * 1e6:6.1f} µs a sample", end="; ")
    print(f"a stream-sample costs {ratios[0]:.4f}× river (first decile), {ratios[1]:.4f}× (median)")
    return low[0], *ratios


def ticks():
    """The rows of live ticks beside river's updates."""
    rng, rows = np.random.default_rng(0), []
    for streams, name in ((1, "one stream"), (1000, "1,000 streams")):
        for k in (3, 10):
            took, ratio, _ = side_by_side(k, streams, 100, rng)
            rows.append(f"| {name}, k = {k} | {took * 1e6:.2g} | {ratio:.2g}× |")
    return rows


def saving(streams, rng, rounds):
    """The share by which a checkpoint beside them slows 100 ticks, from 20 without and 20 with one."""
    live, tick = live_turn(10, streams, rng, ("values", "label", "alarms"))
    with tempfile.TemporaryDirectory() as folder:
        path, times = os.path.join(folder, "states"), []
        for _ in range(rounds):
            plain = 20 * tick(20)
            start = time.perf_counter()
            file = live.save_beside(path)
            asked = time.perf_counter() - start
            beside = 20 * tick(20) + asked
            file.result()
            start = time.perf_counter()
            size = live.save(path).stat().st_size
            times.append((plain, beside, asked, time.perf_counter() - start))
        start = time.perf_counter()
        icvi.Live.load(path, live.pipe)
        loading = time.perf_counter() - start
    plain, beside, asked, alone = np.median(times, axis=0)
    print(f"{streams} streams, k=10, p=2: 100 ticks {5 * plain:.2f} s, a checkpoint alone {alone:.3f} s", end="")
    print(f" ({alone / plain / 5:.1%} of them, {size / 1e6:.1f} MB), loading {loading:.2f} s")
    share = (beside - plain) / plain / 5
    print(f"beside the ticks: {asked * 1e3:.0f} ms to ask for it, and 100 ticks take {share:+.1%} longer")
    return share


def live(given):
    """Ticks compared with river, a checkpoint of 100,000 streams compared with ticks, and their bounds."""
    rng = np.random.default_rng(0)
    lone, many = ([side_by_side(k, streams, 200, rng) for k in (3, 10)] for streams in (1, 1000))
    share = saving(100_000, rng, 5)
    worst = [max(min(ratios) for _, *ratios in found) for found in (lone, many)]
    fine = worst[0] <= 0.5 and worst[1] <= 0.005 and share < 0.1
    print("all within bounds" if fine else "out of bounds (0.5×, 0.005×, 10 %)")
    return {"one": worst[0], "many": worst[1], "checkpoint": share}


PARTS = {part.__name__: part for part in (table, scaling, memory, start, indices, clusterers, live, picture)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--core", action="store_true", help="one core, by its processor time")
    parser.add_argument("--write", action="store_true", help="the table into docs/benchmarks.md and README.md")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json")
    given = parser.parse_args()
    if given.core:
        use_one_core()
    print(f"cores: {len(os.sched_getaffinity(0))}, engine: {os.environ.get('ICVI_BACKEND', 'native')}")
    found = {name: PARTS[name](given) for name in given.parts or PARTS}
    found["peak MB"] = held("VmHWM")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
