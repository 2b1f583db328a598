"""A live fleet: the numbers of a recorded run, tick by tick, while streams are added and removed."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.engine import executor as platforms

N, P, T = 6, 2, 40


def pipeline(forgetting=0.9, k=2):
    return icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=k),
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting),
        monitors={"xb": icvi.Distress()},
    )


def samples(seed=0, streams=N, ticks=T):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(streams, ticks, P)) + 4 * rng.integers(0, 3, (streams, ticks, 1))
    X[rng.random((streams, ticks)) < 0.1] = np.nan
    return X.astype(np.float32)


def ticked(live, X):
    return jax.tree.map(lambda *a: np.stack(a, 1), *[live.tick(X[:, t]) for t in range(X.shape[1])])


def bits_equal(a, b):
    pairs = list(zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
    return all(u.dtype == v.dtype and u.shape == v.shape and u.tobytes() == v.tobytes() for u, v in pairs)


def test_ticks_are_the_run_of_a_fleet():
    X = samples()
    live = icvi.Live(pipeline(), P, N)
    readings = ticked(live, X)
    run = icvi.run_fleet(pipeline(), X, keep=icvi.Reading._fields)
    for got, want in zip(jax.tree.leaves(readings), jax.tree.leaves(run.readings), strict=True):
        assert isinstance(got, np.ndarray) and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=1e-6)
    for got, want in zip(jax.tree.leaves(live.state), jax.tree.leaves(run.state), strict=True):
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=1e-6)
    assert readings.centers.shape == (N, T, 2, P) and readings.alarms["xb"].code.shape == (N, T)
    assert live.positions.tolist() == [T] * N


@pytest.mark.parametrize("engine", ("native", "xla"))
def test_micro_batches_of_any_length_are_ticks_bit_by_bit(engine, monkeypatch):
    monkeypatch.setenv("ICVI_BACKEND", engine)
    X = samples(ticks=12)
    one, many = icvi.Live(pipeline(), P, N), icvi.Live(pipeline(), P, N)
    want = ticked(one, X)
    got = [many.tick_many(X[:, a:b]) for a, b in ((0, 1), (1, 4), (4, 12))]
    assert bits_equal(want, jax.tree.map(lambda *a: np.concatenate(a, 1), *got))
    assert bits_equal(one.state, many.state)
    assert many.positions.tolist() == [12] * N


def test_native_code_and_the_fallback_agree(monkeypatch):
    X = samples()
    native = ticked(icvi.Live(pipeline(), P, N), X)
    monkeypatch.setenv("ICVI_BACKEND", "xla")
    for a, b in zip(jax.tree.leaves(native), jax.tree.leaves(ticked(icvi.Live(pipeline(), P, N), X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("streams", [1, 7, 16, 17, 300])
def test_the_same_bits_whatever_streams_are_beside(streams):
    X = samples(streams=300, ticks=15)
    want = jax.tree.map(lambda a: a[:streams], ticked(icvi.Live(pipeline(), P, 300), X))
    assert bits_equal(ticked(icvi.Live(pipeline(), P, streams), X[:streams]), want)


def test_a_lone_stream():
    X = samples(streams=1)
    got = ticked(icvi.Live(pipeline(), P, 1), X)
    want = icvi.run(pipeline(), X[0]).readings
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a[0], b, rtol=3e-5, atol=1e-6)


def test_a_fleet_may_begin_and_end_empty():
    panel = icvi.Panel(indices=(icvi.XieBeni(),))
    live = icvi.Live(icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=panel), 1, 0)
    assert live.state.anchor.high.shape == (1, 0)
    live.add(["a", "b"])
    assert live.tick(np.zeros((2, 1))).seen.all()
    live.retire(["a", "b"])
    assert live.state.anchor.high.shape == (1, 0)


def test_streams_come_and_go_without_touching_the_others():
    X = samples(streams=8)
    live = icvi.Live(pipeline(), P, ["a", "b", "c", "d", "e"])  # room for eight
    base = icvi.Live(pipeline(), P, 8)
    want = ticked(base, X)
    parts = [ticked(live, X[:5, :10])]
    live.add("f")
    parts.append(ticked(live, X[:6, 10:20]))
    live.retire("b")
    assert live.names == ("a", "c", "d", "e", "f")
    assert live.positions.tolist() == [20, 20, 20, 20, 10]
    parts.append(ticked(live, X[[0, 2, 3, 4, 5], 20:]))
    rows = [0, 2, 3, 4], [0, 2, 3, 4], [0, 1, 2, 3]
    stays = [jax.tree.map(lambda a: a[of], part) for part, of in zip(parts, rows)]
    want = jax.tree.map(lambda a: a[rows[0]], want)
    assert bits_equal(jax.tree.map(lambda *a: np.concatenate(a, 1), *stays), want)
    live.add("b")  # the same name again: another stream, from nothing
    assert not np.isfinite(live.tick(X[:6, 0]).values["xb"][5])


def test_growth_keeps_the_bits():
    X = samples(streams=40, ticks=12)
    live, others = icvi.Live(pipeline(), P, 1), icvi.Live(pipeline(), P, 40)
    for t, n in enumerate((1, 2, 3, 8, 9, 15, 16, 17, 18, 33, 40, 40)):
        live.add([f"later {i}" for i in range(len(live.names), n)])
        late = np.where(np.arange(40)[:, None] < n, X[:, t], np.nan)  # a stream that has not begun
        got, want = live.tick(X[:n, t]), others.tick(late)
        assert bits_equal(got, jax.tree.map(lambda a: a[:n], want)), (t, n)
    assert live.capacity == 64 and live.positions[[0, 1, 39]].tolist() == [12, 11, 2]


def test_the_fallback_compiles_once_for_all_that_there_is_room_for(monkeypatch):
    monkeypatch.setenv("ICVI_BACKEND", "xla")
    from icvi_jax.engine import xla

    live = icvi.Live(pipeline(), P, 5, capacity=11)
    live.tick(samples()[:5, 0])
    compiled = xla._consuming._cache_size()
    for n in range(11):
        live.add(f"later {n}")
        live.tick(samples(streams=6 + n)[:, 0])
    assert live.capacity == 16 and xla._consuming._cache_size() == compiled


def test_another_number_does_not_recompile():
    X = samples(1)
    first, made = ticked(icvi.Live(pipeline(0.9), P, N), X), dict(platforms._programs)
    second = ticked(icvi.Live(pipeline(0.5), P, N), X)
    assert platforms._programs == made
    assert not bits_equal(first.values, second.values)


def test_the_state_goes_on_in_a_run_and_comes_back():
    X = samples()
    live = icvi.Live(pipeline(), P, N)
    ticked(live, X[:, :20])
    rest = icvi.run_fleet(pipeline(), X[:, 20:], state=live.state, keep=icvi.Reading._fields)
    assert bits_equal(ticked(live, X[:, 20:]), rest.readings) and bits_equal(live.state, rest.state)


def test_a_tenth_of_the_soak():
    script = Path(__file__).resolve().parents[1] / "tests" / "slow" / "soak.py"
    command = [sys.executable, script, "--samples", "1e7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_readings_stay_as_they_were_read():
    live = icvi.Live(pipeline(), P, N)
    X = samples()
    first = live.tick(X[:, 0])
    copy = jax.tree.map(np.copy, first)
    ticked(live, X)
    assert bits_equal(first, copy)


def test_double_precision():
    X = samples().astype(float)
    got = ticked(icvi.Live(pipeline(), P, N, dtype="float64"), X)
    want = icvi.run_fleet(pipeline(), X, backend="numpy", keep=icvi.Reading._fields).readings
    assert got.values["xb"].dtype == np.float64 and bits_equal(got, want)


def test_keep_leaves_the_rest_out():
    reading = icvi.Live(pipeline(), P, N, keep=("values",)).tick(samples()[:, 0])
    assert reading.centers is None and set(reading.values) == {"xb"}


def test_offsets_of_the_caller():
    live = icvi.Live(pipeline(), P, 2)
    live.tick(samples()[:2, 0], offsets=[7, 100])
    assert live.positions.tolist() == [7, 100]
    with pytest.raises(ValueError, match="stream '1' is at 100 already"):
        live.tick(samples()[:2, 1], offsets=[8, 99])
    assert live.positions.tolist() == [7, 100]
    live.tick_many(samples()[:2, :3], offsets=[9, 120])
    assert live.positions.tolist() == [9, 120]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda live: live.tick(np.zeros((N, 3))), r"\(6, 2\), got shape \(6, 3\)"),
        (lambda live: live.tick_many(np.zeros((N, 2))), r"\(N, t, p\)"),
        (lambda live: live.add("3"), "two streams have the name '3'"),
        (lambda live: live.add(3), "expected strings|must be an iterable"),
        (lambda live: live.retire("x"), "no such stream"),
        (lambda live: icvi.Live(live.pipe, 2, 3, dtype="float16"), "float32 or float64"),
        (lambda live: icvi.Live(live.pipe, 0, 3), "features=0"),
        (lambda live: icvi.Live(live.pipe, 2, 3, keep="value"), "not a field of a reading"),
        (lambda live: live.tick(np.zeros((N, P)), offsets=[0.5] * N), "one integer"),
    ],
)
def test_messages(make, message):
    live = icvi.Live(pipeline(), P, N)
    with pytest.raises((ValueError, TypeError), match=message):
        make(live)
