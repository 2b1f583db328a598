"""Validation of a recording gives what single steps of the panel give, whatever the recording has in it."""

import jax
import numpy as np
import pytest

import icvi_jax as icvi

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.path)
T, K, P = 1100, 4, 2


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def recording():
    """Births, deaths, a slot that is born again, noise and missing samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(T, P)) + 50
    U = rng.dirichlet(np.ones(K), size=T)
    V = 50 + 3 * rng.normal(size=(K, P)) + np.cumsum(0.05 * rng.normal(size=(T, K, P)), axis=0)
    A = np.ones((T, K), bool)
    A[:200, 1] = A[400:450, 2] = A[700:, 3] = False
    A[900:1000, 3] = True
    A[:150, [2, 3]] = False  # one cluster only at first
    U[rng.integers(0, T, 30)] = 0
    X[rng.integers(0, T, 30), 0] = np.nan
    X[:3] = X[330:400] = np.nan
    return X, U, np.where(A[:, :, None], V, np.nan), A, rng.exponential(size=T)


def agree(panel, X, labels=None, memberships=None, centers=None, active=None, elapsed=None):
    """`validate` gives what steps of the panel with NumPy give, at every tenth sample and the last."""
    given = dict(labels=labels, memberships=memberships, centers=centers, active=active, elapsed=elapsed)
    fast = icvi.validate(panel, X, **given)
    if labels is not None:
        memberships, centers = np.eye(K)[labels] * (labels >= 0)[:, None], np.zeros((T, K, P))
        mean, count = np.zeros((K, P)), np.zeros(K)
        active = np.zeros((T, K), bool)
        for t, (x, k) in enumerate(zip(X, labels)):
            if k >= 0 and np.isfinite(x).all():
                count[k] += 1
                mean[k] += (x - mean[k]) / count[k]
            centers[t], active[t] = mean, count > 0
    centers = np.broadcast_to(centers, (T, K, P))
    active = np.ones((T, K), bool) if active is None else active
    state = panel.init(K, P, xp=np)
    for t in range(len(X)):
        gap = None if elapsed is None else elapsed[t]
        state, values = panel.step(state, X[t], memberships[t], centers[t], active[t], gap)
        if t % 10 == 0 or t == len(X) - 1:
            for name, value in values.items():
                np.testing.assert_allclose(fast[name][t], value, rtol=1e-7, atol=1e-9, err_msg=f"{name} at {t}")
    assert all(value.shape == (len(X),) for value in fast.values())


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_recorded_memberships(recording, forgetting):
    X, U, V, A, gaps = recording
    panel = icvi.Panel(indices=ALL, forgetting=forgetting)
    agree(panel, X, memberships=U, centers=V, active=A, elapsed=gaps)


def test_centres_that_never_move(recording):
    X, U, V, A, _ = recording
    agree(icvi.Panel(indices=ALL[:4], forgetting=0.9), X, memberships=U, centers=V[-1, :, :] * 0 + V[500], active=None)


def test_labels(recording):
    X, _, _, _, gaps = recording
    panel = icvi.Panel(indices=(*ALL[:4], icvi.NegentropyIncrement(), icvi.PartitionEntropy()), forgetting=0.99)
    labels = np.random.default_rng(1).integers(-1, K, T)
    labels[:300] = 0  # one cluster at first, whose reach depends on the path
    agree(panel, X, labels=labels, elapsed=gaps)


def test_norm(recording):
    X, U, V, A, _ = recording
    agree(icvi.Panel(indices=ALL[:3], norm=np.array([[2.0, 0.5], [0.5, 1.0]])), X, memberships=U, centers=V, active=A)


@pytest.mark.filterwarnings("ignore:the operation 'step' has no native form")  # too large: XLA runs it, by LAPACK
def test_covariances_of_hundreds_of_features():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 40)
    X = rng.normal(size=(40, 300)) + y[:, None]
    panel = icvi.Panel(indices=tuple(i for i in ALL if i.name in ("ni", "rcip", "rh")))
    got = icvi.validate(panel, X, labels=y)
    means = np.stack([X[y == i].mean(axis=0) for i in range(2)])
    exact = icvi.batch(panel, X, memberships=np.eye(2)[y], centers=means)
    for name, values in got.items():
        np.testing.assert_allclose(values[-1], exact[name], rtol=1e-9)
