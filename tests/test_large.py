"""Samples too large to be squared: they count as missing, and a warning says how many and where."""

import warnings

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.drive import large

PANEL = icvi.Panel(indices=(icvi.XieBeni(),))
PIPE = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=PANEL)


def samples(*shape, dtype=np.float64):
    """Some holes, an infinity (both are said to be missing in the docs), and nothing too large yet."""
    x = np.random.default_rng(0).normal(size=(*shape, 2)).astype(dtype)
    x[..., 3, 0], x[..., 5, 1], x[..., 6, 1] = np.nan, np.inf, -np.inf
    return x


CALLS = {
    "run": lambda x: icvi.run(PIPE, x[1]),
    "run_fleet": lambda x: icvi.run_fleet(PIPE, x),
    "chunks": lambda x: icvi.run_fleet(PIPE, (x[:, t : t + 7] for t in range(0, x.shape[1], 7))),
    "validate": lambda x: icvi.validate(PANEL, x[1], labels=np.arange(x.shape[1]) % 2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("call", CALLS)
def test_they_are_said_once(call, dtype):
    x = samples(3, 40, dtype=dtype)
    x[1, 9, 1], x[1, 30, 0], x[1, 30, 1] = -2e18, 3e16, 4e20
    with pytest.warns(UserWarning, match="3 values are beyond 1e.15 and count as missing") as told:
        CALLS[call](x)
    (one,) = told
    of = "" if call in ("run", "validate") else " of stream 1"
    assert f"the first is -2e+18, in row 9, column 1{of}" in str(one.message) and one.filename == __file__


@pytest.mark.parametrize("call", CALLS)
def test_holes_and_large_numbers_that_can_be_used_are_not(call):
    x = samples(3, 40)
    x[1, 9, 1] = 9e14
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[call](x)


def test_double_precision_goes_further():
    x = samples(40)
    x[9, 1] = 1e30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert icvi.run(PIPE, x, backend="numpy").readings.seen[9]


def test_a_fleet_without_holes_is_not_looked_at(monkeypatch):
    x = np.random.default_rng(0).normal(size=(3, 40, 2))
    state = icvi.run_fleet(PIPE, samples(3, 40)).state  # what was missing before does not count
    monkeypatch.setattr(large.Large, "_look", None)
    icvi.run_fleet(PIPE, x)
    icvi.run_fleet(PIPE, x, state=state)


def test_samples_that_are_traced_are_left_alone():
    import jax

    x = samples(40)
    x[9, 1] = 1e18
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(lambda a: icvi.run(PIPE, a).state.missing)(x)
