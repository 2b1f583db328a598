"""Proposals against plain loops over the samples, and against stepping for real."""

import jax
import numpy as np
import pytest
from oracles import propose as plain

import icvi_jax as icvi
from icvi_jax.testing import backend

SIX = icvi.XieBeni(), icvi.DaviesBouldin(), icvi.CalinskiHarabasz(), icvi.WB(), icvi.BallHall(), icvi.RSquared()
ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.grouped)


def watched(panel, X, labels, k, forgetting, xp=np, dtype=np.float64):
    """The panel's state after crisp members whose centres are their faded means."""
    state = panel.init(k, X.shape[1], xp=xp, dtype=dtype)
    mass, means = np.zeros(k), np.zeros((k, X.shape[1]))
    for x, c in zip(X, labels):
        mass *= forgetting
        mass[c] += 1
        means[c] += (x - means[c]) / mass[c]
        state, _ = panel.step(state, *(xp.asarray(a, dtype=dtype) for a in (x, np.eye(k)[c], means)), mass > 0)
    return state


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@pytest.mark.parametrize("used", [0, 1, 2, 4, 5])
def test_proposals_are_as_the_plain_loop_has_them(used, forgetting):
    rng = np.random.default_rng(used)
    k, n = 5, 40 if used else 0
    labels = rng.integers(0, max(used, 1), n)
    X = np.array([[0, 0], [8, 0], [0, 8], [8, 8], [20, 3]])[labels] + rng.normal(size=(n, 2))
    panel = icvi.Panel(indices=SIX, forgetting=forgetting)
    state = watched(panel, X, labels, k, forgetting)
    for x in (np.array([1.0, 0.5]), np.array([30.0, -3.0]), X[0] if n else np.zeros(2)):
        got = icvi.propose(panel, state, x)
        want = plain.propose(X, labels, k, x, forgetting)
        for name, values in want.items():
            np.testing.assert_allclose(got[name], values, rtol=1e-8, atol=1e-9, err_msg=f"{name}, {used} in use")


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_proposals_of_every_index_are_what_a_step_would_give(forgetting):
    rng = np.random.default_rng(1)
    k, labels = 4, rng.integers(0, 3, 30)
    X = np.array([[0, 0], [8, 0], [0, 8]])[labels] + rng.normal(size=(30, 2))
    panel = icvi.Panel(indices=ALL, forgetting=forgetting)
    state = watched(panel, X, labels, k, forgetting)
    x, centers = np.array([2.0, 1.0]), icvi.origin.back(state.anchor, state.prototypes.centers)
    got = icvi.propose(panel, state, x)
    for c in range(4):
        mass = forgetting * state.statistics["dispersion"].mass[c]
        moved = centers.copy()
        moved[c] = centers[c] + (x - centers[c]) / (mass + 1) if c < 3 else x
        _, want = panel.step(state, x, np.eye(k)[c], moved, np.arange(k) < max(3, c + 1))
        where = c if c < 3 else k  # slot 3 is free: as a new cluster
        for name, value in want.items():
            np.testing.assert_allclose(got[name][where], value, rtol=1e-9, atol=1e-12, err_msg=name)
    assert all(np.isnan(a[3]) for a in got.values())


@pytest.mark.parametrize("name", ["torch", "strict", "jax64"])
def test_proposals_on_other_libraries_compiled_and_for_fleets(name):
    try:
        b = backend(name)
    except ImportError as missing:
        pytest.skip(f"{missing.name} is not installed")
    rng = np.random.default_rng(2)
    labels, X = np.arange(20) % 3, rng.normal(size=(20, 2)) + (np.arange(20) % 3)[:, None] * 5
    panel, x = icvi.Panel(indices=SIX, forgetting=0.95), np.array([1.0, 4.0])
    want = icvi.propose(panel, watched(panel, X, labels, 4, 0.95), x)
    with b.precision():
        state = watched(panel, X, labels, 4, 0.95, b.xp, b.dtype)
        call = jax.jit(icvi.propose) if name == "jax64" else icvi.propose
        got = call(panel, state, b.array(x))
        for key, value in want.items():
            np.testing.assert_allclose(np.asarray(got[key]), value, rtol=1e-9, atol=1e-12, err_msg=key)
        if name == "jax64":
            many = jax.vmap(lambda x: icvi.propose(panel, state, x))(b.array(np.stack([x, x + 1])))
            np.testing.assert_allclose(many["xb"][0], want["xb"], rtol=1e-9)


def test_a_fleet_proposes_stream_by_stream():
    panel, rng = icvi.Panel(indices=SIX), np.random.default_rng(3)
    states = [
        watched(panel, rng.normal(size=(9, 2)) + 4 * (np.arange(9) % 3)[:, None], np.arange(9) % 3, 3, 1.0)
        for _ in range(2)
    ]
    fleet = jax.tree.map(lambda *a: np.stack(a, -1), *states)
    X = rng.normal(size=(2, 2))
    X[0, 1] = np.nan
    together = icvi.propose(panel, fleet, X)
    for s, state in enumerate(states):
        for name, value in icvi.propose(panel, state, X[:, s]).items():
            np.testing.assert_allclose(together[name][:, s], value, rtol=1e-12, err_msg=name)
            assert np.isnan(value).all() == bool(np.isnan(X[:, s]).any())


def test_proposals_of_named_clusters():
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.CONN()), of="clusters")
    pipe = icvi.Pipeline(clusterer=icvi.MergeSplit(slots=5), panel=panel)
    state, X = pipe.init(2, xp=np), np.random.default_rng(0).normal(size=(60, 2)) + 9 * (np.arange(60) % 3)[:, None]
    for x in X:
        state, _ = pipe.step(state, x)
    got = icvi.propose(panel, state.panel, X[0])
    assert np.isfinite(got["xb"][np.append(state.clusterer.active, True)]).all() and (got["conn"] <= 1).all()
    with pytest.raises(ValueError, match=r"expected shape \(2,\), got \(3,\)"):
        icvi.propose(panel, state.panel, np.zeros(3))


def test_a_pipeline_scales_the_sample_as_its_own_step_does():
    rng = np.random.default_rng(8)
    X = (np.array([[0, 0], [6, 0], [0, 6]])[rng.integers(0, 3, 300)] + rng.normal(size=(300, 2))) * [1.0, 1e3] + 1e5
    panel = icvi.Panel(indices=SIX, forgetting=0.95)
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=3), panel=panel, standardize=icvi.Standardize(warmup=50), monitors={}
    )
    state = icvi.run(pipe, X, backend="numpy").state
    scale = state.scaler  # held since the 50th sample
    scaled = ((X[7] - X[0]) - scale.mean) / np.sqrt(scale.variance)
    nowhere = panel.init(k=3, features=2, xp=np, dtype=np.float64).anchor
    want = icvi.propose(panel, state.panel._replace(anchor=nowhere), scaled)
    got = icvi.propose(pipe, state, X[7])
    for name, values in want.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-9, err_msg=name)
    for wrong in ((panel, state), (pipe, state.panel)):
        with pytest.raises(ValueError, match="propose: for"):
            icvi.propose(*wrong, X[7])
