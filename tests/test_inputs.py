"""Checks of input: samples of any kind, no digit lost, and errors before anything runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi

K, P, T = 3, 2, 240
PANEL = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.98)
PIPE = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=K), panel=PANEL)
OFFSETS = [0.0, 1e6, 1e8, 1.7e9]


def samples(offset, spread, streams=3):
    """Three clusters of this spread, far from zero; one stream starts late, one column even later."""
    rng = np.random.default_rng(4)
    at = np.array([[0, 0], [8, 2], [3, 9]])[rng.integers(0, 3, (streams, T))]
    X = spread * (rng.normal(size=(streams, T, P)) + at) + offset
    X[1, :5] = np.nan
    X[2, :3, 1] = np.nan
    X[2, 3:6, 0] = np.nan
    return X


def live_values(X):
    live = icvi.Live(PIPE, P, len(X))
    readings = [live.tick(X[:, t]) for t in range(20)] + [live.tick_many(X[:, 20:])]
    first = jax.tree.map(lambda *a: np.stack(a, 1), *readings[:-1])
    return jax.tree.map(lambda a, b: np.concatenate([a, b], 1), first, readings[-1])


def chunked(X):
    return icvi.run_fleet(PIPE, iter([X[:, :2], X[:, 2:50], X[:, 50:]]), keep=icvi.Reading._fields).readings


ENTRIES = {
    "run": lambda X: jax.tree.map(lambda *a: np.stack(a), *[icvi.run(PIPE, x).readings for x in X]),
    "run_fleet": lambda X: icvi.run_fleet(PIPE, X, keep=icvi.Reading._fields).readings,
    "chunks": chunked,
    "Live": live_values,
}


@pytest.mark.parametrize("spread", [1.0, 0.05])
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_digits_are_not_lost_at_the_door(entry, offset, spread):
    X = samples(offset, spread)
    exact = icvi.run_fleet(PIPE, X, backend="numpy", keep=icvi.Reading._fields).readings
    assert exact.values["xb"].dtype == np.float64
    got = ENTRIES[entry](X)
    assert got.values["xb"].dtype == np.float32
    same = got.label == exact.label
    assert same.mean() > 0.99
    for name in ("xb", "db"):
        a, b = got.values[name][same], exact.values[name][same]
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        fine = np.isfinite(b)
        np.testing.assert_allclose(a[fine], b[fine], rtol=1e-5, err_msg=name)
    assert got.centers.dtype == np.float64
    np.testing.assert_allclose(got.centers[same] - offset, exact.centers[same] - offset, atol=1e-4 * spread)


@pytest.mark.parametrize("spread", [1.0, 0.05])
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("form", ["labels", "parallel labels", "memberships", "fixed centres", "parallel memberships"])
def test_digits_are_not_lost_by_validate(form, offset, spread):
    X = samples(offset, spread)[0]
    X = np.tile(X, (9, 1)) if "parallel" in form else X  # long enough to be cut into lanes
    labels = ((X[:, 0] - offset) / spread > 5).astype(int)
    more = {"parallel": "parallel" in form}
    if "labels" in form:
        more["labels"] = labels
    else:
        hot = np.eye(2)[labels]
        means = np.cumsum(hot[:, :, None] * (X - offset)[:, None, :], 0)
        V = offset + means / np.maximum(np.cumsum(hot, 0), 1)[:, :, None]
        more |= {"memberships": hot, "centers": V[-1] if "fixed" in form else V}
    got = icvi.validate(PANEL, X, **more)
    with jax.enable_x64(True):
        exact = icvi.validate(PANEL, X, **more)
    for name in ("xb", "db"):
        assert got[name].dtype == np.float32 and exact[name].dtype == np.float64
        fine = np.isfinite(exact[name])
        assert fine.mean() > 0.9
        np.testing.assert_array_equal(np.isfinite(got[name]), fine)
        np.testing.assert_allclose(got[name][fine], exact[name][fine], rtol=1e-5, err_msg=name)


class TestLibraries:
    def test_what_goes_in_comes_out(self):
        X = samples(0.0, 1.0)[0]
        for given, kind in (
            (X, np.ndarray),
            (X.tolist(), np.ndarray),
            (jnp.asarray(X, jnp.float32), jax.Array),
        ):
            run = icvi.run(PIPE, given)
            assert all(isinstance(a, kind) for a in jax.tree.leaves(run)), kind
            fleet = icvi.run_fleet(PIPE, np.asarray(X)[None] if kind is np.ndarray else given[None])
            assert all(isinstance(a, kind) for a in jax.tree.leaves(fleet)), kind
            values = icvi.validate(PANEL, given, labels=[0, 1] * (T // 2))
            assert all(isinstance(a, kind) for a in values.values()), kind

    def test_torch(self):
        torch = pytest.importorskip("torch", reason="torch is not installed")
        X = torch.asarray(samples(0.0, 1.0)[0])
        run = icvi.run(PIPE, X)
        assert all(isinstance(a, torch.Tensor) for a in jax.tree.leaves(run))
        assert run.readings.values["xb"].dtype == torch.float64
        np.testing.assert_allclose(run.readings.values["xb"], icvi.run(PIPE, X, backend="numpy").readings.values["xb"])
        leaf = X[5:].clone().requires_grad_()
        icvi.run(PIPE, leaf).readings.values["xb"][-1].backward()
        assert torch.isfinite(leaf.grad).all() and leaf.grad.abs().max() > 0

    @pytest.mark.parametrize("backend, kind", [("numpy", np.ndarray), ("jax", jax.Array)])
    def test_the_caller_overrules(self, backend, kind):
        X = samples(0.0, 1.0)[0]
        for given in (X, jnp.asarray(X, jnp.float32)):
            run = icvi.run(PIPE, given, backend=backend)
            assert all(isinstance(a, kind) for a in jax.tree.leaves(run))

    def test_a_state_of_any_library_goes_on(self):
        X = samples(0.0, 1.0).astype(np.float32)
        whole = icvi.run_fleet(PIPE, X)
        half = icvi.run_fleet(PIPE, jnp.asarray(X[:, :100]))
        rest = icvi.run_fleet(PIPE, X[:, 100:], state=half.state)
        np.testing.assert_allclose(rest.readings.values["xb"], whole.readings.values["xb"][:, 100:], rtol=1e-5)

    def test_inside_jit_vmap_and_grad(self):
        X = jnp.asarray(samples(0.0, 1.0)[0, 5:], jnp.float32)
        want = icvi.run(PIPE, X).readings.values["xb"]
        got = jax.jit(lambda X: icvi.run(PIPE, X).readings.values["xb"])(X)
        np.testing.assert_allclose(got, want, rtol=1e-4)
        many = jax.vmap(lambda X: icvi.run(PIPE, X).readings.values["xb"])(jnp.stack([X, X]))
        np.testing.assert_allclose(many[1], want, rtol=1e-4)
        slope = jax.grad(lambda X: icvi.run(PIPE, X).readings.values["xb"][-1])(X)
        assert np.isfinite(slope).all() and np.abs(slope).max() > 0

    def test_a_traced_pipeline_takes_a_fleet_of_the_host(self):
        X = samples(0.0, 1.0).astype(np.float32)
        got = jax.jit(lambda pipe: icvi.run_fleet(pipe, X).readings.values["xb"])(PIPE)
        np.testing.assert_allclose(got, icvi.run_fleet(PIPE, X).readings.values["xb"], rtol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_time_that_cannot_be_is_named(bad):
    X = samples(0.0, 1.0)
    gaps = np.ones(T)
    gaps[17] = bad
    each = np.ones((3, T))
    each[2, 9] = bad
    labels, U, V = np.arange(T) % 2, np.eye(2)[np.arange(T) % 2], np.ones((2, P))
    for call, words in (
        (lambda: icvi.run(PIPE, X[0], elapsed=gaps), "run.*row 17 has"),
        (lambda: icvi.run_fleet(PIPE, X, elapsed=each), "run_fleet.*row 9 of stream 2 has"),
        (lambda: icvi.run_fleet(PIPE, iter([(X, gaps)])), "run_fleet.*row 17 has"),
        (lambda: icvi.validate(PANEL, X[0], labels=labels, elapsed=gaps), "validate.*row 17 has"),
        (lambda: icvi.validate(PANEL, X[0], labels=labels, elapsed=gaps, parallel=True), "validate.*row 17 has"),
        (lambda: icvi.batch(PANEL, X[0], U, V, elapsed=gaps), "batch.*row 17 has"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize(
    "X, words",
    [
        (np.ones((20, 2)) + 1j, "complex"),
        ([["a", "b"]] * 20, "expected numbers"),
        (np.ones(20), r"axes \(T, p\)"),
        (np.ones((0, 2)), "empty|at least one sample"),
        ([[1.0, 2.0], [3.0]], "same length"),
    ],
)
def test_what_are_no_samples(X, words):
    for call in (lambda: icvi.run(PIPE, X), lambda: icvi.validate(PANEL, X, labels=[0] * 20)):
        with pytest.raises(ValueError, match=words):
            call()


def test_numbers_of_any_type():
    X = np.random.default_rng(0).integers(0, 50, (40, 2))
    want = icvi.run(PIPE, X.astype(float)).readings.values["xb"]
    for given in (X.astype(np.int8), X.astype(np.float16), X.astype(object), X.tolist(), jnp.asarray(X, jnp.bfloat16)):
        np.testing.assert_allclose(np.asarray(icvi.run(PIPE, given).readings.values["xb"]), want, rtol=1e-5)


def test_monitors_of_samples_alone_go_through_every_entry():
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    X = samples(1e8, 1.0)
    fleet, live = icvi.run_fleet(pipe, X, keep=icvi.Reading._fields).readings, icvi.Live(pipe, P, 3)
    for t in range(12):
        reading = live.tick(X[:, t])
        np.testing.assert_array_equal(reading.alarms["change"].score, fleet.alarms["change"].score[:, t])
    assert fleet.centers.shape == (3, T, 0, P) and reading.centers.shape == (3, 0, P)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_row_with_a_hole_sets_no_origin(entry):
    X = samples(0.0, 1.0)
    first = np.full((len(X), 1, P), np.nan)
    first[:, :, 0] = 1e9
    got = ENTRIES[entry](np.concatenate([first, X], axis=1))
    true = ENTRIES[entry](X)
    np.testing.assert_allclose(got.values["xb"][:, 1:], true.values["xb"], rtol=1e-6)


def test_a_row_with_a_hole_sets_no_origin_in_validate():
    X, labels = samples(0.0, 1.0)[0], np.arange(T) % K
    got = icvi.validate(PANEL, np.concatenate([[[1e9, np.nan]], X]), labels=np.append(0, labels))
    np.testing.assert_allclose(got["xb"][1:], icvi.validate(PANEL, X, labels=labels)["xb"], rtol=1e-6)


def test_an_iterator_may_use_its_memory_again_and_have_nothing_for_a_while():
    X = samples(0.0, 1.0)

    def chunks():
        memory = np.empty((len(X), 40, P))
        for t in range(0, T, 40):
            memory[...] = X[:, t : t + 40]
            yield memory
            yield memory[:, :0]

    run = icvi.run_fleet(PIPE, chunks())
    np.testing.assert_array_equal(run.readings.values["xb"], icvi.run_fleet(PIPE, X).readings.values["xb"])


def test_a_live_fleet_takes_other_orders_of_bytes_and_one_name():
    live, other = icvi.Live(PIPE, P, "roof"), icvi.Live(PIPE, P, 1)
    assert live.names == ("roof",)
    for x in samples(0.0, 1.0)[:1, :9].swapaxes(0, 1):
        got = live.tick(x.astype(">f8"))
        np.testing.assert_array_equal(got.values["xb"], other.tick(x).values["xb"])


def test_a_scan_names_a_state_that_does_not_fit():
    X = jnp.zeros((4, P))
    wrong = {
        "not a state of this pipeline": icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=K + 1), panel=PANEL).init(P),
        "the state is for 3 features": PIPE.init(P + 1),
        "the state is for 4 streams": PIPE.init(P, (4,)),
    }
    for words, state in wrong.items():
        with pytest.raises(ValueError, match=words):
            icvi.scan(PIPE, state, X)


class TestAnErrorCodeIsNoOrigin:
    X = np.random.default_rng(0).normal(size=(60, 2)) + [[7.0, 5.0]]
    X[0, 0] = 2147483647.0

    def test_in_a_step_as_in_a_run(self):
        pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
        state = pipe.init(2, xp=np)
        for x in self.X[:3].astype(np.float32):
            state, _ = pipe.step(state, x)
        run = icvi.run(pipe, self.X.astype(np.float32))
        np.testing.assert_array_equal(state.anchor.high, self.X[1].astype(np.float32))
        np.testing.assert_array_equal(run.state.anchor.high, state.anchor.high)

    def test_in_a_validation(self):
        panel, y = icvi.Panel(indices=(icvi.XieBeni(),)), np.arange(60) % 2
        X, y[0] = self.X + 3 * y[:, None], -1
        single = icvi.validate(panel, X, labels=y)["xb"]
        with jax.enable_x64(True):
            double = icvi.validate(panel, X, labels=y)["xb"]
        np.testing.assert_allclose(single[5:], double[5:], rtol=1e-4)

    def test_a_value_too_large_is_no_row_of_a_calibration(self):
        X = np.random.default_rng(1).normal(size=(600, 1))
        pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
        X[300] = np.nan
        expected = icvi.calibrate(pipe, X, replicas=20)
        X[300] = 1e16
        assert icvi.calibrate(pipe, X, replicas=20) == expected
