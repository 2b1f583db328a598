"""Native code compared with XLA on random pipelines and streams.

    python benchmarks/native_fuzz.py [cases] [seed]        default 2000 cases

Each structure of a pipeline (clusterer, indices, monitors, scaling) is compiled once by both; each case has numbers and
streams of its own: with holes, huge and tiny, quantised, constant, drifting, in float32 or float64. Rounding can decide
a tie between two clusters differently; from there on two right answers differ. So a stream is compared up to the first
sample whose label differs, and how many streams had one is told. Where a stream's values are ill-conditioned,
as with the covariance of two members or centres that nearly coincide, native code may be ten times as far from XLA as
XLA is, somewhere in that stream, from NumPy in double precision.
"""

import os
import sys
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np

import icvi_jax as icvi
from icvi_jax.engine.native.program import compile_step

STREAMS, STEPS = 6, 60
TOLERANCE = {"f": 5e-3, "d": 1e-7}


def step(pipe, state, z):
    state, reading = pipe.step(state, z)
    return state, (reading.values, reading.label, reading.alarms)


def structure(rng):
    """A pipeline's kind: what is compiled."""
    catalogue = [entry.index for entry in icvi.indices.catalogue() if not entry.grouped]
    indices = [icvi.XieBeni] + [catalogue[i] for i in rng.choice(len(catalogue), 3, replace=False)]
    p = int(rng.integers(1, 5))
    k = int(rng.integers(1, 6))
    memory = float(rng.choice([np.inf, 20.0]))
    clusterer = {
        "k-means": lambda: icvi.SequentialKMeans(k=k, memory=memory, seeding=str(rng.choice(["first", "distinct"]))),
        "ellipsoids": lambda: icvi.OnlineEllipsoidal(capacity=int(rng.integers(2, 5)), memory=memory),
        "fuzzy": lambda: icvi.FuzzyCMeans(k=k),
        "rebirth": lambda: icvi.RebirthKMeans(k=k),
        "merge and split": lambda: icvi.MergeSplit(slots=int(rng.integers(2, 5))),
    }[
        str(
            rng.choice(
                ["k-means", "k-means", "k-means", "ellipsoids", "ellipsoids", "fuzzy", "rebirth", "merge and split"]
            )
        )
    ]()
    monitor = [None, icvi.PageHinkley(), icvi.Distress(), icvi.Distress(false_alarms=1e-2)][int(rng.integers(0, 4))]
    change = {"change": icvi.Change(false_alarms=1e-2, silent=20)} if rng.random() < 0.3 else {}
    return {
        "p": p,
        "clusterer": clusterer,
        "indices": tuple(index() for index in dict.fromkeys(indices)),
        "monitors": change | ({} if monitor is None else {"xb": monitor}),
        "standardize": icvi.Standardize() if rng.random() < 0.3 else None,
        "dtype": np.dtype(rng.choice(["f4", "f8"])),
        "loops": bool(rng.random() < 0.3),
    }


def pipeline(kind, forgetting):
    parts = {name: kind[name] for name in ("clusterer", "monitors", "standardize")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return icvi.Pipeline(panel=icvi.Panel(indices=kind["indices"], forgetting=forgetting), **parts)


def samples(rng, p):
    """Streams of many kinds."""
    shape = STREAMS, STEPS, p
    X = rng.normal(size=(STREAMS, 3, p))[np.arange(STREAMS)[:, None], rng.integers(0, 3, shape[:2])] * 8
    X = X + rng.normal(size=shape)
    X *= 10.0 ** rng.integers(-6, 7, (STREAMS, 1, 1))
    for s in range(STREAMS):
        how = rng.integers(0, 7)
        if how == 0:
            X[s] = np.round(X[s] / np.abs(X[s]).max() * 4)
        elif how == 1:
            X[s] = X[s, :1]
        elif how == 2:
            X[s, rng.random(STEPS) < 0.3] = np.nan
        elif how == 3:
            X[s, rng.integers(0, STEPS)] *= 1e12
        elif how == 4:
            X[s] += 100 * np.abs(X[s]).max()
        elif how == 5:
            X[s, rng.integers(0, STEPS)] = np.inf
    return X


class Both:
    """One structure, compiled by both."""

    def __init__(self, kind):
        self.kind, p = kind, kind["p"]
        with jax.enable_x64(kind["dtype"] == np.float64):
            pipe = pipeline(kind, 0.9)
            init = pipe.init(p, dtype=kind["dtype"])
            self.program = compile_step(step, pipe, init, p, kind["dtype"], loops=kind["loops"] or None)
        self.scan = jax.jit(lambda pipe, s, X: jax.lax.scan(lambda s, x: step(pipe, s, x), s, X))

    def compare(self, rng):
        """The largest difference in units of the tolerance, streams whose labels part, and values compared."""
        kind = self.kind
        pipe = pipeline(kind, float(rng.choice([1.0, 0.99, 0.9, 0.5, rng.uniform(0.3, 1)])))
        X = samples(rng, kind["p"]).astype(kind["dtype"])
        with jax.enable_x64(kind["dtype"] == np.float64):
            start = pipe.init(kind["p"], (STREAMS,), dtype=kind["dtype"])
            words = self.program.words(start)
            got = self.program.tree(self.program.run(words, self.program.numbers(pipe), X))
            _, true = self.scan(pipe, start, jnp.asarray(X.transpose(1, 2, 0)))
        true = jax.tree.map(lambda a: np.moveaxis(np.asarray(a), -1, 0), true)
        parted = (got[1] != true[1]).cumsum(1) > 0
        worst = self.worst(got[0], true[0], parted)
        if worst > 1:
            right = icvi.run_fleet(pipe, X.astype(float), backend="numpy").readings
            slack = {name: rounding(b, np.asarray(right.values[name])) for name, b in true[0].items()}
            worst = self.worst(got[0], true[0], parted | ((np.asarray(right.label) != true[1]).cumsum(1) > 0), slack)
        return worst, int(parted.any(1).sum()), int((~parted).sum())

    def worst(self, got, true, parted, slack=None):
        """The largest difference between values before streams parted, in units of the tolerance."""
        worst = 0.0
        for name, a in got.items():
            b = true[name]
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | parted
            with np.errstate(all="ignore"):
                size = np.nanmedian(np.where(np.isfinite(b), np.abs(b), np.nan), axis=1, keepdims=True)
                room = TOLERANCE[self.kind["dtype"].char] * (np.abs(b) + np.nan_to_num(size))
                room = room if slack is None else room + np.nan_to_num(slack[name])
                error = np.where(same, 0, np.abs(a - b) / room)
            worst = max(worst, float(np.where(np.isnan(error) & ~same, np.inf, error).max()))
        return worst


def rounding(a, right):
    """How far two right answers (N, T) may be apart: ten times the largest relative error of a in each stream."""
    with np.errstate(all="ignore"):
        error = np.abs(a - right) / np.abs(right)
    return 10 * np.where(np.isfinite(error), error, 0).max(1, keepdims=True) * np.abs(a)


def fuzz(cases, seed, each=20):
    """Compare `cases` cases, `each` of one structure; returns what was bad, streams that parted, streams in all."""
    rng = np.random.default_rng(seed)
    bad, parted, total = [], 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(-(-cases // each)):
            kind = structure(rng)
            both = Both(kind)
            for _ in range(each):
                worst, apart, _ = both.compare(rng)
                parted, total = parted + apart, total + STREAMS
                if worst > 1:
                    bad.append((number, worst, kind))
    return bad, parted, total


if __name__ == "__main__":
    cases, seed = (int(a) for a in (sys.argv[1:] + ["2000", "0"])[:2]) if len(sys.argv) != 2 else (int(sys.argv[1]), 0)
    bad, parted, total = fuzz(cases, seed)
    for number, worst, kind in bad[:20]:
        print(f"structure {number}: {worst:.1f} times the tolerance, {kind}")
    print(f"{cases} cases, {total} streams: {len(bad)} cases beyond the tolerance, {parted} streams parted by a tie")
