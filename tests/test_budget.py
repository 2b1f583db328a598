"""A fleet's budget of false alarms is shared out, and what cannot be promised is not."""

import dataclasses

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.monitors.agreement import Agreement


def test_shared_over_streams_and_time():
    budget = icvi.Budget.of(20, per="day", streams=340, interval=600)
    assert budget.rate == pytest.approx(20 / (340 * 144)) and budget.agree == 1
    assert str(budget) == "at most about 20 false alarms a day over 340 nodes"
    assert icvi.Budget.of(2, per="hour", interval=1).rate == pytest.approx(2 / 3600)
    assert str(icvi.Budget.of(10 / 10_000)) == "at most about 10 false alarms in 10,000 samples"


def test_shared_among_monitors():
    monitors = {"change": icvi.Change(), "xb": icvi.Distress(false_alarms=0.01), "db": icvi.Distress()}
    got = icvi.Budget.of(1e-3).over(monitors)
    assert [m.false_alarms for m in got.values()] == [5e-4, 5e-4, None]
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    again = icvi.Budget.of(2e-3).over(pipe.monitors)
    assert again["change"].false_alarms == 2e-3 and again["change"].name == "change"


def test_below_one_in_ten_thousand_streams_must_agree():
    budget = icvi.Budget.parse("1/week", streams=10_000, interval=600)
    assert budget.rate == 1e-4 and 2 < budget.agree < 100 and budget.expected <= 1
    assert "at most 1 false incident a week" in str(budget)
    assert f"{budget.agree} nodes that raise an alarm in one row" in str(budget)
    fewer = budget.among(1_000)
    assert fewer.agree < budget.agree and fewer.expected <= 0.1 + 1e-9


def test_incidents_of_quiet_streams_are_as_rare_as_promised():
    budget = icvi.Budget.parse("4/day", streams=500, interval=600)
    rng, days = np.random.default_rng(0), 200
    raised = rng.random((500, 144 * days)) < 5e-4  # five times the rate, as much as was ever measured
    assert budget.agree > 1 and budget.incidents(raised).sum() <= 4 * days
    raised[: budget.agree, 1000] = True
    assert budget.incidents(raised)[998:1002].any()


@pytest.mark.parametrize(
    "given, words",
    [
        ({"alarms": 1, "per": "day", "interval": 0.5}, "fewer than can be learned"),
        ({"alarms": 1e-6}, "at least 0.0001 a sample"),
        ({"alarms": 0.5}, "an alarm every 2 samples"),
        ({"alarms": 1, "per": "day"}, "need the seconds between two samples"),
        ({"alarms": 1, "per": "year", "interval": 1}, "choose one of 'sample', 'hour', 'day', 'week'"),
        ({"alarms": 0}, "a positive number"),
        ({"alarms": 1e-3, "streams": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_done_is_said(given, words):
    with pytest.raises(ValueError, match=words):
        icvi.Budget.of(**given)


ALONE = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})


@pytest.mark.parametrize(
    "text, rate", [("10/10000", 1e-3), ("0.002", 2e-3), (" 1 / 2_000 ", 5e-4), ("3/hour", 0.05), (2e-3, 2e-3)]
)
def test_as_people_write_it(text, rate):
    assert icvi.Budget.parse(text, interval=60).rate == pytest.approx(rate)


@pytest.mark.parametrize("text", ["", "ten", "1/0", "20/year", "-1/day", "nan", "inf/day", "1//day"])
def test_what_nobody_can_read(text):
    with pytest.raises(ValueError, match="such as 10/10000"):
        icvi.Budget.parse(text, interval=60)


def test_a_fleet_shares_it_out():
    x = np.random.default_rng(0).normal(size=(50, 600, 2))
    own = dataclasses.replace(ALONE, monitors={"change": icvi.Change(false_alarms=20 / (50 * 144))})
    given = icvi.run_fleet(ALONE, x, false_alarms="20/day", interval=600).readings.alarms["change"]
    alone = icvi.run_fleet(own, x).readings.alarms["change"]
    np.testing.assert_array_equal(given.code, alone.code)
    assert given.code.any() and (given.code != icvi.run_fleet(ALONE, x).readings.alarms["change"].code).any()


def test_a_live_fleet_says_what_to_expect(tmp_path):
    live = icvi.Live(ALONE, features=2, streams=50, false_alarms="20/day", interval=600)
    assert str(live.budget) == "at most about 20 false alarms a day over 50 nodes"
    live.add([f"more {i}" for i in range(50)])
    assert live.budget.expected == pytest.approx(40) and live.budget.streams == 100
    live.save(tmp_path)
    again = ALONE.within(icvi.Budget.parse("20/day", streams=50, interval=600))
    assert icvi.Live.load(tmp_path, again).pipe == live.pipe
    assert icvi.Live(ALONE, features=2, streams=3).budget is None


def test_without_a_monitor_that_takes_a_rate():
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=2),
        panel=icvi.Panel(indices=(icvi.XieBeni(),)),
        monitors={"xb": icvi.Distress()},
    )
    with pytest.raises(ValueError, match="no monitor here takes false alarms"):
        icvi.run_fleet(pipe, np.zeros((2, 5, 1)), false_alarms="10/10000")


def test_what_was_measured_is_counted_alike():
    assert icvi.Budget.of(20, per="day", streams=340, interval=600).measured(1, 340 * 144) == "1 alarm, 1 a day"
    assert icvi.Budget.of(1e-3).measured(12, 20_000) == "12 alarms, 6 in 10,000 samples"


def test_the_rate_is_measured_on_rows_like_these():
    x = np.random.default_rng(0).normal(size=(900, 2))
    x[500:, 1] += 5  # a change is no quiet row
    got = icvi.calibrate(ALONE, 1e3 * x + 1e6, replicas=40)
    assert got.promised == 1e-3 and got.low <= got.measured <= got.high and 0.2 < got.measured / 1e-3 < 1.6
    assert got.quiet < 900 - 60 and got.got <= 1.2e-3
    with pytest.raises(ValueError, match="at least 200 are needed"):
        icvi.calibrate(ALONE, x[:150])


def test_the_rate_to_ask_for_gives_what_it_says():
    x = np.exp(1.5 * np.random.default_rng(3).normal(size=(700, 2)))
    got = icvi.calibrate(ALONE, x, replicas=40)
    again = icvi.calibrate(ALONE.within(icvi.Budget.of(got.ask)), x, replicas=40)
    assert got.ask != got.promised and got.got <= 1.2 * got.promised
    assert again.promised == got.ask and again.measured == pytest.approx(got.got, rel=0.5)


def test_where_no_rate_keeps_the_promise_none_is_named(monkeypatch):
    monkeypatch.setattr("icvi_jax.evaluation.calibrate._count", lambda pipe, made, names: np.full(len(made), 0.01))
    got = icvi.calibrate(ALONE, np.random.default_rng(0).normal(size=(600, 1)), replicas=3)
    assert np.isnan(got.ask) and "none of the rates that were tried" in str(got)


def test_quiet_rows_of_an_agreement_count_one_by_one():
    short, long = Agreement(2e-3, 1e5), Agreement(2e-3, 1e5)
    for row in range(5001):
        alarms = {0: 2, 700: 1, 5000: 1}.get(row, 0)
        long.add(row, alarms)
        if alarms:
            short.add(row, alarms)
    np.testing.assert_allclose(short.stored(), long.stored(), rtol=1e-9)
