"""Clusterers against plain loops that were written apart: equal at every sample."""

import hashlib

import numpy as np
import pytest
from oracles import clusterers as oracle
from oracles import mergesplit

import icvi_jax as icvi
from icvi_jax.evaluation import adjusted_rand_index
from icvi_jax.testing import backend
from icvi_jax.testing.clusterers import follow

ROBUST = pytest.mark.parametrize("seed", range(3))


def moving(seed, n=500, p=2, modes=4):
    """Blobs that take turns and drift, a jump to a far place, and holes: (n, p)."""
    rng = np.random.default_rng(seed)
    homes = rng.normal(size=(modes, p)) * 6
    mode = (np.arange(n) * modes // n + rng.integers(0, 2, n)) % modes
    X = homes[mode] + rng.normal(size=(n, p)) * rng.uniform(0.3, 1.5, modes)[mode][:, None]
    X += np.linspace(0, 4, n)[:, None]
    X[n // 2 : n // 2 + 5] += 60.0
    X[rng.choice(n, n // 40, replace=False), 0] = np.nan
    return X


def quantised(seed, n=400):
    """Few values, many exact ties and repeats."""
    return np.round(moving(seed, n) / 2) * 2


def stuck(seed, n=300):
    """A constant, then a little noise, then the constant again."""
    X = np.full((n, 2), 3.0)
    X[100:150] += np.random.default_rng(seed).normal(size=(50, 2))
    return X


STREAMS = {
    "moving": moving,
    "quantised": quantised,
    "stuck": stuck,
    "one feature": lambda s: moving(s, 300, 1),
    "thirty features": lambda s: moving(s, 200, 30),
}
PARTS = {
    "forgetful k-means": (
        icvi.SequentialKMeans(k=4, memory=12.0),
        lambda X: oracle.sequential_kmeans(X, 4, memory=12.0),
    ),
    "distinct k-means": (
        icvi.SequentialKMeans(k=3, memory=50.0, seeding="distinct"),
        lambda X: oracle.sequential_kmeans(X, 3, memory=50.0, seeding="distinct"),
    ),
    "rebirth": (icvi.RebirthKMeans(k=6, memory=30.0, mass_memory=60.0), lambda X: oracle.rebirth_kmeans(X, 6, 30, 60)),
    "fuzzy": (icvi.FuzzyCMeans(k=4), lambda X: oracle.fuzzy_cmeans(X, 4)),
    "fuzzier": (
        icvi.FuzzyCMeans(k=3, forgetting=0.95, fuzzifier=6.0),
        lambda X: oracle.fuzzy_cmeans(X, 3, forgetting=0.95, fuzzifier=6.0),
    ),
    "merge-split": (icvi.MergeSplit(slots=6, mass_memory=80.0), lambda X: mergesplit.run(X, 6, mass_memory=80)),
    "merge-split by traffic": (
        icvi.MergeSplit(slots=6, mass_memory=80.0, traffic=0.5),
        lambda X: mergesplit.run(X, 6, mass_memory=80, traffic=0.5),
    ),
    "merge-split of 16": (icvi.MergeSplit(), lambda X: mergesplit.run(X)),
}


def meet(part, X, b):
    """Assert that a clusterer and its oracle agree at every sample; the events."""
    clusterer, plain = PARTS[part]
    _, events = follow(clusterer, X, b)
    records = plain(X)
    want = {
        field: np.array([r[field] for r in records])
        for field in ("label", "active", "centers", "surprise", "u")
        if field in records[0]
    }
    np.testing.assert_array_equal(events.shown.label, want["label"], err_msg="labels")
    np.testing.assert_array_equal(events.after.active, want["active"], err_msg="active slots")
    np.testing.assert_allclose(events.after.centers, want["centers"], rtol=1e-9, atol=1e-9, err_msg="centres")
    np.testing.assert_allclose(events.shown.surprise, want["surprise"], rtol=1e-9, atol=1e-9, err_msg="surprise")
    if "u" in want:
        np.testing.assert_allclose(events.u, want["u"], rtol=1e-9, atol=1e-9, err_msg="memberships")
    born = events.after.active & ~events.before.active
    born = born if events.born is None else born | events.born
    slot = np.where(born.any(1), born.argmax(1), -1)
    np.testing.assert_array_equal(slot, [r["born"] for r in records], err_msg="births")
    if "cluster" in records[0]:
        np.testing.assert_array_equal(events.shown.cluster, [r["cluster"] for r in records], err_msg="names")
    if "merge" in records[0]:
        pairs = [(int(a.argmax()), int(g.argmax())) if a.any() else None for a, g in zip(*events.merge)]
        assert pairs == [r["merge"] for r in records], "merges"
        np.testing.assert_array_equal(events.after.names, [r["names"] for r in records], err_msg="names of slots")
        np.testing.assert_array_equal(events.shown.k, [r["k"] for r in records], err_msg="number of clusters")
    return events


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("part", PARTS)
def test_every_sample_is_as_the_plain_loop_has_it(part, stream):
    meet(part, STREAMS[stream](1), backend("numpy"))


@pytest.mark.parametrize("part", ["rebirth", "fuzzy", "merge-split", "merge-split by traffic"])
def test_compiled_steps_are_as_the_plain_loop_has_them(part):
    events = meet(part, moving(5, 1500), backend("jax64"))
    if part.startswith("merge-split"):
        assert events.merge.into.any(1).sum() > 5 and events.shown.k.max() > 3, "too little happens for a test"


def test_traffic_between_more_slots_than_are_written_out():
    """One stream as one of many, as `run` has it: with more than sixteen slots, its pairs are a list."""
    X = moving(2, 200)
    state, events = follow(icvi.MergeSplit(slots=18, traffic=0.5), X[:, :, None], backend("numpy"))
    want = [r["cluster"] for r in mergesplit.run(X, 18, traffic=0.5)]
    np.testing.assert_array_equal(events.shown.cluster[:, 0], want)
    assert state.active.all(), "some slots were never used: too little happens for a test"


def test_clusters_that_touch_are_told_apart_by_the_traffic_between_them():
    """Two Gaussians in eight features, five spreads apart: by distances alone everything is linked."""
    rng = np.random.default_rng(0)
    X, mode = rng.normal(size=(3000, 8)), rng.integers(0, 2, 3000)
    X[:, 0] += 5 * mode
    right = {}
    for traffic in (0.0, 0.5):
        _, events = follow(icvi.MergeSplit(traffic=traffic), X, backend("jax32"))
        right[traffic] = adjusted_rand_index(mode[2000:], events.shown.cluster[2000:])
    assert right[0.0] < 0.1 and right[0.5] > 0.8, right


@pytest.mark.parametrize("p", [2, 8, 16, 30])
def test_one_cluster_is_not_torn_apart_for_want_of_traffic(p):
    """With many features each of sixteen prototypes has fifteen neighbours, and little traffic with each."""
    X = np.random.default_rng(1).normal(size=(3000, p))
    _, events = follow(icvi.MergeSplit(traffic=0.5), X, backend("jax32"))
    _, members = np.unique(events.shown.cluster[1000:], return_counts=True)
    assert members.max() > 0.98 * 2000, members


def test_a_prototype_born_of_a_split_stays_with_the_neighbours_it_had():
    """One cluster that drifts, and prototypes that split to follow it: nothing gets a new name."""
    X = np.random.default_rng(3).normal(size=(4000, 8))
    X[:, 0] += np.linspace(0, 20, len(X))
    _, events = follow(icvi.MergeSplit(traffic=0.5), X, backend("jax32"))
    late = np.asarray(events.shown.cluster[1500:])
    assert np.asarray(events.born)[1500:].any(1).sum() > 10, "too little happens for a test"
    assert (late == late[0]).all(), np.unique(late, return_counts=True)


@pytest.mark.parametrize(
    ("seeding", "digest"),
    [
        ("first", "583ab2c941266b7f59c11ab387bb8effd8ee3eee7efaa18ea7f04d0fcf5d9e3d"),
        ("distinct", "64996aed7152c7b84a07f6921715e112d9f5357e66668f5cef6bfc552799716a"),
    ],
)
def test_k_means_without_memory_is_bit_for_bit_what_it_was(seeding, digest):
    """The digests are of the code before there was a memory."""
    t = np.arange(600)  # whole numbers: no generator and no function whose last bit may differ elsewhere
    X = np.stack([(t * t * 7 + 3 * t) % 1009, (t * 613) % 997, (t // 50 * 331 + t % 7) % 1013], 1) / 8.0
    X[1], X[3] = X[0], X[2]
    X[17, 1] = np.nan
    X[200:230] = X[199]
    _, events = follow(icvi.SequentialKMeans(k=5, seeding=seeding), X, backend("numpy"))
    parts = np.ascontiguousarray(events.after.centers), events.shown.label.astype(np.int32), events.u
    assert hashlib.sha256(b"".join(a.tobytes() for a in parts)).hexdigest() == digest


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: icvi.SequentialKMeans(k=3, memory=1.0), r"SequentialKMeans\(memory=1.0\): expected a number above 1"),
        (lambda: icvi.RebirthKMeans(k=0), r"RebirthKMeans\(k=0\)"),
        (lambda: icvi.RebirthKMeans(k=3, mass_memory=0.5), r"RebirthKMeans\(mass_memory=0.5\)"),
        (lambda: icvi.FuzzyCMeans(k=3, fuzzifier=1.0), r"FuzzyCMeans\(fuzzifier=1.0\): expected a finite .* above 1"),
        (lambda: icvi.FuzzyCMeans(k=3, forgetting=1.5), r"FuzzyCMeans\(forgetting=1.5\): .* above 0, at most 1"),
        (lambda: icvi.MergeSplit(slots=1), r"MergeSplit\(slots=1\)"),
        (lambda: icvi.MergeSplit(slots=32), r"MergeSplit\(slots=32\): expected at most 31"),
        (lambda: icvi.MergeSplit(traffic=-0.1), r"MergeSplit\(traffic=-0.1\): expected a finite number of at least 0"),
        (lambda: icvi.MergeSplit(far=0.0), r"MergeSplit\(far=0.0\)"),
        (lambda: icvi.OnlineEllipsoidal(capacity=3, memory=3.0).init(2, (), np, float), r"memory=3.0\): .* above 3"),
    ],
)
def test_what_a_clusterer_cannot_be_built_with_is_said(build, message):
    with pytest.raises(ValueError, match=message):
        build()


class TestCatalogue:
    def test_every_clusterer_is_in_it(self):
        base, entries = icvi.clusterers.Clusterer, icvi.clusterers.catalogue()
        kinds = {c for c in vars(icvi.clusterers).values() if isinstance(c, type) and issubclass(c, base)}
        assert {entry.clusterer for entry in entries} == kinds - {base}
        assert len({entry.name for entry in entries}) == len(entries)

    def test_what_it_says_can_be_built(self):
        for entry in icvi.clusterers.catalogue():
            built = entry.clusterer(**{entry.size: 4})
            assert built.slots == 4
            for text in (entry.purpose, entry.avoid, entry.forgets):
                assert text.endswith(".")
