"""Native code compared with `lax.scan`; the same bits for any number of lanes, threads and other streams."""

import functools
import importlib.util
import pathlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from icvi_jax.engine.lowering.graph import Unsupported  # noqa: E402
from icvi_jax.engine.lowering.unroll import unroll  # noqa: E402
from icvi_jax.engine.native.program import APART, PATIENCE, compile_step, first_call, room  # noqa: E402


def values(pipe, state, z, elapsed=None):
    state, reading = pipe.step(state, z, elapsed)
    return state, (reading.values, reading.label, reading.seen, reading.alarms)


def pipeline(clusterer, indices=None, **more):
    indices = (icvi.XieBeni(), icvi.DaviesBouldin()) if indices is None else indices
    return icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=indices, forgetting=0.95), **more)


def streams(N, T, p, k=3, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(N, k, p)) * 10
    X = centres[np.arange(N)[:, None], rng.integers(0, k, (N, T))] + rng.normal(size=(N, T, p))
    X[rng.random((N, T)) < 0.03] = np.nan
    return X.astype(dtype)


def scanned(pipe, X, dtype=np.float32):
    N, _, p = X.shape
    scan = jax.jit(lambda s, X: jax.lax.scan(lambda state, x: values(pipe, state, x), s, X))
    final, out = scan(pipe.init(p, (N,), dtype=dtype), jnp.asarray(X.transpose(1, 2, 0)))
    return final, jax.tree.map(lambda a: np.moveaxis(np.asarray(a), -1, 0), out)


def native(pipe, X, dtype=np.float32, lanes=None, **how):
    N, _, p = X.shape
    program = compile_step(values, pipe, pipe.init(p, dtype=dtype), p, np.dtype(dtype), lanes=lanes)
    words = program.words(pipe.init(p, (N,), xp=np, dtype=dtype))
    out = program.run(words, program.numbers(pipe), X, **how)
    return program.state(words, N), program.tree(out)


def equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def close(a, b, tolerance):
    def one(x, y):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind != "f":
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)

    jax.tree.map(one, a, b)


def test_a_step_with_more_values_than_registers_is_put_in_order_and_keeps_its_bits():
    pipe, X = pipeline(icvi.SequentialKMeans(k=20)), streams(17, 60, 2, k=20)
    ordered = [
        compile_step(values, pipe, pipe.init(2, dtype=X.dtype), 2, X.dtype, lanes=lanes).layout.flat.ordered
        for lanes in (1, 16)
    ]
    assert ordered == [False, True]
    equal(native(pipe, X, lanes=1), native(pipe, X, lanes=16))


@pytest.mark.parametrize("lanes", [1, 2, 4, 16])
def test_the_bits_do_not_depend_on_lanes_threads_or_company(lanes):
    pipe, X = pipeline(icvi.SequentialKMeans(k=3), monitors={"xb": icvi.PageHinkley()}), streams(13, 60, 2)
    expected = native(pipe, X, lanes=8)
    equal(native(pipe, X, lanes=lanes), expected)
    equal(native(pipe, X, lanes=lanes, threads=1), expected)
    alone = native(pipe, X[5:6], lanes=lanes)
    equal(alone[1], jax.tree.map(lambda a: a[5:6], expected[1]))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("streams", [1, 17, 40, 64])
def test_small_steps_run_several_vectors_at_once_with_the_same_bits(streams, dtype):
    def step(model, state, z):
        total = model * state + z
        return total, (total, total[0] > 0, jnp.int32(0) + (z[1] > z[0]))

    X = np.random.default_rng(0).normal(size=(streams, 75, 2))
    start, model = np.zeros((2, streams), dtype), np.dtype(dtype).type(0.9)
    made = []
    for lanes in (1, None):
        with jax.enable_x64(dtype == "f8"):
            program = compile_step(step, model, start[:, 0], 2, np.dtype(dtype), lanes=lanes)
        words = program.words(start)
        made.append((program.run(words, program.numbers(model), X), program.state(words, streams)))
    assert program.layout.width == 4 * program.layout.block
    equal(*made)


@pytest.mark.parametrize(
    "pipe",
    [
        pipeline(icvi.SequentialKMeans(k=3), monitors={"xb": icvi.PageHinkley(), "db": icvi.Distress()}),
        pipeline(icvi.OnlineEllipsoidal(capacity=4)),
        pipeline(icvi.SequentialKMeans(k=3), standardize=icvi.Standardize()),
    ],
    ids=["k-means", "oec", "standardized"],
)
def test_native_code_gives_what_a_scan_gives(pipe):
    X = streams(10, 120, 3)
    close(native(pipe, X), scanned(pipe, X), 2e-4)


def test_a_primitive_without_a_rule_is_named():
    def step(model, state, z):
        return state + jax.lax.digamma(z[0]), z

    with pytest.raises(Unsupported, match="'digamma'") as caught:
        compile_step(step, (), np.float32(0), 1, np.dtype("f4"))
    assert caught.value.name == "digamma"


@pytest.mark.parametrize("clusterer", [icvi.SequentialKMeans(k=3), icvi.OnlineEllipsoidal(capacity=3)])
def test_loops_and_written_out_steps_agree(clusterer):
    pipe, X = pipeline(clusterer, monitors={"xb": icvi.Distress()}), streams(9, 120, 3)
    program = compile_step(values, pipe, pipe.init(3), 3, np.dtype("f4"), loops=True)
    words = program.words(pipe.init(3, (9,), xp=np, dtype=np.float32))
    out = program.tree(program.run(words, program.numbers(pipe), X))
    close((program.state(words, 9), out), native(pipe, X), 2e-4)


def test_a_step_is_written_out_where_that_compiles_in_time():
    """Words of the state count too: k = 32, p = 16 has fewer operations than merge-split and more words."""

    def predicted(pipe, p):
        return first_call(unroll(values, pipe, pipe.init(p), p, np.dtype("f4"), False))

    many, few = pipeline(icvi.SequentialKMeans(k=32)), pipeline(icvi.MergeSplit(slots=16))
    assert predicted(many, 16) > PATIENCE > predicted(many, 8) > predicted(few, 2)
    assert compile_step(values, many, many.init(16), 16, np.dtype("f4")).layout.plan is not None


def rarely(model, state, z):
    """Much that only counts where z₀ > 1, and much that only counts where it is not."""
    A = jnp.outer(z, z) + 1
    rare, B = (z > 1)[0], jnp.outer(z, z) - 1
    return state + 1, (
        jnp.where(rare, (A @ A @ A).sum(), state),
        jnp.where(rare, z[1], (B @ B).max()),
        (A @ B > 0) & rare,
    )


@pytest.mark.parametrize("lanes", [1, 8])
def test_what_no_stream_of_a_group_asks_for_is_passed_over_and_nothing_else(lanes):
    program = compile_step(rarely, (), np.float32(0), 12, np.dtype("f4"), lanes=lanes, loops=True)
    guards = {loop.guard.when for loop in program.layout.plan.each if loop.guard}
    assert guards == {True, False}
    X = np.random.default_rng(0).normal(size=(13, 40, 12)).astype(np.float32)
    X[:, 10:20, 0], X[:, 20:30, 0] = 2, 0  # all, none, and some before and after
    words = program.words(np.zeros(13, np.float32))
    expected = jax.vmap(jax.vmap(lambda t, z: rarely((), t, z)[1]), (None, 0))(jnp.arange(40, dtype=jnp.float32), X)
    close(tuple(program.run(words, program.numbers(()), X)), expected, 2e-4)


def counter(model, state, z, elapsed):
    return state + 1, (state, z.sum(0), elapsed * model, z)


@functools.cache
def counting(features):
    return compile_step(counter, np.float32(2), np.int32(0), features, np.dtype("f4"), elapsed=True)


def counted(X, every=1, chunks=(None,), **how):
    """Readings of `counter` over X, in chunks of time."""
    program = counting(X.shape[-1])
    words, parts, done = program.words(np.zeros(len(X), np.int32)), [], 0
    for stop in chunks:
        part = X[:, done:stop]
        gaps = np.arange(done, done + part.shape[1], dtype=np.float32)
        parts.append(
            program.run(
                words, program.numbers(np.float32(2)), part, elapsed=gaps, every=every, phase=done % every, **how
            )
        )
        done += part.shape[1]
    return [np.concatenate(group, axis=1) for group in zip(*parts)]


@pytest.mark.parametrize("N", [1, 7, 8, 19])
@pytest.mark.parametrize("T", [1, 5, 700])
def test_tiles_bring_each_sample_to_its_reading(N, T):
    X = np.random.default_rng(0).normal(size=(N, T, 3))
    for dtype in (np.float32, np.float64):
        for A in (X.astype(dtype), np.asfortranarray(X.astype(dtype)), X.astype(dtype)[:, ::-1, ::-1]):
            count, total, gaps, z = counted(A)
            np.testing.assert_array_equal(count, np.broadcast_to(np.arange(T), (N, T)))
            np.testing.assert_array_equal(z, A.astype(np.float32))
            np.testing.assert_allclose(total, A.sum(-1), rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(gaps, np.broadcast_to(2 * np.arange(T), (N, T)))


def test_every_nth_reading_is_kept_across_chunks():
    X = np.random.default_rng(0).normal(size=(3, 50, 2)).astype(np.float32)
    whole = counted(X)
    for a, b in zip(counted(X, every=7, chunks=(4, 20, 21, None)), whole):
        np.testing.assert_array_equal(a, b[:, 6::7])


def test_the_origin_is_subtracted_in_the_precision_of_the_samples():
    X = 1e9 + np.random.default_rng(0).normal(size=(5, 40, 2))
    _, _, _, z = counted(X, origin=np.ascontiguousarray(X[:, 0]))
    np.testing.assert_array_equal(z, (X - X[:, :1]).astype(np.float32))


def test_ticks_give_what_a_run_gives():
    pipe, X = pipeline(icvi.SequentialKMeans(k=3)), streams(11, 40, 2)
    _, expected = native(pipe, X)
    program = compile_step(values, pipe, pipe.init(2), 2, np.dtype("f4"))
    words = program.words(pipe.init(2, (11,), xp=np, dtype=np.float32))
    ticker = program.ticker(words, program.numbers(pipe), 11)
    for t in range(40):
        ticker.x[:] = X[:, t]
        ticker.tick()
        equal(program.tree(ticker.out), jax.tree.map(lambda a: a[:, t], expected))


def test_a_fuzz_of_pipelines_finds_no_difference_to_xla():
    path = pathlib.Path(__file__).parents[1] / "benchmarks" / "native_fuzz.py"
    spec = importlib.util.spec_from_file_location("native_fuzz", path)
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    bad, parted, total = fuzz.fuzz(200, 3, each=50)
    assert not bad
    assert parted <= 0.02 * total


def test_readings_share_a_piece_of_memory_and_no_byte_of_it():
    kinds = [
        ((3, 5), np.dtype("f4")),
        ((3, 5, 2), np.dtype("i1")),
        ((3, 0), np.dtype("f8")),
        ((APART,), np.dtype("i1")),
    ]
    arrays = room(kinds)
    assert [(a.shape, a.dtype) for a in arrays] == kinds
    for i, a in enumerate(arrays):
        a[...] = i
    assert all((a == i).all() for i, a in enumerate(arrays))
    assert arrays[0].base is arrays[1].base and arrays[3].base is not arrays[0].base


def test_a_state_read_in_between_is_not_changed_by_what_follows():
    X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    live = icvi.Live(pipeline(icvi.SequentialKMeans(k=3)), features=2, streams=3)
    for x in X[:10]:
        live.tick(np.stack([x] * 3))
    then = live.state
    kept = jax.tree.map(np.copy, then)
    for x in X[10:]:
        live.tick(np.stack([x] * 3))
    chex.assert_trees_all_equal(then, kept)
