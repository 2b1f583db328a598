"""Health says what the truth would say, on streams whose truth is known; Portfolio chooses by it."""

import importlib.resources
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.health import Vitals as Oracle

import icvi_jax as icvi
from icvi_jax.indices import health as module
from icvi_jax.indices.health import CUT, MERGED, NOTHING, coefficients, health_sentence, trust_of
from icvi_jax.statistics import Vitals

FIVE = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 2]])
PANEL = icvi.Panel(indices=(icvi.Health(),))


def five(seed=0, n=1500):
    """Five clusters, well apart, in random order, and the class of each sample."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n)
    return (FIVE[y] + rng.normal(size=(n, 2))).astype(np.float32), y


def health_of(clusterer, x, panel=PANEL):
    run = icvi.run(icvi.Pipeline(clusterer=clusterer, panel=panel), x)
    return np.asarray(run.readings.values["health"]), icvi.explain(panel, run.state.panel).health


class TestWhatItSays:
    def test_the_true_labels_are_trusted_and_shuffled_ones_are_not(self):
        x, y = five()
        right = icvi.validate(PANEL, x, labels=y)["health"][-1]
        wrong = icvi.validate(PANEL, x, labels=np.random.default_rng(1).permutation(y))["health"][-1]
        assert right > 0.8 and wrong < 0.2

    def test_two_clusters_for_five_states_are_merged(self):
        value, why = health_of(icvi.SequentialKMeans(k=2, memory=50.0), five()[0])
        assert value[-1] < 0.3 and int(why.reason) == MERGED and int(why.cluster) >= 0

    def test_ten_clusters_for_two_states_are_cut(self):
        rng = np.random.default_rng(0)
        x = 8.0 * rng.integers(0, 2, 1500)[:, None] + rng.normal(size=(1500, 2))
        value, why = health_of(icvi.SequentialKMeans(k=10, memory=50.0), x)
        assert value[-1] < 0.3 and int(why.reason) in (CUT, NOTHING), "cut and nothing to find are often confused"

    def test_in_one_cloud_there_is_nothing_to_find(self):
        x = np.random.default_rng(0).normal(size=(1500, 3))
        value, why = health_of(icvi.SequentialKMeans(k=4, memory=50.0), x)
        assert value[-1] < 0.2 and int(why.reason) == NOTHING

    def test_s2_under_plain_k_means_and_under_clusterers_that_find_k(self):
        for seed in (1, 0):
            x = icvi.streams.s2(seed=seed).x
            half = len(x) // 2
            assert np.median(health_of(icvi.SequentialKMeans(k=11), x)[0][half:]) <= 0.2
        for clusterer in (icvi.OnlineEllipsoidal(capacity=16), icvi.MergeSplit(slots=16)):
            assert np.median(health_of(clusterer, x)[0][half:]) >= 0.7, clusterer


def crisp_run(seed, k=4, n=260, p=3):
    """A stream with noise, gaps, and slots that die and are born again: x, labels, centres and active slots after."""
    rng = np.random.default_rng(seed)
    active = np.ones((n, k), bool)
    active[:5, 1:] = False
    active[90:130, 3] = False
    active[200:, 2] = False
    labels = np.array([rng.choice(np.flatnonzero(row)) for row in active])
    labels[rng.random(n) < 0.1] = -1
    centers = 6 * rng.normal(size=(k, p)) + 0.05 * np.cumsum(rng.normal(size=(n, k, p)), axis=0)
    x = rng.normal(size=(n, p)) + centers[np.arange(n), labels]
    x[rng.random(n) < 0.05] = np.nan
    return x, labels, centers, active


class TestTheOracle:
    @pytest.mark.parametrize("named", [False, True])
    def test_the_signs_and_the_values_are_those_of_the_definition(self, named):
        x, labels, centers, active = crisp_run(int(named))
        names = np.broadcast_to([0, 1, 0, 2], active.shape) if named else None
        oracle, want, known = Oracle(active.shape[1], x.shape[1]), (np.nan, None, None, -1), 0
        panel = icvi.Panel(indices=(icvi.Health(),), of="clusters" if named else "slots")
        state = panel.init(active.shape[1], x.shape[1], xp=np, dtype=np.float64)
        for t in range(len(x)):
            u = np.eye(active.shape[1])[labels[t]] * (labels[t] >= 0)
            state, values = panel.step(
                state, x[t], u, centers[t], active[t], clusters=None if names is None else names[t]
            )
            if np.isfinite(x[t]).all():
                oracle.step(x[t], u, centers[t], active[t], None if names is None else names[t])
                want = oracle.read()
            np.testing.assert_allclose(values["health"], want[0], rtol=1e-9, err_msg=f"sample {t}")
            if np.isfinite(want[0]):
                signs = panel.stats(state.statistics, state.prototypes)[Vitals].signs
                np.testing.assert_allclose(np.array(signs), oracle.signs(), rtol=1e-9, atol=1e-9, err_msg=f"sample {t}")
                known += 1
        np.testing.assert_allclose(icvi.explain(panel, state).health.reasons, list(want[1].values()), rtol=1e-9)
        assert known > 150


class TestHowItIsComputed:
    def test_it_is_unknown_at_first_and_a_chance_then(self):
        value, _ = health_of(icvi.SequentialKMeans(k=5), five()[0])
        assert np.isnan(value[:60]).all() and not np.isnan(value[70:]).any()
        assert (value[70:] > 0).all() and (value[70:] < 1).all()

    def test_the_forgetting_of_the_panel_has_no_effect(self):
        x = five()[0]
        short = icvi.Panel(indices=(icvi.Health(),), forgetting=0.9)
        np.testing.assert_array_equal(
            health_of(icvi.SequentialKMeans(k=3), x, short)[0], health_of(icvi.SequentialKMeans(k=3), x)[0]
        )

    def test_clusters_of_several_slots_count_as_clusters_on_both_kinds_of_panel(self):
        x, clusterer = five()[0], icvi.MergeSplit(slots=12)
        of_clusters = icvi.Panel(indices=(icvi.Health(),), of="clusters")
        slots, clusters = health_of(clusterer, x)[0], health_of(clusterer, x, of_clusters)[0]
        np.testing.assert_allclose(slots, clusters, rtol=1e-5)

    @pytest.mark.parametrize(
        "clusterer", [icvi.SequentialKMeans(k=3), icvi.FuzzyCMeans(k=3), icvi.MergeSplit(slots=6)], ids=lambda c: c.name
    )
    def test_every_way_to_run_gives_the_same_health(self, clusterer, monkeypatch):
        """NumPy's loop, native code, XLA, a fleet, ticks: beyond its warm-up, with holes in the stream."""
        x = np.array(five(n=300)[0])
        x[::11] = np.nan
        pipe = icvi.Pipeline(clusterer=clusterer, panel=PANEL)
        state, want = pipe.init(2, xp=np, dtype=np.float64), []
        for row in x:
            state, reading = pipe.step(state, row.astype(float))
            want.append(reading.values["health"])
        live, ticked = icvi.Live(pipe, features=2, streams=2), []
        for row in x:
            ticked.append(live.tick(np.stack([row, 3 * row])).values["health"][0])
        monkeypatch.setenv("ICVI_BACKEND", "native")
        got = {"native": icvi.run(pipe, x), "fleet": icvi.run_fleet(pipe, np.stack([3 * x, x]))}
        monkeypatch.setenv("ICVI_BACKEND", "xla")
        got["xla"] = icvi.run(pipe, x)
        found = {how: np.asarray(run.readings.values["health"]) for how, run in got.items()} | {
            "live": np.array(ticked)
        }
        for how, values in found.items():
            values = values[-1] if how == "fleet" else values
            assert np.isfinite(values[100:]).all(), how
            np.testing.assert_allclose(values, np.array(want), rtol=2e-3, atol=2e-4, err_msg=how)

    def test_it_has_finite_gradients(self):
        x = jnp.asarray(five(n=200)[0])
        pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=PANEL)

        def last(scale):
            return jax.lax.scan(pipe.step, pipe.init(2), x * scale)[1].values["health"][-1]

        slope = jax.grad(last)(jnp.ones(2))
        assert np.isfinite(slope).all() and np.abs(slope).max() > 0

    def test_a_proposal_has_a_health(self):
        x, y = five()
        state = PANEL.init(5, 2, xp=np, dtype=np.float64)
        for i in range(200):
            state, _ = PANEL.step(state, x[i], np.eye(5)[y[i]], FIVE)
        got = icvi.propose(PANEL, state, FIVE[2])["health"]
        assert got.shape == (6,) and np.isfinite(got[:5]).all()

    def test_a_damaged_file_of_coefficients_is_refused(self, tmp_path, monkeypatch):
        body = dict(coefficients())
        body["hidden_bias"] = [b + 1 for b in body["hidden_bias"]]
        (tmp_path / "health.json").write_text(json.dumps(body))
        coefficients.cache_clear()
        monkeypatch.setattr(module, "files", lambda name: tmp_path)
        with pytest.raises(ValueError, match="checksum"):
            coefficients()
        monkeypatch.undo()
        coefficients.cache_clear()
        assert importlib.resources.files("icvi_jax.indices").joinpath("health.json").is_file() and coefficients()

    def test_words(self):
        assert [trust_of(v) for v in (0.2, 0.3, 0.69, 0.7, float("nan"))] == ["low", "medium", "medium", "high", ""]
        assert health_sentence(0.1, MERGED, 2).endswith("two states share cluster 2")
        assert "nothing to find" in health_sentence(0.1, NOTHING)


def portfolio(*sizes, **options):
    return icvi.Portfolio(candidates=tuple(icvi.SequentialKMeans(k=k, memory=50.0) for k in sizes), **options)


class TestPortfolio:
    def test_it_finds_a_k_at_which_five_states_are_right(self):
        x, y = five(n=2500)
        run = icvi.run(icvi.Pipeline(clusterer=portfolio(2, 3, 5, 9), panel=PANEL), x)
        assert run.readings.k[-1] in (5, 9)
        from icvi_jax.evaluation.partitions import adjusted_rand_index

        assert adjusted_rand_index(y[-500:], np.asarray(run.readings.cluster[-500:])) > 0.6

    def test_names_persist_through_a_change_of_candidate(self):
        x, y = five(n=2500)
        readings = icvi.run(icvi.Pipeline(clusterer=portfolio(5, 2, margin=0.0, patience=1.0), panel=PANEL), x).readings
        k, names = np.asarray(readings.k), np.asarray(readings.cluster)
        turn = int(np.flatnonzero(np.diff(k) == 3)[-1]) + 1
        before, after = set(names[turn - 50 : turn]), set(names[turn : turn + 100])
        assert before & after, "no cluster kept its name"
        assert len(after - before) <= 4

    def test_one_candidate_is_that_candidate(self):
        x, _ = five()
        alone = icvi.run(icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=4), panel=PANEL), x).readings
        pipe = icvi.Pipeline(clusterer=icvi.Portfolio(candidates=(icvi.SequentialKMeans(k=4),)), panel=PANEL)
        got = icvi.run(pipe, x).readings
        np.testing.assert_array_equal(got.cluster, alone.cluster)
        np.testing.assert_allclose(got.values["health"], alone.values["health"], rtol=1e-6)

    def test_candidates_of_a_group_are_what_each_is_alone(self):
        parts = tuple(icvi.SequentialKMeans(k=k, memory=memory) for k, memory in ((2, 50.0), (5, np.inf), (3, 20.0)))
        auto = icvi.Portfolio(candidates=(*parts, icvi.SequentialKMeans(k=7)))
        assert [len(group) for group in auto.groups] == [3, 1]
        pipe = icvi.Pipeline(clusterer=auto, panel=None)
        x = np.array(five(n=200)[0], float)
        x[::7] = np.nan
        state = icvi.run(pipe, x).state.clusterer
        for i, part in enumerate(parts):
            alone = icvi.run(icvi.Pipeline(clusterer=part, panel=PANEL), x).state
            np.testing.assert_array_equal(np.asarray(state.states[0].centers)[: part.k, :, i], alone.clusterer.centers)
            assert not np.asarray(state.states[0].counts)[part.k :, i].any()
            got, want = state.statistics[0]["vitals"], alone.panel.statistics["vitals"]
            np.testing.assert_allclose(np.asarray(got.half)[: part.k, :, i], want.half, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(np.asarray(got.of_members)[:, i], want.of_members, rtol=1e-5, atol=1e-6)

    def test_no_change_within_the_patience(self):
        x, _ = five(n=2500)
        run = icvi.run(icvi.Pipeline(clusterer=portfolio(2, 3, 5, margin=0.0, patience=400.0), panel=PANEL), x)
        turns = np.flatnonzero(np.diff(np.asarray(run.readings.k)[200:]))
        assert (np.diff(turns) >= 400).all()

    def test_another_judge_and_candidates_of_other_kinds(self):
        mixed = (icvi.SequentialKMeans(k=3), icvi.MergeSplit(slots=6), icvi.FuzzyCMeans(k=2))
        pipe = icvi.Pipeline(clusterer=icvi.Portfolio(candidates=mixed, judge=icvi.XieBeni()), panel=PANEL)
        readings = icvi.run(pipe, five(n=400)[0]).readings
        assert (np.asarray(readings.cluster) >= 0).all()

    def test_stop_save_load_go_on(self, tmp_path):
        x, _ = five(n=600)
        pipe = icvi.Pipeline(clusterer=portfolio(2, 5), panel=PANEL)
        whole, first = icvi.run(pipe, x), icvi.run(pipe, x[:300])
        icvi.save(tmp_path / "one.icvi", pipe, first.state)
        rest = icvi.run(pipe, x[300:], state=icvi.load(tmp_path / "one.icvi", pipe))
        np.testing.assert_array_equal(np.asarray(rest.readings.cluster), np.asarray(whole.readings.cluster)[300:])

    @pytest.mark.parametrize(
        "wrong",
        [{"candidates": ()}, {"candidates": (1,)}, {"judge": "xb"}, {"judge": icvi.CONN()}, {"margin": -1.0}],
        ids=str,
    )
    def test_what_cannot_be_is_refused(self, wrong):
        with pytest.raises(ValueError, match="Portfolio"):
            icvi.Portfolio(**{"candidates": (icvi.SequentialKMeans(k=2),)} | wrong)
