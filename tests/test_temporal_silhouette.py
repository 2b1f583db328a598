"""The Temporal Silhouette against a direct transcription of its definition."""

import numpy as np
import pytest
from oracles.silhouettes import temporal_silhouette as oracle

from icvi_jax.evaluation import temporal_silhouette


def stream(seed):
    """A random labelled recording: bursts, ties in time, singletons and drift."""
    rng = np.random.default_rng(seed)
    n, k, p = int(rng.integers(2, 160)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
    labels = rng.integers(0, k, n) if seed % 2 else np.sort(rng.integers(0, k, n))
    t = np.cumsum(rng.integers(0, 3, n)) if seed % 3 else rng.permutation(n)
    X = rng.normal(size=(n, p)) + 4 * rng.normal(size=(k, p))[labels] + 0.02 * np.arange(n)[:, None]
    if seed == 4:
        X = np.round(X)
    return t, X, labels


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("window, neighbours", [(200, 200), (8, 5), (3, 1)])
def test_equals_the_definition(seed, window, neighbours):
    t, X, labels = stream(seed)
    got = temporal_silhouette(t, X, labels, window, neighbours, c=0.5)
    assert abs(got - oracle(t, X, labels, window, neighbours, 0.5)) < 1e-9


def test_one_cluster_and_singletons():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    for labels in (np.zeros(30, int), np.arange(30), np.r_[np.zeros(29, int), 1]):
        got = temporal_silhouette(np.arange(30), X, labels)
        assert abs(got - oracle(np.arange(30), X, labels)) < 1e-9


def test_noise_is_left_out_unless_asked_for():
    t, X, labels = stream(7)
    noisy = np.where(np.arange(len(X)) % 5 == 0, -1, labels)
    kept = noisy != -1
    assert temporal_silhouette(t, X, noisy) == temporal_silhouette(t[kept], X[kept], labels[kept])
    assert abs(temporal_silhouette(t, X, noisy, noise=True) - oracle(t, X, noisy)) < 1e-9


def test_far_from_the_origin_and_in_other_units():
    t, X, labels = stream(9)
    want = temporal_silhouette(t, X, labels)
    assert abs(temporal_silhouette(t, X + 1e8, labels) - want) < 1e-6
    with pytest.raises(ValueError, match="labels=.*one per sample"):
        temporal_silhouette(t, X, labels[:-1])
    with pytest.raises(ValueError, match="window=0"):
        temporal_silhouette(t, X, labels, window=0)
    with pytest.raises(ValueError, match="not finite"):
        temporal_silhouette(t, np.where(X > 0, np.nan, X), labels)


def test_rows_with_the_same_time_stay_in_their_order():
    rng = np.random.default_rng(5)
    X, labels, t = rng.normal(size=(3000, 2)).cumsum(0), rng.integers(0, 3, 3000), rng.integers(0, 6, 3000)
    rows = np.lexsort((np.arange(3000), t))
    got = temporal_silhouette(t, X, labels, window=8, neighbours=6)
    assert abs(got - temporal_silhouette(t[rows], X[rows], labels[rows], window=8, neighbours=6)) < 1e-12
