"""Data between the stations: anchors, times, pipelines without a clusterer or a panel."""

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.origin import Anchor


def test_an_anchor_of_two_words_keeps_what_one_would_lose():
    origin = 1.7e9 + 0.123456
    high = np.float32(origin)
    anchor = Anchor(np.full(1, high), np.full(1, origin - float(high), np.float32), np.ones(1, bool))
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=1), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    state = pipe.init(1, xp=np, dtype=np.float32)
    state = state._replace(anchor=anchor)
    state, reading = pipe.advance(state, np.array([0.25], np.float32))
    assert reading.centers[0, 0] == 0.25
    assert abs(float(anchor.high[0]) + float(anchor.low[0]) - origin) < 1e-5


@pytest.mark.parametrize("elapsed", [np.nan, np.inf, -1.0])
def test_a_time_that_makes_no_sense_is_a_missing_sample(elapsed):
    panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=panel)
    state = pipe.init(2)
    for x in np.random.default_rng(0).normal(size=(5, 2)):
        state, _ = pipe.step(state, x, 1.0)
    after, reading = pipe.step(state, np.zeros(2), elapsed)
    assert not reading.seen and int(after.missing) == 1
    for a, b in zip(jax.tree.leaves(after.statistics), jax.tree.leaves(state.statistics)):
        np.testing.assert_array_equal(a, b)


def test_messages_of_pipelines_that_make_no_sense():
    with pytest.raises(ValueError, match="nothing to do"):
        icvi.Pipeline(clusterer=None, panel=None)
    with pytest.raises(ValueError, match="a panel needs a clusterer"):
        icvi.Pipeline(clusterer=None, panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    with pytest.raises(ValueError, match="'surprise', and there is none"):
        icvi.Pipeline(clusterer=None, panel=None, monitors={"surprise": icvi.Distress()})


def test_monitors_may_watch_the_surprise_without_a_panel():
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[200:] += 40
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=None, monitors={"surprise": icvi.Distress()})
    final, readings = jax.lax.scan(pipe.step, pipe.init(2), X)
    assert readings.alarms["surprise"].code[200] == 1 and not readings.alarms["surprise"].code[:200].any()
    nearest = ((X[200] - np.asarray(readings.centers[199])) ** 2).sum(1).min()
    np.testing.assert_allclose(readings.surprise[200], nearest, rtol=1e-5)
    assert np.isnan(readings.surprise[0]) and (np.asarray(readings.cluster) == np.asarray(readings.label)).all()
