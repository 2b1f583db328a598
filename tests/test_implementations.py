"""One operation, three implementations: native code, `lax.scan` and a loop of NumPy agree on every part there is.

Each case says which one ran: a scan that should be native and is a loop of XLA fails.
"""

import re
import warnings
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from installed import quick_jit
from jax import lax
from test_laws import CLUSTERERS, INDICES, MONITORS, SAMPLE_MONITORS

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import icvi_jax as icvi  # noqa: E402
from icvi_jax.engine.scan import PipelineStep  # noqa: E402
from icvi_jax.engine.xla import loop  # noqa: E402
from icvi_jax.testing.backends import backend  # noqa: E402
from icvi_jax.testing.sample_monitors import pipeline  # noqa: E402

T, N = 60, 4  # XLA of jaxlib 0.10.2 crashes in slopes of a scan in float64 over 1 or 3 streams
PANEL = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
SMOOTH = tuple(i for i, part in enumerate(CLUSTERERS) if isinstance(part, icvi.SequentialKMeans | icvi.FuzzyCMeans))


def watched(monitor):
    return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=PANEL, monitors={"xb": monitor})


def all_indices(grouped):
    clusterer = icvi.MergeSplit(slots=4, mass_memory=20.0) if grouped else icvi.SequentialKMeans(k=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of indices that look at all samples
        parts = tuple(part for part in INDICES if part.grouped == grouped)
        return icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=parts, forgetting=0.9))


CASES = {f"{part.name} {i}": icvi.Pipeline(clusterer=part, panel=PANEL) for i, part in enumerate(CLUSTERERS)}
CASES |= {f"{type(part).__name__} {i}": watched(part) for i, part in enumerate(MONITORS)}
CASES |= {f"{type(part).__name__} of samples {i}": pipeline(part) for i, part in enumerate(SAMPLE_MONITORS)}
CASES |= {"all indices": all_indices(False), "all indices of clusters": all_indices(True)}


def recording(p=2, seed=0):
    """Three clusters, some rows missing, and a jump at two thirds: (T, p, N)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, p, N)) + 12 * rng.integers(0, 3, (T, 1, N))
    X[2 * T // 3 :, 0] += 40
    return np.where(rng.random((T, 1, N)) < 0.1, np.nan, X)


def scanned(pipe, X, implementation):
    """The final state and the readings, and the text of the program that made them."""
    jit = quick_jit if implementation == "xla" and X.dtype == np.float64 else jax.jit
    f = jit(lambda state, X: icvi.scan(pipe, state, X, implementation=implementation))
    state = pipe.init(X.shape[1], X.shape[2:], dtype=X.dtype)
    return f(state, X), f.lower(state, X).as_text(), f


def stepped(pipe, X):
    state = pipe.init(X.shape[1], X.shape[2:], xp=np, dtype=X.dtype)
    with np.errstate(all="ignore"):
        return loop(PipelineStep(icvi.Reading._fields), pipe, state, X, None)


def close(found, wanted, tolerance):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    named, _ = jax.tree.flatten_with_path(found)
    for (path, a), b in zip(named, jax.tree.leaves(wanted)):
        where = jax.tree_util.keystr(path)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), where
        size = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=0)))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size, err_msg=where)


@pytest.mark.parametrize("precision", ["jax64", "jax32"])
@pytest.mark.parametrize("name", CASES)
def test_all_implementations_agree_and_native_code_goes_on_with_the_same_bits(name, precision):
    law = backend(precision)
    pipe, X = CASES[name], recording().astype(law.dtype)
    with law.precision(), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # such as: XLA runs this scan
        native, text, f = scanned(pipe, X, "native")
        assert re.search(r"@icvi_[0-9a-f]{24}", text) and "stablehlo.while" not in text, "this was not native code"
        xla, text, _ = scanned(pipe, X, "xla")
        assert "icvi_" not in text and "stablehlo.while" in text, "this was not lax.scan"
        numpy = stepped(pipe, X)
        assert all(isinstance(a, np.ndarray) for a in jax.tree.leaves(numpy[1]))
        close(native[1], numpy[1], law.tolerance)
        close(xla[1], numpy[1], law.tolerance)
        close(native[0], xla[0], law.tolerance)
        middle, first = f(pipe.init(2, (N,), dtype=X.dtype), X[:23])
        last, second = f(middle, X[23:])
        jax.tree.map(np.testing.assert_array_equal, last, native[0])
        jax.tree.map(lambda a, b, c: np.testing.assert_array_equal(np.concatenate([a, b]), c), first, second, native[1])


def by_lax_scan(pipe, X):
    return lax.scan(pipe.step, pipe.init(2, X.shape[2:], dtype=X.dtype), X)[1]


def by_scan(pipe, X):
    return icvi.scan(pipe, pipe.init(2, X.shape[2:], dtype=X.dtype), X, implementation="native")[1]


def by_native_scan(pipe, X):
    def one(x):
        return icvi.native_scan(pipe.step, pipe.init(2, dtype=X.dtype), x, implementation="native")[1]

    return jax.vmap(one, -1, -1)(X)


def mean_values(scan, pipe, X):
    values = scan(pipe, X).values
    return sum(jnp.where(jnp.isfinite(v), v, 0.0).mean() for v in values.values())


@cache
def slopes(case, precision, scan):
    law = backend(precision)
    X = np.nan_to_num(recording()[:15]).astype(law.dtype)
    with law.precision():
        return np.asarray(quick_jit(jax.grad(partial(mean_values, scan, CASES[case])))(X))


SLOPES = [(list(CASES)[i], p, scan) for i in SMOOTH for p in ("jax64", "jax32") for scan in (by_scan, by_native_scan)]


@pytest.mark.parametrize(("case", "precision", "scan"), [*SLOPES, ("all indices", "jax64", by_scan)])
def test_slopes_are_those_of_lax_scan_over_the_step(case, precision, scan):
    found, wanted = (slopes(case, precision, way) for way in (scan, by_lax_scan))
    assert np.abs(np.nan_to_num(wanted)).max() > 0
    close(found, wanted, backend(precision).tolerance)
