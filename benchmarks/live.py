"""Cost of a live tick compared with KMeans and Silhouette of river, and of a checkpoint compared with ticks.

    python benchmarks/live.py [--streams 100000]

Both read float64 samples; ours has XB, DB and a monitor, and shows all fields of a reading. They run in turn in one
process, some samples each, so that a busy machine slows both; quantiles of the turns are compared. river does one
sample a call in Python dictionaries; a tick takes one sample of every stream.
"""

import argparse
import os
import sys
import tempfile
import time

import numpy as np

import icvi_jax as icvi


def pipeline(k):
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k), panel=panel, monitors={"xb": icvi.Distress()})


def river_turn(k, rng):
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


def live_turn(k, streams, rng, keep):
    live = icvi.Live(pipeline(k), 2, streams, keep=keep)
    samples = rng.normal(size=(20, streams, 2))
    for x in samples:
        live.tick(x)

    def turn(calls):
        start = time.perf_counter()
        for i in range(calls):
            live.tick(samples[i % 20])
        return (time.perf_counter() - start) / calls

    return live, turn


def side_by_side(k, streams, turns, rng):
    _, ours = live_turn(k, streams, rng, icvi.Reading._fields)
    theirs = river_turn(k, rng)
    theirs(50)
    times = np.array([(ours(20), theirs(20)) for _ in range(turns)])
    low, middle = np.quantile(times, (0.1, 0.5), axis=0)
    print(f"k={k:2} streams={streams:5}: tick {low[0] * 1e6:8.1f} µs, river {low[1] * 1e6:6.1f} µs a sample", end="; ")
    ratios = low[0] / low[1] / streams, middle[0] / middle[1] / streams
    print(f"a stream-sample costs {ratios[0]:.4f}× river (first decile), {ratios[1]:.4f}× (median)")
    return low[0], *ratios


def saving(streams, rng, rounds):
    """Seconds of 20 ticks without and with a checkpoint written beside them, five times for 100, and of one alone."""
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


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--streams", type=int, default=100_000)
    options.add_argument("--turns", type=int, default=200)
    given = options.parse_args(argv)
    rng = np.random.default_rng(0)
    lone = [side_by_side(k, 1, given.turns, rng) for k in (3, 10)]
    many = [side_by_side(k, 1000, given.turns, rng) for k in (3, 10)]
    share = saving(given.streams, rng, 5)
    worst = [max(min(ratios) for _, *ratios in found) for found in (lone, many)]
    fine = worst[0] <= 0.5 and worst[1] <= 0.005 and share < 0.1
    print("all within bounds" if fine else "out of bounds (0.5×, 0.005×, 10 %)")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
