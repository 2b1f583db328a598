"""Delay lines of native code: words that stay where they are, compared with words that move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from icvi_jax.engine.lowering.ssa import flatten  # noqa: E402
from icvi_jax.engine.native.program import compile_step  # noqa: E402
from icvi_jax.engine.native.ring_buffers import SHORT, lines  # noqa: E402

LAG = 11


def step(fade, state, z):
    """Two rings of floats and one of whole numbers, moved where a row counts; the second by another mask."""
    there = jnp.isfinite(z)
    row, late = there[0] | there[1], state["rows"] % 3 > 0
    values = jnp.where(there, z, -1.0)
    new = {
        "ring": jnp.where(row, jnp.concatenate([state["ring"][1:], values[None]]), state["ring"]),
        "some": jnp.where(late, jnp.concatenate([state["some"][1:], state["ring"][:1, 0]]), state["some"]),
        "ages": jnp.where(row, jnp.concatenate([state["ages"][1:], state["rows"][None]]), state["ages"]),
        "rows": state["rows"] + row,
    }
    return new, (state["ring"][0], state["ring"][LAG - 3, 1] * fade, state["some"][0], state["ages"][4], new["ages"][0])


def start(streams, dtype):
    rng = np.random.default_rng(1)
    return {
        "ring": rng.normal(size=(LAG, 2, *streams)).astype(dtype),
        "some": rng.normal(size=(LAG + 5, *streams)).astype(dtype),
        "ages": rng.integers(0, 99, (LAG, *streams)).astype(np.int32),
        "rows": np.zeros(streams, np.int32),
    }


def moved(state, X):
    """The same in plain NumPy, (N, T, …)."""
    out = []
    for x in X.transpose(1, 2, 0):
        state, seen = step(np.asarray(0.5, X.dtype), state, x)
        state = {name: np.asarray(a) for name, a in state.items()}
        out.append([np.asarray(a) for a in seen])
    return state, [np.stack([np.moveaxis(row[i], -1, 0) for row in out], 1) for i in range(5)]


@pytest.mark.parametrize("holes", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("lanes", "dtype"), [(1, "f4"), (4, "f4"), (16, "f4"), (8, "f8")])
def test_words_that_stay_give_what_words_that_move_give(lanes, dtype, holes):
    dtype, rng = np.dtype(dtype), np.random.default_rng(2)
    X = rng.normal(size=(19, 150, 2)).astype(dtype)
    X[rng.random(X.shape[:2]) < holes] = np.nan
    X[3, 40:] = np.nan  # a stream that ends before the others
    fade = np.asarray(0.5, dtype)
    with jax.enable_x64(dtype.itemsize == 8):
        compare(compile_step(step, fade, start((), dtype), 2, dtype, lanes=lanes), fade, X)


def compare(program, fade, X):
    words = program.words(start((19,), X.dtype))
    for part in (X[:, :1], X[:, 1:38], X[:, 38:]):
        before = program.state(words.copy(), 19)
        out = program.run(words, program.numbers(fade), part)
        state, expected = moved(before, part)
        for a, b in zip(program.tree(out), expected):
            np.testing.assert_array_equal(a, b)
        for name, a in program.state(words, 19).items():
            np.testing.assert_array_equal(a, state[name], err_msg=name)


def test_rings_are_found_and_nothing_else_is():
    program = compile_step(step, np.float32(0.5), start((), np.float32), 2, np.dtype(np.float32))
    layout = program.layout
    flat = flatten(layout.unrolled, True)
    found = lines(flat, layout.first("state"))
    assert sorted(len(line.words) for line in found) == [LAG, LAG, LAG, LAG + 5]
    assert len({line.mask for line in found}) == 2
    assert len({w for line in found for w in line.words}) == 4 * LAG + 5

    def short(fade, state, z):
        ring = jnp.where(z[0] > 0, jnp.concatenate([state[1:], z[:1]]), state)
        return ring, (ring[0] * fade,)

    few = compile_step(short, np.float32(1), np.zeros(SHORT - 1, np.float32), 1, np.dtype(np.float32)).layout
    assert lines(flatten(few.unrolled, True), few.first("state")) == []
