"""A fleet's budget of false alarms is shared out, and what cannot be promised is not."""

import pytest

import icvi_jax as icvi
from icvi_jax.monitors.budget import RANGE


def test_shared_over_streams_and_time():
    budget = icvi.Budget.of(20, per="day", streams=340, interval=600)
    assert budget.rate == pytest.approx(20 / (340 * 144)) and budget.promised
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


def test_below_one_in_ten_thousand_it_is_a_range():
    budget = icvi.Budget.of(1, per="day", streams=200, interval=600)
    assert not budget.promised and budget.expected == (RANGE[0], RANGE[1])
    assert "between" in str(budget) and "cannot be promised" in str(budget)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"alarms": 1, "per": "day", "interval": 0.5}, "fewer than can be learned"),
        ({"alarms": 1e-6}, "at least 1e-05 a sample"),
        ({"alarms": 0.5}, "an alarm every 2 samples"),
        ({"alarms": 1, "per": "day"}, "need the seconds between two samples"),
        ({"alarms": 1, "per": "week", "interval": 1}, "choose one of 'sample', 'hour', 'day'"),
        ({"alarms": 0}, "a positive number"),
        ({"alarms": 1e-3, "streams": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_done_is_said(given, words):
    with pytest.raises(ValueError, match=words):
        icvi.Budget.of(**given)
