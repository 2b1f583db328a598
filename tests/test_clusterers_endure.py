"""Clusterers on what real sensors do to them: long constants, few values, holes, one feature and thirty, one precision.

The clusterers are those of the catalogue at a small size, so that a new one is held to the same, two with a memory, and
one whose links look at traffic.
"""

import jax
import numpy as np
import pytest
from test_clusterers import moving, quantised

import icvi_jax as icvi
from icvi_jax.evaluation import adjusted_rand_index
from icvi_jax.testing import backend
from icvi_jax.testing.clusterers import follow

ALL = (
    *(entry.clusterer(**{entry.size: 4}) for entry in icvi.clusterers.catalogue()),
    icvi.SequentialKMeans(k=4, memory=50.0, seeding="distinct"),
    icvi.OnlineEllipsoidal(capacity=4, memory=100.0),
    icvi.MergeSplit(slots=4, traffic=0.5),
)
EACH = pytest.mark.parametrize("clusterer", ALL, ids=lambda clusterer: f"{clusterer.name} {ALL.index(clusterer)}")
LONG = 100_000


def pipeline(clusterer):
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    return icvi.Pipeline(clusterer=clusterer, panel=panel)


def sound(state, before):
    """Assert that a state has nothing in it that is not finite, and is no larger than at the start."""
    for (path, leaf), start in zip(jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(before)):
        assert np.isfinite(np.asarray(leaf)).all(), jax.tree_util.keystr(path)
        assert leaf.shape == start.shape and leaf.dtype == start.dtype, jax.tree_util.keystr(path)


@EACH
def test_a_sensor_that_hangs_for_long_and_then_goes_on(clusterer):
    """Noise, 10⁵ constant samples, noise in two places: always finite, and clusterers that find k find both places."""
    rng = np.random.default_rng(0)
    X = np.full((LONG + 600, 2), 3.0)
    X[:200] += rng.normal(size=(200, 2))
    X[-400:] += rng.normal(size=(400, 2))
    X[-200:] += 30.0
    pipe = pipeline(clusterer)
    run = icvi.run(pipe, X, keep=("k", "surprise", "cluster", "values"))
    sound(run.state, pipe.init(2))
    surprise, cluster = np.asarray(run.readings.surprise), np.asarray(run.readings.cluster)
    assert np.isfinite(surprise[pipe.least(2) + 1 :]).all() and (surprise[LONG // 2 : LONG + 200] < 1e-3).all()
    assert surprise[-200] > 100 and np.asarray(run.readings.k).max() <= clusterer.slots
    if clusterer.finds_k:
        assert not set(cluster[-300:-200].tolist()) & set(cluster[-100:].tolist()), "both places have one name"


@EACH
@pytest.mark.parametrize("name", ["quantised", "one feature", "thirty features"])
def test_nothing_is_ever_not_finite(clusterer, name):
    X = {
        "quantised": quantised,
        "one feature": lambda s: moving(s, 400, 1),
        "thirty features": lambda s: moving(s, 150, 30),
    }
    X = X[name](2)
    pipe = pipeline(clusterer)
    state, readings = pipe.init(X.shape[1], xp=np), []
    for x in X:
        state, reading = pipe.step(state, x)
        readings.append(reading)
    sound(state, pipe.init(X.shape[1], xp=np))
    seen = np.isfinite(X).all(1)
    label = np.array([r.label for r in readings])
    assert ((label >= 0) == seen).all() and np.isnan([r.surprise for r in readings])[~seen].all()
    known = np.array([r.k for r in readings]) > 1
    undefined = ~np.isfinite([r.values["db"] for r in readings])[known & seen]
    assert undefined.sum() <= 0.1 * known.sum()


@EACH
def test_single_precision_finds_what_double_precision_finds(clusterer):
    """Names of the two, compared with the truth: the adjusted Rand index within 0.02. More streams: benchmark."""
    stream = icvi.streams.s2(seed=0)
    x, mode = stream.x[300:1300], stream.mode[300:1300]
    pipe, named = icvi.Pipeline(clusterer=clusterer, panel=None), []
    for dtype in (np.float32, np.float64):
        named.append(np.asarray(icvi.run(pipe, x.astype(dtype), keep=("cluster",)).readings.cluster))
    scores = [adjusted_rand_index(mode, names) for names in named]
    assert abs(scores[0] - scores[1]) <= 0.02, scores


@EACH
def test_whole_samples_that_are_missing_leave_no_trace(clusterer):
    X = moving(4, 300)
    holes = np.insert(X, np.arange(0, 300, 3), np.nan, axis=0)
    got, want = (follow(clusterer, x, backend("numpy"))[1] for x in (holes, X))
    there = np.isfinite(holes).all(1)
    np.testing.assert_array_equal(got.shown.cluster[there], want.shown.cluster[np.isfinite(X).all(1)])
    assert (got.shown.cluster[~there] == -1).all() and np.isnan(got.shown.surprise[~there]).all()
