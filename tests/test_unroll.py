"""Each primitive rule against JAX, on random and special values, in both precisions, written out and as loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from icvi_jax.engine.lowering.graph import Unsupported  # noqa: E402
from icvi_jax.engine.native.program import compile_step  # noqa: E402

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, np.inf, -np.inf, np.nan, 1e30, -1e-30]
P = 4
THREE = np.int32(3)


def integers(z):
    return jnp.clip(jnp.nan_to_num(z, nan=3.0, posinf=7.0, neginf=-7.0), -9, 9).astype(jnp.int32)


def polynomial(x, coefficients):
    if jax.__version_info__ >= (0, 12):  # a primitive of its own
        return lax.polynomial(x, coefficients)
    return sum(c * x**i for i, c in enumerate(coefficients))


def lane_index(z):
    return jnp.abs(integers(z[:1])) % (P + 2)  # some of them beyond the end


def truths_as_numbers(z):
    """What comes to a truth, its contrary or a known value without being computed."""
    u, some = (z > 0).astype(z.dtype), z > 0
    compared = [u > 0, u < 1, u >= 0.5, 0 == u, u != 0, u > 1, u <= 1, jnp.asarray(0.5, z.dtype) < u]
    chosen = [jnp.where(some, u, 3), jnp.where(some, 3, u), jnp.where(some, z, u), jnp.log(jnp.where(u > 0, u, 1))]
    return jnp.stack([*(a.astype(z.dtype) for a in compared), *chosen])


FLOATS = {
    "arithmetic": lambda z: z[0] + z[1] * z[2] - z[3] / z[0],
    "signs": lambda z: jnp.stack([-z[0], jnp.abs(z[1]), jnp.sign(z[2])]),
    "rounding": lambda z: jnp.stack([jnp.floor(z[0]), jnp.ceil(z[1]), jnp.round(z[2]), lax.round(z[3])]),
    "extremes": lambda z: jnp.stack([jnp.maximum(z[0], z[1]), jnp.minimum(z[2], z[3]), lax.max(z[0], 0.5 + 0 * z[1])]),
    "clamp": lambda z: jnp.clip(z, -1.0, 1.0),
    "compare": lambda z: jnp.stack([z[0] < z[1], z[0] <= z[1], z[0] > z[1], z[0] >= z[1], z[0] == z[1], z[0] != z[1]]),
    "finite": lambda z: jnp.isfinite(z) & ~jnp.isnan(z) | jnp.isinf(z),
    "where": lambda z: jnp.where(z > 0, z, jnp.flip(z, 0)),
    "many cases": lambda z: lax.select_n(jnp.abs(integers(z)) % 3, z, z * 2, z * 3),
    "powers": lambda z: jnp.stack([z[0] ** 2, z[1] ** 3, z[2] ** -2, z[3] ** 5]),
    "roots": lambda z: jnp.sqrt(jnp.abs(z)),
    "sum": lambda z: jnp.stack([z.sum(0), z[:2].max(0), z[1:].min(0), jnp.prod(z, 0)]),
    "truths": lambda z: jnp.stack([(z > 0).all(0), (z > 0).any(0)]),
    "truths as numbers": truths_as_numbers,
    "chains": lambda z: jnp.concatenate([lax.cummax(z), lax.cummin(z, reverse=True)]),
    "running sum": lambda z: jnp.cumsum(z, 0),
    "shapes": lambda z: z.reshape(2, 2, -1).transpose(1, 0, 2)[:, ::-1].reshape(4, -1)[1:3],
    "broadcast": lambda z: z[:, None] * z[None, :2],
    "pad": lambda z: lax.pad(z, jnp.asarray(7, z.dtype), [(1, 2, 1)]),
    "argmax": lambda z: jnp.stack([jnp.argmax(z, 0), jnp.argmin(z, 0)]),
    "take": lambda z: jnp.take(z, jnp.asarray([2, 0, 2]), axis=0),
    "take along": lambda z: jnp.take_along_axis(z, lane_index(z), axis=0),
    "slice": lambda z: lax.dynamic_slice_in_dim(z, 1, 2, 0),
    "update": lambda z: lax.dynamic_update_slice(z, z[:1] * 2, (2,)),
    "update where a lane says": lambda z: lax.dynamic_update_slice(z, z[:2] * 2, (integers(z)[3],)),
    "slice where a lane says": lambda z: lax.dynamic_slice(z, (integers(z)[1],), (2,)),
    "element": lambda z: z[jnp.abs(integers(z)[0]) % P],
    "elements": lambda z: z[jnp.abs(integers(z)[:2]) % (P + 2)],
    "row": lambda z: z.reshape(2, 2)[:, jnp.abs(integers(z)[0]) % 2],
    "clipped element": lambda z: jnp.take(z, integers(z), mode="clip"),
    "two indices": lambda z: z.reshape(2, 2)[jnp.abs(integers(z)[0]) % 2, jnp.abs(integers(z)[1]) % 2],
    "set": lambda z: z.at[jnp.abs(integers(z)[0]) % (P + 2)].set(5),
    "set row": lambda z: z.reshape(2, 2).at[jnp.abs(integers(z)[0]) % 2].set(z[:2]),
    "add at": lambda z: jnp.where(jnp.isfinite(z), z, 0).at[jnp.abs(integers(z)[:2]) % P].add(2),
    "max at": lambda z: z.at[jnp.asarray([1, 1, 3])].max(z[:3]),
    "sorted": lambda z: jnp.sort(z),
    "order": lambda z: jnp.argsort(integers(z)),
    "descending": lambda z: jnp.sort(z, descending=True),
    "columns sorted": lambda z: jnp.sort(z.reshape(2, 2), axis=0),
    "largest": lambda z: lax.top_k(integers(z), 2)[1],
    "split": lambda z: jnp.concatenate(jnp.split(z, [1, 3])[::-1]),
    "median": lambda z: jnp.median(jnp.where(jnp.isfinite(z), z, 0)),
    "outer": lambda z: jnp.einsum("i,j->ij", z, z[:2]),
    "choices": lambda z: lax.switch(jnp.abs(integers(z)[0]) % 3, [lambda a: a, lambda a: -a, lambda a: a + 1], z),
    "one-hot": lambda z: jax.nn.one_hot(jnp.argmax(z), P, dtype=z.dtype),
    "softmax": lambda z: jax.nn.softmax(jnp.where(jnp.isfinite(z), jnp.clip(z, -9, 9), 0)),
    "batched product": lambda z: jnp.einsum(
        "bij,bj->bi", jnp.clip(jnp.tile(z, 4), -9, 9).reshape(4, 2, 2), jnp.ones((4, 2), z.dtype)
    ),
    "product": lambda z: jnp.asarray([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]], z.dtype) @ z,
    "loop": lambda z: lax.fori_loop(0, 3, lambda i, a: a * z + i, z),
    "scan": lambda z: lax.scan(lambda c, x: (c + x, c * x), jnp.zeros_like(z[0]), z)[1],
    "reversed scan": lambda z: lax.scan(lambda c, x: (c + x * z[0], c), z[1], z, reverse=True)[1],
    "unstack": lambda z: jnp.stack([a * (i + 1) for i, a in enumerate(z)][::-1]),
    "inner unstack": lambda z: jnp.stack([a + 1 for a in jnp.unstack(z.reshape(2, 2, -1), axis=1)]),
    "log2": lambda z: jnp.log2(jnp.abs(z)),
    "polynomial": lambda z: polynomial(z[0], [1.0, z[1], 2.0, z[2]]),
    "gradient": lambda z: jax.vjp(lambda a: jnp.tanh(a) * a**2, z)[1](jnp.ones_like(z))[0],
    "branches": lambda z: lax.cond(jnp.asarray(True), lambda a: a + 1, lambda a: a - 1, z),
    "converted": lambda z: jnp.stack([lax.convert_element_type(z, jnp.int32), integers(z)]),
    "bits": lambda z: lax.bitcast_convert_type(z, jnp.int32 if z.dtype == jnp.float32 else jnp.int64),
    "whole arithmetic": lambda z: jnp.stack([integers(z) * 3 - 1, -integers(z), jnp.abs(integers(z))]),
    "whole division": lambda z: jnp.stack([f(integers(z), integers(z[::-1])) for f in (lax.div, lax.rem)]),
    "shifts": lambda z: jnp.stack([integers(z) << 2, integers(z) >> 1, lax.shift_right_logical(integers(z), THREE)]),
    "long shifts": lambda z: lax.shift_left(integers(z), jnp.abs(integers(z[::-1])) * 8),
    "whole bits": lambda z: jnp.stack([integers(z) & 5, integers(z) | 2, integers(z) ^ 3, ~integers(z)]),
    "counts": lambda z: jnp.stack([lax.population_count(integers(z)), lax.clz(integers(z))]),
}
ROUNDED = {
    "arithmetic",
    "sum",
    "product",
    "loop",
    "scan",
    "powers",
    "running sum",
    "reversed scan",
    "log2",
    "polynomial",
    "gradient",
    "softmax",
    "batched product",
    "median",
}  # one rounding here, two there


def native(f, X, loops=False, **more):
    """f(z) of each sample of X (N, T, p), by native code."""
    dtype = X.dtype
    program = compile_step(lambda m, s, z: (s, f(z)), (), dtype.type(0), X.shape[-1], dtype, loops=loops, **more)
    words = program.words(np.zeros(len(X), dtype))
    return program.run(words, program.numbers(()), X)[0]


def expected(f, X):
    return np.asarray(jax.jit(jax.vmap(jax.vmap(f)))(jnp.asarray(X)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FLOATS)
def test_a_primitive_does_what_jax_does(name, dtype):
    rng = np.random.default_rng(0)
    shape = 5, 30, P
    X = np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), rng.normal(size=shape) * 3).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        true = expected(FLOATS[name], X)
        for loops in (False, True):
            got = native(FLOATS[name], X, loops)
            assert got.dtype == true.dtype
            if name in ROUNDED:
                tolerance = 50 * np.finfo(dtype).eps
                np.testing.assert_allclose(got, true, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(got, true)


def test_what_has_no_native_form_says_its_name():
    X = np.zeros((1, 1, P), np.float32)
    for f, name in (
        (lambda z: lax.lgamma(z), "lgamma"),
        (lambda z: lax.while_loop(lambda a: a.sum() < 9, lambda a: a + 1, z), "while"),
        (lambda z: jnp.sort(jnp.concatenate([z] * 20)), "sort"),
    ):
        with pytest.raises(Unsupported, match=name):
            native(f, X)


def test_a_step_too_large_is_seen_before_it_is_written_out():
    with pytest.raises(Unsupported, match="operations on numbers"):
        native(
            lambda z: (jnp.outer(jnp.tile(z, 300), jnp.tile(z, 300)) + 1) @ jnp.tile(z, 300), np.zeros((1, 1, P), "f4")
        )


def test_other_numbers_need_no_other_code():
    def step(model, state, z):
        return state * model["fade"] + z[0], state

    program = compile_step(step, {"fade": 0.5}, np.float32(0), 1, np.dtype("f4"))
    X = np.ones((1, 4, 1), np.float32)
    for fade in (0.5, 0.25):
        words = program.words(np.zeros(1, np.float32))
        program.run(words, program.numbers({"fade": fade}), X)
        assert program.state(words, 1)[0] == np.float32(1 + fade + fade**2 + fade**3)


def test_uniform_values_are_computed_once_and_states_may_trade_places():
    def step(model, state, z):
        a, b, c = state
        return (b, a, c + jnp.exp(model) * z[0]), (a, b)

    for loops in (False, True):
        program = compile_step(step, np.float32(0), (np.float32(0),) * 3, 1, np.dtype("f4"), loops=loops)
        words = program.words((np.ones(3, np.float32), np.full(3, 2, np.float32), np.zeros(3, np.float32)))
        out = program.run(words, program.numbers(np.float32(0)), np.ones((3, 5, 1), np.float32))
        np.testing.assert_array_equal(out[0][0], [1, 2, 1, 2, 1])
        assert [float(a[1]) for a in program.state(words, 3)] == [2, 1, 5]
