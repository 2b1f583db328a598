"""The rewriting of a step for one kernel: the same values, and nothing computed twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.drive import kernel


def names(step, *args):
    program = kernel._Program(jax.make_jaxpr(step)(*args))
    return sorted(operation.name for operation in program.operations)


@jax.jit
def halved(a):
    return a / 3.0


def test_calls_are_opened_and_what_is_the_same_is_computed_once():
    x = jnp.ones((2, 8))
    assert names(lambda x: halved(x) * halved(x) + jnp.log(x / 3.0), x) == ["add", "div", "log", "mul"]


def test_other_parameters_inputs_and_numbers_are_not_the_same():
    x = jnp.ones((3, 3, 8))
    assert names(lambda x: (jnp.sum(x, 0), jnp.sum(x, 1)), x) == ["reduce_sum", "reduce_sum"]
    assert names(lambda x: (x * 2.0, x * 3.0, x * 2.0), x) == ["mul", "mul"]
    assert names(lambda x: (x - 1.0, 1.0 - x), x) == ["sub", "sub"]
    assert names(lambda x: (x * np.float32(2), x > 2), x) == ["gt", "mul"]
    with np.printoptions(precision=2, suppress=True):  # numbers are what they are, however they are printed
        assert names(lambda x: (x * np.array(1e-9, "f"), x * np.array(1e-8, "f")), x) == ["mul", "mul"]


def test_what_no_result_needs_is_left_out():
    x = jnp.ones((2, 8))
    assert names(lambda x: (jnp.exp(x), jnp.log(x) + 1)[0], x) == ["exp"]


@pytest.mark.skipif(not kernel.ENABLED, reason="one-kernel scans are off for this version of JAX")
def test_a_rewritten_step_gives_the_same_values():
    table = jnp.arange(10.0).reshape(5, 2, 1)

    def step(state, x):
        far = jnp.where(x > 0, x, jnp.nan)
        d = jnp.sum((state - x - table) ** 2, axis=1)
        near = jnp.min(d, axis=0)
        won = d == near
        state = state + jnp.where(won, 1 / (1 + d), 0.0)[:, None] * (x - state)
        return state, {"near": near, "far": far, "won": jnp.any(won, axis=0), "x": x, "two": jnp.float32(2.0)}

    rng = np.random.default_rng(0)
    args = jnp.asarray(rng.normal(size=(5, 2, 8))), jnp.asarray(rng.normal(size=(2, 8)))
    quick, shapes = kernel.rewritten(step, *args)
    assert quick is not None
    for run in (quick, jax.jit(quick)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), run(*args), step(*args))
    jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype) or pytest.fail(), shapes, step(*args))


def test_a_step_that_no_kernel_can_hold_is_left_alone():
    x = jnp.ones((4, 8))
    assert kernel.rewritten(lambda x: jnp.sort(x, axis=0), x)[0] is None
    assert kernel.rewritten(lambda x: jnp.sum(x, axis=1), x)[0] is None


@pytest.mark.parametrize("streams", [32, 33, 128])
def test_readings_of_full_lanes_are_those_of_single_runs(streams):
    """Rows of readings are kept apart where lanes fill whole lines of the cache; none of that may show."""
    X = np.random.default_rng(streams).normal(size=(streams, 30, 2)).astype(np.float32)
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    keep = ("values", "label", "seen", "centers")
    together = icvi.run_fleet(pipe, X, keep=keep, every=4, block=streams).readings
    for i in (0, streams - 1):
        alone = jax.tree.map(lambda a: a[3::4], icvi.run(pipe, X[i], keep=keep).readings)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[i], b, rtol=2e-5), together, alone)


@pytest.mark.parametrize("monitor", [icvi.Distress(), icvi.PageHinkley()])
def test_a_lone_cluster_with_a_monitor(monitor):
    """An index that is always NaN must be no constant in the kernel: jaxlib 0.10 stops the whole process over it."""
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    panel = icvi.Panel(indices=(icvi.WB(),))
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=1), panel=panel, monitors={"wb": monitor})
    assert np.isnan(icvi.run(pipe, X).readings.values["wb"]).all()
