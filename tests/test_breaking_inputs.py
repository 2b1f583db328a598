"""Inputs on which other packages break, each on every index."""

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.testing import backend

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.grouped)
RIDGED = ("ni", "rcip", "rh")  # a covariance has a fixed ridge, so these depend on the unit of the samples
K, P, N = 3, 2, 40


def recording(k=K, n=N, seed=0):
    rng = np.random.default_rng(seed)
    V = 5 * rng.normal(size=(k, P))
    labels = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return V[labels] + rng.normal(size=(n, P)), np.eye(k)[labels], V + 0.1 * rng.normal(size=(n, k, P))


def run(X, U, V, dtype=np.float64, indices=ALL, forgetting=1.0):
    panel = icvi.Panel(indices=indices, forgetting=forgetting)
    state = panel.init(U.shape[1], X.shape[1], xp=np, dtype=dtype)
    for x, u, v in zip(X, U, V):
        state, values = panel.step(state, x, u, v)
    return {name: float(value) for name, value in values.items()}


def same(got, want, tolerance, but=()):
    for name in want:
        if name not in but:
            np.testing.assert_allclose(got[name], want[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_one_bad_sample_changes_nothing(bad):
    X, U, V = recording()
    clean = run(X, U, V)
    X, U, V = (np.insert(a, 20, a[20], axis=0) for a in (X, U, V))
    for spoil in (X, U, V):
        kept = spoil[20].copy()
        spoil[20].flat[0] = bad
        same(run(X, U, V), clean, 0)
        spoil[20] = kept


def test_offsets():
    X, U, V = recording()
    clean = run(X, U, V)
    same(run(X + 1e8, U, V + 1e8), clean, 1e-6)
    X32, V32 = ((a + 1e6).astype(np.float32) for a in (X, V))
    exact = run(X32.astype(float), U, V32.astype(float))  # what such samples really say
    same(run(X32, U, V32, np.float32), exact, 2e-4)


def test_small_units_and_rescaling():
    X, U, V = recording()
    clean = run(X, U, V)
    for by in (1e-9, 1e-4, 1e4):
        scaled = run(by * X, U, by * V)
        for index in ALL:
            if index.name not in RIDGED:
                want = index.scaled(clean[index.name], by, P, K)
                np.testing.assert_allclose(scaled[index.name], want, rtol=1e-9, err_msg=f"{index.name} by {by}")
            assert np.isfinite(scaled[index.name]) or index.name == "health"  # which is still warming up
    root = (icvi.GeneralizedDunn43(root=True),)
    same(run(1e-4 * X, U, 1e-4 * V, indices=root), run(X, U, V, indices=root), 1e-9)


def test_many_features():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(8, 400)), np.eye(2)[[0, 1] * 4]
    values = run(X, U, rng.normal(size=(8, 2, 400)))
    assert all(np.isfinite(value) for name, value in values.items() if name != "health"), values  # 8 samples: too few


def test_the_caller_may_reuse_its_buffers():
    X, U, V = recording()
    panel = icvi.Panel(indices=ALL)
    state = panel.init(K, P, xp=np)
    x, u, v = np.empty(P), np.empty(K), np.empty((K, P))
    for t in range(N):
        x[:], u[:], v[:] = X[t], U[t], V[t]
        state, values = panel.step(state, x, u, v)
        x[:], u[:], v[:] = -7, 9, 11
    same(values, run(X, U, V), 0)


def test_labels_shorter_than_the_data_are_refused():
    with pytest.raises(ValueError, match="one label per sample"):
        icvi.validate(icvi.Panel(indices=ALL), np.zeros((5, 2)), labels=[0, 1, 0, 1])


def test_noise_is_no_cluster():
    X, U, V = recording()
    noisy = np.insert(X, 10, [90.0, -90.0], axis=0), np.insert(U, 10, 0, axis=0), np.insert(V, 10, V[10], axis=0)
    clean, got = run(X, U, V), run(*noisy)
    member = "db csil gd43 gd53 ps bh rcip rh fs kwon".split()  # these only use members and centres
    same({n: got[n] for n in member}, {n: clean[n] for n in member}, 1e-12)
    np.testing.assert_allclose(got["xb"], clean["xb"] * N / (N + 1))  # the sample counts as seen
    np.testing.assert_allclose(got["pc"], N / (N + 1))


@pytest.mark.parametrize("k", [2, 3, 17, 30])
def test_any_number_of_clusters(k):
    X, U, V = recording(k, n=4 * k)
    panel = icvi.Panel(indices=ALL)
    alone = run(X, U, V)
    same(alone, icvi.batch(panel, X, U, V), 1e-9)
    b = backend("numpy")
    state = panel.init(k, P, streams=(2,), xp=b.xp)
    for x, u, v in zip(X, U, V):  # a fleet goes through the pairs in another way, and with many slots in a third
        state, values = panel.step(state, *(np.stack([a, a], axis=-1) for a in (x, u, v)))
    for name in alone:
        np.testing.assert_allclose(values[name], alone[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_moving_centres_with_forgetting():
    X, U, V = recording()
    V = V + np.linspace(0, 20, N)[:, None, None]  # far from where they were
    panel = icvi.Panel(indices=ALL, forgetting=0.9)
    same(run(X, U, V, forgetting=0.9), icvi.batch(panel, X, U, V), 1e-9)
