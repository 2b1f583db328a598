"""Standardize, explain and the reading: what a pipeline does around its clusterer."""

import jax
import numpy as np
import pytest
from installed import installed

import icvi_jax as icvi
from icvi_jax.testing import BACKENDS


@pytest.fixture(params=BACKENDS)
def lib(request):
    return installed(request.param)


def pipeline(**kwargs):
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.95)
    return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel, **kwargs)


class TestStandardize:
    def test_a_running_z_score(self, lib):
        X = np.random.default_rng(0).normal(size=(30, 3)) * [1, 100, 0] + [0, 5, 2]
        part = icvi.Standardize()
        with lib.precision():
            state = part.init(3, (), lib.xp, lib.dtype)
            for t, x in enumerate(X):
                state, z = part.step(state, lib.array(x), lib.array(np.array(True)))
                past = X[: t + 1]
                scale = np.where(past.std(0) > 0, past.std(0), 1)
                np.testing.assert_allclose(np.asarray(z), (x - past.mean(0)) / scale, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(np.asarray(part.restore(state, z)), X[-1], rtol=1e-3)

    def test_forgetting_and_missing_samples(self):
        part = icvi.Standardize(forgetting=0.8)
        X = np.random.default_rng(1).normal(size=(40, 1)) + np.arange(40)[:, None]
        state = part.init(1, (), np, np.float64)
        for x in X:
            state, _ = part.step(state, x, np.array(True))
            state, _ = part.step(state, x * 0, np.array(False))
        w = 0.8 ** np.arange(39, -1, -1)
        mean = (w @ X) / w.sum()
        np.testing.assert_allclose(state.mean, mean)
        np.testing.assert_allclose(state.variance, w @ (X - mean) ** 2 / w.sum())

    def test_after_the_warm_up_the_scale_is_held(self, lib):
        rng = np.random.default_rng(2)
        X = rng.normal(size=(60, 3)) * [1, 100, 0] + [0, 5, 2]
        X[45:] += [30, 0, 7]  # the third feature changes for the first time
        part = icvi.Standardize(warmup=20)
        with lib.precision():
            state = part.init(3, (), lib.xp, lib.dtype)
            for t, x in enumerate(X):
                before = state
                state, z = part.step(state, lib.array(x), lib.array(np.array(t % 7 != 3)))
                past = X[: t + 1][np.arange(t + 1) % 7 != 3][:20]
                scale = np.where(past.std(0) > 0, past.std(0), 1)
                calm = slice(None) if t < 45 else slice(2)
                np.testing.assert_allclose(
                    np.asarray(z)[calm], ((x - past.mean(0)) / scale)[calm], rtol=2e-3, atol=2e-3
                )
                if t == 46:
                    z_first = float(z[2])
            assert abs(float(z[0])) > 15, "a frozen scale does not hide the change"
            np.testing.assert_allclose(z_first, np.sqrt(20), rtol=1e-3)
            np.testing.assert_array_equal(np.asarray(state.mean), np.asarray(before.mean))

    def test_a_finite_memory_follows_slowly(self):
        part, state = icvi.Standardize(warmup=50, memory=200), None
        state = part.init(1, (), np, np.float64)
        for x in np.random.default_rng(3).normal(size=(50, 1)):
            state, _ = part.step(state, x, np.array(True))
        mean = state.mean.copy()
        state, _ = part.step(state, mean + 10, np.array(True))
        np.testing.assert_allclose(state.mean, mean + 10 / 200)

    def test_without_a_warm_up_nothing_changed(self):
        """The recursion as it was before there were warm-ups, to the last bit."""
        X = np.random.default_rng(4).normal(size=(50, 2)).astype(np.float32) * [1, 1e3]
        X = X.astype(np.float32)
        part = icvi.Standardize(forgetting=0.9)
        state = part.init(2, (), np, np.float32)
        mass, mean, variance = np.float32(0), np.zeros(2, np.float32), np.zeros(2, np.float32)
        for x in X:
            state, z = part.step(state, x, np.array(True))
            mass = np.float32(0.9) * mass + np.float32(1)
            b = np.float32(1) / mass
            e = x - mean
            variance = variance + b * ((1 - b) * e * e - variance)
            mean = mean + b * e
            np.testing.assert_array_equal(state.mean, mean)
            np.testing.assert_array_equal(z, (x - mean) / np.sqrt(np.where(variance > 0, variance, np.float32(1))))

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"warmup": 1}, "warmup=1"),
            ({"warmup": 50, "forgetting": 0.9}, "use memory"),
            ({"memory": 100}, "expected a warmup"),
            ({"warmup": 50, "memory": 0}, "memory=0"),
        ],
    )
    def test_settings_that_make_no_sense_are_refused(self, wrong, said):
        with pytest.raises(ValueError, match=said):
            icvi.Standardize(**wrong)

    def test_engines_agree_on_a_warm_up(self):
        X = icvi.streams.s3(seed=1).x[:300] * [1000.0, 0.01]
        pipe = pipeline(standardize=icvi.Standardize(warmup=40, memory=500))
        jax_, numpy_ = (icvi.run(pipe, X.astype(np.float32), backend=b).readings for b in ("jax", "numpy"))
        np.testing.assert_allclose(jax_.values["db"], numpy_.values["db"], rtol=2e-3)
        fleet = icvi.run_fleet(pipe, np.stack([X, X[::-1]]).astype(np.float32)).readings
        np.testing.assert_allclose(fleet.values["db"][0], jax_.values["db"], rtol=1e-4)

    def test_units_do_not_matter_to_a_standardized_pipeline(self):
        X = icvi.streams.s3(seed=1).x[:300]
        pipe = pipeline(standardize=icvi.Standardize())
        with jax.enable_x64(True):
            one, other = (icvi.run(pipe, x).readings for x in (X, X * [1000.0, 0.01] + [7.0, -7.0]))
        np.testing.assert_allclose(other.values["db"], one.values["db"], rtol=1e-6)
        centers = np.asarray(one.centers) * [1000.0, 0.01] + [7.0, -7.0]
        np.testing.assert_allclose(other.centers, centers, rtol=1e-6)


class TestReading:
    def test_a_missing_sample_repeats_values_and_joins_nothing(self):
        X = icvi.streams.s3(seed=2).x[:100].copy()
        X[40] = np.nan
        r = icvi.run(pipeline(), X).readings
        assert not r.seen[40] and r.label[40] == -1 and not np.asarray(r.u[40]).any() and r.k[40] == r.k[39]
        for a in (*r.values.values(), r.centers):
            np.testing.assert_array_equal(a[40], a[39])
        rest = icvi.run(pipeline(), np.delete(X, 40, 0)).readings
        np.testing.assert_array_equal(np.delete(np.asarray(r.values["xb"]), 40), rest.values["xb"])

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
    def test_an_unusable_first_sample_is_no_anchor(self, bad):
        X = icvi.streams.s3(seed=3).x[:60].astype(np.float32)
        first = np.concatenate([[[bad, 0.0]], X]).astype(np.float32)
        got, want = icvi.run(pipeline(), first), icvi.run(pipeline(), X)
        # the second column begins at 0, so the origins differ, and with them the rounding
        np.testing.assert_allclose(got.readings.values["xb"][1:], want.readings.values["xb"], rtol=1e-5)
        assert int(got.state.missing) == 1

    def test_centers_are_in_the_units_of_the_samples(self):
        X = icvi.streams.s3(seed=4).x[:50] + 1e6
        r = icvi.run(pipeline(), X).readings
        assert np.isnan(r.centers[0, 1:]).all(), "a slot without a cluster has no centre"
        np.testing.assert_allclose(r.centers[0, 0], X[0], rtol=1e-6)
        assert np.abs(np.asarray(r.centers[-1]) - X.mean(0)).max() < 100


class TestExplain:
    def test_it_names_the_closest_and_the_worst_pair(self, lib):
        panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()))
        V = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 1.0], [0.0, 50.0]])
        with lib.precision():
            state = panel.init(4, 2, xp=lib.xp, dtype=lib.dtype)
            for i, far in ((0, 9.0), (0, 0.0), (1, 0.1), (2, 0.1), (3, 1.0), (3, 1.0)):
                u = np.eye(4)[i]
                state, _ = panel.step(state, lib.array(V[i] + [far, 0]), lib.array(u), lib.array(V))
            who = icvi.explain(panel, state)
        assert tuple(int(i) for i in who.closest) == (1, 2) and float(who.distance) == pytest.approx(1.0)
        assert tuple(int(i) for i in who.worst) == (0, 1)
        np.testing.assert_allclose(np.asarray(who.level), [40.5, 0.01, 0.01, 1.0], rtol=1e-4)

    def test_one_cluster_has_no_pair(self):
        panel = icvi.Panel(indices=(icvi.XieBeni(),))
        start = panel.init(2, 1, xp=np)
        state, _ = panel.step(start, np.ones(1), np.array([1.0, 0.0]), np.ones((2, 1)), np.array([True, False]))
        who = icvi.explain(panel, state)
        assert (who.closest == -1).all() and np.isnan(who.distance) and np.isnan(who.level[1])

    def test_a_pipelines_state_has_a_panel(self):
        pipe = pipeline()
        state = icvi.run_fleet(pipe, icvi.streams.s3(seed=5).x[:120].reshape(2, 60, 2)).state
        who = icvi.explain(pipe.panel, state.panel)
        assert who.closest.shape == (2, 2) and np.isfinite(who.ratio).all()


class TestRun:
    def test_it_shows_itself(self):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
        pipe = pipeline(monitors={"xb": icvi.Distress()})
        run = icvi.run(pipe, icvi.streams.s3(seed=6).x[:200])
        assert "200 samples" in run._repr_html_() and len(run.plot().axes) == 2

    def test_tables_are_samples(self):
        polars = pytest.importorskip("polars", reason="polars is not installed")
        X = icvi.streams.s3(seed=7).x[:60]
        table = polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})
        got, want = (icvi.run(pipeline(), data, backend="numpy").readings for data in (table, X))
        np.testing.assert_array_equal(got.values["xb"], want.values["xb"])
