"""What the pipeline promises: exact values from the first sample on, under every transformation and precision."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from installed import installed, quick_jit
from oracles import indices as oracle
from oracles.dispersion import recursive_dispersion
from oracles.kmeans import kmeans

import icvi_jax as icvi
from icvi_jax.testing import example

XB, DB = icvi.XieBeni(), icvi.DaviesBouldin()
BOTH = (XB, DB)
VARIANTS = (
    XB,
    icvi.XieBeni(name="xbe", normalizer="exact"),
    DB,
    icvi.DaviesBouldin(name="dbr", root=True),
)


def pipeline(k=3, lam=0.9, indices=BOTH, **kwargs):
    clusterer = icvi.SequentialKMeans(k=k, **kwargs)
    return icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=indices, forgetting=lam))


def blobs(n, seed=0, k=3, p=2, spread=10.0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(k, p)) * spread)[rng.integers(0, k, n)] + rng.normal(size=(n, p))


class TestScan:
    def test_values_are_nan_exactly_during_warmup(self):
        pipe, X = pipeline(k=4), blobs(50).astype(np.float32)

        def scan(x):
            return jax.lax.scan(pipe.step, pipe.init(2), x)

        for f in (scan, jax.jit(scan)):
            _, readings = f(X)
            for v in readings.values.values():
                np.testing.assert_array_equal(np.isnan(v), np.arange(50) < 4)

    def test_distinct_seeding_waits_for_distinct_samples(self):
        X = np.repeat(blobs(6), 3, axis=0)
        want = kmeans(X, 4, seeding="distinct")
        readings = icvi.run(pipeline(k=4, seeding="distinct"), X).readings
        np.testing.assert_array_equal(np.isnan(readings.values["xb"]), ~want["ready"])
        np.testing.assert_array_equal(readings.label, want["label"])

    def test_vmap_over_streams_equals_fleet(self):
        pipe, X = pipeline(), np.stack([blobs(60, s) for s in range(4)]).astype(np.float32)
        _, one = jax.vmap(lambda x: jax.lax.scan(pipe.step, pipe.init(2), x))(X)
        fleet = icvi.run_fleet(pipe, X).readings
        np.testing.assert_allclose(one.values["xb"], fleet.values["xb"], rtol=1e-4)
        np.testing.assert_array_equal(one.label, fleet.label)

    def test_gradient_with_respect_to_samples_is_finite(self):
        pipe, X = pipeline(), jnp.asarray(blobs(40), jnp.float32)

        def last(x):
            return jax.lax.scan(pipe.step, pipe.init(2), x)[1].values["db"][-1]

        slope = quick_jit(jax.grad(last))(X)
        assert np.isfinite(slope).all() and np.abs(slope).max() > 0

    def test_a_new_number_or_stream_does_not_recompile(self):
        chex.clear_trace_counter()

        @jax.jit
        @chex.assert_max_traces(n=1)
        def traced(pipe, X):
            return jax.lax.scan(pipe.step, pipe.init(2), X)[1].values

        tries = ((0.9, 0), (0.8, 1), (1.0, 2))
        results = [traced(pipeline(lam=lam), jnp.asarray(blobs(30, s), jnp.float32)) for lam, s in tries]
        assert float(results[0]["xb"][-1]) != float(results[1]["xb"][-1])

    def test_vmap_over_forgetting_is_a_ladder_of_memories(self):
        X = jnp.asarray(blobs(60), jnp.float32)

        def last(lam):
            return icvi.validate(icvi.Panel(indices=BOTH, forgetting=lam), X, labels=np.arange(60) % 3)["xb"][-1]

        ladder = jax.vmap(last)(jnp.array([0.8, 0.9, 1.0]))
        np.testing.assert_allclose(ladder, [last(lam) for lam in (0.8, 0.9, 1.0)], rtol=1e-5)


class TestExactness:
    def test_mass_mean_and_scatter_are_the_recursion_in_C_G_M(self):
        e = example(3, samples=60, soft=True)
        panel = icvi.Panel(indices=(XB,), forgetting=0.95)
        want = recursive_dispersion(e.x, e.u, e.centers, e.active, 0.95)
        state = panel.init(4, 2, xp=np)
        for t in range(60):
            state, _ = panel.step(state, e.x[t], e.u[t], e.centers[t], e.active[t])
            view = panel.stats(state.statistics, state.prototypes).dispersion
            np.testing.assert_allclose(view.each, want["C"][t], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(view.mass, want["M"][t], rtol=1e-12, atol=1e-300)
            G = view.mass[:, None] * (view.mean - state.prototypes.centers)
            np.testing.assert_allclose(G, want["G"][t], rtol=1e-8, atol=1e-9)

    @pytest.mark.parametrize("lam", [1.0, 0.99, 0.9])
    def test_a_hundred_thousand_samples_stay_exact(self, lam):
        n = 10**5
        X = blobs(n, 4)
        U = np.random.default_rng(5).random((n, 3))
        U /= U.sum(1, keepdims=True)
        V = blobs(3, 6)[None] + 0.3 * np.sin(np.arange(n) / 999)[:, None, None]  # centres that are not means, and move
        panel = icvi.Panel(indices=VARIANTS, forgetting=lam)
        with jax.enable_x64(True):
            got = icvi.validate(panel, X, memberships=U, centers=V)
        for t in (99, 9_999, n - 1):
            want = icvi.batch(panel, X[: t + 1], U[: t + 1], V[: t + 1])
            for name, v in want.items():
                np.testing.assert_allclose(got[name][t], v, rtol=1e-9, err_msg=name)

    def test_kmeans_equals_its_oracle(self):
        X = blobs(300, 7)
        want = kmeans(X, 3)
        with jax.enable_x64(True):
            readings = icvi.run(pipeline(lam=1.0), X).readings
        np.testing.assert_array_equal(readings.label, want["label"])
        np.testing.assert_allclose(readings.centers[-1], want["V"][-1], rtol=1e-12)
        for t in (5, 50, 299):
            v = oracle.value("db", X[: t + 1], want["u"][: t + 1], want["V"][: t + 1], want["active"][: t + 1])
            np.testing.assert_allclose(readings.values["db"][t], v, rtol=1e-9)

    def test_the_papers_warmup_starts_with_mass_k_and_no_dispersion(self):
        X, lam = blobs(30, 8), 0.9
        with jax.enable_x64(True):
            got = icvi.run(pipeline(lam=lam, warmup="paper"), X).readings.values["xb"]
        path = kmeans(X, 3)
        C, G, M = np.zeros(3), np.zeros((3, 2)), np.full(3, 3.0)
        for t in range(3, 30):
            d = path["V"][t - 1] - path["V"][t]
            u = path["u"][t]
            e = X[t] - path["V"][t]
            C = lam * (C + 2 * (d * G).sum(1) + M * (d * d).sum(1)) + u * (e * e).sum(1)
            G = lam * (G + M[:, None] * d) + u[:, None] * e
            M = lam * M + u
            gaps = path["V"][t][:, None] - path["V"][t][None]
            h = (gaps**2).sum(-1)[~np.eye(3, dtype=bool)].min()
            np.testing.assert_allclose(got[t], (1 - lam) * C.sum() / h, rtol=1e-9)

    def test_irregular_time_fades_by_the_time_that_passed(self):
        e = example(9, samples=30, soft=True)
        gaps = np.random.default_rng(9).exponential(size=30) + 0.1
        panel = icvi.Panel(indices=(icvi.XieBeni(normalizer="exact"), DB), forgetting=icvi.forgetting_of(half_life=5))
        with jax.enable_x64(True):
            got = icvi.validate(panel, e.x, memberships=e.u, centers=e.centers, active=e.active, elapsed=gaps)
            exact = icvi.batch(panel, e.x, e.u, e.centers, e.active, elapsed=gaps)
        want = oracle.value("xb", *e, 0.5 ** (1 / 5), elapsed=gaps, normalizer="exact")
        for value in (got["xb"][-1], exact["xb"]):
            np.testing.assert_allclose(value, want, rtol=1e-9)

    def test_a_norm_is_a_change_of_coordinates(self):
        e, A = example(10, samples=30), np.array([[2.0, 0.3], [0.3, 0.5]])
        L = np.linalg.cholesky(A)
        weighted, plain = icvi.Panel(indices=BOTH, norm=A, forgetting=0.9), icvi.Panel(indices=BOTH, forgetting=0.9)
        with jax.enable_x64(True):
            got = icvi.validate(weighted, e.x, memberships=e.u, centers=e.centers, active=e.active)
            want = icvi.validate(plain, e.x @ L, memberships=e.u, centers=e.centers @ L, active=e.active)
            np.testing.assert_allclose(icvi.batch(weighted, *e)["xb"], want["xb"][-1], rtol=1e-9)
        np.testing.assert_allclose(got["db"], want["db"], rtol=1e-9)


class TestPrecision:
    def test_backends_agree_in_double_precision(self):
        pipe, X = pipeline(k=4), blobs(200, 11)
        want = icvi.run(pipe, X, backend="numpy").readings
        with jax.enable_x64(True):
            on_jax = icvi.run(pipe, X).readings
        for name, v in want.values.items():
            np.testing.assert_allclose(np.asarray(on_jax.values[name]), v, rtol=1e-12, err_msg=name)

    def test_torch_agrees_in_double_precision(self):
        installed("torch")
        pipe, X = pipeline(k=4), blobs(200, 11)
        want, got = (icvi.run(pipe, X, backend=backend).readings for backend in ("numpy", "torch"))
        for name, v in want.values.items():
            np.testing.assert_allclose(np.asarray(got.values[name]), v, rtol=1e-12, err_msg=name)

    @pytest.mark.parametrize("lam", [1.0, 0.9])
    def test_single_precision_far_from_the_origin(self, lam):
        X = (blobs(10**5, 12) + 1e6).astype(np.float32)
        pipe = pipeline(lam=lam)
        got = icvi.run(pipe, X, keep=("values",)).readings.values
        with jax.enable_x64(True):
            want = icvi.run(pipe, X.astype(np.float64), keep=("values",)).readings.values
        for name in want:
            np.testing.assert_allclose(got[name][10:], want[name][10:], rtol=3e-4, err_msg=name)

    def test_single_precision_over_a_million_samples(self):
        X = blobs(10**6, 13).astype(np.float32)
        pipe = pipeline(lam=1.0)
        got = icvi.run(pipe, X, keep=("values",)).readings.values
        with jax.enable_x64(True):
            want = icvi.run(pipe, X.astype(np.float64), keep=("values",)).readings.values
        for name in want:
            np.testing.assert_allclose(got[name][-1000:], want[name][-1000:], rtol=1e-3, err_msg=name)

    def test_a_cluster_nobody_feeds_poisons_nothing(self):
        n = 10**5
        X = blobs(n, 14, k=2).astype(np.float32)
        X[2] = [500.0, 500.0]  # takes the third seed and is never seen again
        X[-1] = [501.0, 500.0]
        readings = icvi.run(pipeline(), X).readings
        for v in readings.values.values():
            assert np.isfinite(v[3:]).all()
        np.testing.assert_allclose(readings.centers[-1, 2], [500.5, 500.0], rtol=1e-5)
