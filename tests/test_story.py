"""Alarm codes as sentences."""

import datetime

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.report.alarm_text import clock, episodes


def codes(length, **at):
    """Codes of the given length, zero but for name=(sample, code)."""
    out = np.zeros(length, int)
    for sample, code in at.values():
        out[sample] = code
    return out


def test_the_sentence_people_read():
    times = np.datetime64("2007-10-10T00:00") + 10 * np.arange(2016)
    start = int(np.flatnonzero(times == np.datetime64("2007-10-18T06:40"))[0])
    said = icvi.story(codes(2016, a=(start, 1), b=(start + 17, 2)), times)
    assert said == ["at 2007-10-18 06:40 something new arrived; learned after 17 samples"]


def test_nothing_happened():
    assert icvi.story(np.zeros(10, int)) == [] and icvi.story([]) == []


def test_distress_and_what_comes_within_it():
    said = icvi.story(codes(50, a=(5, 1), b=(15, 3), c=(20, 1), d=(30, 3), e=(40, 2), f=(45, 1)))
    assert said == [
        "at sample 5 something new arrived; not learned after 10 samples",
        "at sample 15 distress: the index stayed far from its usual values; over at sample 40, after 25 samples",
        "at sample 20 something new arrived, during distress; not learned after 10 samples",
        "at sample 45 something new arrived; not learned yet, 4 samples later",
    ]


def test_creeping_distress_that_still_stands():
    assert icvi.story(codes(9, a=(3, 3))) == [
        "at sample 3 distress: the index stayed far from its usual values; not over yet"
    ]


def test_missing_samples_do_not_count():
    seen = np.ones(10, bool)
    seen[3:6] = False
    assert icvi.story(codes(10, a=(1, 1), b=(8, 2)), seen=seen)[0].endswith("learned after 4 samples")
    assert icvi.story(codes(10, a=(1, 1), b=(2, 2)))[0].endswith("learned after 1 sample")


def test_a_monitor_that_only_raises_spikes():
    said = icvi.story([0, 1, 0, 0, 1, 0], times=[1.5, 2.5, 3.5, 4.5, 5.5, 6.5], open_ends=False)
    assert said == ["at 2.5 something new arrived", "at 5.5 something new arrived"]


def test_from_a_run():
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=11),
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
        monitors={"xb": icvi.Distress()},
    )
    readings = icvi.run(pipe, icvi.streams.s2(seed=100).x, keep=("alarms", "seen")).readings
    found = episodes(readings.alarms["xb"].code, readings.seen)
    assert [e.start for e in found] == sorted(e.start for e in found)
    assert [e.outcome for e in found if e.kind == "distress"] == ["standing"]
    assert len(icvi.story(readings.alarms["xb"].code, seen=readings.seen)) == len(found)


def test_wrong_shapes():
    with pytest.raises(ValueError, match="one stream"):
        icvi.story(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="expected one entry per code, 3, got 2"):
        icvi.story([0, 1, 0], times=[1, 2])
    with pytest.raises(ValueError, match="seen"):
        episodes([0, 1, 0], seen=[True])


def test_times_as_people_write_them():
    assert clock(datetime.datetime(2020, 1, 2, 3, 4)) == "2020-01-02 03:04"
    assert clock(np.datetime64("2020-01-02T03:04:05.500")) == "2020-01-02 03:04:05.5"
    assert clock(np.datetime64("2020-01-02T03:04:00.000000")) == "2020-01-02 03:04"
    assert clock(datetime.datetime(2020, 1, 2, 3, 4, tzinfo=datetime.UTC)) == "2020-01-02 03:04:00+00:00"
    assert clock("Monday") == "Monday"
