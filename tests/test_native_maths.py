"""exp, log, pow and similar functions compared with mpmath: within 2 units in the last place, in the full range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

mpmath = pytest.importorskip("mpmath", reason="exact values come from mpmath")
pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from icvi_jax.engine.native.program import compile_step  # noqa: E402

FUNCTIONS = {
    "exp": (jnp.exp, mpmath.exp),
    "exp2": (jnp.exp2, lambda x: mpmath.power(2, x)),
    "expm1": (jnp.expm1, mpmath.expm1),
    "log": (jnp.log, mpmath.log),
    "log1p": (jnp.log1p, mpmath.log1p),
    "tanh": (jnp.tanh, mpmath.tanh),
    "logistic": (jax.nn.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "rsqrt": (lax.rsqrt, lambda x: 1 / mpmath.sqrt(x)),
}
LIMIT = {"tanh": 4, "logistic": 3}  # these two are made of the others
TYPES = [np.float32, np.float64]


def computed(f, columns, dtype, lanes=None):
    """f of arrays, by native code."""
    with jax.enable_x64(dtype == np.float64):
        zero, p = np.zeros((), dtype), len(columns)
        program = compile_step(lambda model, s, z: (s, f(*z)), (), zero, p, np.dtype(dtype), lanes=lanes)
        words = program.words(np.zeros((1,), dtype))
        return program.run(words, program.numbers(()), np.stack(columns, -1)[None].astype(dtype))[0][0]


def reals(dtype, n, seed, positive=False):
    """Numbers of all sizes: random bits, subnormal ones too, and many of everyday size."""
    rng, info = np.random.default_rng(seed), np.finfo(dtype)
    bits = rng.integers(0, 2**info.bits, n, dtype=np.uint64).astype(f"u{info.bits // 8}").view(dtype)
    sizes = rng.normal(size=n) * 10.0 ** rng.integers(-8, 3, n)
    out = np.concatenate([bits, sizes.astype(dtype), rng.uniform(0.5, 2, n).astype(dtype)])
    out = np.where(np.isfinite(out), out, 1)
    return np.abs(out) if positive else out


def special(dtype):
    info = np.finfo(dtype)
    limits = [float(a) for a in (info.tiny, info.smallest_subnormal, info.max, info.eps)]
    some = [0.0, 1.0, 0.5, 2.0, 3.0, *limits, np.inf]
    return np.array([*some, *(-a for a in some), np.nan], dtype)


def exact(function, *args):
    with mpmath.workprec(2500 if function is mpmath.expm1 else 300):
        try:
            return function(*(mpmath.mpf(float(a)) for a in args))
        except ZeroDivisionError:
            return mpmath.inf


def units(got, true, dtype):
    """The error in units of the last place of the exact value."""
    info = np.finfo(dtype)
    with mpmath.workprec(300):
        size = abs(true)
        if size >= mpmath.mpf(float(info.max)) * (1 + mpmath.mpf(float(info.eps)) / 4):
            return 0.0 if np.isinf(got) and (got > 0) == (true > 0) else np.inf
        least = mpmath.mpf(float(info.smallest_subnormal))
        exponent = mpmath.floor(mpmath.log(size, 2)) if size else -(10**6)
        unit = max(mpmath.power(2, exponent - info.nmant), least)
        return float(abs(mpmath.mpf(float(got)) - true) / unit) if np.isfinite(got) else np.inf


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_two_units(name, dtype):
    native, true = FUNCTIONS[name]
    x = reals(dtype, 400, 1, positive=name in ("log", "rsqrt"))
    if name == "log1p":
        x = x[x > -1]
    if name.startswith(("exp", "tanh", "logistic")):
        edge = 1100 if dtype == np.float64 else 160
        x = np.concatenate([x, np.random.default_rng(2).uniform(-edge, edge, 400).astype(dtype)])
    x = x[x != 0]
    got = computed(native, [x], dtype)
    worst = max(units(g, exact(true, a), dtype) for g, a in zip(got, x))
    assert worst <= LIMIT.get(name, 2)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_power_is_within_two_units(dtype):
    rng = np.random.default_rng(3)
    x = reals(dtype, 300, 4, positive=True)
    x = x[x > 0]
    y = np.where(rng.random(len(x)) < 0.5, reals(dtype, 300, 5)[: len(x)], rng.normal(size=len(x)) * 3).astype(dtype)
    most = np.log(float(np.finfo(dtype).max)) * 1.1
    with np.errstate(all="ignore"):  # half of them near the ends of the range
        far = (rng.uniform(-most, most, len(x)) / np.log(x.astype(float))).astype(dtype)
    y = np.where((rng.random(len(x)) < 0.6) & np.isfinite(far), far, y)
    got = computed(jnp.power, [x, y], dtype)
    with np.errstate(all="ignore"):
        fair = np.abs(y.astype(float) * np.log(x.astype(float))) < 1e5  # above, mpmath is too slow
    assert fair.mean() > 0.5
    assert max(units(g, exact(mpmath.power, a, b), dtype) for g, a, b in zip(got[fair], x[fair], y[fair])) <= 2


@pytest.mark.parametrize("dtype", TYPES)
def test_special_values_are_those_of_numpy(dtype):
    x, tolerance = special(dtype), 4 * np.finfo(dtype).eps
    for name in "exp exp2 expm1 log log1p tanh".split():
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(x)
        np.testing.assert_allclose(computed(FUNCTIONS[name][0], [x], dtype), expected, rtol=tolerance, err_msg=name)
    a, b = (m.ravel() for m in np.meshgrid(x, x))
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    np.testing.assert_allclose(computed(jnp.power, [a, b], dtype), expected, rtol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_bits_are_the_same_for_any_number_of_lanes(dtype):
    x = np.concatenate([special(dtype), reals(dtype, 100, 6)])

    def all_of(a):
        return [f(a) for f, _ in FUNCTIONS.values()][:-1] + [jnp.power(jnp.abs(a), a)]

    first = computed(lambda a: jnp.stack(all_of(a)), [x], dtype, lanes=1)
    for lanes in (2, 8, 16):
        np.testing.assert_array_equal(computed(lambda a: jnp.stack(all_of(a)), [x], dtype, lanes), first)
