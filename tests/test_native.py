"""Native code against `lax.scan`, and its bits for any number of lanes, threads and streams beside it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from icvi_jax.drive.graph import Unsupported  # noqa: E402
from icvi_jax.drive.llvm.program import compile_step  # noqa: E402


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


@pytest.mark.parametrize("lanes", [1, 2, 4, 16])
def test_the_bits_do_not_depend_on_lanes_threads_or_company(lanes):
    pipe, X = pipeline(icvi.SequentialKMeans(k=3), monitors={"xb": icvi.PageHinkley()}), streams(13, 60, 2)
    expected = native(pipe, X, lanes=8)
    equal(native(pipe, X, lanes=lanes), expected)
    equal(native(pipe, X, lanes=lanes, threads=1), expected)
    alone = native(pipe, X[5:6], lanes=lanes)
    equal(alone[1], jax.tree.map(lambda a: a[5:6], expected[1]))


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
        return state + jnp.cos(z[0]), z

    with pytest.raises(Unsupported, match="'cos'") as caught:
        compile_step(step, (), np.float32(0), 1, np.dtype("f4"))
    assert caught.value.name == "cos"
