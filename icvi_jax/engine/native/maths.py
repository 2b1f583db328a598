r"""exp, log, pow and similar functions for vectors, to within 2 units in the last place (tanh 4, logistic 3).

Each is one function of LLVM without branches and without calls, the same for any number of lanes. Ranges are reduced by
powers of two, and what is left is a power series (its coefficients are plain fractions):

.. math:: e^x = 2^n e^r, \; |r| ≤ \tfrac12 \ln 2, \qquad
          \log(2^e m) = e \ln 2 + 2 \operatorname{artanh} s, \; s = \frac{m − 1}{m + 1}, \; ½ ≤ m² < 2

`pow` needs the logarithm in about twice the precision: single precision is computed in double, double in pairs of
numbers (high + low). Where the processor cannot join a product and a sum, both are rounded; only the pairs of `pow`
then split their factors.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from icvi_jax.engine.native.values import Maker, Value

F32, F64 = np.dtype("f4"), np.dtype("f8")
EXP_TERMS = {24: 7, 32: 8, 53: 13}
LOG_TERMS = {24: 5, 32: 6, 53: 11}
"""Terms of the series, by the digits that the result is to have."""

LN2 = Fraction(921350637599661305226344307672478454, 2**120)
"""ln 2 to 36 digits, as the fraction that its parts below are cut from."""


def ln2_parts(m: Maker) -> tuple[float, float]:
    """ln 2 = high + low, where high has so few digits that its product with any exponent is exact."""
    bits = 11 if m.dtype == F32 else 36
    high = float(Fraction(int(LN2 * 2**bits), 2**bits))
    return high, float(LN2 - Fraction(high))


def horner(m: Maker, x: Value, coefficients: list[float]) -> Value:
    """Σ c_i xⁱ."""
    total = m.number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = m.fma(total, x, m.number(c))
    return total


def reduced(m: Maker, x: Value) -> tuple[Value, Value, Value]:
    """n, r and its rounding error, with x = n ln 2 + r, |r| ≤ ½ ln 2."""
    high, low = ln2_parts(m)
    n = m.round(x * m.number(1 / math.log(2)))
    a, b = m.fma(n, m.number(-high), x), n * m.number(low)
    r = a - b
    return n, r, (a - r) - b


def scaled(m: Maker, a: Value, n: Value, whole: Value | None = None) -> Value:
    """a 2ⁿ for whole n, in two factors: neither they nor what is between them leaves the range, one rounding.

    `whole` is n as an integer, where it is known.
    """
    if m.exponents:
        return m.lifted(a, n)
    whole = whole or m.integer(n)
    half = whole.shifted(1)
    return a * m.power_of_two(half) * m.power_of_two(whole - half)


def exp_series(m: Maker, r: Value, error: Value) -> Value:
    """e^r − 1 for small r + error."""
    terms = EXP_TERMS[m.digits]
    rest = horner(m, r, [1 / math.factorial(i) for i in range(2, terms + 1)])
    return r + m.fma(r * r, rest, error)


def exp(m: Maker, x: Value) -> Value:
    """e^x."""
    if m.dtype == F32 and m.fused:
        return short_exp(m, x)
    least, most = (-104.0, 89.0) if m.dtype == F32 else (-746.0, 710.0)
    n, r, error = reduced(m, m.clip(x, least, most))
    return m.choose(m.is_nan(x), x, scaled(m, m.number(1) + exp_series(m, r, error), n))


def short_exp(m: Maker, x: Value) -> Value:
    """e^x in single precision with joined products and sums: two thirds of the operations. NaN goes all the way."""
    least, most, magic = m.number(-104.0), m.number(89.0), m.number(1.5 * 2**23)
    bounded = m.choose(x < least, least, x)
    bounded = m.choose(bounded > most, most, bounded)
    rounded = m.fma(bounded, m.number(1 / math.log(2)), magic)  # the last digits of its bits are n
    n = rounded - magic
    high, low = ln2_parts(m)
    r = m.fma(n, m.number(-low), m.fma(n, m.number(-high), bounded))
    series = horner(m, r, [1 / math.factorial(i) for i in range(EXP_TERMS[24] + 1)])
    return scaled(m, series, n, rounded.bits() - magic.bits())


def exp2(m: Maker, x: Value) -> Value:
    """2^x."""
    bounded = m.clip(x, *((-151.0, 129.0) if m.dtype == F32 else (-1076.0, 1025.0)))
    n = m.round(bounded)
    f = bounded - n
    ln2 = m.number(math.log(2))
    r = f * ln2
    error = m.fma(f, ln2, -r) + f * m.number(float(LN2 - Fraction(m.rounded(math.log(2)))))
    return m.choose(m.is_nan(x), x, scaled(m, m.number(1) + exp_series(m, r, error), n))


def expm1(m: Maker, x: Value) -> Value:
    """e^x − 1."""
    least, most = (-104.0, 89.0) if m.dtype == F32 else (-746.0, 710.0)
    n, r, error = reduced(m, m.clip(x, least, most))
    series = exp_series(m, r, error)
    digits = 24.0 if m.dtype == F32 else 53.0
    near = m.power_of_two(m.integer(m.clip(n, -digits - 2, digits + 2)))
    small = (near - m.number(1)) + near * series
    large = scaled(m, m.number(1) + series, n)
    result = m.choose(n > m.number(digits + 1), large, small)
    result = m.choose(n == m.number(0), series, result)
    return m.choose(m.is_nan(x) | (x == m.number(0)), x, result)


def split(m: Maker, x: Value) -> tuple[Value, Value]:
    """The exponent e and the mantissa m in [√½, √2) of a positive number, subnormal ones included."""
    if m.exponents:
        e, mantissa = m.split(x)
        small = mantissa < m.number(2 * m.rounded(math.sqrt(0.5)))
        return m.choose(small, e, e + m.number(1)), m.choose(small, mantissa, mantissa * m.number(0.5))
    tiny = x < m.number(float(np.finfo(m.dtype).tiny))
    shift = 25 if m.dtype == F32 else 54
    bits = m.choose(tiny, x * m.number(2.0**shift), x).bits()
    digits = 23 if m.dtype == F32 else 52
    start = np.array(math.sqrt(0.5), m.dtype).view(f"i{m.dtype.itemsize}").item()
    part = bits - m.whole(start)
    exponent = part.shifted(digits)
    mantissa = (bits - exponent.lifted(digits)).reals()
    e = exponent.real()
    return m.choose(tiny, e - m.number(shift), e), mantissa


def log_of(m: Maker, e: Value, f: Value, more: Value | None = None) -> Value:
    """e ln 2 + log(1 + f) + more."""
    high, low = ln2_parts(m)
    s = f / (f + m.number(2))
    z = s * s
    half = m.number(0.5) * f * f
    terms = LOG_TERMS[m.digits]
    R = z * horner(m, z, [2 / (2 * i + 3) for i in range(terms)])
    small = m.fma(s, half + R, e * m.number(low))
    if more is not None:
        small = small + more
    return m.fma(e, m.number(high), f - (half - small))


def edges(m: Maker, x: Value, result: Value) -> Value:
    """What a logarithm is at 0, below, and at infinity."""
    infinity = m.number(math.inf)
    result = m.choose(x < infinity, result, x)
    result = m.choose(x == m.number(0), m.number(-math.inf), result)
    return m.choose(x < m.number(0), m.number(math.nan), result)


def log(m: Maker, x: Value) -> Value:
    """log x."""
    e, mantissa = split(m, x)
    result = log_of(m, e, mantissa - m.number(1))
    return result if m.exponents else edges(m, x, result)


def log1p(m: Maker, x: Value) -> Value:
    """log(1 + x): what rounding takes from 1 + x comes back as its share of the result."""
    one = m.number(1)
    u = one + x
    lost = m.choose(x < one, x - (u - one), one - (u - x))
    lost = m.choose(u < m.number(math.inf), lost, m.number(0))
    e, mantissa = split(m, u)
    result = log_of(m, e, mantissa - one, lost / u)
    result = edges(m, u, result)
    return m.choose(m.absolute(x) < m.number(2.0 ** (-25 if m.dtype == F32 else -54)), x, result)


def tanh(m: Maker, x: Value) -> Value:
    """tanh x, from e^{−2|x|} − 1."""
    t = expm1(m, m.number(-2) * m.absolute(x))
    size = -(t / (t + m.number(2)))
    return m.choose(m.is_nan(x) | (x == m.number(0)), x, m.choose(x < m.number(0), -size, size))


def logistic(m: Maker, x: Value) -> Value:
    """1 / (1 + e^{−x})."""
    one = m.number(1)
    t = exp(m, -m.absolute(x))
    return m.choose(x < m.number(0), t, one) / (one + t) + m.choose(m.is_nan(x), x, m.number(0))


def rsqrt(m: Maker, x: Value) -> Value:
    """1 / √x."""
    return m.number(1) / m.root(x)
