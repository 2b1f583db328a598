"""The kernel for GPUs and TPUs, interpreted on a CPU: values, gradients and laws of `lax.scan`; and its lowering."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import icvi_jax as icvi
from icvi_jax.engine.accelerated import kernel_for
from icvi_jax.engine.lanewise import apply
from icvi_jax.engine.lowering.ssa import Lane
from icvi_jax.engine.pallas import Kernel

F32 = np.dtype(np.float32)
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Interpreted kernels are large programs for little work: most of the time goes into compiling them."""
quick = partial(jax.jit, compiler_options=QUICKLY)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("ICVI_BACKEND", "pallas-interpret")


def pipeline(clusterer, indices=None, **more):
    indices = (icvi.XieBeni(), icvi.DaviesBouldin()) if indices is None else indices
    return icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=indices, forgetting=0.95), **more)


CHANGE = {"change": icvi.Change(false_alarms=1e-3), "xb": icvi.Distress(false_alarms=1e-3)}
LOWERED = {
    "merge-split": pipeline(icvi.MergeSplit(slots=3), (icvi.XieBeni(),)),
    "rebirth": pipeline(icvi.RebirthKMeans(k=2), (icvi.XieBeni(),)),
    "fuzzy": pipeline(icvi.FuzzyCMeans(k=2), (icvi.XieBeni(),)),
    "change": pipeline(icvi.SequentialKMeans(k=2), (icvi.XieBeni(),), monitors=CHANGE),
}
SMALL = pipeline(icvi.SequentialKMeans(k=2), (icvi.XieBeni(),))
KINDS = {
    "k-means": pipeline(icvi.SequentialKMeans(k=3), monitors={"xb": icvi.Distress(factor=3.0)}),
    "oec": pipeline(icvi.OnlineEllipsoidal(capacity=2), (icvi.XieBeni(),)),
    "standardized": pipeline(icvi.SequentialKMeans(k=2), standardize=icvi.Standardize()),
}


def samples(T, p, N, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, p, 1)) * 8
    X = centres[rng.integers(0, 3, T)] + rng.normal(size=(T, p, N))
    X[rng.random((T, 1, N)).repeat(p, 1) < 0.05] = np.nan
    return jnp.asarray(X, jnp.float32)


@partial(jax.jit, static_argnums=3)
def plain(pipe, state, X, timed=False):
    gaps = jnp.linspace(0.5, 2.0, X.shape[0]) if timed else None
    return jax.lax.scan(lambda state, now: pipe.step(state, *now), state, (X, gaps))


def shown(pipe, state, x, elapsed=None):
    state, reading = pipe.step(state, x, elapsed)
    return state, (reading.values, reading.label, reading.seen, reading.alarms)


def kernel_of(pipe, p, timed=False):
    return Kernel(shown, pipe, pipe.init(p), p, timed)


def launched(kernel, pipe, state, X, **how):
    call = quick(partial(kernel.scan, "interpret", elapsed=None, **how))
    words, made = call(pipe, kernel.words(state), X, steps=X.shape[0])
    return kernel.state(words), made


def close(a, b, tolerance=1e-4):
    def one(x, y):
        if np.asarray(x).dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(x, y)

    jax.tree.map(one, a, b)


def equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_gives_what_a_scan_gives(kind):
    pipe, X = KINDS[kind], samples(60, 2, 5)
    state, made = launched(kernel_of(pipe, 2), pipe, pipe.init(2, (5,)), X)
    final, readings = plain(pipe, pipe.init(2, (5,)), X)
    close((state, made), (final, (readings.values, readings.label, readings.seen, readings.alarms)))
    assert np.isfinite(made[0]["xb"]).sum() > 100


def test_scan_and_its_gradient_are_those_of_lax_scan():
    X, state = samples(25, 2, 4), SMALL.init(2, (4,))

    def loss(scan, pipe, state, X):
        final, readings = scan(pipe, state, X)
        return jnp.nansum(jnp.tanh(readings.values["xb"])) + jnp.nansum(final.clusterer.centers), (final, readings)

    both = [quick(jax.value_and_grad(partial(loss, f), argnums=2, has_aux=True)) for f in (icvi.scan, plain)]
    (value, made), slope = both[0](SMALL, state, X)
    (expected, expected_made), expected_slope = both[1](SMALL, state, X)
    close((value, made, slope), (expected, expected_made, expected_slope))
    assert np.abs(slope).max() > 0.1


def test_scan_takes_elapsed_times_vmap_and_shard_map():
    X, timed = samples(25, 2, 4), jnp.linspace(0.5, 2.0, 25)

    def one(x, gaps):
        return icvi.scan(SMALL, SMALL.init(2), x, gaps)

    expected = plain(SMALL, SMALL.init(2, (4,)), X, True)
    close(quick(jax.vmap(one, in_axes=(2, None), out_axes=-1))(X, timed), expected)
    mesh = Mesh(np.array(jax.devices()[:1]), ("streams",))
    specs = jax.tree.map(lambda a: P(*[None] * (a.ndim - 1), "streams"), expected)
    sharded = jax.device_put(X, NamedSharding(mesh, P(None, None, "streams")))
    how = {"mesh": mesh, "out_specs": specs, "in_specs": (specs[0], P(None, None, "streams")), "check_vma": False}
    fleet = jax.shard_map(lambda state, X: icvi.scan(SMALL, state, X, timed), **how)
    close(quick(fleet)(SMALL.init(2, (4,)), sharded), expected)


def test_the_gradient_goes_through_vmap_and_shard_map():
    X, mesh = samples(8, 2, 4, seed=1), Mesh(np.array(jax.devices()[:1]), ("streams",))

    def loss(scan, x):
        return jnp.nansum(jnp.tanh(scan(SMALL, SMALL.init(2, x.shape[2:]), x)[1].values["xb"]))

    def batched(x):
        return jax.vmap(partial(loss, icvi.scan), in_axes=2)(x).sum()

    def divided(x):
        over = P(None, None, "streams")
        part = jax.shard_map(
            lambda x: loss(icvi.scan, x)[None], mesh=mesh, in_specs=over, out_specs=P("streams"), check_vma=False
        )
        return part(x).sum()

    expected = jax.jit(jax.grad(partial(loss, plain)))(X)
    assert np.abs(expected).max() > 0.01
    for there in (batched, divided):
        close(quick(jax.grad(there))(X), expected)


def test_a_scan_of_no_samples_leaves_the_state():
    state = SMALL.init(2, (3,))
    after, made = icvi.scan(SMALL, state, jnp.zeros((0, 2, 3)))
    equal(after, state)
    assert made.values["xb"].shape == (0, 3)


def test_a_pipeline_for_each_of_a_batch_is_taken_by_xla():
    X = samples(25, 2, 4)
    panels = [icvi.Panel(indices=(icvi.XieBeni(),), forgetting=f) for f in (0.9, 0.99)]
    pipes = [icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=panel) for panel in panels]
    stacked = jax.tree.map(lambda *a: jnp.stack([jnp.asarray(x) for x in a]), *pipes)
    _, readings = jax.vmap(lambda pipe: icvi.scan(pipe, pipe.init(2, (4,)), X))(stacked)
    for i, pipe in enumerate(pipes):
        close(readings.values["xb"][i], plain(pipe, pipe.init(2, (4,)), X)[1].values["xb"])


def test_bits_do_not_depend_on_company_pieces_or_what_is_kept():
    kernel, X = kernel_of(SMALL, 2), samples(24, 2, 130)
    whole = launched(kernel, SMALL, SMALL.init(2, (130,)), X)
    alone = launched(kernel, SMALL, SMALL.init(2, (1,)), X[..., 129:])
    equal(alone, jax.tree.map(lambda a: a[..., 129:], whole))
    words, rows = kernel.words(SMALL.init(2, (130,))), []
    piece = quick(partial(kernel.scan, "interpret", every=5))
    for start, steps in ((0, 7), (7, 8), (15, 8), (23, 1)):  # the last ends within X's room of 8
        now = jnp.pad(X[start : start + 8], [(0, 8 - min(8, 24 - start)), (0, 0), (0, 0)])
        words, made = piece(SMALL, words, now, None, steps, start % 5)
        rows.append(jax.tree.map(lambda a, n=(start % 5 + steps) // 5: a[:n], made))
    kept = jax.tree.map(lambda *a: jnp.concatenate(a), *rows)
    equal((kernel.state(words), kept), (whole[0], jax.tree.map(lambda a: a[4::5], whole[1])))


@pytest.mark.parametrize("platform", ["triton", "mosaic", "tpu"])
def test_operations_written_out_are_those_of_xla(platform):
    a = np.array([0.0, -0.0, 1e-30, 0.3, 1.7, -2.5, 123456.7, 3e9, -3e9, np.inf, -np.inf, np.nan], np.float32)
    x, y = (jnp.asarray(v.ravel()) for v in np.meshgrid(a, a))

    def done(name, *args):
        return apply(Lane(name, F32, (), None, False), args, platform=platform)

    np.testing.assert_array_equal(done("max", x, y), jax.lax.max(x, y))
    np.testing.assert_array_equal(done("min", x, y), jax.lax.min(x, y))
    for name in ("floor", "ceil"):
        np.testing.assert_array_equal(done(name, jnp.asarray(a)), getattr(jnp, name)(a))
    near = np.concatenate([a, np.geomspace(1e-7, 1e7, 50, dtype=np.float32)])
    for name in ("sqrt", "log1p"):
        np.testing.assert_allclose(done(name, jnp.asarray(near)), getattr(jnp, name)(near), rtol=5e-7)
    down = np.concatenate([near, -near, [-20, -1e-20, 88]]).astype(np.float32)
    np.testing.assert_allclose(done("expm1", jnp.asarray(down)), jnp.expm1(down), rtol=1e-6)
    small = np.array([0.0, 1e-6, 0.3, 1.0, 2.5, 40.0, -0.5, -2.0, -3.0, np.inf, np.nan], np.float32)
    x, y = (jnp.asarray(v.ravel()) for v in np.meshgrid(small, small[:-2]))
    np.testing.assert_allclose(done("pow", x, y), jax.lax.pow(x, y), rtol=1e-5)
    np.testing.assert_array_equal(done("isfinite", jnp.asarray(a)), np.isfinite(a))


def operations(operation):
    """Names of all operations outside kernels."""
    for region in operation.regions:
        for block in region:
            for inner in block:
                attributes = inner.operation.attributes
                yield attributes["call_target_name"].value if "call_target_name" in attributes else inner.operation.name
                yield from operations(inner.operation)


CALLS = {"triton": "__gpu$xla.gpu.triton", "mosaic": "mosaic_gpu_v2", "tpu": "tpu_custom_call"}


@pytest.mark.parametrize("platform", CALLS)
@pytest.mark.parametrize("kind", ["k-means", "oec", *LOWERED])
def test_it_lowers_to_one_kernel_and_no_loop_outside_it(kind, platform):
    pipe, p, T = (KINDS | LOWERED)[kind], 2, 60 if platform == "tpu" else 10_000
    kernel, found = kernel_for(platform, shown, pipe, pipe.init(p), p, False)
    assert found == platform and T <= kernel.longest(platform, 300)
    X = jax.ShapeDtypeStruct((T, p, 300), jnp.float32)
    words = jax.eval_shape(kernel.words, pipe.init(p, (300,)))
    traced = jax.jit(partial(kernel.scan, platform, elapsed=None, steps=T)).trace(pipe, words=words, X=X)
    module = traced.lower(lowering_platforms=("tpu" if platform == "tpu" else "cuda",)).compiler_ir()
    names = list(operations(module.operation))
    assert sum(CALLS[platform] in name for name in names) == 1, names
    assert not [name for name in names if "while" in name]
