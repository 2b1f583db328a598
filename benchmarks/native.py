"""Native code compared with hand-written C in the same run: million stream-samples a second, NumPy in and out.

    python benchmarks/native.py [k,p,N,T …]        default: the table below; "oec:8,2,1024,500" for ellipsoidal clusters

C is that of ../shared/limit (or of ICVI_SHARED): k-means with XB and DB, `scalar` one stream at a time, `simd` streams
across lanes with samples already in its own layout. Calls take turns, so that a busy machine is busy for all. With
`--core` one thread does it, and the clock is that of its processor time: for machines that others use, too.
"""

import ctypes
import os
import pathlib
import sys
import tempfile
import time
import warnings

import numpy as np

import icvi_jax as icvi
from icvi_jax.engine.native.build import lanes_of
from icvi_jax.engine.native.program import compile_step

CORE = "--core" in sys.argv
if CORE:
    os.environ["OMP_NUM_THREADS"] = "1"
SHARED = pathlib.Path(os.environ.get("ICVI_SHARED", pathlib.Path(__file__).parents[2] / "shared"))
TABLE = [
    "10,2,1024,500",
    "4,2,4096,500",
    "3,8,1024,500",
    "4,16,1024,300",
    "2,2,1024,1000",
    "32,2,1024,100",
    "oec:8,2,1024,200",
    "21:10,2,1024,100",
]

WIDTH = lanes_of(np.dtype("f4"))
now = time.thread_time if CORE else time.perf_counter


def step(pipe, state, z):
    state, reading = pipe.step(state, z)
    return state, reading.values


def native(kind, k, p, X):
    clusterer = icvi.OnlineEllipsoidal(capacity=k) if kind == "oec" else icvi.SequentialKMeans(k=k, warmup="paper")
    every = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.grouped)
    indices = every if kind == "21" else (icvi.XieBeni(), icvi.DaviesBouldin())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=indices, forgetting=0.9))
    clock = time.perf_counter()
    program = compile_step(step, pipe, pipe.init(p), p, np.dtype("f4"))
    first = time.perf_counter() - clock
    start, numbers = program.words(pipe.init(p, (len(X),), xp=np, dtype=np.float32)), program.numbers(pipe)
    out = program.outputs(*X.shape[:2])
    return first, lambda: program.run(start.copy("K"), numbers, X, out=out, threads=1 if CORE else None)


def rivals(k, X):
    sys.path.append(str(SHARED / "limit"))
    import limit

    N, T, p = X.shape
    lanes = np.ascontiguousarray(X.transpose(1, 2, 0))
    out = np.empty((2, N * T), np.float32)
    pointer, number = (lambda a: a.ctypes.data_as(ctypes.c_void_p)), ctypes.c_long
    scalar = limit.build("scalar.c")
    with tempfile.TemporaryDirectory() as folder:  # with as many lanes as this processor has: gcc is slow with others
        source = pathlib.Path(folder) / "simd.c"
        source.write_text((SHARED / "limit" / "simd.c").read_text().replace("#define W 16", f"#define W {WIDTH}"))
        simd = limit.build(source, f"-DK={k}", f"-DP={p}")
    sizes, fade, to = (number(N), number(T)), ctypes.c_float(0.9), (pointer(out[0]), pointer(out[1]))
    return {
        "simd": lambda: simd.run(pointer(lanes), *sizes, fade, *to),
        "scalar": lambda: scalar.run(pointer(X), *sizes, number(k), number(p), fade, *to),
    }


def row(text, repeats=7):
    kind, _, sizes = text.rpartition(":")
    k, p, N, T = map(int, sizes.split(","))
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(N, k, p)) * 10
    X = (centres[np.arange(N)[:, None], rng.integers(0, k, (N, T))] + rng.normal(size=(N, T, p))).astype(np.float32)
    first, call = native(kind, k, p, X)
    calls = {"native": call, **rivals(k, X)}
    best = dict.fromkeys(calls, np.inf)
    for _ in range(repeats):
        for name, function in calls.items():
            clock = now()
            function()
            best[name] = min(best[name], now() - clock)
    rate = {name: N * T / took / 1e6 for name, took in best.items()}
    ratios = f"{rate['native'] / rate['simd']:.2f}x SIMD, {rate['native'] / rate['scalar']:.2f}x scalar"
    rates = "  ".join(f"{name} {value:7.2f}" for name, value in rate.items())
    print(f"{text:18s} {rates}   {ratios}   first call {first:.2f} s", flush=True)


if __name__ == "__main__":
    for text in [a for a in sys.argv[1:] if a != "--core"] or TABLE:
        row(text)
