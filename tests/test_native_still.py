"""Outputs that are the same at every step: native code does not write them, and they are there."""

import jax.numpy as jnp
import numpy as np
import pytest

import icvi_jax as icvi

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from icvi_jax.engine.native.program import compile_step  # noqa: E402


def step(fade, state, z):
    seven = jnp.stack([jnp.full_like(z[0], 7), jnp.full_like(z[0], 8)])
    half = jnp.stack([jnp.full_like(z[0], 7), z[0]])
    return state + z[0], (z[0] * fade, seven, jnp.zeros_like(z[0], bool), half)


@pytest.mark.parametrize("lanes", [1, 16])
def test_they_have_their_values_and_no_code(lanes):
    program = compile_step(step, np.float32(2), np.float32(0), 1, np.dtype(np.float32), lanes=lanes)
    assert {i: value.tolist() for i, value in program.layout.still.items()} == {1: [7, 8], 2: False}
    X = np.random.default_rng(0).normal(size=(21, 40, 1)).astype(np.float32)
    for every in (1, 3):
        words = program.words(np.zeros(21, np.float32))
        twice, seven, no, half = program.tree(program.run(words, program.numbers(np.float32(2)), X, every=every))
        shown = X[:, every - 1 :: every, 0]
        np.testing.assert_array_equal(twice, 2 * shown)
        np.testing.assert_array_equal(seven, np.broadcast_to(np.float32([7, 8]), (*shown.shape, 2)))
        np.testing.assert_array_equal(half, np.stack([np.full_like(shown, 7), shown], -1))
        assert no.shape == shown.shape and not no.any()


def test_alarms_of_change_never_stand_whatever_the_memory_held():
    pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    X = np.random.default_rng(1).normal(size=(30, 300, 1)).astype(np.float32)
    for _ in range(3):
        dirty = np.full(2**22, 255, np.uint8)
        del dirty
        told = []
        alarm = icvi.run_fleet(pipe, X, progress=lambda done, total: told.append(done)).readings.alarms["change"]
        assert alarm.standing.dtype == bool and not alarm.standing.any()
    live = icvi.Live(pipe, 1, 30)
    assert not any(live.tick(X[:, t]).alarms["change"].standing.any() for t in range(5))
