"""A fleet on the kernel for GPUs and TPUs, interpreted on a CPU: the laws of native code, by every entry point."""

import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.engine import accelerated, inputs, platforms
from icvi_jax.engine.accelerated import Accelerated
from icvi_jax.engine.engine import Engine, fresh

N, T, p = 5, 16, 2
PIPES = {
    "k-means": dict(clusterer=icvi.SequentialKMeans(k=2), monitors={"xb": icvi.Distress(factor=3.0)}),
    "rebirth": dict(clusterer=icvi.RebirthKMeans(k=2)),
}
SMALL = dict(clusterer=icvi.SequentialKMeans(k=2))


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Kernels, interpreted; compiling them takes most of the time, so little is made of it."""
    monkeypatch.setenv("ICVI_BACKEND", "pallas-interpret")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def pipeline(kind=None, forgetting=0.95):
    parts = PIPES.get(kind, SMALL)
    return icvi.Pipeline(panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting), **parts)


def streams(T=T, seed=0, N=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3, p))[np.arange(N)[:, None], rng.integers(0, 3, (N, T))] * 8 + rng.normal(size=(N, T, p))
    X[rng.random((N, T)) < 0.05] = np.nan
    return X.astype(np.float32)


def same(a, b):
    jax.tree.map(np.testing.assert_array_equal, tuple(a), tuple(b))


def close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), tuple(a), tuple(b))


def run(pipe, X, **how):
    return icvi.run_fleet(pipe, X, **how)


@pytest.mark.parametrize("kind", PIPES)
def test_a_fleet_has_the_values_of_native_code(kind, monkeypatch):
    pipe, X = pipeline(kind), streams()
    found = run(pipe, X)
    used = list(platforms._programs.values())[-1]
    monkeypatch.setenv("ICVI_BACKEND", "xla")
    close(found, run(pipe, X))
    assert isinstance(used, Accelerated) and used.name == "pallas"


@pytest.mark.parametrize("kind", PIPES)
def test_laws(kind, tmp_path):
    pipe, X = pipeline(kind), streams()
    whole = run(pipe, X)
    order = np.random.default_rng(1).permutation(N)  # other streams and the order do not matter
    turned = run(pipe, X[order])
    same(turned.readings.values.values(), (a[order] for a in whole.readings.values.values()))
    same(run(pipe, X + np.float32(0)), whole)  # inputs are not consumed
    moved = run(pipe, X.astype(np.float64) + 2.0**20)  # nor does the origin
    close(moved.readings.values.values(), whole.readings.values.values())
    made = accelerated._launch._cache_size()
    other = run(pipeline(kind, forgetting=0.9), X)  # another number does not compile again
    assert accelerated._launch._cache_size() == made
    assert not np.array_equal(other.readings.values["xb"], whole.readings.values["xb"], equal_nan=True)
    first = run(pipe, np.concatenate([X[:, :8], np.full((N, 8, p), np.nan, np.float32)], axis=1))
    half = run(pipe, X[:, :8])
    for name in half.state.statistics:  # missing samples change nothing
        same(half.state.statistics[name], first.state.statistics[name])
    icvi.save(tmp_path / "state", pipe, half.state)  # stop, save, load, go on
    after = run(pipe, X[:, 8:], state=icvi.load(tmp_path / "state", pipe))
    same(after.state, whole.state)
    same(after.readings.values.values(), (a[:, 8:] for a in whole.readings.values.values()))


def test_odd_samples_leave_it_usable():
    pipe, X = pipeline(), streams(seed=3)
    X[0], X[1, ::2], X[2, 3:5], X[3] = 7.0, np.inf, 3e38, np.nan  # constant, infinite, too large, never there
    X[4, :8] = X[4, 0]  # and duplicates
    found = run(pipe, X)
    again = run(pipe, streams(seed=4), state=found.state)
    assert np.isfinite(again.readings.values["xb"][:, -1]).all()


def test_chunks_every_and_keep_have_the_same_bits():
    pipe, X = pipeline(), streams()
    whole = run(pipe, X)
    parts = run(pipe, (X[:, t : t + 8] for t in (0, 8)), every=3, keep=("values",))
    same(parts.state, whole.state)
    same([parts.readings.values["xb"]], [whole.readings.values["xb"][:, 2::3]])
    assert parts.readings.label is None and parts.readings.values["xb"].shape == (N, 5)
    gaps = np.linspace(0.5, 2.0, T)
    timed = run(pipe, X, elapsed=gaps)
    halves = run(pipe, ((X[:, t : t + 8], np.tile(gaps[t : t + 8], (N, 1))) for t in (0, 8)))
    same(halves.state, timed.state)


def test_a_live_fleet_is_one_launch_a_tick_and_one_a_batch(monkeypatch):
    pipe, X = pipeline(), streams()
    whole, launches = run(pipe, X, keep=inputs.FIELDS), []
    plain = accelerated._launch
    monkeypatch.setattr(accelerated, "_launch", lambda *a: launches.append(a[5].shape) or plain(*a))
    platforms._programs.clear()
    live = icvi.Live(pipe, features=p, streams=N)
    ticks = [live.tick(X[:, t]) for t in range(3)]
    assert [shape[1] for shape in launches] == [1, 1, 1]
    live.tick_many(X[:, 3:8])
    last = live.tick_many(X[:, 8:])
    assert [shape[1] for shape in launches[3:]] == [8, 8]  # five samples have room for eight: few lengths are compiled
    same([live.state], [whole.state])
    same([t.values["xb"] for t in ticks], [whole.readings.values["xb"][:, t] for t in range(3)])
    same([last.values["xb"], last.centers], [whole.readings.values["xb"][:, 8:], whole.readings.centers[:, 8:]])
    live.retire("1")
    live.add("new")
    kept = live.tick(np.delete(X, 1, axis=0)[[0, 1, 2, 3, 0], 0])
    assert np.isnan(kept.values["xb"][-1]) and np.isfinite(kept.values["xb"][:-1]).all()


def test_ten_thousand_samples_are_one_launch_a_chunk(monkeypatch):
    launches = []

    def launch(kernel, platform, mesh, model, words, Z, elapsed, phase, steps, every):
        rows = 1 + (Z.shape[1] + every - 2) // every
        made = [np.zeros((len(Z), rows, *part.shape), part.dtype) for part in kernel.unrolled.outputs]
        launches.append(int(steps))
        return words, jax.tree.unflatten(kernel.unrolled.output_tree, made)

    monkeypatch.setattr(accelerated, "_launch", launch)
    platforms._programs.clear()
    engine = Engine(pipeline(), fresh(pipeline(), p, 3, np.dtype(np.float32)), ("values",))
    for _ in range(2):
        engine.advance(np.zeros((3, 10_000, p), np.float32))
    platforms._programs.clear()
    assert launches == [10_000, 10_000]


def test_a_gpu_is_used_by_itself_for_fleets_that_are_worth_it(monkeypatch):
    monkeypatch.delenv("ICVI_BACKEND")
    monkeypatch.setattr(platforms, "_kind", lambda device: "interpret")
    monkeypatch.setenv("ICVI_GPU_STREAMS", "4")
    state = partial(fresh, pipeline(), p, dtype=np.dtype(np.float32))
    few, many = (Engine(pipeline(), state(n), ("values",)) for n in (3, 5))
    assert (few.program.name, many.program.name) == ("llvm", "pallas")
    wide = fresh(pipeline(), p, 5, np.dtype(np.float64))
    with pytest.warns(RuntimeWarning, match="no kernel for interpret, since its state is float64; XLA") as said:
        engines = [Engine(pipeline(), wide, ("values",)) for _ in range(2)]
    assert [engine.program.name for engine in engines] == ["xla"] * 2 and len(said) == 1  # and it says so once
    monkeypatch.setattr("icvi_jax.engine.pallas.LARGEST", {"interpret": 10})
    with pytest.warns(RuntimeWarning, match="too large"):
        assert Engine(pipeline(), state(6), ("values", "k")).program.name == "xla"
    for wrong in ("many", "-1"):
        monkeypatch.setenv("ICVI_GPU_STREAMS", wrong)
        with pytest.raises(ValueError, match=f"ICVI_GPU_STREAMS={wrong}: "):
            Engine(pipeline(), state(6), ("values",))


def test_arrays_on_a_device_stay_there(monkeypatch):
    pipe, X = pipeline(), streams()
    whole = run(pipe, X, every=3)
    traced = jax.jit(partial(run, pipe, every=3))(X)  # nothing that is traced can be copied to the host
    close(traced, whole)
    monkeypatch.setattr(inputs, "_host", lambda X, torch, jaxed: X)  # as if the CPU were another device
    away = run(pipe, (jnp.asarray(X[:, t : t + 8]) for t in (0, 8)), every=3)
    assert all(isinstance(a, jax.Array) for a in jax.tree.leaves(tuple(away)))
    same(away, traced)
    with pytest.raises(ValueError, match="some chunks"):
        run(pipe, iter([jnp.asarray(X), X]))


def test_several_devices_have_an_equal_part_each(tmp_path):
    X = streams()
    np.save(tmp_path / "x.npy", X)
    code = f"""if True:
        import jax, jax.numpy as jnp, numpy as np, icvi_jax as icvi, test_accelerated as t
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        from icvi_jax.engine import inputs
        jax.config.update("jax_disable_most_optimizations", True)
        mesh, X, pipe = Mesh(np.array(jax.devices()), ("streams",)), np.load({str(tmp_path / "x.npy")!r}), t.pipeline()
        whole, over = t.run(pipe, X), t.run(pipe, X, mesh=mesh)
        t.same(over, whole)                                        # five streams on two devices
        inputs._host = lambda X, torch, jaxed: X
        t.close(t.run(pipe, jnp.asarray(X), mesh=mesh), whole)
        divided = jax.device_put(X[:4], NamedSharding(mesh, P("streams")))
        away = t.run(pipe, divided)
        assert len(away.readings.values["xb"].devices()) == 2
        t.close(away, jax.tree.map(lambda a: a[..., :4] if a.shape[-1] == 5 else a[:4], tuple(whole)))
    """
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "ICVI_BACKEND": "pallas-interpret"}
    here = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code], cwd=here, env={**os.environ, **flags}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
