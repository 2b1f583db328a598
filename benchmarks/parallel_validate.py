"""Validation of one long recording: a plain scan against time cut into lanes.

python benchmarks/parallel_validate.py
"""

import argparse
import time

import jax
import numpy as np

import icvi_jax as icvi


def timed(panel, X, repeats, **clustering):
    def once():
        start, busy = time.perf_counter(), time.process_time()
        values = jax.block_until_ready(icvi.validate(panel, X, **clustering))
        return time.perf_counter() - start, time.process_time() - busy, values

    once()
    runs = [once() for _ in range(repeats)]
    return min(run[0] for run in runs), min(run[1] for run in runs), runs[0][2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10**6)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="all indices instead of Xie–Beni and Davies–Bouldin")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    n, k, p = options.samples, options.k, options.features
    rng = np.random.default_rng(0)
    V = 10 * rng.normal(size=(k, p))
    labels = np.concatenate([np.arange(k), rng.integers(0, k, size=n - k)])
    X = jax.numpy.asarray(V[labels] + rng.normal(size=(n, p)))
    moving = jax.numpy.asarray(V + np.cumsum(1e-3 * rng.normal(size=(n, k, p)), axis=0))
    U = jax.nn.softmax(-0.5 * jax.numpy.sum((X[:, None, :] - moving) ** 2, axis=2), axis=1)
    indices = [icvi.XieBeni(), icvi.DaviesBouldin()]
    if options.all:
        indices = [e.index() for e in icvi.indices.catalogue() if not e.grouped]
    print(f"{n} samples, k = {k}, p = {p}, float64, {len(indices)} indices")
    for name, clustering in (("labels", {"labels": labels}), ("memberships", {"memberships": U, "centers": moving})):
        for lam in (1.0, 0.999):
            panel = icvi.Panel(indices=tuple(indices), forgetting=lam)
            plain, plain_busy, want = timed(panel, X, options.repeats, **clustering)
            fast, fast_busy, got = timed(panel, X, options.repeats, **clustering, parallel=True)
            off = max(
                float(np.nanmax(np.abs(np.asarray(got[i]) - want[i]) / (1e-9 + np.abs(np.asarray(want[i])))[...]))
                for i in want
            )
            print(
                f"{name:12} λ = {lam:<6} scan {plain:6.2f} s   parallel {fast:6.2f} s   {plain / fast:4.1f}x faster   "
                f"(processor {plain_busy:5.2f} and {fast_busy:5.2f} s, {plain_busy / fast_busy:4.1f}x)   "
                f"largest relative difference {off:.1e}"
            )


if __name__ == "__main__":
    main()
