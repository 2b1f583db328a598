"""Samples removed, clusters merged and shards combined, against the batch definition of what is left."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from installed import installed

import icvi_jax as icvi
from icvi_jax.testing import backend

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.path)
SETTINGS = dict(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
K, P = 3, 2


@st.composite
def recordings(draw, least=8):
    n = draw(st.integers(least, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    soft = draw(st.booleans())
    X = rng.normal(size=(n, P)) + draw(st.sampled_from([0.0, 100.0]))
    labels = np.r_[:K, :K, rng.integers(0, K, n - 2 * K)]  # two members each, so that no cluster is left empty
    U = rng.dirichlet(np.ones(K), size=n) if soft else np.eye(K)[labels]
    return X, U, X.mean(axis=0) + 3 * rng.normal(size=(K, P)), labels


def run(panel, X, U, V, b, elapsed=None, state=None):
    state = panel.init(V.shape[0], P, xp=b.xp, dtype=b.dtype) if state is None else state
    for t in range(len(X)):
        gap = None if elapsed is None else elapsed[t]
        state, _ = panel.step(state, b.array(X[t]), b.array(U[t]), b.array(V), elapsed=gap)
    return state


def agree(panel, state, want, tolerance=1e-7, but=()):
    for name, value in icvi.read(panel, state).items():
        if name not in but:
            np.testing.assert_allclose(float(value), float(want[name]), rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("lib", ["numpy", "strict", "torch"])
@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@settings(**SETTINGS | {"max_examples": 8})
@given(recordings(), st.data())
def test_removed_samples_leave_no_trace(lib, forgetting, recording, data):
    X, U, V, _ = recording
    b, n = installed(lib), len(X)
    gone = sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=3)) & set(range(2 * K, n)))
    panel = icvi.Panel(indices=ALL, forgetting=forgetting)
    state = run(panel, X, U, V, b)
    for t in gone:
        state = icvi.remove(panel, state, b.array(X[t]), b.array(U[t]), age=n - 1 - t)
    # What is left is the batch of the others. Those before a removed one stay one sample older: time went on.
    rest = np.array([t for t in range(n) if t not in gone])
    gaps = np.diff(rest, prepend=-1)
    if rest[-1] == n - 1 or forgetting == 1:
        agree(panel, state, icvi.batch(panel, X[rest], U[rest], V, elapsed=gaps))


@settings(**SETTINGS)
@given(recordings(), st.booleans())
def test_merged_clusters_are_one(recording, given_center):
    X, U, V, labels = recording
    b, crisp = backend("numpy"), np.eye(K)[labels]
    panel = icvi.Panel(indices=ALL, forgetting=0.95)
    state = run(panel, X, crisp, V, b)
    center = np.array([1.0, 2.0]) if given_center else None
    merged = icvi.merge(panel, state, 2, 0, center)
    mass = state.statistics["dispersion"].mass
    V = V.copy()
    V[2] = center if given_center else (mass[0] * V[0] + mass[2] * V[2]) / (mass[0] + mass[2])
    crisp[:, 2] += crisp[:, 0]
    agree(panel, merged, icvi.batch(panel, X, crisp[:, 1:], V[1:]))
    # and the merged state can be used like any other
    more = run(panel, X[:4], np.c_[np.zeros(4), np.eye(2)[[0, 1, 0, 1]]], V, b, state=merged)
    assert bool(more.prototypes.active[0])  # born again, without a past


@settings(**SETTINGS)
@given(recordings(), st.sampled_from([1.0, 0.95]), st.integers(0, 24), st.booleans())
def test_two_shards_make_the_whole(recording, forgetting, cut, normed):
    X, U, V, _ = recording
    b, cut = backend("numpy"), min(cut, len(X))
    norm = np.array([[2.0, 0.3], [0.3, 1.0]]) if normed else None
    panel = icvi.Panel(indices=ALL, forgetting=forgetting, norm=norm)
    both = icvi.combine(panel, run(panel, X[:cut], U[:cut], V, b), run(panel, X[cut:], U[cut:], V, b))
    agree(panel, both, icvi.batch(panel, X, U, V), 1e-8)
    whole = run(panel, X, U, V, b)
    for a, c in zip(both.statistics["count"], whole.statistics["count"]):
        np.testing.assert_allclose(a, c)
    gaps = np.linspace(0.5, 2, len(X))
    parts = run(panel, X[:cut], U[:cut], V, b, gaps[:cut]), run(panel, X[cut:], U[cut:], V, b, gaps[cut:])
    both = icvi.combine(panel, *parts, elapsed=gaps[cut:].sum())
    agree(panel, both, icvi.batch(panel, X, U, V, elapsed=gaps), 1e-8)


def test_a_fleet_is_operated_on_at_once():
    b, rng = backend("numpy"), np.random.default_rng(0)
    panel = icvi.Panel(indices=ALL)
    X, V = rng.normal(size=(12, P, 2)), rng.normal(size=(K, P, 2))
    U = np.eye(K)[rng.integers(0, K, (12, 2))].swapaxes(1, 2)
    fleet = panel.init(K, P, streams=(2,), xp=np)
    for t in range(12):
        fleet, _ = panel.step(fleet, X[t], U[t], V)
    fleet = icvi.merge(panel, icvi.remove(panel, fleet, X[3], U[3]), 0, 1)
    values = icvi.read(panel, icvi.combine(panel, fleet, fleet))
    for s in range(2):
        one = run(panel, X[..., s], U[..., s], V[..., s], b)
        one = icvi.merge(panel, icvi.remove(panel, one, X[3, :, s], U[3, :, s]), 0, 1)
        want = icvi.read(panel, icvi.combine(panel, one, one))
        for name in values:
            np.testing.assert_allclose(values[name][s], want[name], rtol=1e-9, err_msg=name)


def test_edges():
    b = backend("numpy")
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.PartitionCoefficient()))
    X, U, V = np.array([[0.0, 1.0], [2.0, 3.0], [1.0, 0.0]]), np.eye(2)[[0, 1, 0]], np.array([[0.0, 0.0], [2.0, 2.0]])
    state = run(panel, X, U, V, b)
    before = icvi.read(panel, state)
    same = icvi.remove(panel, state, np.array([np.nan, 0.0]), U[0])  # missing: nothing changes
    assert icvi.read(panel, same) == before
    last = state
    for x, u in zip(X, U):
        last = icvi.remove(panel, last, x, u)
    assert all(np.all(np.asarray(a) == 0) for a in (last.statistics["count"]))
    assert np.all(last.statistics["dispersion"].mass == 0) and np.all(last.statistics["dispersion"].scatter == 0)
    for bad in ((0, 0), (0, 2), (-1, 0)):
        with pytest.raises(ValueError, match="merge"):
            icvi.merge(panel, state, *bad)
    counts = icvi.Panel(indices=(icvi.PartitionCoefficient(),))  # no masses: the plain mean of the centres
    merged = icvi.merge(counts, run(counts, X, U, V, b), 0, 1)
    np.testing.assert_allclose(merged.prototypes.centers[0] + merged.anchor.high, [1.0, 1.0])


def test_with_every_sample_removed_nothing_is_praised():
    panel = icvi.Panel(indices=ALL)
    b = backend("numpy")
    X, U = np.random.default_rng(0).normal(size=(6, P)), np.eye(K)[[0, 1, 2, 0, 1, 2]]
    state = run(panel, X, U, 3 * np.eye(K, P), b)
    for x, u in zip(X, U):
        state = icvi.remove(panel, state, b.array(x), b.array(u))
    assert all(not np.isfinite(value) for value in icvi.read(panel, state).values())
