"""Ellipsoids as factors, the test of the largest eigenvalue, χ² quantiles and the tracker, against linear algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from icvi_jax.clusterers import oec
from icvi_jax.clusterers.oec import chi2_quantile, chi2_tail
from icvi_jax.numerics import cholesky, ellipsoid
from icvi_jax.numerics.arrays import COUNT_LIMIT


def columns(S):
    """The columns of a batch of symmetric matrices (k, p, p)."""
    return tuple(S[:, j:, j] for j in range(S.shape[1]))


def full(columns):
    """Symmetric matrices (k, p, p) from their columns."""
    p = len(columns)
    return np.stack([[columns[min(i, j)][:, abs(i - j)] for j in range(p)] for i in range(p)]).transpose(2, 0, 1)


def random_covariance(rng, p, k=1, condition=1e3):
    Q = np.linalg.qr(rng.normal(size=(k, p, p)))[0]
    scales = condition ** -np.linspace(0, 1, p)
    return np.einsum("kij,j,klj->kil", Q, scales, Q)


def weighted_covariance(X, w):
    mean = w @ X / w.sum()
    e = X - mean
    return mean, (w[:, None] * e).T @ e * w.sum() / (w.sum() ** 2 - (w**2).sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10**6), st.floats(1e-6, 1.0))
def test_updates_equal_the_weighted_covariance(p, seed, lightest):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, p)) @ rng.normal(size=(p, p)) + 5
    w = np.concatenate([np.ones(p + 1), rng.uniform(lightest, 1, size=60 - p - 1)])
    mean, S = weighted_covariance(X[: p + 1], w[: p + 1])
    S = S + 1e-6 * np.eye(p)  # the ridge fades by the same factors as what it is added to
    ridge, P = 1e-6, np.linalg.inv(S)
    G = ellipsoid.factor(columns(S[None]), np.zeros(1))
    a = b = float(p + 1)
    for x, weight in zip(X[p + 1 :], w[p + 1 :]):
        d = x - mean
        alpha, beta = ellipsoid.rates(np.array([a]), np.array([b]), np.array([weight]))
        a_new, b_new = a + weight, b + weight**2
        chi, delta = a * (a_new**2 - b_new) / (a_new * (a**2 - b)), a_new * (a**2 - b) / (a**2 * weight)
        np.testing.assert_allclose([1 / alpha[0], alpha[0] / beta[0]], [chi, delta], rtol=1e-9)
        G = ellipsoid.absorb(G, ellipsoid.substitute(G, d[None]), alpha, beta)
        P = chi * (P - np.outer(P @ d, P @ d) / (delta + d @ P @ d))
        mean, a, b, ridge = mean + weight / a_new * d, a_new, b_new, ridge * alpha[0]
    want_mean, want = weighted_covariance(X, w)
    np.testing.assert_allclose(mean, want_mean, rtol=1e-9)
    got = full(ellipsoid.compose(G))[0]
    np.testing.assert_allclose(got, want + ridge * np.eye(p), rtol=1e-9, atol=1e-9 * np.abs(want).max())
    F = ellipsoid.mahalanobis(ellipsoid.substitute(G, (X[0] - mean)[None]))[0]
    np.testing.assert_allclose(F, (X[0] - mean) @ np.linalg.solve(got, X[0] - mean), rtol=1e-9)


def test_without_weight_nothing_changes():
    rng = np.random.default_rng(0)
    G = ellipsoid.factor(columns(random_covariance(rng, 4, 3).astype(np.float32)), np.zeros(3, np.float32))
    nothing = np.zeros(3, np.float32)
    alpha, beta = ellipsoid.rates(nothing + 7, nothing + 6, nothing)
    for d in (rng.normal(size=(3, 4)), np.full((3, 4), 1e15)):
        after = ellipsoid.absorb(G, ellipsoid.substitute(G, d.astype(np.float32)), alpha, beta)
        assert all(a.tobytes() == c.tobytes() for a, c in zip(G, after))


def test_single_precision_stays_positive_where_the_inverse_does_not():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 2)).astype(np.float32)
    X = np.stack([z[:, 0], z[:, 0] + np.float32(1e-3) * z[:, 1]], 1)
    S = np.cov(X[:3].T).astype(np.float32) + np.float32(1e-6) * np.eye(2, dtype=np.float32)
    P, G = np.linalg.inv(S), ellipsoid.factor(columns(S[None]), np.full(1, 1e-6, np.float32))
    mean, a, indefinite = X[:3].mean(0), np.float32(3), False
    for x in X[3:]:
        d = x - mean
        alpha, beta = ellipsoid.rates(*(np.array([v], np.float32) for v in (a, a, 1)))
        G = ellipsoid.absorb(G, ellipsoid.substitute(G, d[None]), alpha, beta)
        P = (P - np.outer(P @ d, P @ d) / (alpha[0] / beta[0] + d @ P @ d)) / alpha[0]
        indefinite |= np.linalg.eigvalsh((P + P.T).astype(float)).min() <= 0
        mean, a = mean + d / (a + 1), a + 1
        assert all((c[:, 0] > 0).all() for c in G)
    assert indefinite, "the recursion for the inverse would do as well, and is simpler"
    want = np.linalg.inv(np.cov(X.T.astype(float)))
    got = np.linalg.inv(full(ellipsoid.compose([c.astype(float) for c in G]))[0])
    np.testing.assert_allclose(got, want, rtol=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 5, 11, 16])
def test_the_largest_eigenvalue_is_weighed_to_1e_5(p, dtype):
    rng = np.random.default_rng(p)
    for condition in (1.0, 10.0, 1e6):
        S = random_covariance(rng, p, 50, condition).astype(dtype) * dtype(rng.uniform(1e-6, 1e6))
        largest = np.linalg.eigvalsh(S.astype(float)).max(1)
        assert ellipsoid.largest_eigenvalue_at_most(columns(S), (largest * (1 + 1e-5)).astype(dtype)).all()
        assert not ellipsoid.largest_eigenvalue_at_most(columns(S), (largest * (1 - 1e-5)).astype(dtype)).any()
        below = (largest * rng.uniform(0, 0.99, 50)).astype(dtype)
        assert not ellipsoid.largest_eigenvalue_at_most(columns(S), below).any()


def test_a_zero_pivot_is_not_taken_for_a_pass():
    S = np.array([[[1.0, 0.9], [0.9, 0.5]]])
    assert not ellipsoid.largest_eigenvalue_at_most(columns(S), np.ones(1)).any()
    assert ellipsoid.largest_eigenvalue_at_most((np.ones((1, 1)),), np.ones(1)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 7, 16])
def test_factors_of_degenerate_matrices_are_positive(p, dtype):
    rng = np.random.default_rng(p)
    direction = rng.normal(size=p)
    for S in (np.zeros((p, p)), np.ones((p, p)), np.outer(direction, direction) * 1e6, np.diag(np.arange(p) * 1.0)):
        raised = ellipsoid.raised(columns(S[None].astype(dtype)), ellipsoid.ridge(columns(S[None].astype(dtype))))
        G = ellipsoid.factor(raised, ellipsoid.ridge(columns(S[None].astype(dtype))))
        assert all(np.isfinite(c).all() and (c[:, 0] > 0).all() for c in G)
        error = np.abs(full(ellipsoid.compose(G)) - full(raised)).max()
        assert error <= 16 * p * np.finfo(dtype).eps * max(np.abs(S).max(), 1e-12)


def test_packed_and_columns_are_the_same_thing():
    d = np.random.default_rng(0).normal(size=(2, 4, 3))
    assert ellipsoid.packed(4) == 10
    for a, c in zip(ellipsoid.columns(cholesky.outer(d), 4), ellipsoid.squared(d)):
        np.testing.assert_array_equal(a, c)
    np.testing.assert_array_equal(ellipsoid.ridged(np.zeros((5, 3, 7)), 2, 1.0)[0, :, 0], [1, 0, 1])


def test_memberships_follow_their_formula():
    F, active = np.array([1e-12, 3.0, 1e30, 2.0]), np.array([True, True, True, False])
    u = ellipsoid.fuzzy(F, active, 4.0)
    np.testing.assert_allclose(u[:3], F[:3] ** -4.0 / (F[:3] ** -4.0).sum(), rtol=1e-12)
    assert u[3] == 0 and not ellipsoid.fuzzy(F, ~active & active, 2.0).any()


@pytest.mark.parametrize("p", [1, 2, 3, 4, 11, 16, 33, 100])
def test_quantiles(p):
    for level in (1e-3, 0.05, 0.5, 0.9, 0.99, 0.999, 1 - 1e-9):
        np.testing.assert_allclose(chi2_quantile(level, p), chi2.ppf(level, p), rtol=1e-11)
        np.testing.assert_allclose(chi2_tail(chi2_quantile(level, p), p), 1 - level, rtol=1e-6)
    assert chi2_tail(0.0, p) == chi2_tail(-1.0, p) == 1


def test_the_tracker_starts_as_mean_and_covariance():
    X = np.random.default_rng(0).normal(size=(9, 3))
    mean, cov = np.zeros(3), tuple(np.zeros((1, n)) for n in (3, 2, 1))
    for n, x in enumerate(X[:4]):
        mean, cov = oec.follow(mean, cov, x, np.array(n, np.int32), 0.9, np.array(True))
    np.testing.assert_allclose(mean, X[:4].mean(0))
    np.testing.assert_allclose(full(cov)[0], np.cov(X[:4].T))
    d, T = X[4] - mean, full(cov)[0]
    moved, cov = oec.follow(mean, cov, X[4], np.array(4, np.int32), 0.9, np.array(True))
    np.testing.assert_allclose(full(cov)[0], 0.9 * 3 / 4 * T + 0.81 / 4 * np.outer(d, d))
    np.testing.assert_allclose(moved, 0.9 * mean + 0.1 * X[4])
    _, late = oec.follow(mean, cov, X[4], np.array(1000, np.int32), 0.9, np.array(True))
    np.testing.assert_allclose(full(late)[0], 0.9 * 29 / 30 * full(cov)[0] + 0.81 / 30 * np.outer(d, d))


def test_ages_count_anomalies():
    rng = np.random.default_rng(0)
    ages, history = np.full(3, COUNT_LIMIT, np.int32), []
    for _ in range(500):
        anomaly, young, seen = rng.random() < 0.3, rng.random() < 0.02, rng.random() < 0.9
        anomaly = anomaly and seen and not young
        ages = oec.remember_anomalies(ages, np.array(anomaly), np.array(young and seen), np.array(seen))
        if seen:
            history = [] if young else [*history, anomaly]
        for span in (3, 7, 20):
            assert (ages[-1] < span) == (sum(history[-span:]) >= 3)
