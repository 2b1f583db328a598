"""One operation: `icvi.scan` and `native_scan` equal `lax.scan`, as native code, wherever JAX goes."""

import dataclasses
import math
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from installed import quick_jit
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import icvi_jax as icvi  # noqa: E402
from icvi_jax.engine import primitive  # noqa: E402
from icvi_jax.engine.native import ffi  # noqa: E402

PANEL = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
SMALL = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=PANEL)


def samples(*shape, missing=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape).astype(np.float32)
    return np.where(rng.random(shape) < missing, np.nan, X).astype(np.float32)


def like(a, b, rtol=2e-3, atol=2e-4):
    found, wanted = jax.tree.leaves(a), jax.tree.leaves(b)
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for u, v in zip(found, wanted):
        assert (u.shape, u.dtype) == (v.shape, v.dtype)
        if u.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(u, v, rtol=rtol, atol=atol)


def plain(pipe, state, X, elapsed=None):
    return lax.scan(lambda s, now: pipe.step(s, *now), state, (X, elapsed))


def native(f, *args):
    """What `f` gives under jit, which must be native code and no loop."""
    text = jax.jit(f).lower(*args).as_text()
    assert re.search(r"@icvi_[0-9a-f]{24}", text), "this was not native code"
    assert "stablehlo.while" not in text
    return jax.jit(f)(*args)


def test_streams_last_first_nested_and_apart_are_the_same():
    X = jnp.asarray(samples(30, 2, 24))
    state = SMALL.init(2)
    one = lambda x: icvi.scan(SMALL, state, x)  # noqa: E731
    wanted = jax.jit(jax.vmap(lambda x: plain(SMALL, state, x), -1))(X)
    like(native(jax.vmap(one, -1), X), wanted)
    like(native(jax.vmap(one), jnp.moveaxis(X, -1, 0)), wanted)
    like(native(jax.vmap(one, 1), jnp.moveaxis(X, -1, 1)), wanted)
    whole = native(lambda X: icvi.scan(SMALL, SMALL.init(2, (24,)), X), X)
    like(jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), whole), wanted)
    nested = native(jax.vmap(jax.vmap(one, -1), 2), X.reshape(30, 2, 4, 6))
    like(jax.tree.map(lambda a: a.reshape(24, *a.shape[2:]), nested), wanted)
    deep = X.reshape(30, 2, 2, 2, 2, 3)
    four = native(jax.vmap(jax.vmap(jax.vmap(jax.vmap(one, -1), -1), 2), 2), deep)
    turned = jnp.moveaxis(deep, (2, 3, 5, 4), (0, 1, 2, 3))
    like(jax.tree.map(lambda a: a[1, 0, 2, 1], four), jax.jit(lambda x: plain(SMALL, state, x))(turned[1, 0, 2, 1]))


def test_numbers_of_each_stream_are_lanes_of_one_call():
    X = jnp.asarray(samples(5, 30, 2))
    fades = jnp.asarray([0.5, 0.9, 0.99])

    def values(scan, fade, x):
        pipe = icvi.Pipeline(
            clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=fade)
        )
        return scan(pipe, pipe.init(2), x)[1].values["xb"]

    def grid(scan):
        return jax.vmap(jax.vmap(partial(values, scan), (None, 0)), (0, None))

    got = native(grid(icvi.scan), fades, X)
    assert got.shape == (3, 5, 30)
    np.testing.assert_allclose(got, jax.jit(grid(plain))(fades, X), rtol=2e-3, atol=1e-5)
    assert not np.allclose(got[0, 0, 10:], got[2, 0, 10:])


def test_results_that_nobody_reads_are_not_computed():
    X = samples(20, 2, 16)
    texts = [
        jax.jit(lambda X, f=f: f(icvi.scan(SMALL, SMALL.init(2, (16,)), X))).lower(X).as_text()
        for f in (lambda out: out[1].values["xb"], lambda out: out)
    ]
    few, all_ = (len(re.search(r"custom_call @icvi_\w+\(.*-> \(?(.*)", text)[1].split("tensor<")) for text in texts)
    assert few < all_ - 8


def loss(scan, X, state):
    xb = scan(SMALL, state, X)[1].values["xb"]
    return jnp.where(jnp.isfinite(xb), xb, 0.0).sum()


def test_slopes_are_those_of_lax_scan():
    X, state = samples(12, 2, 4, missing=0), SMALL.init(2, (4,))
    both = [partial(loss, scan, state=state) for scan in (icvi.scan, plain)]
    for transform in (
        jax.grad,
        jax.jacfwd,
        lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        lambda f: jax.grad(jax.checkpoint(f)),
        lambda f: lambda x: jax.jvp(jax.grad(f), (x,), (x,))[1],
    ):
        got, wanted = (quick_jit(transform(f))(X) for f in both)
        like(got, wanted, 1e-2, 1e-2)

    def by_fade(scan, fade):
        pipe = icvi.Pipeline(
            clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=fade)
        )
        xb = scan(pipe, pipe.init(2, (4,)), X)[1].values["xb"]
        return jnp.where(jnp.isfinite(xb), xb, 0.0).sum()

    like(*(quick_jit(jax.grad(partial(by_fade, scan)))(0.9) for scan in (icvi.scan, plain)), 1e-2, 1e-2)


def test_a_scan_goes_on_with_the_same_bits_in_loops_branches_and_threads():
    X, state = jnp.asarray(samples(40, 2, 37)), SMALL.init(2, (37,))
    go = jax.jit(lambda s, x: icvi.scan(SMALL, s, x))
    whole = go(state, X)
    middle, first = go(state, X[:17])
    last, second = go(middle, X[17:])
    like((last, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)), whole, 0, 0)
    loop = jax.jit(lambda s: lax.scan(lambda s, x: icvi.scan(SMALL, s, x), s, X.reshape(4, 10, 2, 37)))(state)
    like(loop[0], whole[0], 0, 0)
    branch = jax.jit(lambda s, b: lax.cond(b, lambda s: icvi.scan(SMALL, s, X)[0], lambda s: s, s))
    like(branch(state, True), whole[0], 0, 0)
    with ThreadPoolExecutor(8) as pool:
        for made in pool.map(lambda _: jax.block_until_ready(go(state, X)), range(16)):
            like(made, whole, 0, 0)
    like(icvi.scan(SMALL, state, X), whole, 0, 0)  # eager
    given = jax.tree.map(jnp.copy, state)
    donated = jax.jit(lambda s, x: icvi.scan(SMALL, s, x), donate_argnums=0)
    like(donated(given, X), whole, 0, 0)


def test_every_and_elapsed_and_double_precision():
    X, state = samples(23, 2, 5), SMALL.init(2, (5,))
    gaps = np.random.default_rng(1).random((23, 5)).astype(np.float32)
    _, all_ = native(lambda X, e: icvi.scan(SMALL, state, X, e), X, gaps)
    like(all_.values, jax.jit(lambda X, e: plain(SMALL, state, X, e))(X, gaps)[1].values)
    final, some = native(lambda X, e: icvi.scan(SMALL, state, X, e, keep="values", every=4), X, gaps)
    like(some.values, jax.tree.map(lambda a: a[3::4], all_.values), 0, 0)
    assert some.label is None
    by_xla = icvi.scan(SMALL, state, X, gaps, keep="values", every=4, implementation="xla")
    like(by_xla[1].values, some.values)
    like(by_xla[0], final)
    shared = native(lambda X, e: icvi.scan(SMALL, state, X, e)[1].values, X, gaps[:, 0])
    like(shared, jax.jit(lambda X, e: plain(SMALL, state, X, e)[1].values)(X, gaps[:, 0]))
    with jax.enable_x64(True):
        state = SMALL.init(2, (5,), dtype=np.float64)
        X = X.astype(np.float64)
        like(native(lambda X: icvi.scan(SMALL, state, X), X), jax.jit(lambda X: plain(SMALL, state, X))(X), 1e-9, 1e-9)


def mlp(weights, carry, x):
    state, mean = carry
    state, reading = SMALL.step(state, weights[1] @ jnp.tanh(weights[0] @ x))
    value = jnp.where(jnp.isfinite(reading.values["xb"]), reading.values["xb"], 0.0)
    mean = 0.95 * mean + 0.05 * value
    return (state, mean), {"mean": mean, "high": value > mean}


def kalman(carry, x):
    mean, cov = carry
    F = np.asarray([[1, 1], [0, 1]], np.float32)
    mean, cov = F @ mean, F @ cov @ F.T + 0.01 * np.eye(2, dtype=np.float32)
    gain = cov[:, 0] / (cov[0, 0] + 1.0)
    mean = mean + gain * (x - mean[0])
    return (mean, cov - jnp.outer(gain, cov[0])), mean[0]


def bandit(carry, x):
    """Of whole numbers, truths, a table and what a lane picks in it."""
    table, count, key = carry
    at = jnp.argmax(table)
    table = table.at[at].add(jnp.where(x["on"], x["gain"], 0.0))
    order = jnp.argsort(table)
    key = (key * 5 + 1) % 97
    return (table, count + x["on"].astype(jnp.int32), key), (order, table[key % 4], x["on"] & (at > 0))


STEPS = {
    "encoder": (
        partial(mlp, [np.ones((4, 2), np.float32) * 0.3, np.ones((2, 4), np.float32)]),
        (SMALL.init(2), 0.0),
        lambda N, T: samples(N, T, 2),
    ),
    "kalman": (kalman, (jnp.zeros(2), jnp.eye(2)), lambda N, T: samples(N, T, missing=0)),
    "ewma": (lambda c, x: (0.9 * c + 0.1 * x, c), 0, lambda N, T: samples(N, T, missing=0)),
    "bandit": (
        bandit,
        (jnp.asarray([0.1, 0.4, 0.2, 0.3]), 0, jnp.int32(3)),
        lambda N, T: {"on": samples(N, T) > 0, "gain": samples(N, T, missing=0)},
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_any_small_step_is_what_lax_scan_makes_of_it(name):
    f, init, make = STEPS[name]
    X = jax.tree.map(jnp.asarray, make(21, 30))
    got = native(jax.vmap(lambda x: icvi.native_scan(f, init, x)), X)
    like(got, jax.jit(jax.vmap(lambda x: lax.scan(f, init, x)))(X), 2e-4, 1e-5)
    one = jax.tree.map(lambda a: a[0], X)
    like(native(lambda x: icvi.native_scan(f, init, x), one), lax.scan(f, init, one), 2e-4, 1e-5)
    back = native(lambda x: icvi.native_scan(f, init, x, reverse=True), one)
    like(back, lax.scan(f, init, one, reverse=True), 2e-4, 1e-5)


def test_weights_that_are_trained_are_numbers_of_the_step():
    X = jnp.asarray(samples(6, 25, 2, missing=0))
    weights = [jnp.ones((4, 2)) * 0.3, jnp.ones((2, 4)) * 0.5]

    def cost(scan, weights):
        def one(x):
            return scan(partial(mlp, weights), (SMALL.init(2), 0.0), x)[1]["mean"]

        return jax.vmap(one)(X).sum()

    like(native(partial(cost, icvi.native_scan), weights), jax.jit(partial(cost, lax.scan))(weights))
    like(*(jax.jit(jax.grad(partial(cost, scan)))(weights) for scan in (icvi.native_scan, lax.scan)), 1e-2, 1e-3)
    each = [jnp.stack([w, 2 * w]) for w in weights]
    like(native(jax.vmap(partial(cost, icvi.native_scan)), each), jax.jit(jax.vmap(partial(cost, lax.scan)))(each))


def test_a_step_without_samples_and_a_step_without_a_carry():
    like(
        native(lambda: icvi.native_scan(lambda c, _: (c * 1.5 + 1, c), jnp.float32(1), None, length=6)),
        lax.scan(lambda c, _: (c * 1.5 + 1, c), jnp.float32(1), None, length=6),
    )
    x = jnp.arange(5.0)
    like(
        native(lambda x: icvi.native_scan(lambda c, x: (c, x * 2), (), x), x), lax.scan(lambda c, x: (c, x * 2), (), x)
    )
    like(
        jax.jit(lambda x: icvi.native_scan(lambda c, x: (c + x, c), 0.0, x))(x[:0]),
        lax.scan(lambda c, x: (c + x, c), 0.0, x[:0]),
    )


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore:.*no native form:RuntimeWarning")
def test_floats_that_have_no_native_form_are_scanned_by_xla(kind):
    def step(c, x):
        return c + x, c

    one, rows = jnp.ones((), kind), jnp.full(3, 0.1, kind)
    (last, all_), (want, wants) = icvi.native_scan(step, one, rows), jax.lax.scan(step, one, rows)
    assert last == want and last.dtype == kind and (all_ == wants).all()


def test_what_has_no_native_form_is_lax_scan_with_one_warning_or_an_error():
    def step(c, x):
        return c + lax.lgamma(x), c

    x = jnp.arange(1.0, 5.0)
    primitive._told.clear()
    with pytest.warns(RuntimeWarning, match="'lgamma' has no native form"):
        got = jax.jit(lambda x: icvi.native_scan(step, 0.0, x))(x)
    like(got, lax.scan(step, 0.0, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(lambda x: icvi.native_scan(step, 1.0, x))(x)
    with pytest.raises(ValueError, match="lgamma"):
        jax.jit(lambda x: icvi.native_scan(step, 0.0, x, implementation="native"))(x)
    with pytest.raises(ValueError, match="not for this platform"):
        jax.jit(lambda x: icvi.native_scan(lambda c, x: (c, x), 0.0, x, implementation="cuda"))(x)
    with pytest.raises(ValueError, match="choose 'native', 'cuda', 'xla'"):
        icvi.native_scan(step, 0.0, x, implementation="fast")
    with pytest.raises(TypeError, match="carry"):
        icvi.native_scan(lambda c, x: (c.astype(jnp.int32), x), 0.0, x)
    with pytest.raises(ValueError, match="leading axis"):
        icvi.native_scan(lambda c, x: (c, x[0]), 0.0, (x, x[:2]))


def test_another_version_of_the_interface_is_lax_scan_with_a_warning(monkeypatch):
    monkeypatch.setattr(ffi, "unavailable", lambda: "jaxlib's FFI has the version 1.0")
    primitive._told.clear()
    x = jnp.arange(4.0)
    with pytest.warns(RuntimeWarning, match="version 1.0"):
        got = jax.jit(lambda x: icvi.native_scan(lambda c, x: (c * 0.123 + x, c), 0.0, x))(x)
    like(got, lax.scan(lambda c, x: (c * 0.123 + x, c), 0.0, x))


def test_offsets_are_those_of_the_header_that_jaxlib_ships():
    folder = pathlib.Path(jax.ffi.include_dir())
    text = (folder / "xla/ffi/api/c_api.h").read_text()
    assert ffi.unavailable() is None
    fields = ffi_fields(text)
    frame, buffer, api = fields["XLA_FFI_CallFrame"], fields["XLA_FFI_Buffer"], fields["XLA_FFI_Api"]
    assert (frame["extension_start"], frame["api"], frame["ctx"]) == tuple(
        ffi.FRAME[n] for n in ("extension", "api", "context")
    )
    assert frame["args"] + fields["XLA_FFI_Args"]["args"] == ffi.FRAME["arguments"]
    assert frame["rets"] + fields["XLA_FFI_Rets"]["rets"] == ffi.FRAME["results"]
    assert buffer["data"] == ffi.BUFFER["data"]
    assert api["XLA_FFI_Error_Destroy"] == ffi.API["destroy"]
    assert api["XLA_FFI_ThreadPool_Schedule"] == ffi.API["schedule"]
    assert api["XLA_FFI_ThreadPool_NumThreads"] == ffi.API["threads"]
    assert fields["XLA_FFI_Metadata_Extension"]["metadata"] == ffi.METADATA["metadata"]


SIZES = {"size_t": 8, "int64_t": 8, "int32_t": 4, "uint32_t": 4, "int": 4}


def ffi_fields(text):
    """Offsets of the fields of the structures in a C header, by the rules of 64-bit machines."""
    text = re.sub(r"//.*|/\*.*?\*/", "", text)
    text = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", r"void* \1;", text)
    known = {"XLA_FFI_Extension_Base": (8 * 3, 8), "XLA_FFI_Api_Version": (8 * 2 + 4 * 2, 8)}
    found = {}
    for name, body in re.findall(r"struct (XLA_FFI_\w+) \{([^{}]*)\}\s*\w*;", text):
        at, widest, fields = 0, 1, {}
        for kind, star, field in re.findall(r"(?:const )?(?:struct )?([\w:]+)\s*(\**)\s*(\w+)\s*;", body):
            size, align = (8, 8) if star or kind == "void" else known.get(kind, (SIZES.get(kind, 4),) * 2)
            at = -(-at // align) * align
            fields[field], at, widest = at, at + size, max(widest, align)
        known[name] = -(-at // widest) * widest, widest
        found[name] = fields
    return found


CHILD = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
sys.path.insert(0, sys.argv[1])
import test_scan
test_scan.on_two_devices()
print("two devices: well")
"""


def on_two_devices():
    """What needs more than one device; run in a process of its own."""
    mesh = Mesh(np.asarray(jax.devices()), ("d",))
    X = jnp.asarray(samples(20, 2, 32))
    wanted = jax.jit(lambda X: plain(SMALL, SMALL.init(2, (32,)), X))(X)[1].values

    def inside(x):  # first used inside shard_map, state made inside
        return icvi.scan(SMALL, SMALL.init(2, (x.shape[-1],)), x)[1].values

    for check in (True, False):
        over = jax.shard_map(inside, mesh=mesh, in_specs=P(None, None, "d"), out_specs=P(None, "d"), check_vma=check)
        like(native(over, X), wanted)
        state = SMALL.init(2, (32,))
        specs = jax.tree.map(lambda a: P(*[None] * (a.ndim - 1), "d"), state)
        over = jax.shard_map(
            lambda s, x: icvi.scan(SMALL, s, x)[1].values,
            mesh=mesh,
            in_specs=(specs, P(None, None, "d")),
            out_specs=P(None, "d"),
            check_vma=check,
        )
        like(native(over, state, X), wanted)
        slope = jax.shard_map(
            jax.grad(lambda x: loss(icvi.scan, x, SMALL.init(2, (x.shape[-1],)))),
            mesh=mesh,
            in_specs=P(None, None, "d"),
            out_specs=P(None, None, "d"),
            check_vma=check,
        )
        clean = jnp.nan_to_num(X)
        like(
            jax.jit(slope)(clean), jax.jit(jax.grad(lambda x: loss(plain, x, SMALL.init(2, (32,)))))(clean), 1e-2, 1e-2
        )

    divided = jax.device_put(X, NamedSharding(mesh, P(None, None, "d")))
    f = jax.jit(lambda X: icvi.scan(SMALL, SMALL.init(2, (32,)), X)[1].values)
    text = f.lower(divided).compile().as_text()
    assert "all-gather" not in text and re.search(r"icvi_[0-9a-f]{24}", text), text
    made = f(divided)
    like(made, wanted)
    assert made["xb"].sharding.is_equivalent_to(NamedSharding(mesh, P(None, "d")), 2), made["xb"].sharding
    rows = jax.device_put(jnp.moveaxis(X, -1, 0), NamedSharding(mesh, P("d")))
    g = jax.jit(jax.vmap(lambda x: icvi.scan(SMALL, SMALL.init(2), x)[1].values))
    assert "all-gather" not in g.lower(rows).compile().as_text()
    like(jax.tree.map(jnp.transpose, g(rows)), wanted)
    explicit_types(X, wanted)


def explicit_types(X, wanted):
    """On a mesh of explicit axes the types of results say how they are divided, inside jit."""
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        last = jax.device_put(X, NamedSharding(mesh, P(None, None, "d")))
        rows = jax.device_put(jnp.moveaxis(X, -1, 0), NamedSharding(mesh, P("d")))
        by_rows = jax.vmap(lambda x: icvi.scan(SMALL, SMALL.init(2), x)[1].values)
        for f, x, axis in (
            (lambda x: icvi.scan(SMALL, SMALL.init(2, (32,)), x)[1].values, last, 1),
            (by_rows, rows, 0),
        ):
            types = {}
            go = jax.jit(lambda x, f=f, types=types: types.update(jax.tree.map(jax.typeof, f(x))) or f(x))
            made, text = go(x), go.lower(x).compile().as_text()
            assert types["xb"].sharding.spec[axis] == "d", types
            assert "all-gather" not in text and re.search(r"icvi_[0-9a-f]{24}", text), text
            like(made if axis else jax.tree.map(jnp.transpose, made), wanted)
    fleets_on_an_explicit_mesh(wanted, np.moveaxis(np.asarray(X), -1, 0))


def fleets_on_an_explicit_mesh(wanted, rows):
    mesh, times = jax.make_mesh((2,), ("streams",), axis_types=(jax.sharding.AxisType.Explicit,)), np.ones((32, 20))
    own = dataclasses.replace(
        SMALL, panel=dataclasses.replace(SMALL.panel, forgetting=jnp.full(32, SMALL.panel.forgetting))
    )
    with jax.set_mesh(mesh):
        rows = jax.device_put(rows, NamedSharding(mesh, P("streams")))
        for pipe, told in ((SMALL, {}), (SMALL, {"elapsed": times}), (SMALL, {"mesh": mesh}), (own, {"mesh": mesh})):
            f = jax.jit(lambda x, pipe=pipe, told=told: icvi.run_fleet(pipe, x, **told).readings.values)
            made, text = f(rows), f.lower(rows).compile().as_text()
            assert "all-gather" not in text and re.search(r"icvi_[0-9a-f]{24}", text), text
            assert made["xb"].sharding.spec[0] == "streams", made["xb"].sharding
            like(jax.tree.map(jnp.transpose, made), wanted)


def test_several_devices():
    here = str(pathlib.Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, here],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        check=False,
    )
    assert "two devices: well" in done.stdout, done.stderr[-3000:]


def _in_a_process(X):
    return np.asarray(jax.jit(lambda X: icvi.scan(SMALL, SMALL.init(2, (9,)), X)[1].values["xb"])(X))


def test_a_new_process_has_its_own_handlers():
    X = samples(15, 2, 9)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(_in_a_process, (X,)), _in_a_process(X))


def _fleet(X):
    return icvi.run_fleet(SMALL, np.moveaxis(X, -1, 0), keep="values").readings.values["xb"]


def test_joblib_starts_processes_anew_and_by_fork_beside_a_registered_handler():
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    parts = [samples(15, 2, 9, seed=seed) for seed in range(3)]
    scans, fleets = [_in_a_process(X) for X in parts], [_fleet(X) for X in parts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's about the fork
        anew = joblib.Parallel(2, backend="loky", timeout=300)(joblib.delayed(_in_a_process)(X) for X in parts)
        forked = joblib.Parallel(2, backend="multiprocessing", timeout=300)(joblib.delayed(_fleet)(X) for X in parts)
    np.testing.assert_array_equal(anew, scans)
    np.testing.assert_array_equal(forked, fleets)


def test_a_program_for_another_platform_has_no_native_code_of_this_one():
    f = jax.jit(lambda X: icvi.scan(SMALL, SMALL.init(2, (8,)), X)[1].values)
    text = f.trace(samples(10, 2, 8)).lower(lowering_platforms=("tpu",)).as_text()
    assert "icvi_" not in text and "stablehlo.while" in text


FUNCTIONS = {
    "sin": (jnp.sin, np.sin),
    "cos": (jnp.cos, np.cos),
    "tan": (jnp.tan, np.tan),
    "atan": (jnp.arctan, np.arctan),
    "asin": (lambda x: jnp.arcsin(x / 9), lambda x: np.arcsin(x / 9)),
    "acos": (lambda x: jnp.arccos(x / 9), lambda x: np.arccos(x / 9)),
    "atan2": (lambda x: jnp.arctan2(x, x * x - 1), lambda x: np.arctan2(x, x * x - 1)),
    "sinh": (jnp.sinh, np.sinh),
    "cosh": (jnp.cosh, np.cosh),
    "asinh": (jnp.arcsinh, np.arcsinh),
    "acosh": (lambda x: jnp.arccosh(1.5 + x * x), lambda x: np.arccosh(1.5 + x * x)),
    "atanh": (lambda x: jnp.arctanh(x / 9), lambda x: np.arctanh(x / 9)),
    "erf": (jax.scipy.special.erf, np.vectorize(math.erf)),
    "erfc": (jax.scipy.special.erfc, np.vectorize(math.erfc)),
    "cbrt": (jnp.cbrt, np.cbrt),
}


def test_functions_of_the_system_library_are_those_of_their_definition():
    def step(c, x):
        return c, jnp.stack([f(x) for f, _ in FUNCTIONS.values()])

    X = np.random.default_rng(0).uniform(-5, 5, (17, 20)).astype(np.float32)
    X[0, 0] = np.nan
    found = native(jax.vmap(lambda x: icvi.native_scan(step, 0.0, x)[1]), X)
    for i, (_, exact) in enumerate(FUNCTIONS.values()):
        np.testing.assert_allclose(found[..., i], exact(X.astype(np.float64)), 2e-5, 2e-6)  # arguments are rounded, too
    one = native(lambda x: icvi.native_scan(step, 0.0, x)[1], X[1])
    np.testing.assert_array_equal(one, found[1])


def faded(scan, fade, x):
    """Σ of the squared means of an EWMA with a learned fade."""
    return jnp.sum(scan(lambda m, x: (fade * m + (1 - fade) * x,) * 2, jnp.float32(0), x)[1] ** 2)


def test_second_slopes_and_loops_around_a_scan():
    x = jnp.asarray(samples(30, missing=0))
    second = jax.jit(jax.hessian(partial(faded, icvi.native_scan)))(jnp.float32(0.8), x)
    np.testing.assert_allclose(second, jax.jit(jax.hessian(partial(faded, lax.scan)))(jnp.float32(0.8), x), 1e-4)

    def search(scan, x):  # until the fade is small enough
        return lax.while_loop(lambda f: faded(scan, f, x) > 2.0, lambda f: f * 1.01, jnp.float32(0.5))

    text = jax.jit(partial(search, icvi.native_scan)).lower(x).as_text()
    assert re.search(r"@icvi_[0-9a-f]{24}", text), "this was not native code"
    found = jax.jit(partial(search, icvi.native_scan))(x)
    assert 0.5 < found == jax.jit(partial(search, lax.scan))(x)


def test_eagerly_nothing_moves_between_devices():
    x = jnp.asarray(samples(30, missing=0))
    m = jnp.float32(0)
    X, state = jnp.asarray(samples(30, 2)), SMALL.init(2)
    with jax.transfer_guard("disallow"):
        got = icvi.native_scan(_decay, m, x)
        values = icvi.scan(SMALL, state, X)[1].values  # the numbers of the pipeline are Python's
    like(got, lax.scan(_decay, m, x), 1e-5)
    like(values, plain(SMALL, state, X)[1].values)


def _decay(m, x):
    m = 0.9 * m + x
    return m, m


def test_jaxs_own_cache_of_programs_and_processes_that_are_forked(tmp_path):
    """A second process takes the program from JAX's cache, and a child of a fork computes what its parent does."""
    code = """
import os, sys, warnings
import numpy as np, jax, jax.numpy as jnp, icvi_jax as icvi
from icvi_jax.engine.native.program import compile_step
warnings.simplefilter("ignore")  # JAX's about the fork
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
x = jnp.asarray(np.random.default_rng(0).normal(size=(8, 30)).astype(np.float32))
events.clear()
f = jax.jit(jax.vmap(lambda x: icvi.native_scan(lambda m, x: (0.9 * m + x, m), 0.0, x, implementation="native")[0]))
made = np.asarray(f(x))
print(made.sum(), any("cache_hits" in name for name in events), flush=True)
step = compile_step(lambda model, s, z: (0.9 * s + z[0], s), (), np.zeros((), np.float32), 1, np.dtype(np.float32))
child = os.fork()
if not child:
    words = step.words(np.zeros(8, np.float32))
    step.run(words, step.numbers(()), np.asarray(x)[..., None])
    os._exit(not np.allclose(step.state(words, 8), made, 1e-5))
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    lines = []
    for _ in range(2):
        env = {**os.environ, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", code, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        lines.append(done.stdout.split("\n"))
    (first, hit_before), (second, hit_after) = (line[0].split() for line in lines)
    assert first == second and (hit_before, hit_after) == ("False", "True")
    assert lines[0][1] == lines[1][1] == "child 0"
