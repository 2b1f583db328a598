"""A live fleet: the numbers of a recorded run, tick by tick, with streams that come and go."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.drive import blocks, program
from icvi_jax.drive.kernel import rewritten

N, P, T = 6, 2, 40
PLAIN = {}


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


@pytest.fixture
def plain(monkeypatch):
    """As on other devices, and for steps that no kernel can hold: XLA's own kernels, arrays one by one."""
    monkeypatch.setattr(program, "PACK", 0)
    monkeypatch.setattr(program, "rewritten", lambda *args: (None, rewritten(*args)[1]))
    monkeypatch.setattr(program, "_programs", PLAIN)


@pytest.mark.parametrize("form", ("kernel", "plain"))
def test_micro_batches_of_any_length_are_ticks_bit_by_bit(form, request):
    if form == "plain":
        request.getfixturevalue("plain")
    X = samples(ticks=12)
    one, many = icvi.Live(pipeline(), P, N), icvi.Live(pipeline(), P, N)
    want = ticked(one, X)
    got = [many.tick_many(X[:, a:b]) for a, b in ((0, 1), (1, 4), (4, 12))]
    assert bits_equal(want, jax.tree.map(lambda *a: np.concatenate(a, 1), *got))
    assert bits_equal(one.state, many.state)
    assert many.positions.tolist() == [12] * N


def test_kernel_and_plain_agree(request):
    X = samples()
    packed = ticked(icvi.Live(pipeline(), P, N), X)
    request.getfixturevalue("plain")
    for a, b in zip(jax.tree.leaves(packed), jax.tree.leaves(ticked(icvi.Live(pipeline(), P, N), X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=1e-6)


def test_a_lone_stream():
    X = samples(streams=1)
    got = ticked(icvi.Live(pipeline(), P, 1), X)
    want = icvi.run(pipeline(), X[0]).readings
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a[0], b, rtol=3e-5, atol=1e-6)


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


def test_growth_keeps_numbers_and_compiles_once_per_power_of_two():
    X = samples(streams=5)
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=1), panel=icvi.Panel(indices=(icvi.BallHall(),)))
    live = icvi.Live(pipe, P, 1)
    used = {}
    for n in range(1, 6):
        live.tick(X[:n, n])
        used[live.capacity] = live._blocks.program
        if n < 5:
            live.add(f"later {n}")
    assert list(used) == [1, 2, 4, 8]
    assert [p.traces for p in used.values()] == [1] * 4
    offered = np.stack([np.where(np.arange(1, 6)[:, None] > i, X[i, 1:6], np.nan) for i in range(5)])
    whole = icvi.run_fleet(pipe, offered)
    for got, want in zip(jax.tree.leaves(live.state.clusterer), jax.tree.leaves(whole.state.clusterer)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert live.positions.tolist() == [5, 4, 3, 2, 1]


def test_a_large_fleet_is_many_blocks_of_one_program(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 8)
    X = samples(streams=21, ticks=12)
    small, live = icvi.Live(pipeline(), P, 8), icvi.Live(pipeline(), P, 21, capacity=40)
    traces = small._blocks.program.traces
    want = [ticked(icvi.Live(pipeline(), P, 8), part) for part in (X[:8], X[8:16])]
    readings = ticked(live, X[:, :4]), live.tick_many(X[:, 4:])
    got = jax.tree.map(lambda *a: np.concatenate(a, 1), *readings)
    assert live.capacity == 40 and got.centers.shape == (21, 12, 2, P)
    assert bits_equal(jax.tree.map(lambda a: a[:16], got), jax.tree.map(lambda *a: np.concatenate(a), *want))
    live.retire([str(i) for i in range(8)])
    live.add([f"new {i}" for i in range(40)])
    assert live.capacity == 56
    live.tick(samples(streams=53)[:, 0])
    assert live._blocks.program is small._blocks.program and small._blocks.program.traces <= traces + 2
    assert live.positions.tolist() == [13] * 13 + [1] * 40


def test_another_number_does_not_recompile():
    a, b = icvi.Live(pipeline(0.9), P, N), icvi.Live(pipeline(0.5), P, N)
    X = samples(1)
    first, traces = ticked(a, X), a._blocks.program.traces
    second = ticked(b, X)
    assert a._blocks.program is b._blocks.program and b._blocks.program.traces == traces
    assert not bits_equal(first.values, second.values)


def test_a_tenth_of_the_soak():
    script = Path(__file__).resolve().parents[1] / "benchmarks" / "soak.py"
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
        (lambda live: live.add("3"), "two streams of the name '3'"),
        (lambda live: live.add(3), "named by strings|must be an iterable"),
        (lambda live: live.retire("x"), "no such stream"),
        (lambda live: icvi.Live(live.pipe, 2, 3, dtype="float64"), "jax_enable_x64"),
        (lambda live: icvi.Live(live.pipe, 0, 3), "features=0"),
        (lambda live: icvi.Live(live.pipe, 2, 3, keep="value"), "no field of a reading"),
        (lambda live: live.tick(np.zeros((N, P)), offsets=[0.5] * N), "whole number"),
    ],
)
def test_messages(make, message):
    live = icvi.Live(pipeline(), P, N)
    with pytest.raises((ValueError, TypeError), match=message):
        make(live)
