r"""x^y for vectors, in either precision, to within 2 units in the last place: |x|^y = e^{y log |x|}.

An error of the exponent becomes one of the result as it is, so the logarithm is needed to some eleven digits more than
the result has. Single precision is done in double. Double precision is done in pairs of numbers high + low.
"""

from __future__ import annotations

import math
from fractions import Fraction

from icvi_jax.engine.native import maths
from icvi_jax.engine.native.maths import F32
from icvi_jax.engine.native.values import Maker, Value

Pair = tuple[Value, Value]


def power(m: Maker, x: Value, y: Value) -> Value:
    """x^y."""
    if m.dtype == F32:
        wide = m.wider()
        size = maths.exp(wide, m.widened(y) * maths.log(wide, wide.absolute(m.widened(x))))
        size = m.narrowed(size)
    else:
        high, low = times(m, log_pair(m, m.absolute(x)), y)
        size = exp_pair(m, high, low)
    return _edges(m, x, y, size)


def exact_sum(a: Value, b: Value) -> Pair:
    """a + b and what rounding took from it, for |a| ≥ |b|."""
    s = a + b
    return s, b - (s - a)


def exact_product(m: Maker, a: Value, b: Value) -> Pair:
    """a b and what rounding took from it."""
    p = a * b
    return p, m.lost(a, b, p)


def number_pair(m: Maker, exact: Fraction) -> Pair:
    """A fraction as high + low."""
    high = float(exact)
    return m.number(high), m.number(float(exact - Fraction(high)))


def times_pair(m: Maker, a: Pair, b: Pair) -> Pair:
    """The product of two pairs."""
    p, lost = exact_product(m, a[0], b[0])
    return exact_sum(p, lost + (a[0] * b[1] + a[1] * b[0]))


def plus_pair(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs, the first of larger size."""
    s, lost = exact_sum(a[0], b[0])
    return exact_sum(s, lost + (a[1] + b[1]))


def log_pair(m: Maker, x: Value) -> Pair:
    """log x of a positive number, as a pair."""
    e, mantissa = maths.split(m, x)
    one, two = m.number(1), m.number(2)
    f = mantissa - one  # exact
    g, g_lost = exact_sum(two, f)
    s = f / g
    p, lost = exact_product(m, s, g)
    s, s_low = exact_sum(s, ((f - p) - lost - s * g_lost) / g)
    z = times_pair(m, (s, s_low), (s, s_low))
    tail = maths.horner(m, z[0], [2 / (2 * i + 9) for i in range(8)])
    series = number_pair(m, Fraction(2, 7))
    series = plus_pair(series, (z[0] * tail, m.number(0)))
    for i in (5, 3):
        series = plus_pair(number_pair(m, Fraction(2, i)), times_pair(m, z, series))
    odd = times_pair(m, times_pair(m, z, series), (s, s_low))
    fine = plus_pair((two * s, two * s_low), odd)
    high, low = maths.ln2_parts(m)
    whole = exact_sum(e * m.number(high), e * m.number(low))
    lost = m.lost(e, m.number(low), e * m.number(low))
    total = plus_pair((whole[0], whole[1] + lost), fine)
    zero = e == m.number(0)
    return m.choose(zero, fine[0], total[0]), m.choose(zero, fine[1], total[1])


def times(m: Maker, a: Pair, y: Value) -> Pair:
    """y a, as a pair."""
    p, lost = exact_product(m, a[0], y)
    return p, lost + a[1] * y


def exp_pair(m: Maker, high: Value, low: Value) -> Value:
    """e^{high + low}."""
    bounded = m.clip(high, -760.0, 720.0)
    low = m.choose(bounded == high, low, m.number(0))
    n, r, error = maths.reduced(m, bounded)
    r, error = exact_sum(r, error + low)
    return maths.scaled(m, m.number(1) + maths.exp_series(m, r, error), n)


def _edges(m: Maker, x: Value, y: Value, size: Value) -> Value:
    """The cases of C's pow: 0, infinity, NaN, and negative x, which needs a whole y."""
    zero, one, infinity = m.number(0), m.number(1), m.number(math.inf)
    a = m.absolute(x)
    down = y < zero
    size = m.choose(a == zero, m.choose(down, infinity, zero), size)
    size = m.choose(a == infinity, m.choose(down, zero, infinity), size)
    endless = m.absolute(y) == infinity
    grows = (a > one) ^ down
    size = m.choose(endless, m.choose(a == one, one, m.choose(grows, infinity, zero)), size)
    whole = (m.floor(y) == y) | endless
    half = y * m.number(0.5)
    odd = whole & ~(m.floor(half) == half)
    negative = m.is_negative(x)  # −0, too
    size = m.choose(negative & odd, -size, size)
    size = m.choose((x < zero) & ~whole & ~(a == infinity), m.number(math.nan), size)
    size = m.choose(m.is_nan(x) | m.is_nan(y), m.number(math.nan), size)
    return m.choose((y == zero) | (x == one), one, size)
