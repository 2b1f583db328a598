"""Tuning: the surrogate is smooth and agrees with F1, gradients are right, and nothing gets worse where it is tuned."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax import tuning
from icvi_jax.engine.xla import scan_steps
from icvi_jax.evaluation import match
from icvi_jax.tuning.descent import descend
from icvi_jax.tuning.events import copies, events_of, parts, traced, values_of

optax = pytest.importorskip("optax", reason="needs the extra tuning")
REST = dict(patience=100.0, memory=100.0, warm=50.0, back=0.5)


def pipeline(k=3, **monitor):
    panel = icvi.Panel(indices=(icvi.DaviesBouldin(), icvi.XieBeni()), forgetting=0.9)
    clusterer = icvi.SequentialKMeans(k=k)
    return icvi.Pipeline(clusterer=clusterer, panel=panel, monitors={"xb": icvi.Distress(**monitor)})


def draws(count, stop=900):
    streams = [icvi.streams.s2(seed=seed) for seed in range(count)]
    return np.stack([s.x[:stop] for s in streams]), [[c for c in s.changes if c < stop] for s in streams]


@pytest.fixture(scope="module")
def recorded():
    X, changes = draws(2)
    pipe = pipeline()
    return pipe, X, changes, events_of(pipe, X)


def test_recorded_events_give_the_pipeline_s_values(recorded):
    pipe, X, _, events = recorded
    want = icvi.run_fleet(pipe, X).readings.values["xb"]
    got = values_of(pipe.panel, events)["xb"].T
    np.testing.assert_allclose(got[:, 10:], np.asarray(want)[:, 10:], rtol=1e-4)


def test_a_missing_sample_is_not_heard():
    X, _ = draws(2, 120)
    X[0, 60] = np.nan
    values = values_of(parts(pipeline())[2], events_of(pipeline(), X))["xb"]
    assert np.isnan(values[60, 0]) and np.isfinite(values[60, 1]) and np.isfinite(values[61, 0])


def test_the_trace_changes_no_value_and_keeps_gradients_finite(recorded):
    pipe, _, _, events = recorded
    panel = parts(pipe)[2]
    plain, kept = values_of(panel, events)["xb"], values_of(panel, traced(events, 2.0))["xb"]
    np.testing.assert_allclose(kept[10:], plain[10:], rtol=1e-5)
    lone = (events[0], events[1].at[200:, 1:].set(0.0), *events[2:])  # two clusters without new members for 700 samples

    def last(lam):
        return values_of(dataclasses.replace(panel, forgetting=lam), traced(lone, 2.0))["xb"][-1].sum()

    assert np.isfinite(jax.grad(last)(0.85))


def soft_spikes(values, factor=6.0, width=2.5, softness=0.05):
    soft = tuning.SoftDistress(factor=factor, width=width, softness=softness, **REST)
    return scan_steps(soft, soft.init(values.shape[1:]), (values,), ("min", True))[1]


def test_a_hard_soft_monitor_raises_what_distress_raises():
    values = np.exp(np.random.default_rng(0).normal(0, 0.1, (600, 1))).astype(np.float32)
    for t in (200, 400):
        values[t : t + 20] *= 50
    raised = np.asarray(soft_spikes(jnp.asarray(values), softness=0.01))[:, 0]
    monitor = icvi.Distress()
    start = monitor.init((1,), jnp, jnp.float32)
    alarm = scan_steps(monitor, start, (values, np.ones((600, 1), bool)), ("min", True))[1]
    assert np.flatnonzero(raised > 0.5).tolist() == np.flatnonzero(alarm.code[:, 0] == 1).tolist() == [200, 400]
    assert raised.sum() == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("alarms", ([100, 300], [100], [100, 150, 300], [], [99, 300], [100, 104, 300]))
def test_soft_f1_of_crisp_alarms_is_f1(alarms):
    changes, tolerance = [100, 300], 0
    raised = np.zeros((500, 1))
    raised[alarms] = 1
    counts, windows = jnp.ones((1, 2)), jnp.array([changes])
    got = tuning.soft_f1(jnp.asarray(raised), windows, counts, tolerance)
    assert float(got[0]) == pytest.approx(match(alarms, changes, tolerance, 500).f1, abs=1e-5)


def test_soft_f1_counts_a_change_once_and_prefers_the_early():
    def score(*alarms):
        raised = np.zeros((510, 1))
        raised[list(alarms)] = 1
        return float(tuning.soft_f1(jnp.asarray(raised), jnp.array([[100, 0]]), jnp.array([[1.0, 0.0]]), 10)[0])

    assert score(100) == pytest.approx(1) and score(110) == pytest.approx(0.8)
    assert score(100, 105) == pytest.approx(2 / 3) and score(111) == 0
    assert score(5) == 0  # in the window of what is only padding


def test_gradient_of_the_surrogate_against_differences(recorded):
    pipe, _, changes, events = recorded
    panel = parts(pipe)[2]
    with jax.enable_x64(True):
        wide = tuple(jnp.asarray(np.asarray(a), None if a.dtype == bool else jnp.float64) for a in traced(events, 2.0))

        def loss(p):
            values = values_of(dataclasses.replace(panel, forgetting=p[0]), wide)["xb"]
            raised = jnp.concatenate([soft_spikes(values, p[1], p[2], softness=0.5), jnp.zeros((15, 2))])
            return tuning.soft_f1(raised, jnp.asarray(changes), jnp.ones((2, len(changes[0]))), 15).mean()

        at = jnp.array([0.9, 6.0, 2.5])
        got = jax.grad(loss)(at)
        for i in range(3):
            step = jnp.zeros(3).at[i].set(1e-6)
            assert float((loss(at + step) - loss(at - step)) / 2e-6) == pytest.approx(float(got[i]), rel=1e-3, abs=1e-6)
        assert abs(float(got[0])) > 1e-3 and abs(float(got[1])) > 1e-4


def test_tune_mends_a_monitor_that_is_deaf():
    X, changes = draws(3)
    deaf = pipeline(factor=400.0)
    tuned = tuning.tune(deaf, X, changes, 15, half_lives=(10.0,), steps=15)
    assert tuned.before.f1 < 0.5 < 0.9 < tuned.after.f1
    assert tuned.pipe.monitors["xb"].factor < 400 and tuned.pipe.monitors["xb"].patience == 100
    assert [index.name for index in tuned.pipe.panel.indices] == ["db", "xb"]
    assert len(tuned.losses) == 3 and min(tuned.losses[2]) < tuned.losses[2][0] - 0.05
    fresh = np.stack([icvi.streams.s2(seed=seed).x[:900] for seed in (20, 21)])
    for pipe, least, most in ((deaf, 0, 0.5), (tuned.pipe, 0.8, 1)):
        values = icvi.run_fleet(pipe, fresh, keep=("values",)).readings.values["xb"]
        got = tuning.quality(pipe.monitors["xb"], icvi.XieBeni(), values, changes[:2], 15)
        assert least <= got.f1 <= most


def test_judge_is_the_monitor_in_the_pipeline(recorded):
    pipe, X, changes, _ = recorded
    other = dataclasses.replace(pipe, panel=dataclasses.replace(pipe.panel, forgetting=0.97))
    for one, got in zip((pipe, other), tuning.judge((pipe, other), X, changes, 15)):
        codes = np.asarray(icvi.run_fleet(one, X, keep=("alarms",)).readings.alarms["xb"].code)
        found = [match(np.flatnonzero(c == 1).tolist(), true, 15, len(c)) for c, true in zip(codes, changes)]
        assert got.f1 == pytest.approx(np.mean([score.f1 for score in found]))
        assert got.false_per_1000 == pytest.approx(np.mean([score.false_per_1000 for score in found]))
    with pytest.raises(ValueError, match="same clusterer"):
        tuning.judge((pipe, pipeline(k=4)), X, changes, 15)


def test_nothing_better_gives_the_pipeline_back():
    X, changes = draws(2)
    pipe = pipeline()
    tuned = tuning.tune(pipe, X, [[], []], 15, half_lives=(), steps=1)
    assert tuned.pipe is pipe and tuned.before == tuned.after


def test_copies_repeat_streams(recorded):
    two = copies(recorded[3], 2)
    for a, b in zip(recorded[3], two):
        np.testing.assert_array_equal(b[..., 2:], a)


def test_descend_finds_the_bottom():
    def bowl(p, data):
        gap = ((p["a"] - data) ** 2).sum()
        return gap, gap

    path = list(descend(bowl, {"a": jnp.zeros(2)}, jnp.array([1.0, -2.0]), optax.adam(0.1), 120))
    assert len(path) == 121 and float(path[-1][1]) < 1e-2 < float(path[0][1])


def test_messages():
    X, changes = draws(2, 100)
    plain = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    with pytest.raises(ValueError, match="expected one monitor, a Distress"):
        tuning.tune(plain, X, changes, 15)
    with pytest.raises(ValueError, match="3 lists for 2 streams"):
        tuning.tune(pipeline(), X, [*changes, []], 15)
    with pytest.raises(ValueError, match="standardize the samples before"):
        tuning.tune(dataclasses.replace(pipeline(), standardize=icvi.Standardize()), X, changes, 15)
