"""Fleets and single streams compared with hand-written C, `jax.vmap`, river and cvi: ratios measured in the same run.

    python benchmarks/fleet.py [targets] [scaling] [memory] [start] [--core] [--repeats 5] [--json FILE]

All parts unless named. NumPy in, NumPy out, compilation not counted; k-means, XB and DB, forgetting 0.9, float32, with
missing data, anchor and exact warm-up. The C programs do less: no missing data, no anchor. Rivals take turns and the
best of the turns counts, so that a busy machine slows all of them. `--core` goes further, for machines that others use:
one core, and the clock is that of its processor time. `ICVI_BACKEND=xla` measures the fallback.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import rivals

import icvi_jax as icvi

KEEP = ("values", "label")
CORE = "ICVI_BENCHMARK_CORE"  # in the environment: processor time of one core counts
TARGETS = [  # N, T, k, p, and how many times the scalar and the SIMD C it shall be
    (1024, 1000, 10, 2, 3, 0.5),
    (8192, 200, 10, 2, 3, 0.5),
    (4096, 300, 4, 2, 2.5, 0.4),
    (1024, 1000, 3, 8, 1.2, 0),
    (1024, 300, 32, 2, 2, 0),
    (1024, 500, 4, 16, 0, 0),
]
SAMPLES = 2**20  # stream-samples of a call in the comparison of N with N and of T with T


def pipeline(k, clusterer=None):
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=rivals.FORGETTING)
    return icvi.Pipeline(clusterer=clusterer or icvi.SequentialKMeans(k=k), panel=panel)


def fleet(pipe, X, **how):
    return lambda: icvi.run_fleet(pipe, X, keep=KEEP, **how)


def one_core():
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


def row(label, found, *wanted):
    ours = found["ours"]
    ratios = {name: ours / rate for name, rate in found.items() if name != "ours"}
    verdict = " ".join("ok" if ratios[n] >= least else "BELOW" for n, least in wanted if n in ratios and least)
    rivals_text = "  ".join(f"{name} {found[name]:9.4f} ({ratio:8.2f}×)" for name, ratio in ratios.items())
    print(f"{label:28s} ours {ours:7.2f} Ms/s   {rivals_text}   {verdict}", flush=True)
    return {"case": label, "rates": found, "ratios": ratios}


def targets(repeats):
    """Compared with C, river and cvi, with the targets."""
    table = []
    for N, T, k, p, scalar, simd in TARGETS:
        X = rivals.blobs(N, T, k, p)
        found = rates({"ours": fleet(pipeline(k), X), **rivals.c_programs(X, k)}, N * T, repeats)
        if (N, k) == (8192, 10):
            few = X[0, :300]
            peers = best({"river": rivals.river(few, k), "cvi": rivals.cvi(few, k)}, 2)
            found |= {name: len(few) / seconds / 1e6 for name, seconds in peers.items()}
        table.append(row(f"N={N} k={k} p={p}", found, ("scalar", scalar), ("simd", simd)))
    X = rivals.blobs(1, 200_000, 10, 2)
    calls = {"ours": lambda: icvi.run(pipeline(10), X[0], keep=KEEP), **rivals.c_programs(X, 10)}
    found = rates(calls, X.shape[1], repeats)
    found["river"] = 300 / best({"river": rivals.river(X[0, :300], 10)}, 2)["river"] / 1e6
    table.append(row("one stream, run, k=10", found, ("scalar", 0.8)))
    X = rivals.blobs(1024, 500, 8, 2)
    calls = {"ours": fleet(pipeline(8, icvi.OnlineEllipsoidal(capacity=8)), X), **rivals.c_programs(X, 8)}
    table.append(row("OEC of 8 by k-means in C", rates(calls, X.shape[0] * X.shape[1], repeats), ("scalar", 1)))
    X = rivals.blobs(1024, 200, 10, 2)
    calls = {"ours": fleet(everything(10), X), "xb and db": fleet(pipeline(10), X)}
    table.append(row("all indices of 0.1.0", rates(calls, X.shape[0] * X.shape[1], repeats), ("xb and db", 0.2)))
    return table


def everything(k):
    """All 21 indices of 0.1.0."""
    later = ("conn", "osil")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        indices = tuple(e.index() for e in icvi.indices.catalogue() if e.index().name not in later)
        panel = icvi.Panel(indices=indices, forgetting=rivals.FORGETTING)
        return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k), panel=panel)


def scaling(repeats):
    """Throughput against N and T, a million stream-samples a call, then against k and p."""
    table = []
    for name, sizes, least, most in (
        ("N", (64, 1024, 8192, 65536), 0.75, SAMPLES),
        ("N", (64, 1024, 8192, 65536), 0.75, 4 * SAMPLES),
        ("T", (50, 500, 5000), 0.7, SAMPLES),
    ):
        calls, samples = {}, {}
        for size in sizes:
            N, T = (size, most // size) if name == "N" else (-(-most // size), size)
            calls[f"{name}={size}"] = fleet(pipeline(10), rivals.blobs(N, T, 10, 2))
            samples[f"{name}={size}"] = N * T
        found = {case: samples[case] / seconds / 1e6 for case, seconds in best(calls, repeats).items()}
        spread = min(found.values()) / max(found.values())
        verdict = "ok" if spread >= least else "BELOW"
        cases = "  ".join(f"{case} {rate:.1f}" for case, rate in found.items())
        print(
            f"Ms/s by {name}, {most / 1e6:.0f} million a call: {cases}   slowest {spread:.2f} ({least})   {verdict}",
            flush=True,
        )
        table.append({"case": f"by {name}, {most}", "rates": found, "ratios": {"slowest of fastest": spread}})
    table += by_streams(repeats)
    for k, p in [(2, 2), (5, 2), (16, 2), (4, 1), (4, 4)]:
        X = rivals.blobs(1024, 500, k, p)
        found = rates({"ours": fleet(pipeline(k), X), **rivals.c_programs(X, k)}, X.shape[0] * X.shape[1], repeats)
        table.append(row(f"N=1024 T=500 k={k} p={p}", found))
    return table


def by_streams(repeats):
    """Throughput by the number of streams, with C and a plain `jax.vmap`."""
    table = []
    for N in (1, 64, 1024, 8192):
        T = {1: 50_000, 64: 5000, 1024: 500, 8192: 200}[N]
        X = rivals.blobs(N, T, 10, 2)
        calls = {"ours": fleet(pipeline(10), X), **rivals.c_programs(X, 10)}
        calls["vmap"] = rivals.vmapped(pipeline(10), X[:1024, :200])
        found = rates(calls, N * T, repeats)
        found["vmap"] *= min(N, 1024) * min(T, 200) / (N * T)
        table.append(row(f"N={N} T={T}", found))
    return table


def child(code, **environment):
    """What a new process prints as JSON."""
    command, env = [sys.executable, "-c", code], {**os.environ, **environment}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=rivals.HERE, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def held(what):
    """Memory of this process in MB: "VmRSS" now, "VmHWM" at its highest. (`getrusage` also knows the parent's.)"""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith(what))


def memory(repeats):
    """Peak memory of 65,536 streams beyond input and output, in MB."""
    code = """if True:
        import json, fleet, rivals, icvi_jax as icvi
        icvi.run_fleet(fleet.pipeline(10), rivals.blobs(64, 20, 10, 2), keep=fleet.KEEP)
        X = rivals.blobs(65536, 200, 10, 2)
        before = fleet.held("VmRSS")
        run = icvi.run_fleet(fleet.pipeline(10), X, keep=fleet.KEEP)
        out = sum(a.nbytes for a in (*run.readings.values.values(), run.readings.label))
        beyond = fleet.held("VmHWM") - before - out / 1e6
        print(json.dumps({"input MB": X.nbytes / 1e6, "output MB": out / 1e6, "beyond MB": beyond}))
    """
    found = child(code)
    print("memory, N=65536 T=200:", {name: round(value) for name, value in found.items()}, flush=True)
    return found


STARTS = {  # what, the seconds that its first call may take, and those with code of an earlier process
    "k-means, k=10 p=2": ("fleet.pipeline(10)", 10, 2, 1.5, 0.5),
    "all indices of 0.1.0, k=10 p=2": ("fleet.everything(10)", 10, 2, 6, 6),
    "OEC of 16, p=8": ("fleet.pipeline(0, icvi.OnlineEllipsoidal(capacity=16))", 8, 8, 3, 3),
    "OEC of 8, p=30": ("fleet.pipeline(0, icvi.OnlineEllipsoidal(capacity=8))", 8, 30, 10, 10),
    "k-means, k=64 p=16": ("fleet.pipeline(64)", 64, 16, 10, 10),
}


def start(repeats):
    """Seconds of the first call in a new process, and in a next one that finds the code; imports are not counted."""
    found = {}
    for what, (pipe, k, p, most, again) in STARTS.items():
        code = f"""if True:
            import json, fleet, rivals, icvi_jax as icvi
            pipe, X, clock = {pipe}, rivals.blobs(64, 200, {k}, {p}), fleet.clock()
            start = clock()
            icvi.run_fleet(pipe, X, keep=fleet.KEEP)
            print(json.dumps(clock() - start))
        """
        with tempfile.TemporaryDirectory() as cache:
            took = [child(code, ICVI_CACHE=cache) for _ in range(2)]
        found[what] = dict(zip(("first", "cached"), took))
        verdict = " ".join("ok" if seconds <= limit else "ABOVE" for seconds, limit in zip(took, (most, again)))
        print(f"first call, {what}: {took[0]:.2f} s (at most {most}), cached {took[1]:.2f} s ({again})   {verdict}")
    return found


def main():
    parts = {"targets": targets, "scaling": scaling, "memory": memory, "start": start}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*parts, []])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--core", action="store_true")
    chosen = parser.parse_args()
    if chosen.core:
        one_core()
    print(f"cores: {len(os.sched_getaffinity(0))}, engine: {os.environ.get('ICVI_BACKEND', 'native')}")
    found = {name: parts[name](chosen.repeats) for name in chosen.parts or parts}
    found["peak MB"] = held("VmHWM")
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
