"""Helpers for tests of fleets: a recording with missing samples, and its streams one by one."""

import jax
import numpy as np

import icvi_jax as icvi
from icvi_jax.engine.xla import loop

FIELDS = icvi.Reading._fields


def pipeline(k=3, forgetting=0.9, **more):
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=forgetting)
    return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k, **more), panel=panel, monitors={"xb": icvi.Distress()})


def recording(N=21, T=45, p=2, seed=0, dtype=np.float32):
    """Clusters with missing samples, late starts, early ends, and a stream without any sample."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 1, p)) * 50 + rng.integers(0, 3, (N, T, 1)) * 5 + rng.normal(size=(N, T, p))
    X[rng.random((N, T)) < 0.1] = np.nan
    X[1, : T // 3], X[2, T // 2 :], X[3] = np.nan, np.nan, np.nan
    X[0, 7, 0] = np.inf
    return X.astype(dtype)


def same(a, b, rtol=1e-4, atol=1e-4):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(np.asarray(x, float), np.asarray(y, float), rtol=rtol, atol=atol)


def plain_loop(pipe, X, elapsed=None, every=1):
    """One call of the step a sample, in NumPy."""
    state = pipe.init(X.shape[2], (len(X),), xp=np, dtype=X.dtype)
    gaps = None if elapsed is None else np.asarray(elapsed, X.dtype).T
    state, readings = loop(lambda pipe, *now: pipe.step(*now), pipe, state, X.transpose(1, 2, 0), gaps, every)
    return icvi.Run(state, jax.tree.map(lambda a: np.moveaxis(a, -1, 0), readings))
