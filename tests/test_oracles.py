"""The oracles agree with one another and with values computed by other packages."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the oracles are a package next to the tests, whatever the import mode

from oracles.dispersion import batch_dispersion, recursive_dispersion, separation  # noqa: E402
from oracles.distress import distress  # noqa: E402
from oracles.indices import NAMES, value  # noqa: E402
from oracles.kmeans import kmeans  # noqa: E402
from oracles.oec import absorb, new_cluster, oec, regularised_covariance  # noqa: E402

SHARED = HERE.parents[1] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared reference data is not here")
PEERS = {  # name in the peer's record: (our name, options)
    "CH": ("ch", {}),
    "cSIL": ("csil", {"peer": True}),
    "DB": ("db", {}),
    "GD43": ("gd43", {}),
    "GD53": ("gd53", {}),
    "PS": ("ps", {}),
    "rCIP": ("rcip", {"log": False}),
    "WB": ("wb", {}),
    "XB": ("xb", {}),
}


def random_stream(seed, n=60, k=4, p=3):
    """A stream with soft memberships, centres on the loose, births, deaths, noise and missing samples."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    U = rng.dirichlet(np.ones(k), size=n)
    V = np.cumsum(0.1 * rng.normal(size=(n, k, p)), axis=0) + 3 * rng.normal(size=(k, p))
    active = np.ones((n, k), dtype=bool)
    active[:10, 1] = False
    active[20:30, 2] = False
    active[50:, 3] = False
    V[~active] = np.nan
    U[rng.integers(0, n - 1, size=5)] = 0.0
    X[[7, 20, 33], 0] = np.nan
    U[41, 0] = np.inf
    return X, U, V, active, rng.exponential(size=n)


def crisp(X, labels):
    """One-hot memberships, running means and births of a labelled stream."""
    k = labels.max() + 1
    U = np.eye(k)[labels]
    V, active, counts = np.zeros((len(X), k, X.shape[1])), np.zeros((len(X), k), dtype=bool), np.zeros(k)
    v = np.zeros((k, X.shape[1]))
    for t, i in enumerate(labels):
        counts[i] += 1
        v[i] += (X[t] - v[i]) / counts[i]
        V[t], active[t] = v, counts > 0
    return U, V, active


def ap6yc(part):
    """Samples and labels, numbered by first appearance, of one peer partition."""
    table = np.loadtxt(SHARED / f"ap6yc_{part}_partition.csv", delimiter=",")
    names = list(dict.fromkeys(table[:, 2]))
    return table[:, :2], np.array([names.index(a) for a in table[:, 2]])


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("fuzzifier", [1.0, 2.0, 1.5])
@pytest.mark.parametrize("timed", [False, True])
def test_recursion_equals_batch(forgetting, fuzzifier, timed):
    X, U, V, active, gaps = random_stream(1)
    gaps = gaps if timed else None
    steps = recursive_dispersion(X, U, V, active, forgetting, fuzzifier, gaps)
    for t in (0, 5, 10, 19, 25, 30, 45, 49, 50, 59):
        part = None if gaps is None else gaps[: t + 1]
        batch = batch_dispersion(X[: t + 1], U[: t + 1], V[t], active[: t + 1], forgetting, fuzzifier, part)
        for key in "CMG":
            np.testing.assert_allclose(steps[key][t], batch[key], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_missing_samples_leave_no_trace(name):
    X, U, V, active, gaps = random_stream(2)
    kept = np.all(np.isfinite(X), axis=1) & np.all(np.isfinite(U), axis=1)
    whole = value(name, X, U, V, active, 0.95, 2.0, gaps)
    part = value(name, X[kept], U[kept], V[kept], active[kept], 0.95, 2.0, gaps[kept])
    assert np.isfinite(whole) and whole == part


@pytest.mark.parametrize("name", NAMES)
def test_constant_gaps_are_faster_forgetting(name):
    X, U, V, active, _ = random_stream(3)
    slow = value(name, X, U, V, active, 0.9, 2.0, np.full(len(X), 2.0))
    np.testing.assert_allclose(slow, value(name, X, U, V, active, 0.81), rtol=1e-10)


def test_edges():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
    run = kmeans(X, 2)
    for name in NAMES:
        assert np.isnan(value(name, X, run["u"], run["V"], np.zeros((3, 2), dtype=bool)))
        if name not in ("ps", "pc", "pe"):
            assert np.isnan(value(name, X[:2], run["u"][:2], run["V"][:2], run["active"][:2]))
    same = np.zeros((3, 2, 2))
    assert value("xb", X, run["u"], same) == np.inf
    assert value("db", X, run["u"], same) == np.inf
    one = np.zeros((3, 1, 2))
    np.testing.assert_array_equal(separation(one, X, None), [0.0, 1.0, 25.0])
    assert value("xb", X, np.ones((3, 1)), one) == pytest.approx(26 / (3 * 25))
    assert value("db", X, np.ones((3, 1)), one) == pytest.approx(26 / 3 / 25)


def test_calinski_harabasz_equals_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    X = np.random.default_rng(5).normal(size=(90, 3))
    run = kmeans(X, 4)
    # Centres of a running k-means are the means of their members, which is what the peer uses.
    expected = metrics.calinski_harabasz_score(X, run["label"])
    np.testing.assert_allclose(value("ch", X, run["u"], run["V"], run["active"]), expected, rtol=1e-10)


@needs_shared
def test_clustercrit():
    ref = json.loads((SHARED / "ref_clustercrit_400_4.json").read_text())
    X, labels = np.array(ref["X"], dtype=float), np.array(ref["partition"], dtype=int) - 1
    U, V, active = crisp(X, labels)
    peers = {"xb": "Ray_Turi", "ch": "Calinski_Harabasz", "bh": "Ball_Hall", "hartigan": "Log_SS_Ratio"}
    for name, peer in peers.items():
        np.testing.assert_allclose(value(name, X, U, V, active), ref["values"][peer], rtol=1e-10)


@needs_shared
@pytest.mark.parametrize("part", ["correct", "over", "under"])
def test_peer_values_and_trajectories(part):
    ref = json.loads((SHARED / "ref_ap6yc_peer_values.json").read_text())[part]["cvi_batch"]
    paths = np.load(SHARED / "ref_ap6yc_icvi_trajectories.npz")
    X, labels = ap6yc(part)
    U, V, active = crisp(X, labels)
    for peer, (name, options) in PEERS.items():
        np.testing.assert_allclose(value(name, X, U, V, active, **options), ref[peer], rtol=1e-6)
        for t in (500, 501, 777, 1500, 1999):
            mine = value(name, X[: t + 1], U[: t + 1], V[: t + 1], active[: t + 1], **options)
            np.testing.assert_allclose(mine, paths[f"{part}_{peer}"][t], rtol=1e-9, atol=1e-12)


def test_kmeans_seedings():
    X = np.array([[0.0], [0.0], [2.0], [np.nan], [3.0], [0.5]])
    first, distinct = kmeans(X, 2), kmeans(X, 2, "distinct")
    np.testing.assert_array_equal(first["label"], [0, 1, 0, -1, 0, 1])
    np.testing.assert_array_equal(first["ready"], [False, False, True, True, True, True])
    np.testing.assert_array_equal(distinct["label"], [0, 0, 1, -1, 1, 0])
    np.testing.assert_array_equal(distinct["ready"], [False, False, False, False, True, True])
    np.testing.assert_allclose(distinct["V"][-1, :, 0], [0.5 / 3, 2.5])


def test_oec_covers_each_new_mode():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + 30])
    for trigger in ("consecutive", "window"):
        for seed in ("tracker", "buffer"):
            run = oec(X, 4, trigger=trigger, seed=seed)
            assert run["k"][-1] == 2 and run["birth"].sum() == 1
            assert 200 <= np.flatnonzero(run["birth"])[0] < 250
            np.testing.assert_allclose(run["u"].sum(axis=1), 1.0)
    full = oec(X, 1)
    assert full["overflow"].any() and not full["birth"].any() and full["k"][-1] == 1


def test_oec_alone_is_the_sample_covariance():
    # With one slot and no outliers every weight is 1, so the mean is the plain mean of all samples.
    X = np.random.default_rng(1).uniform(-1, 1, size=(80, 2))
    run = oec(X, 1, outlier=1.0)
    np.testing.assert_allclose(run["V"][:, 0], np.cumsum(X, axis=0) / np.arange(1, 81)[:, None])
    assert not run["outlier"].any()
    np.testing.assert_allclose(regularised_covariance(X), np.cov(X.T), rtol=1e-4)


def test_oec_inverse_covariance_is_exact_for_fractional_weights():
    rng = np.random.default_rng(3)
    X, w = rng.normal(size=(30, 2)), np.concatenate([np.ones(3), rng.uniform(0.05, 1, size=27)])
    cluster = new_cluster(X[:3].mean(axis=0), np.cov(X[:3].T))
    for t in range(3, 30):
        absorb(cluster, X[t], w[t])
    np.testing.assert_allclose(cluster["mean"], np.average(X, axis=0, weights=w))
    np.testing.assert_allclose(np.linalg.inv(cluster["P"]), np.cov(X.T, aweights=w), rtol=1e-8)


def test_distress_tells_a_spike_from_a_lasting_rise():
    rng = np.random.default_rng(2)
    level = np.exp(0.1 * rng.normal(size=600))
    level[200:220] *= 50
    level[400:] *= 50
    codes, standing = distress(level)
    assert codes[200] == 1 and codes[220] == 2 and codes[400] == 1 and codes[500] == 3
    assert np.count_nonzero(codes) == 4
    np.testing.assert_array_equal(standing, np.arange(600) >= 500)
    np.testing.assert_array_equal(distress(1 / level, goal="max")[0], codes)
    gappy = np.insert(level, 300, [np.nan, np.inf, 0.0])
    np.testing.assert_array_equal(np.delete(distress(gappy)[0], [300, 301, 302]), codes)
