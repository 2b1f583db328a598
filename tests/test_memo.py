"""What is kept from step to step: the same values as without, bit for bit, whatever a clusterer does with its slots."""

import jax
import numpy as np
import pytest

import icvi_jax as icvi
import icvi_jax.panel

P = 4
LOCAL = {
    "first": icvi.SequentialKMeans(k=5),
    "distinct": icvi.SequentialKMeans(k=5, memory=20.0, seeding="distinct"),
    "rebirth": icvi.RebirthKMeans(k=5, mass_memory=20.0),
    "merge-split": icvi.MergeSplit(slots=6),
}
PLAIN = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
PANEL = icvi.Panel(
    indices=(
        *PLAIN.indices,
        icvi.DaviesBouldin(name="root", root=True),
        icvi.CentroidSilhouette(),
        icvi.CentroidSilhouette(name="peer", peer=True),
        icvi.GeneralizedDunn43(),
        icvi.GeneralizedDunn53(),
        icvi.PartitionSeparation(),
        icvi.PBM(),
        icvi.Kwon(),
        icvi.NegentropyIncrement(),
        icvi.RepresentativeCIP(),
        icvi.RepresentativeCrossEntropy(),
    ),
    forgetting=0.9,
)
KEPT = ["across", "cross_entropies", "distances", "inverse", "inverse_root", "logdet"]


def samples(T=120):
    """Six groups of which three come later, a repeated sample and a missing one."""
    rng = np.random.default_rng(1)
    centers = 8 * rng.normal(size=(6, P))
    which = np.where(np.arange(T) < T // 2, rng.integers(0, 3, T), rng.integers(0, 6, T))
    x = centers[which] + rng.normal(size=(T, P))
    x[3], x[40] = x[2], np.nan
    return x


def stepped(pipe, X):
    """The state and the values after every sample, in NumPy."""
    state, rows = pipe.init(P, xp=np, dtype=np.float64), []
    for x in X:
        state, reading = pipe.step(state, x)
        rows.append([reading.values[index.name] for index in pipe.panel.indices])
    return state, np.array(rows)


@pytest.fixture
def off(monkeypatch):
    """A function that turns keeping off; until then centres of any number of coordinates have theirs kept."""
    monkeypatch.setattr(icvi_jax.panel, "MANY_COORDINATES", 0)
    return lambda: monkeypatch.setattr(icvi.Panel, "kept", lambda self, k, features: ())


@pytest.mark.parametrize("name", LOCAL)
@np.errstate(all="ignore")
def test_kept_or_not_the_values_are_the_same(name, off):
    pipe, X = icvi.Pipeline(clusterer=LOCAL[name], panel=PANEL), samples()
    state, values = stepped(pipe, X)
    assert sorted(state.kept) == KEPT
    again = pipe.recalled(state)
    for key in KEPT:
        np.testing.assert_array_equal(state.kept[key], again.kept[key], key)
    off()
    state, plain = stepped(pipe, X)
    assert not state.kept
    np.testing.assert_array_equal(values, plain)


def test_native_code_and_xla_keep_the_same(off):
    X = np.stack([samples(), samples()[::-1]]).astype(np.float32)
    pipe = icvi.Pipeline(clusterer=LOCAL["merge-split"], panel=PLAIN)
    run = icvi.run_fleet(pipe, X)
    final, readings = jax.lax.scan(pipe.step, pipe.init(P), X[0])
    for key in ("distances", "inverse"):
        np.testing.assert_allclose(run.state.kept[key][:, 0], final.kept[key], rtol=1e-4)
    np.testing.assert_allclose(run.readings.values["db"][0], readings.values["db"], rtol=1e-3)
    off()
    plain = icvi.run_fleet(pipe, X).readings.values
    for key, value in plain.items():
        np.testing.assert_allclose(run.readings.values[key], value, rtol=1e-4)


def test_only_what_indices_use_is_kept_and_only_where_it_pays():
    few, many = (icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=k), panel=PLAIN) for k in (10, 16))
    assert few.init(2).kept == {}
    assert sorted(many.init(8).kept) == ["distances", "inverse"]
    assert many.init(2).kept == {}  # reading and writing pairs costs more than two features
    soft = icvi.Pipeline(clusterer=icvi.FuzzyCMeans(k=16), panel=PLAIN)
    paper = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=16, warmup="paper"), panel=PLAIN)
    norm = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=16), panel=icvi.Panel(indices=PLAIN.indices, norm=np.eye(8)))
    assert soft.init(8).kept == paper.init(8).kept == norm.init(8).kept == {}


def test_a_checkpoint_without_it_goes_on(tmp_path, off):
    """As files of 0.1 and 0.2 are: what is kept follows from the rest."""
    pipe, X = icvi.Pipeline(clusterer=LOCAL["rebirth"], panel=PANEL), samples()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(icvi.Panel, "kept", lambda self, k, features: ())
        with np.errstate(all="ignore"):
            state, _ = stepped(pipe, X[:80])
        file = icvi.save(tmp_path / "old.icvi", pipe, state)
    state = icvi.load(file, pipe, xp=np)
    assert sorted(state.kept) == KEPT
    with np.errstate(all="ignore"):
        whole, values = stepped(pipe, X)
        for x, expected in zip(X[80:], values[80:]):
            state, reading = pipe.step(state, x)
            np.testing.assert_array_equal([reading.values[index.name] for index in PANEL.indices], expected)
    again = icvi.load(icvi.save(tmp_path / "new.icvi", pipe, state), pipe, xp=np)
    for key in KEPT:
        np.testing.assert_array_equal(again.kept[key], whole.kept[key])


def test_a_local_clusterer_must_say_what_moved(off):
    class Silent(icvi.SequentialKMeans):
        def step(self, state, x, seen):
            state, event = super().step(state, x, seen)
            return state, event._replace(moved=None)

    pipe = icvi.Pipeline(clusterer=Silent(k=3), panel=PLAIN)
    with pytest.raises(TypeError, match=r"Silent\.step: it is local, so the event must have `moved`"):
        pipe.step(pipe.init(P, xp=np), np.zeros(P))
