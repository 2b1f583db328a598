"""Monitors do what their definitions say, on every backend and on every kind of value."""

import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.monitors import distress as module
from icvi_jax.monitors.log_scale import badness
from icvi_jax.numerics.arrays import COUNT_LIMIT

sys.path.insert(0, str(Path(__file__).resolve().parent))

from oracles.distress import distress as oracle  # noqa: E402


def listen(monitor, values, goal="min", positive=True, seen=None, xp=np, dtype=np.float64, replaced=None):
    """Codes, scores, standing and p along `values` (T, *streams), and the final state."""
    values = np.asarray(values)
    state, alarms = monitor.init(values.shape[1:], xp, dtype), []
    seen = np.ones(values.shape, bool) if seen is None else seen
    replaced = np.zeros(values.shape, bool) if replaced is None else replaced
    for value, here, anew in zip(values, seen, replaced):
        state = monitor.again(state, anew)
        state, alarm = monitor.step(state, xp.asarray(value, dtype=dtype), xp.asarray(here), goal, positive)
        alarms.append([np.asarray(part) for part in (alarm.code, alarm.score, alarm.standing, alarm.p)])
    return (*(np.stack(part) for part in zip(*alarms)), state)


def series(seed, samples=1200):
    """A positive index with bumps, lasting steps, drifts, autocorrelated noise and values that are no numbers."""
    rng = np.random.default_rng(seed)
    y, noise = np.zeros(samples), 0.0
    for _ in range(rng.integers(2, 7)):
        start, length = rng.integers(60, samples), rng.integers(5, 300)
        y[start : start + length] += rng.normal(1, 3)
        y[rng.integers(60, samples) :] += rng.normal(0.3, 1.5)
    y += np.cumsum(rng.normal(0, 0.01, samples)) + np.linspace(0, rng.uniform(-2, 6), samples)
    for t in range(samples):
        noise = 0.8 * noise + 0.15 * rng.normal()
        y[t] += noise
    values = np.exp(y)
    spots = rng.choice(samples, 20, replace=False)
    values[spots] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0], 20)
    return values


class TestDistressEqualsItsDefinition:
    @pytest.mark.parametrize("learned", [False, True])
    @pytest.mark.parametrize("positive", [True, False])
    def test_whatever_the_settings_and_the_values(self, positive, learned):
        met, reserves = set(), 0.0
        for trial in range(6):
            rng = np.random.default_rng([trial, positive, learned])
            samples = 2500 if trial == 0 else 800  # long enough that the tail forgets
            values = np.stack([series(seed, samples) for seed in rng.integers(1000, size=6)], 1)
            values[:: rng.integers(40, 200)] *= 8  # lone samples
            values[450:485, 1], values[600:634, 1] = 1e6, 1e6  # the longest that is a lone one, and one longer
            values[rng.integers(700) :][: rng.integers(300), 0] = 1.0
            if not positive:
                values = np.log(np.where(values > 0, values, np.nan)) * 10.0 ** rng.integers(-3, 4)
            goal, seen = str(rng.choice(["min", "max"])), rng.random(values.shape) > 0.03
            if goal == "max":
                values = 1 / np.where(values == 0, np.nan, values) if positive else -values
            settings = {"factor": 1.5, "width": 0.3, "patience": 4, "memory": 2, "warm": 3, "back": 0.1}
            other = {"factor": 6.0, "width": 2.5, "patience": 60, "memory": 100, "warm": 40, "back": 0.6}
            settings = {name: (settings if rng.random() < 0.3 else other)[name] for name in settings}
            settings |= {"false_alarms": 10 ** rng.uniform(-4, -1.2)} if learned else {}
            replaced = rng.random(values.shape) < 0.002 * (np.arange(6) > 2)  # every cluster, in half of the streams
            codes, scores, standing, p, state = listen(
                icvi.Distress(**settings), values, goal, positive, seen, replaced=replaced
            )
            reserves = max(reserves, state.threshold.reserve.max()) if learned else 1.0
            for n, column in enumerate(np.where(seen, values, np.nan).T):
                want = oracle(column, goal, signed=not positive, replaced=replaced[:, n], **settings)
                np.testing.assert_array_equal(codes[:, n], want["code"], err_msg=f"trial {trial}, stream {n}")
                np.testing.assert_array_equal(standing[:, n], want["standing"])
                np.testing.assert_allclose(scores[:, n], want["score"], rtol=1e-9, atol=1e-9)
                np.testing.assert_allclose(p[:, n], want["p"], rtol=1e-7)
                met |= set(want["code"].tolist())
        assert met == {0, 1, 2, 3} and reserves > 0

    def test_any_shape_of_fleet(self):
        values = np.stack([series(seed, 300) for seed in range(6)], 1)
        flat = listen(icvi.Distress(), values)
        cube = listen(icvi.Distress(), values.reshape(300, 2, 3))
        for a, b in zip(flat[:3], cube[:3]):
            np.testing.assert_array_equal(a, b.reshape(300, 6))

    def test_compiled_and_scanned(self):
        values = np.stack([series(seed) for seed in range(8)], 1)
        monitor, seen = icvi.Distress(), jnp.ones(8, bool)

        @jax.jit
        def scan(monitor, values):
            def body(state, value):
                return monitor.step(state, value, seen, "min", True)

            return jax.lax.scan(body, monitor.init((8,), jnp, values.dtype), values)[1]

        with jax.enable_x64(True):
            alarm = scan(monitor, jnp.asarray(values))
            other = scan(icvi.Distress(factor=2.0), jnp.asarray(values))
        np.testing.assert_array_equal(alarm.code, listen(monitor, values)[0])
        assert alarm.code.dtype == jnp.int32 and (np.asarray(other.code) != np.asarray(alarm.code)).any()
        assert scan._cache_size() == 1, "a new number recompiled"


class TestTwoValuesAgree:
    """A lone sample lifts an index at once, which then falls; at a change it goes on rising."""

    values = np.exp(0.7 * np.random.default_rng(2).normal(size=700))

    def test_a_lone_sample_raises_no_alarm_where_only_the_factor_would(self):
        lone, change = self.values.copy(), self.values.copy()
        lone[600:640] = np.exp(2.2 * 0.9 ** np.arange(40))
        change[600:640] = np.exp(2.2 * (1 - 0.5 ** np.arange(1, 41)))
        codes = listen(icvi.Distress(false_alarms=1e-3), np.stack([lone, change], 1))[0]
        assert not codes[:, 0].any() and 600 < np.flatnonzero(codes[:, 1])[0] < 610
        assert listen(icvi.Distress(), lone)[0][600] == 1, "by the factor alone it is one at once"

    def test_a_large_one_raises_it_at_once(self):
        values = self.values.copy()
        values[600] *= 1e4
        assert np.flatnonzero(listen(icvi.Distress(false_alarms=1e-3), values)[0])[0] == 600


def test_another_candidate_of_a_portfolio_begins_the_level_again():
    """The index of other clusters is another one: on a quiet stream that is no alarm."""
    several = tuple(icvi.SequentialKMeans(k=k, memory=50) for k in (2, 5))
    pipe = icvi.Pipeline(
        clusterer=icvi.Portfolio(candidates=several, margin=0.0),
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
        monitors={"xb": icvi.Distress(false_alarms=1e-3), "plain": icvi.Distress(index="xb")},
    )
    x = np.random.default_rng(5).normal(size=(8, 900, 1)).astype(np.float32)
    k = np.asarray(icvi.run_fleet(pipe, x, keep=("k",)).readings.k)
    turned = [(n, int(t) + 1) for n in range(8) for t in np.flatnonzero(np.diff(k[n])) if t > 100]
    assert turned
    n, turn = turned[0]
    before, after = (icvi.run(pipe, x[n, : turn + rows]).state.monitors for rows in (0, 1))
    assert before["xb"].learned > 50 and after["xb"].learned == 1 and after["xb"].threshold.tail.learned > 4
    assert after["plain"].learned >= before["plain"].learned


class TestValuesThatAreNoNumbers:
    @pytest.mark.parametrize("monitor", [icvi.Distress(), icvi.PageHinkley()], ids=["distress", "page_hinkley"])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -3.0])
    def test_change_nothing(self, monitor, value):
        for end in (30, 205, 330):  # warm-up, an episode, distress
            values = np.exp(0.1 * np.random.default_rng(0).normal(size=end))
            values[200:] *= 50
            state = listen(monitor, values)[-1]
            after, alarm = monitor.step(state, np.asarray(value), np.asarray(True), "min", True)
            missing, same = monitor.step(state, np.asarray(1.0), np.asarray(False), "min", True)
            for old, new, gone in zip(state, after, missing):
                assert old == new == gone
            assert alarm[:4] == same[:4] and alarm.code == 0 and alarm.score == state.score

    def test_a_signed_index_may_be_negative_and_zero(self):
        assert badness(np.asarray(-2.0), np.asarray(True), "max", False, np.zeros(()))[0] == 2.0
        assert badness(np.asarray(0.0), np.asarray(True), "min", False, np.zeros(()))[1]
        with pytest.raises(ValueError, match="goal='maximum'"):
            badness(np.asarray(1.0), np.asarray(True), "maximum", True, np.zeros(()))

    @pytest.mark.parametrize("positive", [True, False])
    @pytest.mark.parametrize("spread", [0.01, 0.3])
    def test_well_after_a_constant(self, positive, spread):
        rng = np.random.default_rng(1)
        y = np.concatenate([np.full(300, 5.0), 5 + spread * rng.normal(size=400)])
        y[500:520] += 8
        codes, *_, state = listen(icvi.Distress(), np.exp(y) if positive else y, positive=positive)
        assert np.flatnonzero(codes).tolist() == [500, 520] and codes[500] == 1 and codes[520] == 2
        assert state.spread == pytest.approx(spread, rel=0.5), "the spread of what came after was not learned"

    def test_a_jump_from_a_constant_is_a_spike_where_there_is_a_factor(self):
        y = np.concatenate([np.zeros(300), np.full(300, 3.0)])
        codes, _, standing, *_ = listen(icvi.Distress(), np.exp(y))
        assert codes[300] == 1 and codes[400] == 3 and standing[-1]
        assert listen(icvi.Distress(), y, positive=False)[2][-1], "without a factor it is distress, when it stays"

    def test_a_constant_would_freeze_the_level(self, monkeypatch):
        values = np.exp(np.concatenate([np.zeros(300), np.linspace(0, 1.5, 600)]))
        assert listen(icvi.Distress(), values)[-1].level > 1
        monkeypatch.setattr(module, "FINEST", -1.0)  # the plain rule
        assert listen(icvi.Distress(), values)[-1].level == 0


class TestDistress:
    def test_a_level_that_creeps_up_without_a_jump(self):
        for noise in (0.0, 0.2):
            y = np.linspace(0, 5, 2000) + noise * np.random.default_rng(2).normal(size=2000)
            codes, _, standing, *_ = listen(icvi.Distress(), np.exp(y))
            first = np.flatnonzero(codes)[0]
            assert codes[first] == 3 and first < 1700 and standing[first:].all()
            flat = np.exp(np.concatenate([np.full(300, y[0]), y]))
            assert listen(icvi.Distress(), flat)[2][-1], "after a flat start"

    def test_units_change_no_code(self):
        values = np.stack([series(seed) for seed in range(12)], 1)
        plain = listen(icvi.Distress(), values)
        for by in (1e6, 1e-6, 3.7):
            scaled = listen(icvi.Distress(), by * values)
            np.testing.assert_array_equal(scaled[0], plain[0])
            np.testing.assert_allclose(scaled[1], plain[1], atol=1e-9)
        logs = np.log(np.where(values > 0, values, np.nan))
        signed = listen(icvi.Distress(), logs, positive=False)[0]
        np.testing.assert_array_equal(listen(icvi.Distress(), 2.0**20 * logs, positive=False)[0], signed)

    def test_distress_stands_from_a_3_to_the_next_2(self):
        codes, _, standing, *_ = listen(icvi.Distress(), np.stack([series(seed) for seed in range(24)], 1))
        for c, s in zip(codes.T, standing.T):
            now = False
            for code, stands in zip(c, s):
                now = (now or code == 3) and code != 2
                assert stands == now

    def test_the_score_ranks(self):
        rng = np.random.default_rng(3)
        y = 0.1 * rng.normal(size=(600, 4))  # quiet, a spike that passes, a lasting step, a larger one
        y[300:320, 1] += 4
        y[300:, 2] += 4
        y[300:, 3] += 8
        codes, scores, standing, *_ = listen(icvi.Distress(), np.exp(y - [0, 5, 10, 15]))  # units differ
        assert (scores[:, 0] == 0).all() and (scores[:300] == 0).all() and (scores[330:, 1] == 0).all()
        assert scores[301, 1] == pytest.approx(4 / math.log(6), rel=0.15)
        assert (np.argsort(scores[599]) == [0, 1, 2, 3]).all() and standing[599].tolist() == [False, False, True, True]
        assert (scores[599, 2:] > 1.5 * scores[405, 2:]).all(), "trouble that lasts scores higher"

    def test_a_signed_index_has_spreads_alone(self):
        rng = np.random.default_rng(4)
        y = -5 + rng.normal(size=(900, 3))
        y[400:430, 1] += 15
        y[400:, 2] += 15
        codes, scores, standing, *_ = listen(icvi.Distress(), -y, goal="max", positive=False)
        assert not codes[:, 0].any() and standing[-1].tolist() == [False, False, True]
        assert codes[400, 1] == 1 and 2 in codes[430:434, 1] and codes[500, 2] == 3
        assert (np.argsort(scores[-1]) == [0, 1, 2]).all()

    def test_counters_stop_instead_of_turning_negative(self):
        state = listen(icvi.Distress(), np.exp(0.1 * np.random.default_rng(5).normal(size=60)))[-1]
        full = state._replace(learned=np.asarray(COUNT_LIMIT, np.int32))
        after, alarm = icvi.Distress().step(full, np.asarray(1.0), np.asarray(True), "min", True)
        assert after.learned == COUNT_LIMIT and after.learned.dtype == np.int32 and alarm.code == 0

    @pytest.mark.parametrize(
        "field, value",
        [("factor", 1.0), ("width", -1.0), ("patience", 0), ("memory", 1), ("warm", 0), ("back", 1.0)],
    )
    def test_settings_that_make_no_sense(self, field, value):
        with pytest.raises(ValueError, match=rf"Distress\({field}={value}"):
            icvi.Distress(**{field: value})

    def test_in_a_pipeline(self):
        pipe = icvi.Pipeline(
            clusterer=icvi.SequentialKMeans(k=11),
            panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
            monitors={"xb": icvi.Distress(), "classic": icvi.PageHinkley(index="xb")},
        )
        x = icvi.streams.s2(seed=3).x
        x[900] = np.nan
        readings = icvi.run(pipe, x, keep=("alarms", "values")).readings
        code, score, standing, *_ = (np.asarray(part) for part in readings.alarms["xb"])
        assert code.shape == (2500,) and standing[-1] and code[900] == 0 and score[900] == score[899] > 0
        expected = oracle(np.delete(np.asarray(readings.values["xb"], float), 900))
        assert (np.delete(code, 900) != expected["code"]).sum() <= 2  # single precision may move an alarm by a sample
        assert np.asarray(readings.alarms["classic"].code).max() == 1


class TestPageHinkley:
    def test_against_a_plain_loop(self):
        monitor = icvi.PageHinkley(threshold=3.0, delta=0.4, warm=30)
        for seed in range(8):
            values = series(seed)
            expected, past, g = [], [], 0.0
            for value in values:
                alarm = False
                if np.isfinite(value) and value > 0:
                    y = math.log(value)
                    if len(past) >= 30:
                        g = max(0.0, g + y - sum(past) / len(past) - 0.4)
                    alarm = g > 3.0
                    past, g = ([], 0.0) if alarm else ([*past, y], g)
                expected.append(int(alarm))
            codes, scores, standing, *_ = listen(monitor, values)
            np.testing.assert_array_equal(codes, expected)
            assert not standing.any() and ((scores > 1) <= (codes == 1)).mean() > 0.95 and sum(expected) > 0

    def test_settings_that_make_no_sense(self):
        with pytest.raises(ValueError, match=r"PageHinkley\(threshold=0"):
            icvi.PageHinkley(threshold=0)
        assert icvi.PageHinkley(delta=0).delta == 0
