"""Fleets: with every engine, on all devices and in chunks, a fleet equals its streams one by one."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fleets import FIELDS, pipeline, plain_loop, recording, same
from jax.sharding import Mesh

import icvi_jax as icvi
from icvi_jax.engine import executor as native
from icvi_jax.engine import xla


@pytest.fixture(scope="module")
def whole():
    return icvi.run_fleet(pipeline(), recording(), keep=FIELDS)


@pytest.fixture
def on_xla(monkeypatch):
    monkeypatch.setenv("ICVI_BACKEND", "xla")


class TestEqualsSingleRuns:
    def test_every_stream_equals_run(self, whole):
        pipe, X = pipeline(), recording()
        for i in range(6):
            same(jax.tree.map(lambda a: a[i], whole.readings), icvi.run(pipe, X[i]).readings)

    def test_equals_the_plain_loop(self, whole):
        slow = plain_loop(pipeline(), recording())
        same(whole.readings, slow.readings)
        same(whole.state, slow.state)

    def test_equals_the_fallback(self, whole, on_xla):
        run = icvi.run_fleet(pipeline(), recording(), keep=FIELDS)
        same(whole.readings, run.readings)
        same(whole.state, run.state)

    def test_equals_what_was_there(self, whole):
        """Missing samples are no samples: values at the end are those of the stream without them."""
        X = recording()
        for i in (0, 1, 2, 4):
            there = X[i][np.isfinite(X[i]).all(1)]
            values = icvi.run(pipeline(), there, backend="numpy").readings.values
            same({n: v[i, -1] for n, v in whole.readings.values.items()}, {n: v[-1] for n, v in values.items()})

    def test_float64(self):
        with jax.enable_x64(True):
            pipe, X = pipeline(), recording(N=5, dtype=np.float64)
            fleet = icvi.run_fleet(pipe, X)
            assert fleet.readings.values["xb"].dtype == np.float64
            slow = plain_loop(pipe, X).readings
            same(fleet.readings.values, slow.values, rtol=1e-10, atol=1e-10)
        alone = icvi.run_fleet(pipe, X, backend="numpy")  # double precision without JAX's switch
        same(alone.readings, fleet.readings, rtol=1e-12, atol=1e-12)

    def test_lax_scan_of_the_step(self, whole):
        _, readings = jax.lax.scan(pipeline().step, pipeline().init(2), jnp.asarray(recording()[0]))
        same(jax.tree.map(lambda a: a[0], whole.readings), readings)

    def test_pieces_of_time(self, whole, monkeypatch, on_xla):
        monkeypatch.setattr(xla, "BUDGET", 8 * 200 * 10)
        heard = []
        run = icvi.run_fleet(pipeline(), recording(), keep=FIELDS, progress=lambda *now: heard.append(now))
        same(run.readings, whole.readings)
        same(run.state, whole.state)
        assert len(heard) > 3 and heard[-1] == (945, 945)

    @pytest.mark.parametrize("every", [1, 4])
    def test_progress_changes_nothing(self, whole, monkeypatch, every):
        monkeypatch.setattr(native, "PIECE", 21 * 10)
        heard = []
        run = icvi.run_fleet(pipeline(), recording(), keep=FIELDS, every=every, progress=lambda *now: heard.append(now))
        assert jax.tree.all(
            jax.tree.map(lambda a, b: a.tobytes() == b[:, every - 1 :: every].tobytes(), run.readings, whole.readings)
        )
        assert heard == [(210, 945), (420, 945), (630, 945), (840, 945), (945, 945)]

    def test_two_devices(self, tmp_path):
        X = recording(N=35)
        np.save(tmp_path / "x.npy", X)
        code = f"""if True:
            import jax, numpy as np, icvi_jax as icvi
            jax.config.update("jax_num_cpu_devices", 2)
            mesh = jax.sharding.Mesh(np.array(jax.devices()), ("streams",))
            assert mesh.size == 2
            panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
            pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel)
            run = icvi.run_fleet(pipe, np.load({str(tmp_path / "x.npy")!r}), mesh=mesh)
            np.savez({str(tmp_path / "y.npz")!r}, **run.readings.values, missing=run.state.missing)
        """
        subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
        got, want = np.load(tmp_path / "y.npz"), icvi.run_fleet(pipeline(), X)
        same({n: got[n] for n in ("db", "xb")}, want.readings.values)
        np.testing.assert_array_equal(got["missing"], want.state.missing)

    def test_many_slots_and_rows(self):
        pipe, X = pipeline(k=18), recording(N=5, T=40, p=3)
        same(icvi.run_fleet(pipe, X, keep=FIELDS).readings, plain_loop(pipe, X).readings)

    def test_ellipsoids_go_through(self):
        panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.95)
        pipe = icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=4), panel=panel)
        X = np.stack([icvi.streams.s2(seed=s).x[400:650] for s in range(3)]).astype(np.float32)
        fleet = icvi.run_fleet(pipe, X, keep=("values", "k")).readings
        for i in range(3):
            one = icvi.run(pipe, X[i]).readings
            np.testing.assert_array_equal(fleet.k[i], one.k)
            same(fleet.values["xb"][i], one.values["xb"], rtol=1e-3)


class TestGoingOn:
    def test_state_goes_on_and_is_not_consumed(self, whole):
        pipe, X = pipeline(), recording()
        first = icvi.run_fleet(pipe, X[:, :15], keep=FIELDS)
        for _ in range(2):
            second = icvi.run_fleet(pipe, X[:, 15:30], state=first.state, keep=FIELDS)
        same(icvi.run_fleet(pipe, X[:, 30:], state=second.state, keep=FIELDS).state, whole.state)

    def test_chunks(self, whole):
        heard = []
        chunks = iter([recording()[:, t : t + 15] for t in (0, 15, 30)])
        run = icvi.run_fleet(pipeline(), chunks, keep=FIELDS, progress=lambda done, total: heard.append((done, total)))
        same(run.readings, whole.readings)
        same(run.state, whole.state)
        assert heard == [(315, None), (630, None), (945, None)]

    @pytest.mark.parametrize("chunk", [45, 11])  # the last of the latter is a single sample
    def test_every(self, whole, chunk):
        X = recording()
        run = icvi.run_fleet(pipeline(), (X[:, t : t + chunk] for t in range(0, 45, chunk)), every=4, keep="label")
        np.testing.assert_array_equal(run.readings.label, whole.readings.label[:, 3::4])
        assert run.readings.values is None
        same(run.state, whole.state)

    @pytest.mark.parametrize("engine", ["native", "xla"])
    def test_every_with_more_than_there_are(self, whole, engine, monkeypatch):
        monkeypatch.setenv("ICVI_BACKEND", engine)
        same(
            icvi.run_fleet(pipeline(), recording(), every=4).readings.values["xb"],
            whole.readings.values["xb"][:, 3::4],
        )
        assert icvi.run_fleet(pipeline(), recording(), every=99).readings.label.shape == (21, 0)

    def test_final_keeps_the_state_alone(self, whole):
        run = icvi.run_fleet(pipeline(), recording(), keep=("final",))
        assert jax.tree.leaves(run.readings) == []
        same(run.state, whole.state)

    def test_elapsed(self):
        pipe, X = pipeline(), recording()
        gaps = np.random.default_rng(1).random((21, 45)).astype(np.float32)
        for elapsed in (gaps, gaps[0]):
            want = plain_loop(pipe, X, np.broadcast_to(elapsed, gaps.shape))
            same(icvi.run_fleet(pipe, X, elapsed=elapsed, keep=FIELDS).readings, want.readings)
        pairs = iter([X[:, :10], (X[:, 10:20], gaps[:, 10:20]), X[:, 20:]])  # times for some of them
        mixed = np.where((np.arange(45) < 10) | (np.arange(45) >= 20), 1, gaps)
        same(icvi.run_fleet(pipe, pairs).readings, icvi.run_fleet(pipe, X, elapsed=mixed).readings)
        same(icvi.run_fleet(pipe, iter([(X, gaps)])).readings, icvi.run_fleet(pipe, X, elapsed=gaps).readings)

    def test_a_broken_reader_is_heard(self):
        def chunks():
            yield recording()[:, :15]
            raise OSError("the disk is gone")

        with pytest.raises(OSError, match="gone"):
            icvi.run_fleet(pipeline(), chunks(), keep=FIELDS)


class TestMessages:
    def test_what_is_wrong_is_named(self):
        pipe, X = pipeline(), recording()
        for wrong, words in (
            (lambda: icvi.run_fleet(pipe, X, every=0), "every=0"),
            (lambda: icvi.run_fleet(pipe, X, elapsed=np.ones(3)), r"elapsed.*\(45,\) or \(21, 45\)"),
            (lambda: icvi.run_fleet(pipe, iter([])), "iterator has no samples"),
            (lambda: icvi.run_fleet(pipe, iter([X]), elapsed=np.ones(45)), r"pairs \(chunk, elapsed\)"),
            (lambda: icvi.run_fleet(pipe, iter([X, X[:5]]), keep=FIELDS), "had 21 streams, this one has 5"),
            (lambda: icvi.run_fleet(pipe, X, mesh=Mesh(np.array(jax.devices()[:1]), ("data",))), "'streams'"),
        ):
            with pytest.raises(ValueError, match=words):
                wrong()

    def test_a_mesh_of_ones_own(self, whole):
        mesh = Mesh(np.array(jax.devices()[:1]), ("streams",))
        run = icvi.run_fleet(pipeline(), recording()[:, :15], mesh=mesh, keep=FIELDS)
        same(run.readings, jax.tree.map(lambda a: a[:, :15], whole.readings))


def test_a_list_of_streams_of_any_length():
    X = np.random.default_rng(3).normal(size=(3, 40, 2)).astype(np.float32)
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    streams = [X[0], X[1][:25], X[2][:33]]
    fleet = icvi.run_fleet(pipe, streams, keep=("values", "seen")).readings
    assert fleet.values["xb"].shape == (3, 40) and fleet.values["xb"].dtype == np.float32
    for n, x in enumerate(streams):
        single = icvi.run(pipe, x).readings
        np.testing.assert_allclose(fleet.values["xb"][n, : len(x)], single.values["xb"], rtol=1e-4)
        assert not fleet.seen[n, len(x) :].any()


def test_use_all_cores_only_says_that_it_is_not_needed():
    with pytest.warns(DeprecationWarning, match="no effect"):
        assert icvi.use_all_cores() >= 1 and icvi.use_all_cores(3) == 3


@pytest.mark.parametrize("every", [1, 7])
def test_one_stream_in_chunks_with_progress_is_the_stream(every):
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    X, told = np.random.default_rng(0).normal(size=(100, 2)) + 1e6, []
    gaps = np.random.default_rng(1).exponential(size=100)
    whole = icvi.run(pipe, X, elapsed=gaps, every=every)
    chunks = ((X[t : t + 30], gaps[t : t + 30]) for t in range(0, 100, 30))
    cut = icvi.run(pipe, chunks, every=every, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (100, None) and len(told) == 4
    assert whole.readings.values["xb"].shape == (100 // every,)
    jax.tree.map(np.testing.assert_array_equal, cut, whole)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_for_each_stream_are_those_of_single_runs(kind):
    X = (np.random.default_rng(0).normal(size=(4, 60, 2)) + 1000).astype(kind)
    lam = np.array([1.0, 0.99, 0.9, 0.5])

    def pipe(forgetting):
        panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting)
        return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel, monitors={"xb": icvi.Distress()})

    whole = icvi.run_fleet(pipe(lam), X, keep=("values", "centers", "label"), every=7)
    chunks = (X[:, t : t + 25] for t in range(0, 60, 25))
    cut = icvi.run_fleet(pipe(lam), chunks, keep=("values", "centers", "label"), every=7)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), cut, whole)
    for n, one in enumerate(lam):
        alone = icvi.run(pipe(float(one)), X[n], keep=("values", "centers", "label"), every=7)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[n], b, rtol=1e-4), whole.readings, alone.readings)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[..., n], b, rtol=1e-4), whole.state, alone.state)
    with pytest.raises(ValueError, match="a number for each stream has the shape"):
        icvi.run_fleet(pipe(lam[:3]), X)


def test_a_pipeline_that_was_run_before_starts_anew_and_other_numbers_count():
    def pipe(forgetting):
        panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting)
        return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel)

    X = np.random.default_rng(0).normal(size=(5, 40, 2)).astype(np.float32)
    one, other = pipe(0.9), pipe(0.5)
    runs = [icvi.run_fleet(p, x) for p, x in ((one, X), (other, X), (one, X[:2]), (one, X), (pipe(0.9), X))]
    final = jax.tree.map(np.array, runs[0].state)
    jax.tree.map(np.testing.assert_array_equal, runs[0], runs[3])
    jax.tree.map(np.testing.assert_array_equal, runs[0], runs[4])
    assert not np.array_equal(runs[0].readings.values["xb"], runs[1].readings.values["xb"], equal_nan=True)
    np.testing.assert_array_equal(runs[0].readings.values["xb"][:2], runs[2].readings.values["xb"])
    icvi.run_fleet(one, 3 * X, state=runs[0].state)
    jax.tree.map(np.testing.assert_array_equal, runs[0].state, final)


def test_numbers_of_each_stream_may_be_changed_where_they_are():
    fade = np.full(5, 0.9)
    panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=fade)
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel)
    X = np.random.default_rng(0).normal(size=(5, 40, 2)).astype(np.float32)
    before = icvi.run_fleet(pipe, X).readings.values["xb"]
    fade[2] = 0.5
    after = icvi.run_fleet(pipe, X).readings.values["xb"]
    assert [np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after)] == [True, True, False, True, True]
