"""Stream 10⁸ samples through a live fleet in micro-batches, and check memory, values and NaN.

    python tests/slow/soak.py --samples 1e8

Memory is that of the process, as the operating system tells it after each batch. Values after the last sample are
compared with the definition in double precision on a few streams, from all their samples and labels.
"""

import argparse
import os
import sys
import time

import jax
import numpy as np

import icvi_jax as icvi

WATCHED = (0, 1, 2)


def pipeline():
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.999)
    return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel)


def chunk(number, streams, ticks):
    """Three modes that the streams hop between, far from the origin, with a sample in a hundred missing."""
    rng = np.random.default_rng([7, number])
    x = rng.standard_normal((streams, ticks, 2), dtype=np.float32)
    x += 100 + 8 * rng.integers(0, 3, (streams, ticks, 1)).astype(np.float32)
    x[rng.random((streams, ticks)) < 0.01] = np.nan
    return x


def resident():
    """Bytes of memory this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=float, default=1e8)
    options.add_argument("--streams", type=int, default=2048)
    options.add_argument("--ticks", type=int, default=64, help="ticks in a micro-batch")
    given = options.parse_args(argv)
    jax.config.update("jax_enable_x64", True)  # for the definition; the fleet is in single precision
    pipe = pipeline()
    live = icvi.Live(pipe, 2, given.streams, dtype=np.float32, keep=("values", "label", "k"))
    batches = max(8, round(given.samples / given.streams / given.ticks))
    memory, kept, nans, late = [], [], 0, 0
    start = time.perf_counter()
    for number in range(batches):
        x = chunk(number, given.streams, given.ticks)
        reading = live.tick_many(x)
        if number:  # the first holds the warm-up
            nans += sum(int(np.isnan(v).sum()) for v in reading.values.values())
            late += int((reading.k != 3).sum())
        kept.append((x[WATCHED, :], reading.label[WATCHED, :].astype(np.int8)))
        memory.append(resident())
    seconds = time.perf_counter() - start
    samples = batches * given.streams * given.ticks
    quarters = [np.mean(part) for part in np.array_split(memory, 4)]
    growth = quarters[3] / quarters[1] - 1
    centers = live.state.clusterer.centers + live.state.anchor.high
    worst = 0.0
    for row, stream in enumerate(WATCHED):
        X = np.concatenate([x[row] for x, _ in kept]).astype(np.float64)
        labels = np.concatenate([label[row] for _, label in kept])
        exact = icvi.batch(pipe.panel, X, memberships=np.eye(4)[labels, :3], centers=centers[..., stream].astype(float))
        for name, value in reading.values.items():
            worst = max(worst, abs(float(value[stream, -1]) / float(exact[name]) - 1))
    rate = samples / seconds / 1e6
    print(f"{samples:.3g} samples in {seconds:.0f} s ({rate:.2f} million a second), {batches} batches")
    sizes = ", ".join(f"{q / 1e6:.1f}" for q in quarters)
    print(f"memory by quarters: {sizes} MB; from the second to the last {growth:+.2%}")
    print(f"NaN: {nans}; readings without three clusters: {late}; worst difference from the definition {worst:.1e}")
    fine = growth < 0.01 and nans == 0 and late == 0 and worst < 1e-3
    print("all within bounds" if fine else "out of bounds")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
