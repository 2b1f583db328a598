"""Adapters against river and scikit-learn themselves, and the bookkeeping of centres that come and go."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.adapters import Followed, River, Scikit, Slots, Snapshot, Watch, follow

PANEL = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.95)
X = icvi.streams.s2(seed=0).x[300:900]
CAPACITY = 12


def river_models():
    cluster = pytest.importorskip("river.cluster", reason="needs river")
    return {
        "DBSTREAM": cluster.DBSTREAM(
            clustering_threshold=4, fading_factor=0.02, cleanup_interval=20, intersection_factor=0.3, minimum_weight=2
        ),
        "DenStream": cluster.DenStream(
            decaying_factor=0.5, beta=0.75, mu=2.5, epsilon=2, n_samples_init=30, stream_speed=10
        ),
        "CluStream": cluster.CluStream(
            n_macro_clusters=4,
            max_micro_clusters=20,
            time_window=200,
            time_gap=50,
            seed=0,
            halflife=0.4,
            mu=80,
            sigma=10,
        ),
        "STREAMKMeans": cluster.STREAMKMeans(chunk_size=20, n_clusters=4, halflife=0.3, sigma=20, mu=70, seed=0),
        "KMeans": cluster.KMeans(n_clusters=4, halflife=0.05, sigma=20, mu=70, seed=0),
    }


NAMES = ("DBSTREAM", "DenStream", "CluStream", "STREAMKMeans", "KMeans")
KEYED = ("KMeans", "STREAMKMeans")


def followed(name):
    return follow(River(river_models()[name]), X, CAPACITY, "key" if name in KEYED else "nearest")


def rows(centers):
    """Centres as a sorted list, whatever they are called."""
    return sorted(tuple(np.round(np.asarray(c, float), 9).tolist()) for c in centers)


@pytest.mark.parametrize("name", NAMES)
def test_slots_hold_what_river_says(name):
    model, got = copy.deepcopy(river_models()[name]), followed(name)
    for t, x in enumerate(X):
        sample = {0: float(x[0]), 1: float(x[1])}
        model.learn_one(sample)
        label = model.predict_one(sample)
        centers = {k: [c[0], c[1]] for k, c in model.centers.items() if 0 in c}
        assert rows(got.centers[t][got.active[t]]) == rows(centers.values()), t
        if label in centers:
            np.testing.assert_allclose(got.centers[t][got.label[t]], centers[label], rtol=1e-12)
            assert got.memberships[t].sum() == 1 and got.memberships[t, got.label[t]] == 1
        else:
            assert got.label[t] == -1 and not got.memberships[t].any()
    assert not got.overflow.any()


def test_the_number_of_river_s_centres_does_change():
    grown, dropped = (lambda f: (np.diff(f.k) > 0).sum()), (lambda f: (np.diff(f.k) < 0).sum())
    dbstream, denstream = followed("DBSTREAM"), followed("DenStream")
    assert grown(dbstream) >= 5 and dropped(dbstream) >= 5
    assert grown(denstream) >= 1 and dropped(denstream) >= 2
    assert followed("CluStream").k[[0, -1]].tolist() == [0, 4]


@pytest.mark.parametrize("name", NAMES)
def test_values_equal_the_batch_definition(name):
    got = followed(name)
    values = got.values(PANEL, X)
    for t in (80, 199, 230, 420, 599):
        exact = icvi.batch(PANEL, X[: t + 1], got.memberships[: t + 1], got.centers[: t + 1], got.active[: t + 1])
        for index, value in exact.items():
            np.testing.assert_allclose(values[index][t], value, rtol=2e-3, err_msg=f"{index} at {t}")


@pytest.mark.parametrize("name", ("DBSTREAM", "KMeans"))
def test_live_equals_recorded(name):
    want = followed(name).values(PANEL, X)
    watch = Watch(PANEL, River(river_models()[name]), 2, CAPACITY, "key" if name in KEYED else "nearest")
    got = [watch.tick(x) for x in X]
    for index in want:
        np.testing.assert_allclose([g[index] for g in got], want[index], rtol=2e-3, err_msg=index)


def test_named_features():
    cluster = pytest.importorskip("river.cluster", reason="needs river")
    plain = follow(River(cluster.KMeans(n_clusters=2, seed=1)), X[:20], 2, "key")
    named = follow(River(cluster.KMeans(n_clusters=2, seed=1), names=("b", "a")), X[:20], 2, "key")
    assert plain.centers.shape == named.centers.shape and np.isfinite(named.centers).all()
    with pytest.raises(ValueError, match="3 names, the sample has 2"):
        follow(River(cluster.KMeans(n_clusters=2), names=("a", "b", "c")), X[:2], 2)


def test_mini_batch_k_means_is_scikit_learn_s():
    sk = pytest.importorskip("sklearn.cluster", reason="needs scikit-learn")
    ours, theirs = (sk.MiniBatchKMeans(n_clusters=3, n_init=1, random_state=0) for _ in range(2))
    got = follow(Scikit(ours, first=10, batch=5), X[:40], 3, "key")
    assert not got.active[:9].any() and (got.label[:9] == -1).all() and got.active[9:].all()
    np.testing.assert_array_equal(got.centers[10:14], got.centers[9:13])  # nothing is learned between batches
    for end in range(10, 41, 5):
        theirs.partial_fit(X[0 if end == 10 else end - 5 : end])
        np.testing.assert_allclose(got.centers[end - 1], theirs.cluster_centers_)
        assert got.label[end - 1] == theirs.predict(X[end - 1 : end])[0]


def test_birch_grows():
    sk = pytest.importorskip("sklearn.cluster", reason="needs scikit-learn")
    model = sk.Birch(n_clusters=None, threshold=3.0)
    got = follow(Scikit(model, batch=20), X[150:450], CAPACITY)
    assert got.k[0] == 1 and got.k[-1] == len(model.subcluster_centers_) > 3
    assert rows(got.centers[-1][got.active[-1]]) == rows(model.subcluster_centers_)
    last = got.centers[-1][got.label[-1]]
    np.testing.assert_allclose(last, model.subcluster_centers_[model.predict(X[449:450])[0]])


@pytest.mark.parametrize("name", NAMES)
def test_names_last_and_are_never_given_twice(name):
    """A name has one slot from its first sample to its last, without a gap."""
    got = followed(name)
    owner = {}
    for t, (label, cluster) in enumerate(zip(got.label, got.cluster)):
        assert (label < 0) == (cluster < 0)
        if label >= 0:
            owner.setdefault(int(cluster), []).append((t, int(label)))
    for uses in owner.values():
        slot = {label for _, label in uses}
        assert len(slot) == 1 and got.active[uses[0][0] : uses[-1][0] + 1, slot.pop()].all()
    if name == "DBSTREAM":
        assert len(owner) > len(set(got.label.tolist()) - {-1}), "slots are used again, names are not"
    watch = Watch(PANEL, River(river_models()[name]), 2, CAPACITY, "key" if name in KEYED else "nearest")
    live = []
    for x in X[:100]:
        watch.tick(x)
        live.append(watch.cluster)
    assert live == got.cluster[:100].tolist()


class Scripted:
    """A clusterer that returns what it was given."""

    def __init__(self, *snapshots):
        self.left = list(snapshots)

    def learn(self, x):
        return self.left.pop(0)


def test_renumbering_changes_nothing_where_identity_is_by_place():
    rng = np.random.default_rng(0)
    homes = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    samples, plain, shuffled = [], [], []
    for _ in range(60):
        i, order = int(rng.integers(3)), rng.permutation(3)
        homes = homes + rng.normal(0, 0.05, homes.shape)
        samples.append(homes[i] + rng.normal(size=2))
        plain.append(Snapshot(i, dict(enumerate(homes))))
        shuffled.append(Snapshot(int(order[i]), {int(order[j]): homes[j] for j in range(3)}))
    a, b = (follow(Scripted(*s), samples, 4).values(PANEL, np.array(samples)) for s in (plain, shuffled))
    np.testing.assert_array_equal(a["xb"], b["xb"])
    wrong = follow(Scripted(*shuffled), samples, 4, "key").values(PANEL, np.array(samples))
    assert np.nanmax(np.abs(np.asarray(wrong["xb"]) - np.asarray(a["xb"]))) > 0.1


def test_a_slot_rests_before_it_is_used_again():
    slots = Slots(2, 1, "key")
    assert slots.update({"a": np.array([0.0]), "b": np.array([5.0])}) == {"a": 0, "b": 1}
    # c may not move into a's slot at the very sample at which a goes: that would look like a having moved
    assert slots.update({"b": np.array([5.0]), "c": np.array([9.0])}) == {"b": 1} and slots.overflow
    assert slots.active.tolist() == [False, True]
    assert slots.update({"b": np.array([5.0]), "c": np.array([9.0])}) == {"b": 1, "c": 0} and not slots.overflow


def test_one_dies_while_another_is_born_far_away():
    slots = Slots(4, 1)
    slots.update({0: np.array([0.0]), 1: np.array([10.0])})
    assert slots.update({0: np.array([10.1]), 1: np.array([50.0])}) == {0: 1, 1: 2}
    assert slots.active.tolist() == [False, True, True, False]


def test_overflow_is_said_and_the_sample_is_noise():
    three = {i: np.array([10.0 * i]) for i in range(3)}
    got = follow(Scripted(Snapshot(0, three), Snapshot(2, three)), [[0.0], [20.0]], 2)
    assert got.overflow.tolist() == [True, True] and got.label.tolist() == [0, -1]
    assert got.k.tolist() == [2, 2]


def test_missing_samples_are_kept_from_the_clusterer():
    two = {0: np.array([0.0]), 1: np.array([9.0])}
    model = Scripted(Snapshot(0, two), Snapshot(1, two))
    got = follow(model, [[0.0], [np.nan], [9.0]], 2)
    assert got.label.tolist() == [0, -1, 1] and not model.left
    np.testing.assert_array_equal(got.centers[1], got.centers[0])


def test_messages():
    with pytest.raises(ValueError, match="capacity=0"):
        Slots(0, 2)
    with pytest.raises(ValueError, match="identity='name'"):
        Slots(2, 2, "name")
    with pytest.raises(ValueError, match=r"centre 7 has shape \(3,\), expected \(2,\)"):
        Slots(2, 2).update({7: np.zeros(3)})
    with pytest.raises(ValueError, match=r"axes \(T, p\)"):
        follow(Scripted(), np.zeros(3), 2)
    with pytest.raises(ValueError, match=r"shape \(1,\), got \(2,\)"):
        Watch(PANEL, Scripted(), 1, 2).tick([1.0, 2.0])
    model = type("Model", (), {"n_clusters": 1, "partial_fit": lambda self, X: self})()
    with pytest.raises(ValueError, match="fitted Model has no 'cluster_centers_' or 'subcluster_centers_'"):
        Scikit(model).learn(np.zeros(2))
    with pytest.raises(ValueError, match="batch=0"):
        Scikit(type("Model", (), {"n_clusters": 2})(), batch=0)


def test_nothing_is_imported_that_is_not_needed():
    code = "import sys, icvi_jax.adapters; print([m for m in ('river', 'sklearn') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
    assert Followed._fields == ("memberships", "centers", "active", "label", "overflow", "cluster")
