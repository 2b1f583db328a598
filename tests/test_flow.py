"""Data between the stations: merges and births in place, anchors, pipelines without a clusterer."""

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.anchor import Anchor
from icvi_jax.types import Event, Merge, Prototypes

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.path)


def story(seed, n=60, k=4, p=2):
    """Samples, slots and what happened: a merge at some samples, a slot reborn at others; centres wander freely."""
    rng = np.random.default_rng(seed)
    X, slot = rng.normal(size=(n, p)) * 3, rng.integers(0, k, n)
    happened = {int(t): tuple(rng.permutation(k)[:2].tolist()) for t in rng.choice(np.arange(8, n), 4, replace=False)}
    reborn = {int(t): int(slot[t]) for t in rng.choice(np.arange(8, n), 3, replace=False)}
    return X, slot, happened, reborn, rng.normal(size=(n, k, p)) * 5


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_indices_are_exact_through_merges_and_births_in_place(seed, forgetting):
    X, slot, happened, reborn, V = story(seed)
    n, k, p = V.shape
    panel = icvi.Panel(indices=ALL, forgetting=forgetting)
    statistics = panel.start(k, p, (), np, np.float64)
    active, owner = np.ones(k, bool), np.full(n, -1)
    for t in range(n):
        u = np.eye(k)[slot[t]]
        none = np.zeros(k, bool)
        merge, born = Merge(none, none), none
        if t in happened:
            a, b = happened[t]
            merge, born = Merge(np.arange(k) == a, np.arange(k) == b), np.arange(k) == b
            owner[owner == b] = a
        if t in reborn:
            born = born | (np.arange(k) == reborn[t])
            owner[owner == reborn[t]] = -1
        owner[t] = slot[t]
        event = Event(
            X[t],
            u,
            Prototypes(V[t - 1], active),
            Prototypes(V[t], active),
            np.asarray(True),
            np.asarray(True),
            born=born,
            merge=merge,
        )
        statistics = panel.update(statistics, event)
        if t < 20 or t % 9:
            continue
        got = panel.values(statistics, event.after, event.ready)
        U = np.where(owner[: t + 1, None] >= 0, np.eye(k)[owner[: t + 1]], 0.0)
        want = icvi.batch(panel, X[: t + 1], U, V[: t + 1])
        for name in got:
            if name not in ("pc", "pe"):  # memberships as they were when the sample came
                np.testing.assert_allclose(got[name], want[name], rtol=1e-8, atol=1e-8, err_msg=f"{name} at {t}")


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
