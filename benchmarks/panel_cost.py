"""What a panel costs: all indices, and the six cheapest, against Xie–Beni and Davies–Bouldin in a fleet.

    python benchmarks/panel_cost.py
"""

import argparse
import time

import jax
import numpy as np

import icvi_jax as icvi


def seconds(indices, X, k, repeats):
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=k), panel=icvi.Panel(indices=tuple(indices), forgetting=0.99)
    )

    def once():
        start, busy = time.perf_counter(), time.process_time()
        jax.block_until_ready(icvi.run_fleet(pipe, X, keep=("values",)).readings.values)
        return time.perf_counter() - start, time.process_time() - busy

    compiled = once()[0]
    runs = [once() for _ in range(repeats)]
    return min(run[0] for run in runs), min(run[1] for run in runs), compiled


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--each", action="store_true", help="time every index alone too")
    options = parser.parse_args()
    k, streams, samples = options.k, options.streams, options.samples
    rng = np.random.default_rng(0)
    modes = 10 * rng.normal(size=(streams, k, options.features))
    which = np.concatenate(
        [np.tile(np.arange(k), (streams, 1)), rng.integers(0, k, size=(streams, samples - k))], axis=1
    )
    X = np.take_along_axis(modes, which[:, :, None], axis=1) + rng.normal(size=(streams, samples, options.features))
    X = X.astype(np.float32)
    entries = icvi.indices.catalogue()
    everything = [entry.index() for entry in entries]
    pair = [icvi.XieBeni(), icvi.DaviesBouldin()]
    print(f"fleet of {streams}, {samples} samples each, k = {k}, p = {options.features}, float32")
    base = None

    def report(name, indices):
        nonlocal base
        took, busy, compiled = seconds(indices, X, k, options.repeats)
        base = (took, busy) if base is None else base
        rate = streams * samples / took / 1e6
        print(
            f"{name:34} {took * 1e3:8.1f} ms {took / base[0]:5.2f}x {rate:6.2f} M/s   "
            f"processor {busy * 1e3:8.1f} ms {busy / base[1]:5.2f}x   first call {compiled:5.1f} s"
        )
        return busy

    report("xb + db", pair)
    cheap = "xb wb ch r2 fs bh".split()
    if options.each:
        alone = {entry.name: report(entry.name, [entry.index()]) for entry in entries}
        cheap = sorted(alone, key=alone.get)[:6]
    report(f"six cheapest: {' '.join(cheap)}", [index for index in everything if index.name in cheap])
    report(f"all {len(everything)}", everything)


if __name__ == "__main__":
    main()
