"""Indices of merging, splitting and named clusters, against plain loops and batch definitions."""

import jax
import numpy as np
import pytest
from oracles import conn as plain_conn
from oracles import macro
from oracles.events import History
from test_clusterers import moving, quantised

import icvi_jax as icvi
from icvi_jax.statistics import RecordedClustering
from icvi_jax.testing import backend, example
from icvi_jax.testing.clusterers import follow

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if not entry.path)
MEMORIES = pytest.mark.parametrize("forgetting", [1.0, 0.97])


def anchored(X):
    """X about its first whole row."""
    return X - X[np.isfinite(X).all(1)][0]


def history(events, k, forgetting):
    """Yield (t, sample, merge, born, History) along the events of one stream."""
    past = History(k, forgetting)
    for t in range(len(events.seen)):
        merge, born = None, np.flatnonzero(events.born[t])
        if events.merge is not None and events.merge.into[t].any():
            merge = int(events.merge.into[t].argmax()), int(events.merge.gone[t].argmax())
        if events.seen[t]:
            past.append(events.x[t], events.u[t], merge, born)
        yield t, merge, born, past


@MEMORIES
@pytest.mark.parametrize(
    "clusterer",
    [
        icvi.MergeSplit(slots=6, mass_memory=40.0),
        icvi.RebirthKMeans(k=5, memory=20.0, mass_memory=30.0),
        icvi.SequentialKMeans(k=4, memory=10.0),
    ],
    ids=lambda c: type(c).__name__,
)
def test_every_index_is_exact_through_merges_and_rebirths(clusterer, forgetting):
    """Values equal the batch definition on the samples as they were assigned and merged."""
    X = anchored(moving(3, 220, 3))
    _, events = follow(clusterer, X, backend("numpy"))
    if events.born is None:
        events = events._replace(born=np.zeros_like(events.after.active))
    panel = icvi.Panel(indices=ALL, forgetting=forgetting)
    k, checked = clusterer.slots, 0
    statistics = panel.start(k, 3, (), np, np.float64)
    for t, merge, born, past in history(events, k, forgetting):
        statistics = panel.update(statistics, jax.tree.map(lambda a, t=t: a[t], events), crisp=True)
        if not (merge or len(born) or t % 25 == 0) or not events.ready[t]:
            continue
        seen = np.flatnonzero(events.seen[: t + 1])
        w = np.array(past.w)
        recording = RecordedClustering(
            events.x[seen], events.u[seen], w, past.ages(), events.after.centers[seen], events.after.active[seen], w
        )
        now = jax.tree.map(lambda a, t=t: a[t], events.after)
        got = panel.values(statistics, now, np.array(True))
        want = panel.values({p.name: p.batch(recording) for p in panel.statistics}, now, np.array(True))
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-7, atol=1e-9, err_msg=f"{name} at {t}")
        checked += 1
    assert checked > 6


@MEMORIES
@pytest.mark.parametrize("make", [moving, quantised])
def test_conn_and_the_indices_of_clusters_are_as_the_plain_loops_have_them(make, forgetting):
    X, k = anchored(make(1, 260)), 6
    indices = icvi.CONN(), icvi.XieBeni(), icvi.DaviesBouldin(), icvi.CalinskiHarabasz()
    pipe = icvi.Pipeline(
        clusterer=icvi.MergeSplit(slots=k, mass_memory=80.0),
        panel=icvi.Panel(indices=indices, forgetting=forgetting, of="clusters"),
    )
    _, events = follow(pipe.clusterer, X, backend("numpy"))
    map_, state, reach, several = plain_conn.Conn(k, forgetting), pipe.init(2, xp=np), 0.0, 0
    for t, merge, born, past in history(events, k, forgetting):
        state, reading = pipe.step(state, X[t])
        map_.step(X[t], events.before.centers[t], events.before.active[t], merge, born)
        active, names, centers = events.after.active[t], events.after.names[t], events.after.centers[t]
        mates = [[j for j in range(k) if active[j] and names[j] == names[i]] for i in range(k)]
        component = [min(mates[i]) if active[i] else -1 for i in range(k)]
        if not past.seen:
            continue
        M, means, _, numbers = macro.macro(past, component, np.ones(k), centers)
        if len(numbers) == 1 and events.seen[t]:
            reach = max(reach, ((means[0] - X[t]) ** 2).sum())
        several += len(numbers) < active.sum()
        want = macro.values(past, component, np.ones(k), centers, reach)
        want["conn"] = plain_conn.conn(map_.cadj, names, active, forgetting)
        for name, value in want.items():
            np.testing.assert_allclose(reading.values[name], value, rtol=1e-8, atol=1e-9, err_msg=f"{name} at {t}")
        assert np.isnan(reading.values["conn"]) or 0 <= reading.values["conn"] <= 1
    assert several > 20, "hardly ever a cluster of several slots: nothing was tested"


@MEMORIES
def test_a_cluster_without_members_is_where_the_clusterer_says(forgetting):
    """A panel that joins a running clusterer knows no members of most clusters; the masses of their slots differ."""
    X, k, start = anchored(moving(1, 400)), 6, 150
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=forgetting, of="clusters")
    _, events = follow(icvi.MergeSplit(slots=k, mass_memory=80.0), X, backend("numpy"))
    events = jax.tree.map(lambda a: a[start:], events)
    statistics, told = panel.start(k, 2, (), np, np.float64), 0
    for t, _, _, past in history(events, k, forgetting):
        now = jax.tree.map(lambda a, t=t: a[t], events)
        statistics = panel.update(statistics, now, crisp=True)
        centers, active, names, masses = now.after
        component = [min(np.flatnonzero(active & (names == names[i]))) if active[i] else -1 for i in range(k)]
        M, means, _, numbers = macro.macro(past, component, masses, centers)
        if len(numbers) < 2:
            continue
        got, want = panel.values(statistics, now.after, now.ready), macro.values(past, component, masses, centers)
        for name, value in got.items():
            np.testing.assert_allclose(value, want[name], rtol=1e-8, err_msg=f"{name} at {t}")
        plain = np.array([centers[np.equal(component, g)].mean(0) for g in numbers])
        told += past.seen > len(numbers) and not np.allclose(plain[M == 0], means[M == 0])
    assert told > 5, "masses never mattered: nothing was tested"


@MEMORIES
@pytest.mark.parametrize("of", ["slots", "clusters"])
def test_clusters_are_named_in_a_step_a_recording_and_a_batch(of, forgetting):
    e = example(seed=4, k=5, deaths=True, noise=True, missing=True)
    names = np.array([0, 1, 0, 1, 2])
    panel = icvi.Panel(indices=(icvi.CONN(), icvi.XieBeni(), icvi.WB()), forgetting=forgetting, of=of)
    state = panel.init(5, 2, xp=np)
    for x, u, V, a in zip(*e):
        state, values = panel.step(state, x, u, V, a, clusters=names)
    exact = icvi.batch(panel, e.x, e.u, e.centers, e.active, clusters=names)
    run = icvi.validate(panel, e.x, memberships=e.u, centers=e.centers, active=e.active, clusters=names)
    assert np.isfinite(values["conn"])
    for name, value in values.items():
        np.testing.assert_allclose(exact[name], value, rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(run[name][-1], value, rtol=2e-3, err_msg=name)
        np.testing.assert_allclose(icvi.read(panel, state)[name], value, err_msg=name)


def test_a_lone_cluster_of_several_slots_has_its_reach():
    e = example(seed=5, k=3)
    faded = icvi.XieBeni(name="faded", lone="faded")
    panel = icvi.Panel(indices=(icvi.XieBeni(), faded, icvi.DaviesBouldin()), forgetting=0.95, of="clusters")
    state = panel.init(3, 2, xp=np)
    for x, u, V, a in zip(*e):
        state, values = panel.step(state, x, u, V, a, clusters=np.zeros(3, int))
    exact = icvi.batch(panel, e.x, e.u, e.centers, e.active, clusters=np.zeros(3, int))
    for name, value in values.items():
        assert np.isfinite(value)
        np.testing.assert_allclose(exact[name], value, rtol=1e-9, err_msg=name)


def test_conn_without_names_says_nothing():
    e = example(seed=4)
    panel = icvi.Panel(indices=(icvi.CONN(),))
    assert np.isnan(icvi.batch(panel, e.x, e.u, e.centers, e.active)["conn"])
    assert np.isnan(icvi.validate(panel, e.x, memberships=e.u, centers=e.centers)["conn"]).all()


def test_conn_sees_what_hangs_together():
    """Two rings in each other: XB is blind to which prototypes belong together, CONN is not."""
    rng = np.random.default_rng(0)
    angle, ring = rng.uniform(0, 2 * np.pi, 3000), rng.integers(0, 2, 3000)
    X = (1.0 + 2 * ring[:, None]) * np.stack([np.cos(angle), np.sin(angle)], 1)
    turns = [np.arange(m) / m * 2 * np.pi for m in (6, 18)]
    V = np.concatenate([r * np.stack([np.cos(t), np.sin(t)], 1) for r, t in zip((1.0, 3.0), turns)])
    u = np.eye(24)[((X[:, None] - V[None]) ** 2).sum(-1).argmin(1)]
    panel = icvi.Panel(indices=(icvi.CONN(),))
    right, wrong = (
        float(icvi.batch(panel, X, u, V, clusters=names)["conn"]) for names in (np.arange(24) >= 6, np.arange(24) % 2)
    )
    assert right > 0.95 and wrong < 0.1


@pytest.mark.parametrize(("index", "of"), [(icvi.CONN(), "slots"), (icvi.XieBeni(), "clusters")])
def test_a_clusterer_with_one_prototype_a_cluster_is_refused(index, of):
    panel = icvi.Panel(indices=(index,), of=of)
    with pytest.raises(ValueError, match="RebirthKMeans.*several prototypes per cluster, such as MergeSplit"):
        icvi.Pipeline(clusterer=icvi.RebirthKMeans(k=3), panel=panel)


def test_what_is_wrong_with_clusters_is_said():
    e, panel = example(seed=4), icvi.Panel(indices=(icvi.XieBeni(),), of="clusters")
    with pytest.raises(ValueError, match="which cluster each slot belongs to"):
        panel.step(panel.init(4, 2, xp=np), e.x[0], e.u[0], e.centers[0])
    with pytest.raises(ValueError, match="cluster of each slot"):
        icvi.batch(panel, e.x, e.u, e.centers)
    with pytest.raises(ValueError, match=r"clusters=…\): expected shape \(4,\) or \(40, 4\), got \(3,\)"):
        icvi.batch(panel, e.x, e.u, e.centers, clusters=[0, 1, 2])
    with pytest.raises(ValueError, match=r"clusters=…\): expected shape"):
        icvi.validate(panel, e.x, memberships=e.u, centers=e.centers, clusters=[0, 1, 2])
    with pytest.raises(ValueError, match="not with labels="):
        icvi.validate(panel, e.x, labels=np.zeros(40, int), clusters=[0])
    with pytest.raises(ValueError, match=r"Panel\(of='both'\)"):
        icvi.Panel(indices=(icvi.XieBeni(),), of="both")
