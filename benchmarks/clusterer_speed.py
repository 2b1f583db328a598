"""Cost per sample of clusterers in a compiled fleet, in processor time, all in turns in one run."""

import time

import numpy as np

import icvi_jax as icvi
from icvi_jax.engine.native.program import compile_step

STREAMS, SAMPLES, FEATURES, ROUNDS = 1024, 50, 4, 15


def step(pipe, state, z):
    """What is compiled: a step that gives values and names."""
    state, reading = pipe.step(state, z)
    return state, (reading.values, reading.cluster)


def speed(clusterers):
    """Print million samples a second on two cores: XB and DB, and the ratio of k-means with memory to plain."""
    rng = np.random.default_rng(0)
    homes = 6 * rng.normal(size=(STREAMS, 5, FEATURES))
    mode = rng.integers(0, 5, (STREAMS, SAMPLES))[:, :, None]
    X = (np.take_along_axis(homes, mode, axis=1) + rng.normal(size=(STREAMS, SAMPLES, FEATURES))).astype(np.float32)
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    plain, faded = "sk-means, k = 16", "sk-means, k = 16, memory 50"
    parts = {plain: icvi.SequentialKMeans(k=16), faded: icvi.SequentialKMeans(k=16, memory=50.0), **clusterers}
    calls = {}
    for name, clusterer in parts.items():
        pipe = icvi.Pipeline(clusterer=clusterer, panel=panel)
        clock = time.process_time()
        program = compile_step(step, pipe, pipe.init(FEATURES), FEATURES, np.dtype("f4"))
        compiled = time.process_time() - clock
        start = program.words(pipe.init(FEATURES, (STREAMS,), xp=np, dtype=np.float32))
        calls[name] = program, start, program.numbers(pipe), program.outputs(STREAMS, SAMPLES), compiled
    best = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):  # in turns: a busy machine is busy for all
        for name, (program, start, numbers, out, _) in calls.items():
            clock = time.process_time()
            program.run(start.copy("K"), numbers, X, out=out, threads=1)
            best[name] = min(best[name], time.process_time() - clock)
    for name, took in best.items():
        rate, compiled = 2 * STREAMS * SAMPLES / took / 1e6, calls[name][-1]
        print(f"{name:30s}{rate:8.2f} million samples a second on two cores; compiled in {compiled:.1f} s")
    print(f"with memory / plain: {best[faded] / best[plain]:.3f} of the time")
