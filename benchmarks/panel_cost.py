"""Cost of a panel: all indices, and the six cheapest, compared with Xie–Beni and Davies–Bouldin in a fleet on all
cores.

    python benchmarks/panel_cost.py [--each]

Panels take turns and the best of the turns counts, so that a busy machine slows all of them.
"""

import argparse

import fleet
import numpy as np

import icvi_jax as icvi

CHEAP = "pc pe wb hartigan xu rmsstd".split()
"""The six that took the least alone, when `--each` was last run."""


def watch(indices, X, k):
    panel = icvi.Panel(indices=tuple(indices), forgetting=0.99)
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k), panel=panel)
    return lambda: icvi.run_fleet(pipe, X, keep=("values",))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
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
    entries = [entry for entry in icvi.indices.catalogue() if not entry.grouped]
    everything = [entry.index() for entry in entries]
    panels = {"xb + db": [icvi.XieBeni(), icvi.DaviesBouldin()]}
    cheap = CHEAP
    if options.each:
        alone = {entry.name: watch([entry.index()], X, k) for entry in entries}
        times = fleet.best(alone, options.repeats)
        for name, took in times.items():
            print(f"{name:34} {took * 1e3:8.1f} ms")
        cheap = sorted(times, key=times.get)[:6]
    panels[f"six of the cheapest: {' '.join(cheap)}"] = [index for index in everything if index.name in cheap]
    panels[f"all {len(everything)}"] = everything
    print(f"fleet of {streams}, {samples} samples each, k = {k}, p = {options.features}, float32")
    times = fleet.best({name: watch(indices, X, k) for name, indices in panels.items()}, options.repeats)
    for name, took in times.items():
        ratio, rate = took / times["xb + db"], streams * samples / took / 1e6
        print(f"{name:34} {took * 1e3:8.1f} ms {ratio:5.2f}x {rate:6.2f} M/s")


if __name__ == "__main__":
    main()
