"""What a scan costs inside your own JAX code: `icvi.scan` and `native_scan` beside `run_fleet` and `lax.scan`.

    python benchmarks/embed.py [ROUNDS] [--write]

k-means (and OEC) with XB and DB, of which only the values are read. All forms of a table are interleaved in one run;
the best of the rounds counts by the clock, and the median by the processor time of all threads: a thread still at
work is not in every reading of that clock. `--write` puts the tables into docs/results/embed.md.
"""

from __future__ import annotations

import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import icvi_jax as icvi

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "results" / "embed.md"
SLOW = 0.05
"""Calls that take so many seconds have `FEW` rounds."""
FEW = 3
COLUMNS = (
    "form",
    "million a second",
    "of the first",
    "million a processor-second",
    "of the first",
    "first call, processor-s",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def pipeline(clusterer, forgetting=0.9):
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=forgetting)
    return icvi.Pipeline(clusterer=clusterer, panel=panel)


def measured(title, n, forms, rounds):
    """A table of what each form does with n samples; `forms` are functions without arguments, by name."""
    first, wall, cpu = {}, {}, {}
    for name, form in forms.items():
        used = time.process_time()
        jax.block_until_ready(form())
        first[name], wall[name], cpu[name] = time.process_time() - used, np.inf, []
    for turn in range(rounds):
        for name, form in forms.items():
            if turn >= FEW and wall[name] > SLOW:
                continue
            start, used = time.perf_counter(), time.process_time()
            jax.block_until_ready(form())
            wall[name] = min(wall[name], time.perf_counter() - start)
            cpu[name].append(time.process_time() - used)
    cpu = {name: float(np.median(used)) for name, used in cpu.items()}
    lines = [f"\n## {title}\n", HEAD]
    base = next(iter(forms))
    for name in forms:
        by_clock, by_cpu = n / wall[name] / 1e6, n / cpu[name] / 1e6
        parts = f"{by_clock:.3g}", f"{wall[base] / wall[name]:.2f}", f"{by_cpu:.3g}", f"{cpu[base] / cpu[name]:.2f}"
        lines.append(f"| {name} | {' | '.join(parts)} | {first[name]:.1f} |")
    print("\n".join(lines), flush=True)
    return lines


def fleets(rounds):
    lines = []
    shapes = [(1024, 500, icvi.SequentialKMeans(k=10), 2), (4096, 300, icvi.SequentialKMeans(k=4), 2)]
    shapes += [(1024, 500, icvi.SequentialKMeans(k=3), 8), (1, 20_000, icvi.SequentialKMeans(k=10), 2)]
    shapes += [(512, 300, icvi.OnlineEllipsoidal(capacity=8), 2)]
    for N, T, clusterer, p in shapes:
        pipe = pipeline(clusterer)
        X = np.random.default_rng(0).normal(size=(N, T, p)).astype(np.float32)
        rows, last = jnp.asarray(X), jnp.asarray(np.ascontiguousarray(np.moveaxis(X, 0, -1)))
        by_rows = jax.jit(jax.vmap(lambda x, pipe=pipe, p=p: icvi.scan(pipe, pipe.init(p), x)[1].values))
        streams_last = jax.jit(lambda x, pipe=pipe, p=p, N=N: icvi.scan(pipe, pipe.init(p, (N,)), x)[1].values)
        by_lax = jax.jit(jax.vmap(lambda x, pipe=pipe, p=p: jax.lax.scan(pipe.step, pipe.init(p), x)[1].values))
        forms = {
            "`run_fleet`": lambda X=X, pipe=pipe: icvi.run_fleet(pipe, X, keep=("values",)).readings.values,
            "`jit(vmap(icvi.scan))`, (N, T, p)": lambda f=by_rows, x=rows: f(x),
            "`jit(icvi.scan)`, (T, p, N)": lambda f=streams_last, x=last: f(x),
            "`jit(vmap(lax.scan(pipe.step)))`": lambda f=by_lax, x=rows: f(x),
        }
        name = f"{type(clusterer).__name__}, {clusterer.slots} slots, p = {p}, {N} × {T}"
        lines += measured(name, N * T, forms, rounds)
    return lines


def numbers(rounds):
    """A λ for each of 16 groups of streams, in one call."""
    X = np.random.default_rng(0).normal(size=(100, 500, 2)).astype(np.float32)
    wide, rows = np.tile(X, (16, 1, 1)), jnp.asarray(X)
    fixed, fades = pipeline(icvi.SequentialKMeans(k=10)), jnp.linspace(0.8, 0.99, 16)

    def one(fade, x):
        pipe = pipeline(icvi.SequentialKMeans(k=10), fade)
        return icvi.scan(pipe, pipe.init(2), x)[1].values

    grid = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))
    forms = {
        "`run_fleet`, 1,600 streams, one λ": lambda: icvi.run_fleet(fixed, wide, keep=("values",)).readings.values,
        "`jit(vmap(vmap(icvi.scan)))`, 16 λ × 100 streams": lambda: grid(fades, rows),
    }
    return measured("Numbers for each stream", 16 * 100 * 500, forms, rounds)


def steps():
    """An encoder before a pipeline, a Kalman filter and an EWMA: name, step, start, features."""
    pipe, rng = pipeline(icvi.SequentialKMeans(k=4)), np.random.default_rng(0)
    W1, W2 = (np.asarray(rng.normal(size=shape) * 0.7, np.float32) for shape in ((4, 2), (2, 4)))

    def encoder(carry, x):
        state, mean = carry
        state, reading = pipe.step(state, W2 @ jnp.tanh(W1 @ x))
        value = jnp.where(jnp.isfinite(reading.values["xb"]), reading.values["xb"], 0.0)
        mean = 0.95 * mean + 0.05 * value
        return (state, mean), mean

    def kalman(carry, x):
        mean, cov = carry
        F = np.asarray([[1, 1], [0, 1]], np.float32)
        mean, cov = F @ mean, F @ cov @ F.T + 0.01 * np.eye(2, dtype=np.float32)
        gain = cov[:, 0] / (cov[0, 0] + 1.0)
        mean = mean + gain * (x[0] - mean[0])
        return (mean, cov - jnp.outer(gain, cov[0])), mean[0]

    def ewma(mean, x):
        mean = 0.9 * mean + 0.1 * x[0]
        return mean, mean

    yield "MLP 2 → 4 → 2, `pipe.step`, EWMA", encoder, (pipe.init(2), jnp.float32(0)), 2
    yield "Kalman filter of two states", kalman, (jnp.zeros(2), jnp.eye(2)), 1
    yield "EWMA", ewma, jnp.float32(0), 1


def bodies(rounds):
    lines = []
    for name, f, init, p in steps():
        X = jnp.asarray(np.random.default_rng(1).normal(size=(1024, 300, p)).astype(np.float32))
        native = jax.jit(jax.vmap(lambda x, f=f, init=init: icvi.native_scan(f, init, x)[1]))
        plain = jax.jit(jax.vmap(lambda x, f=f, init=init: jax.lax.scan(f, init, x)[1]))
        apart = float(np.nanmax(np.abs(native(X) - plain(X)) / (np.abs(plain(X)) + 1e-3)))
        forms = {"`lax.scan`": lambda g=plain, x=X: g(x), "`native_scan`": lambda g=native, x=X: g(x)}
        lines += measured(
            f"{name}: 1,024 × 300 steps, apart by {apart:.0e} at most", X.shape[0] * X.shape[1], forms, rounds
        )
    return lines


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word.isdecimal()]
    rounds = int(given[0]) if given else 7
    lines = [
        "# What a scan costs inside your own JAX code",
        "",
        f"`python benchmarks/embed.py {rounds}`, jax {jax.__version__}.",
    ]
    lines += fleets(rounds) + numbers(rounds) + bodies(10 * rounds)  # calls of less than a millisecond
    if "--write" in sys.argv:
        PAGE.write_text("\n".join(lines) + "\n")
