"""Online ellipsoidal clustering against a plain loop, on hostile streams, in fleets, and its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.oec import oec

import icvi_jax as icvi
from icvi_jax.testing.backends import backend
from icvi_jax.testing.clusterers import follow


def blocks(p, n=90, seed=0, apart=10.0, count=3):
    """Blocks of n samples around homes `apart` standard deviations from one another, a few samples missing."""
    rng = np.random.default_rng(seed)
    homes = apart * rng.permutation(count)[:, None] * np.ones(p)
    X = np.repeat(homes, n, axis=0) + rng.normal(size=(count * n, p)) @ (np.eye(p) + 0.3)
    X[[0, 3, p + 2, 50, n + 2]] = np.nan
    return X


def turns(seed):
    """Two modes close to each other that take turns."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(300, 2)) + 3 * ((np.arange(300) // 30) % 2)[:, None]


def visit():
    """A short visit far away: back home, the new cluster is young and takes part with next to no weight."""
    X = np.random.default_rng(0).normal(size=(270, 2))
    X[100:108] += 3e3
    return X


def leap_frog():
    """Two changes so close that the second comes with the sample after the birth."""
    X = np.random.default_rng(0).normal(size=(270, 2))
    X[100:103, 0] += 100
    X[103:, 1] += 100
    return X


CASES = {
    "s2": (lambda: icvi.streams.s2(seed=1).x, 12, {}),
    "s3 window": (lambda: icvi.streams.s3(seed=2).x, 12, {"trigger": "window"}),
    "s1 window buffer": (lambda: icvi.streams.s1(seed=3).x[:900], 4, {"trigger": "window", "seed": "buffer"}),
    "p=1 full": (lambda: blocks(1), 2, {"fuzzifier": 1.5, "stabilization": 30}),
    "p=3": (lambda: blocks(3), 4, {"c": 0.7, "forgetting": 0.8, "effective": 0.95, "outlier": 0.9999}),
    "p=4 buffer": (lambda: blocks(4), 4, {"seed": "buffer"}),
    "repeats": (lambda: np.round(blocks(2), 0), 4, {}),
    "leap frog": (leap_frog, 4, {"stabilization": 1, "c": 0.1}),
    "s2 with a memory": (lambda: icvi.streams.s2(seed=1).x[300:1500], 12, {"memory": 30.0}),
    "p=3 with a short memory": (lambda: blocks(3), 4, {"memory": 5.0}),
    "a visit": (visit, 4, {"seed": "buffer"}),
    "clusters of now": (lambda: turns(19), 4, {"effective": 0.6, "outlier": 0.999999, "stabilization": 5}),
}


@pytest.mark.parametrize("case", CASES)
def test_step_by_step_like_the_plain_loop(case):
    draw, capacity, options = CASES[case]
    X = draw()
    want = oec(X, capacity, **options)
    got = follow(icvi.OnlineEllipsoidal(capacity=capacity, **options), X, backend("jax64"))[1]
    for field in ("label", "k", "outlier", "overflow", "ready"):
        found = got.ready if field == "ready" else getattr(got.shown, field)
        np.testing.assert_array_equal(found, want[field], err_msg=field)
    np.testing.assert_array_equal(got.after.active, want["active"])
    np.testing.assert_allclose(got.u, want["u"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(got.after.centers, want["V"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got.shown.surprise, want["surprise"], rtol=1e-9, atol=1e-9)
    assert want["k"][-1] > 1 or case == "clusters of now", "the case shows no birth"
    assert want["overflow"].any() or case != "p=1 full", "the case is never full"


@pytest.fixture(scope="module")
def fleet():
    """256 different streams of 150 samples, and what one fleet makes of them."""
    rng = np.random.default_rng(0)
    change = rng.integers(40, 110, size=256)
    X = rng.normal(size=(150, 2, 256)) + 12 * (np.arange(150)[:, None, None] >= change)
    X[:, 0][rng.random((150, 256)) < 0.02] = np.nan
    return X, follow(icvi.OnlineEllipsoidal(capacity=3), X, backend("jax64"))[1]


def test_a_fleet_is_its_streams(fleet):
    X, together = fleet
    clusterer = icvi.OnlineEllipsoidal(capacity=3)
    assert len(set(together.shown.k[-1].tolist())) == 1 or together.shown.k[-1].max() == 2
    for i in range(256):
        alone = follow(clusterer, X[..., i], backend("jax64"))[1]
        np.testing.assert_array_equal(alone.shown.label, together.shown.label[..., i])
        np.testing.assert_array_equal(alone.shown.k, together.shown.k[..., i])
        np.testing.assert_allclose(alone.u, together.u[..., i], rtol=0, atol=1e-12)


def test_vmap_is_a_fleet_too(fleet):
    X, together = fleet
    clusterer = icvi.OnlineEllipsoidal(capacity=3)

    def one(x):
        seen = jnp.isfinite(x).all(1)
        start = clusterer.init(2, (), jnp, x.dtype)
        return jax.lax.scan(lambda s, now: clusterer.step(s, *now), start, (jnp.where(seen[:, None], x, 0), seen))[1]

    with jax.enable_x64(True):
        events = jax.jit(jax.vmap(one, in_axes=2, out_axes=-1))(X[..., :16])
        np.testing.assert_array_equal(events.shown.label, together.shown.label[..., :16])
        np.testing.assert_allclose(events.u, together.u[..., :16], rtol=0, atol=1e-12)


def test_gradients_are_finite_and_right():
    clusterer = icvi.OnlineEllipsoidal(capacity=2)
    X = icvi.streams.s3(seed=0).x[150:230]
    X[41] = X[40]
    seen = np.arange(80) != 30

    def value(X):
        start = clusterer.init(2, (), jnp, X.dtype)
        _, event = jax.lax.scan(lambda s, now: clusterer.step(s, *now), start, (X, seen))
        return jnp.sum(event.u**2) + jnp.sum(event.after.centers[-1] ** 3), event.shown.k

    with jax.enable_x64(True):
        gradient, k = jax.jit(jax.grad(value, has_aux=True))(jnp.asarray(X))
        assert int(k[-1]) == 2, "a birth lies on the path, and is not differentiated through"
        assert bool(jnp.isfinite(gradient).all()) and bool((gradient[30] == 0).all())
        value = jax.jit(value)
        for t in (1, 20, 41, 70, 79):
            step = np.zeros_like(X)
            step[t, 1] = 1e-6
            slope = (value(X + step)[0] - value(X - step)[0]) / 2e-6
            np.testing.assert_allclose(gradient[t, 1], slope, rtol=1e-5, atol=1e-7)


HOSTILE = {
    "constant": lambda z: np.ones_like(z),
    "one constant feature": lambda z: z * (np.arange(z.shape[1]) > 0),
    "collinear": lambda z: np.repeat(z[:, :1], z.shape[1], 1) * np.arange(1, z.shape[1] + 1),
    "nearly collinear": lambda z: z[:, :1] + 1e-5 * z,
    "repeats": lambda z: np.repeat(z[::10], 10, axis=0),
    "start in one place": lambda z: np.where(np.arange(len(z))[:, None] < 60, 0.0, z),
    "units apart": lambda z: z * 10.0 ** np.linspace(-6, 6, z.shape[1]),
    "glitches": lambda z: np.where(np.arange(len(z))[:, None] % 23 == 22, 9e14 * np.sign(z), z),
    "tiny": lambda z: z * 1e-15,
    "vast": lambda z: z * 1e14,
}


@pytest.mark.parametrize("p", [1, 2, 16])
@pytest.mark.parametrize("stream", HOSTILE)
def test_never_a_number_that_is_none(stream, p):
    z = np.random.default_rng(p).normal(size=(140, p))
    X = HOSTILE[stream](z).astype(np.float32)
    X = X - X[0]
    for options in ({}, {"seed": "buffer", "trigger": "window"}):
        clusterer = icvi.OnlineEllipsoidal(capacity=3, **options)
        state, yes = clusterer.init(p, (), np, np.float32), np.array(True)
        for x in X:
            state, event = clusterer.step(state, x, yes)
            assert np.isfinite(event.u).all() and abs(event.u.sum() - 1) < 1e-5
        for leaf in jax.tree.leaves(state):
            assert np.isfinite(leaf).all() and leaf.dtype in (np.float32, np.int32, bool)
        assert all((c[:, 0] > 0).all() for c in state.factors), "a covariance is not positive definite"


def test_single_precision_over_a_long_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 2)).astype(np.float32)
    X[:, 1] = X[:, 0] + np.float32(0.01) * X[:, 1]
    pipe = icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    run = icvi.run(pipe, X, keep=("k", "outlier"))
    state = run.state.clusterer
    assert int(state.samples) == len(X) and np.asarray(run.readings.k)[-1] == 1
    inside = ~np.asarray(run.readings.outlier)
    assert abs(inside.mean() - 0.999) < 3e-4
    got = np.linalg.inv(np.asarray(state.covariances, float)[0])
    np.testing.assert_allclose(got, np.linalg.inv(np.cov(X[inside].T.astype(float))), rtol=0.01)


def test_a_missing_sample_repeats_the_reading():
    X = blocks(2)
    events = follow(icvi.OnlineEllipsoidal(capacity=4), X, backend("numpy"))[1]
    gone = np.isnan(X).any(1)
    assert (events.shown.label[gone] == -1).all() and not events.u[gone].any() and not events.shown.outlier[gone].any()
    later = np.flatnonzero(gone)[1:]
    np.testing.assert_array_equal(events.shown.k[later], events.shown.k[later - 1])
    np.testing.assert_array_equal(events.ready[later], events.ready[later - 1])
    assert events.shown.k[0] == 0 and not events.ready[0]


def test_warmup():
    X = icvi.streams.s2(seed=0).x[:40]
    for warmup in ("exact", "paper"):
        events = follow(icvi.OnlineEllipsoidal(capacity=4, warmup=warmup), X, backend("numpy"))[1]
        assert np.flatnonzero(events.ready)[0] == 3 and (events.shown.k[:3] == 0).all() and events.shown.k[3] == 1
        np.testing.assert_array_equal(events.shown.label[:3], 0)
        np.testing.assert_allclose(events.after.centers[1, 0], X[:2].mean(0))
        assert (events.begin is None) == (warmup == "exact")
        if warmup == "paper":
            assert np.flatnonzero(events.begin).tolist() == [3] and (events.begin_mass == 3).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"capacity": 0}, "capacity=0"),
        ({"effective": 1.0}, "effective=1.0"),
        ({"outlier": 0.9}, "outlier=0.9"),
        ({"stabilization": 2.5}, "stabilization=2.5"),
        ({"forgetting": 1.0}, "forgetting=1.0"),
        ({"fuzzifier": 1.0}, "fuzzifier=1.0"),
        ({"c": 0.0}, "c=0.0"),
        ({"trigger": "often"}, "trigger='often'"),
        ({"seed": 3}, "seed=3"),
        ({"warmup": "none"}, "warmup='none'"),
    ],
)
def test_mistakes_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        icvi.OnlineEllipsoidal(**{"capacity": 4, **options})


def test_covariances_can_be_read():
    X = np.random.default_rng(0).normal(size=(400, 3)) @ np.diag([1.0, 2.0, 3.0])
    state = follow(icvi.OnlineEllipsoidal(capacity=2, outlier=0.9999999), X, backend("numpy"))[0]
    np.testing.assert_allclose(state.covariances[0], np.cov(X.T), atol=0.02)
    np.testing.assert_array_equal(state.covariances[1], np.eye(3))
