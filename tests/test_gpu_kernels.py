"""CUDA kernels without a card: run on this machine thread by thread, equal to `lax.scan`, and compiled by ptxas."""

import warnings
from functools import cache, partial
from pathlib import Path

import jax
import numpy as np
import pytest
from standin_cuda import Emulated, compile_for_amd

import icvi_jax as icvi
from icvi_jax.engine.inputs import FIELDS
from icvi_jax.engine.lowering.unroll import unroll
from icvi_jax.engine.native.cuda import Kernel
from icvi_jax.engine.scan import PipelineStep

XB, DB = icvi.XieBeni(), icvi.DaviesBouldin()
FEW = ("values", "label", "alarms")


def pipeline(clusterer, indices=(XB, DB), **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some indices are not defined for all clusterers
        return icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=indices, forgetting=0.95), **more)


KMEANS = icvi.SequentialKMeans(k=3)
CLUSTERERS = {entry.name: entry.clusterer(**{entry.size: 3}) for entry in icvi.clusterers.catalogue()}
CLUSTERERS |= {
    "oec-window": icvi.OnlineEllipsoidal(capacity=3, trigger="window", seed="buffer", warmup="paper", memory=20.0),
    "k-means-memory": icvi.SequentialKMeans(k=3, memory=20.0, seeding="distinct"),
}
PARTS = {name: pipeline(clusterer) for name, clusterer in CLUSTERERS.items()}
INDICES = tuple(entry.index() for entry in icvi.indices.catalogue() if entry.name != "conn")
PARTS |= {"indices": pipeline(KMEANS, INDICES), "conn": pipeline(icvi.MergeSplit(slots=3), (icvi.CONN(),))}
PARTS |= {  # those of samples alone, those of an index on its index
    entry.name: icvi.Pipeline(clusterer=None, panel=None, monitors={"alone": entry.monitor()})
    if entry.samples
    else pipeline(KMEANS, (XB,), monitors={"xb": entry.monitor()})
    for entry in icvi.monitors.catalogue()
}
PARTS |= {
    "distress-learned": pipeline(KMEANS, monitors={"xb": icvi.Distress(false_alarms=1e-3, warm=5)}),
    "change-of-an-index": pipeline(KMEANS, monitors={"change": icvi.Change(indices=("xb",), silent=20)}),
    "standardized": pipeline(KMEANS, standardize=icvi.Standardize()),
}
SMALL = pipeline(icvi.SequentialKMeans(k=2), (XB,))


@cache
def kernel_of(pipe, p=2, keep=FIELDS, dtype=np.float32, timed=False, sparse=False, apart=()):
    """The kernel of a pipeline; `apart` are leaves (numbers, state, sample) that all streams share."""
    dtype = np.dtype(dtype)
    unrolled = unroll(PipelineStep(keep), pipe, pipe.init(p, dtype=dtype), p, dtype, timed)
    n, rest = len(unrolled.numbers), len(unrolled.state) + len(unrolled.sample)
    own = tuple(i >= n and i - n not in apart for i in range(n + rest))
    return Emulated(Kernel(unrolled, own, sparse))


def samples(T, p, N, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(3, p, 1)) * 8)[rng.integers(0, 3, T)] + rng.normal(size=(T, p, N)) + 100
    X[rng.random((T, 1, N)).repeat(p, 1) < 0.05] = np.nan
    return X.astype(dtype)


QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@partial(jax.jit, static_argnames=("keep",), compiler_options=QUICKLY)
def plain(pipe, state, X, elapsed=None, keep=FIELDS):
    def step(state, now):
        state, reading = pipe.step(state, *now)
        return state, reading._replace(**{name: None for name in FIELDS if name not in keep})

    state, readings = jax.lax.scan(step, state, (X, elapsed))
    return jax.tree.leaves(state), jax.tree.leaves(readings)


def launched(emulated, pipe, state, X, elapsed=None, **how):
    unrolled = emulated.kernel.unrolled
    numbers = [np.asarray(a, part.dtype) for a, part in zip(jax.tree.leaves(pipe), unrolled.numbers)]
    given = [X] if elapsed is None else [X, elapsed]
    return emulated([*numbers, *map(np.asarray, jax.tree.leaves(state)), *given], X.shape[-1], len(X), **how)


def close(made, expected, tolerance=2e-4):
    assert len(made) == len(expected)
    for a, b in zip(made, expected):
        assert a.shape == b.shape and a.dtype == b.dtype
        compare = partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
        (compare if a.dtype.kind == "f" else np.testing.assert_array_equal)(a, np.asarray(b))


@pytest.mark.parametrize("name", PARTS)
def test_a_kernel_gives_what_lax_scan_gives(name):
    with jax.enable_x64(True):
        pipe, X = PARTS[name], samples(90, 2, 5, dtype=np.float64)
        state, made = launched(kernel_of(pipe, dtype=np.float64), pipe, pipe.init(2, (5,)), X)
        final, readings = plain(pipe, pipe.init(2, (5,)), X)
        close(state, final, 1e-9), close(made, readings, 1e-9)


@pytest.mark.parametrize("name", ["sk-means", "oec", "distress"])
def test_single_precision(name):
    pipe, X = PARTS[name], samples(90, 2, 5)
    state, made = launched(kernel_of(pipe, keep=FEW), pipe, pipe.init(2, (5,)), X)
    final, readings = plain(pipe, pipe.init(2, (5,)), X, keep=FEW)
    close(state, final), close(made, readings)


@pytest.mark.parametrize("name", ["k-means-memory", "change"])
def test_elapsed_times(name):
    pipe, X = PARTS[name], samples(60, 2, 4)
    gaps = np.random.default_rng(0).uniform(0.5, 2.0, (60, 4)).astype(np.float32)
    state, made = launched(kernel_of(pipe, timed=True), pipe, pipe.init(2, (4,)), X, gaps)
    final, readings = plain(pipe, pipe.init(2, (4,)), X, gaps)
    close(state, final), close(made, readings)


@pytest.mark.parametrize("N, threads", [(1, 32), (31, 32), (33, 32), (128, 128), (129, 128), (65_537, 128)])
def test_any_number_of_streams(N, threads):
    X = samples(12, 2, N)
    state, made = launched(kernel_of(SMALL, keep=FEW), SMALL, SMALL.init(2, (N,)), X, threads=threads)
    final, readings = plain(SMALL, SMALL.init(2, (N,)), X, keep=FEW)
    close(state, final), close(made, readings)


def test_pieces_and_sparse_readings_are_those_of_the_whole():
    pipe, X = PARTS["change"], samples(75, 2, 5)
    whole, dense = launched(kernel_of(pipe), pipe, pipe.init(2, (5,)), X)
    state, rows = pipe.init(2, (5,)), []
    for start, stop in ((0, 7), (7, 28), (28, 70), (70, 75)):
        leaves, made = launched(kernel_of(pipe, sparse=True), pipe, state, X[start:stop], every=7, threads=4)
        state = jax.tree.unflatten(jax.tree.structure(state), leaves)
        rows.append(made)
    for a, b in zip(leaves, whole):
        np.testing.assert_array_equal(a, b)
    for i, a in enumerate(dense):
        np.testing.assert_array_equal(np.concatenate([row[i] for row in rows]), a[6::7])


def test_what_all_streams_share_is_read_once():
    """States and samples without an axis of streams: every stream has the same."""
    X, words = samples(20, 2, 1), len(jax.tree.leaves(SMALL.init(2)))
    emulated = kernel_of(SMALL, apart=tuple(range(words + 1)))
    numbers = [np.asarray(a, np.float32) for a in jax.tree.leaves(SMALL)]
    kept = [np.asarray(a) for a in jax.tree.leaves(SMALL.init(2))]
    numbers = [np.asarray(a, part.dtype) for a, part in zip(numbers, emulated.kernel.unrolled.numbers)]
    state, made = emulated([*numbers, *kept, X[..., 0]], 6, 20)
    final, readings = plain(SMALL, SMALL.init(2, (1,)), X)
    close(state, [np.repeat(a, 6, -1) for a in final]), close(made, [np.repeat(a, 6, -1) for a in readings])


def test_no_samples_and_no_streams_write_nothing():
    before = SMALL.init(2, (3,))
    state, made = launched(kernel_of(SMALL), SMALL, before, samples(0, 2, 3))
    assert all(not a.any() for a in state) and all(len(a) == 0 for a in made)


ROOM = {"k-means 4": (4, 96), "k-means 10": (10, 224), "OEC 8": (8, 255)}


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", ROOM)
def test_the_state_stays_in_registers(name, architecture, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    machine_code = pytest.importorskip("machine_code", reason="the benchmarks are not part of this installation")
    if machine_code.find_tool("ptxas") is None or machine_code.find_tool("nvdisasm") is None:
        pytest.skip("needs the extra gpu-code")
    size, most = ROOM[name]
    pipe = pipeline(icvi.OnlineEllipsoidal(capacity=8) if name == "OEC 8" else icvi.SequentialKMeans(k=size))
    made = machine_code.assemble(kernel_of(pipe, keep=FEW).kernel.ptx, architecture)
    assert made.spilled == made.stack == 0 and made.registers <= most
    assert made.pipes["memory"] == 2 + 3  # a sample in, two values and a label out
    assert sum(made.pipes.values()) == made.instructions < made.stalls


def test_the_text_is_exact_and_coalesced():
    ptx = kernel_of(PARTS["sk-means"], keep=FEW).kernel.ptx
    for approximate in (".approx", ".ftz", ".full", "add.f32", "mul.f32", "ld.b32", "ld.generic"):
        assert approximate not in ptx
    assert ptx.count(".visible .entry") == 1 and ".target sm_60" in ptx and "ld.global" in ptx


@pytest.mark.parametrize("name", ["sk-means", "change"])
def test_the_same_text_compiles_for_amd(name):
    assembly = compile_for_amd(kernel_of(PARTS[name], keep=FEW).kernel, "gfx90a")
    assert "s_endpgm" in assembly and "global_load" in assembly and ".vgpr_spill_count: 0" in assembly
