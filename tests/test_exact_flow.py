"""Any story of samples, merges, births and noise: incremental values equal the definition on what belongs where now."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.events import History
from oracles.silhouettes import online_silhouette
from test_clusterers import moving
from test_groups import anchored

import icvi_jax as icvi
from icvi_jax.statistics import RecordedClustering
from icvi_jax.testing import backend
from icvi_jax.testing.clusterers import follow
from icvi_jax.types import Event, Merge, Prototypes

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.path)
K = 4


@st.composite
def stories(draw):
    """A few dozen samples, each with its slot (−1: noise), and what happened before it: nothing, a merge or a birth."""
    n = draw(st.integers(12, 30))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    happened = draw(st.lists(st.sampled_from(["", "", "", "merge", "born"]), min_size=n, max_size=n))
    scale = draw(st.sampled_from([1.0, 1e-2]))
    return (
        rng.normal(size=(n, 2)) * scale,
        rng.integers(-1, K, n),
        happened,
        rng.normal(size=(n, K, 2)) * 3 * scale,
        rng,
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(story=stories(), forgetting=st.sampled_from([1.0, 0.9]), crisp=st.booleans())
def test_every_index_follows_any_story(story, forgetting, crisp):
    X, slot, happened, V, rng = story
    panel = icvi.Panel(indices=ALL, forgetting=forgetting)
    statistics, past = panel.start(K, 2, (), np, np.float64), History(K, forgetting)
    active, index = np.ones(K, bool), np.arange(K)
    given_u = np.where(slot[:, None] >= 0, np.eye(K)[slot], 0.0)
    for t in range(len(X)):
        pair, born = None, np.zeros(K, bool)
        if happened[t] == "merge":
            pair = tuple(rng.permutation(K)[:2].tolist())
            born = index == pair[1]  # a slot that was merged into another starts again
        elif happened[t] == "born":
            born = index == rng.integers(K)
        none = np.zeros(K, bool)
        merge = Merge(none, none) if pair is None else Merge(index == pair[0], index == pair[1])
        before = Prototypes(V[max(t - 1, 0)], active)
        yes = np.asarray(True)
        event = Event(X[t], given_u[t], before, Prototypes(V[t], active), yes, yes, born=born, merge=merge)
        statistics = panel.update(statistics, event, crisp=crisp)  # memberships are 0 or 1 either way
        past.append(X[t], given_u[t], pair, np.flatnonzero(born))
    w = np.array(past.w)
    recording = RecordedClustering(X, given_u, w, past.ages(), V, np.ones((len(X), K), bool), w)
    got = panel.values(statistics, event.after, yes)
    want = panel.values({part.name: part.batch(recording) for part in panel.statistics}, event.after, yes)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@pytest.mark.parametrize(
    "clusterer",
    [icvi.MergeSplit(slots=6, mass_memory=40.0), icvi.RebirthKMeans(k=5, memory=20.0, mass_memory=30.0)],
    ids=lambda c: c.name,
)
def test_the_online_silhouette_follows_merges_and_rebirths(clusterer, forgetting):
    """The index of the path: against the plain loop, with scatter and mass as they were before each sample."""
    X = anchored(moving(3, 200, 2))
    X = X[np.isfinite(X).all(1)]
    _, events = follow(clusterer, X, backend("numpy"))
    panel = icvi.Panel(indices=(icvi.OnlineSilhouette(),), forgetting=forgetting)
    statistics, past = panel.start(clusterer.slots, 2, (), np, np.float64), History(clusterer.slots, forgetting)
    got, scatter, mass, merged = [], [], [], 0
    for t in range(len(X)):
        pair = None
        if events.merge is not None and events.merge.into[t].any():
            pair, merged = (int(events.merge.into[t].argmax()), int(events.merge.gone[t].argmax())), merged + 1
        known = past.read(events.before.centers[t])
        scatter.append(known["scatter"])
        mass.append(known["M"])
        past.append(X[t], events.u[t], pair, np.flatnonzero(events.born[t]))
        now = jax.tree.map(lambda a, t=t: a[t], events)
        statistics = panel.update(statistics, now, crisp=True)
        got.append(panel.values(statistics, now.after, np.asarray(True))["osil"])
    fresh = events.born.any(1) | (events.after.active & ~events.before.active).any(1)
    want = online_silhouette(
        X, events.shown.label, events.before.centers, events.before.active, scatter, mass, fresh, forgetting
    )
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)
    assert events.born.sum() > 1 and (merged > 2 or events.merge is None), "too little happens for a test"
