"""Export: the step and a scan are lowered for platforms that are not here, and depend on none of them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi


def pipeline(clusterer, indices=(icvi.XieBeni(), icvi.DaviesBouldin())):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        panel = icvi.Panel(indices=indices, forgetting=0.9)
        return icvi.Pipeline(clusterer=clusterer, panel=panel, monitors={"xb": icvi.Distress()})


def all_indices(clusterer):
    found = (getattr(icvi.indices, name) for name in icvi.indices.__all__)
    kinds = [c for c in found if isinstance(c, type) and issubclass(c, icvi.Index) and c is not icvi.Index]
    return tuple(c() for c in kinds if clusterer.grouped or not c.grouped)


CLUSTERERS = [icvi.SequentialKMeans(k=3), icvi.OnlineEllipsoidal(capacity=3), icvi.MergeSplit(slots=4)]


@pytest.mark.parametrize("clusterer", CLUSTERERS, ids=lambda c: type(c).__name__)
def test_lowers_for_gpu_and_tpu_with_no_call_to_the_outside(clusterer):
    out = icvi.export(pipeline(clusterer, all_indices(clusterer)), features=2, streams=16, samples=20, kernel=False)
    assert out.needs == ""
    for program in (out.step, out.scan):
        assert program.platforms == ("cpu", "cuda", "tpu")
        text = program.mlir_module()
        assert "custom_call" not in text and "callback" not in text
        assert "xla_cpu" not in text


def test_calls_equal_the_run():
    pipe = pipeline(icvi.SequentialKMeans(k=3))
    X = np.random.default_rng(0).normal(size=(30, 2, 4)).astype(np.float32)
    out = icvi.export(pipe, features=2, streams=4, samples=30)
    state, readings = out.scan.call(out.numbers, out.start, X)
    want = icvi.run_fleet(pipe, X.transpose(2, 0, 1), keep=icvi.Reading._fields)
    for got, leaf in zip(state, jax.tree.leaves(want.state), strict=True):
        np.testing.assert_allclose(got, leaf, rtol=1e-4, atol=1e-5)
    for got, leaf in zip(readings, jax.tree.leaves(want.readings), strict=True):
        np.testing.assert_allclose(np.moveaxis(got, -1, 0), leaf, rtol=1e-4, atol=1e-5)
    later, _ = out.step.call(out.numbers, state, X[0])
    assert int(later[3][0]) == int(state[3][0])  # nothing was missing


def test_one_stream_of_any_length_and_other_numbers():
    pipe = pipeline(icvi.SequentialKMeans(k=2))
    out = icvi.export(pipe, features=1, platforms=("cpu",), samples=None)
    for T in (5, 9):
        _, readings = jax.jit(out.scan.call)(out.numbers, out.start, jnp.arange(T, dtype=jnp.float32)[:, None])
        assert readings[0].shape == (T,)
    assert [float(a) for a in out.numbers if a.shape == ()].count(np.float32(0.9)) >= 1


def test_messages():
    pipe = pipeline(icvi.SequentialKMeans(k=2))
    with pytest.raises(ValueError, match="features=0"):
        icvi.export(pipe, features=0, streams=4)
    with pytest.raises(ValueError, match="streams=0"):
        icvi.export(pipe, features=2, streams=0)
