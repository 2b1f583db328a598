"""What the fleet engine is measured against: C by hand, a plain `jax.vmap`, river and cvi, each as a function to time.

C comes from `../shared/limit` where that folder exists and from `baseline.c` here otherwise. The SIMD program there is
for vectors of 512 bits; ours runs beside it, and the faster counts. The threads of C sleep between calls: spinning, as
they would do by default, they take a core from whoever is timed next.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
GIVEN = HERE.parents[1] / "shared" / "limit"
FLAGS = "-O3 -march=native -ffast-math -fopenmp -shared -fPIC".split()
FORGETTING = 0.9
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def blobs(N: int, T: int, k: int, p: int, seed: int = 0) -> np.ndarray:
    """Gaussian blobs, k centres of its own for each stream: (N, T, p) float32."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, T, p), dtype=np.float32)
    centres = 10 * rng.standard_normal((N, k, p), dtype=np.float32)
    for i in range(N):
        X[i] += centres[i][rng.integers(0, k, T)]
    return X


def pointer(a: np.ndarray):
    """Where the floats of `a` are."""
    return a.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


@functools.cache
def _library(source: pathlib.Path, *defines: str) -> ctypes.CDLL:
    out = pathlib.Path(tempfile.mkdtemp()) / "program.so"
    subprocess.run(["gcc", *FLAGS, *defines, str(source), "-o", str(out), "-lm"], check=True)
    return ctypes.CDLL(str(out))


def c_programs(X: np.ndarray, k: int) -> dict[str, Callable[[], np.ndarray]]:
    """Hand-written C by name: "scalar", "simd", "simd, wide"; each returns XB. Empty without a compiler.

    The SIMD programs are given X as they want it, (T, p, N), and leave (T, N): their transposes are not counted.
    """
    if shutil.which("gcc") is None:
        return {}
    N, T, p = X.shape
    size, real = ctypes.c_long, ctypes.c_float
    values, lanes = np.empty((2, N, T), np.float32), np.empty((2, T, N), np.float32)
    turned = np.ascontiguousarray(X.transpose(1, 2, 0))

    def scalar(program):
        sizes = [size(a) for a in (N, T, k, p)]
        program.run(pointer(X), *sizes, real(FORGETTING), pointer(values[0]), pointer(values[1]))
        return values[0]

    def simd(program):
        program.run(pointer(turned), size(N), size(T), real(FORGETTING), pointer(lanes[0]), pointer(lanes[1]))
        return lanes[0].T

    own, shape = HERE / "baseline.c", (f"-DK={k}", f"-DP={p}")
    given = GIVEN.is_dir()
    programs = {"scalar": functools.partial(scalar, _library(GIVEN / "scalar.c" if given else own))}
    if N % 16 == 0:
        programs["simd"] = functools.partial(simd, _library(own, "-DLANES", *shape))
        if given:
            programs["simd, wide"] = functools.partial(simd, _library(GIVEN / "simd.c", *shape))
    return programs


def vmapped(pipe, X: np.ndarray) -> Callable[[], np.ndarray]:
    """The single-stream step under `jax.vmap(lax.scan)`: what one writes first."""
    start = pipe.init(X.shape[2])

    @jax.jit
    def values(pipe, X):
        return jax.vmap(lambda x: jax.lax.scan(lambda s, y: _values(pipe, s, y), start, x)[1])(X)

    return lambda: np.asarray(values(pipe, jnp.asarray(X))["xb"])


def _values(pipe, state, x):
    state, reading = pipe.step(state, x)
    return state, reading.values


def river(X: np.ndarray, k: int) -> Callable[[], float]:
    """river: KMeans and Silhouette, one stream (T, p), one sample a call."""
    from river import cluster, metrics

    samples = [{i: float(v) for i, v in enumerate(x)} for x in X]

    def run():
        model, silhouette = cluster.KMeans(n_clusters=k, seed=0), metrics.Silhouette()
        for x in samples:
            model.learn_one(x)
            silhouette.update(x, model.predict_one(x), model.centers)
            value = silhouette.get()
        return value

    return run


def cvi(X: np.ndarray, k: int) -> Callable[[], float]:
    """cvi: XB and DB, incrementally, of labels that are there already; one stream (T, p)."""
    import cvi as package

    samples = X.astype(float)
    labels = np.argmin(((samples[:, None] - samples[:k]) ** 2).sum(2), 1)

    def run():
        indices = package.XB(), package.DB()
        for x, label in zip(samples, labels):
            for index in indices:
                value = index.get_cvi(x, int(label))
        return value

    return run
