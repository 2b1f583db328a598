"""Validation in parallel gives what the scan gives, whatever the recording has in it."""

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.validation import time_parallel as parallel

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.path)
T, K, P = 1100, 4, 2


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def recording():
    """Births, deaths, a slot that is born again, noise and missing samples, some at the seams and for a whole lane."""
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


def agree(panel, X, **clustering):
    lanes = parallel.lanes_for(panel, len(X), K, X.shape[1])
    assert lanes > 1
    plain = icvi.validate(panel, X, **clustering)
    fast = icvi.validate(panel, X, **clustering, parallel=True)
    for name in plain:
        assert fast[name].shape == (len(X),)
        np.testing.assert_allclose(fast[name], plain[name], rtol=1e-9, atol=1e-9, err_msg=name)


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
    labels[:300] = 0  # one cluster for several lanes: its reach must come out as in the scan
    agree(panel, X, labels=labels, elapsed=gaps)


def test_norm(recording):
    X, U, V, A, _ = recording
    agree(icvi.Panel(indices=ALL[:3], norm=np.array([[2.0, 0.5], [0.5, 1.0]])), X, memberships=U, centers=V, active=A)


def test_short_recordings_and_large_states_are_scanned():
    panel = icvi.Panel(indices=ALL)
    assert parallel.lanes_for(panel, 500, 3, 2) == 1
    assert parallel.lanes_for(panel, 10**6, 10, 2) == 125
    assert parallel.lanes_for(panel, 10**6, 10, 400) == 1
    values = icvi.validate(icvi.Panel(indices=ALL[:1]), np.zeros((3, 1)), labels=[0, 1, 0], parallel=True)
    assert values["xb"].shape == (3,)
