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

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from icvi_jax.engine.lowering.graph import Operation, Unsupported
from icvi_jax.engine.lowering.ssa import Lane
from icvi_jax.engine.native.codegen import BOOL, LIBM, MATHS, Code, element, operation


def _two(what: str, to: np.dtype | None = None) -> Callable[[Value, Value], Value]:
    return lambda a, b: a.m.do(what, to or a.dtype, a, b)


class Value:
    """A vector of a function that is being written."""

    def __init__(self, maker: Maker, name: str, dtype: np.dtype) -> None:
        self.m, self.name, self.dtype = maker, name, dtype

    __add__, __sub__, __mul__, __truediv__ = (_two(what) for what in ("add", "sub", "mul", "div"))
    __or__, __and__, __xor__ = (_two(what) for what in ("or", "and", "xor"))
    __lt__, __gt__ = (_two(what, BOOL) for what in ("lt", "gt"))
    __eq__ = _two("eq", BOOL)  # type: ignore[assignment]

    def __neg__(self) -> Value:
        return self.m.do("neg", self.dtype, self)

    def __invert__(self) -> Value:
        return self.m.do("not", self.dtype, self)

    def shifted(self, digits: int) -> Value:
        """An integer divided by 2^digits, rounded down."""
        return self.m.do("shift_right_arithmetic", self.dtype, self, self.m.whole(digits))

    def lifted(self, digits: int) -> Value:
        return self.m.do("shift_left", self.dtype, self, self.m.whole(digits))

    def bits(self) -> Value:
        """A real as the integer of its bits."""
        return self.m.do("bitcast", self.m.integers, self)

    def reals(self) -> Value:
        """The real that has these bits."""
        return self.m.do("bitcast", self.m.dtype, self)

    def real(self) -> Value:
        """An integer as a real of the same value, for |i| < 2^31."""
        if self.dtype.itemsize == 4:
            return self.m.do("convert", self.m.dtype, self)
        return self.m.do("convert", self.m.dtype, self.m.do("convert", np.dtype("i4"), self))


class Maker:
    """Writes one function of reals of one type; `digits` are those that matter, all that the type has by default.

    `vector` are the bytes of the processor's own vectors. Those of 64 have instructions for exponents (AVX-512), with
    the same results to the last bit.
    """

    def __init__(self, code: Code, dtype: np.dtype, fused: bool, vector: int, digits: int | None = None) -> None:
        self.code, self.dtype, self.fused, self.vector = code, dtype, fused, vector
        self.exponents = vector == 64 and code.width * dtype.itemsize == 64
        self.digits = digits or np.finfo(dtype).nmant + 1
        self.integers = np.dtype(f"i{dtype.itemsize}")

    def do(self, name: str, dtype: np.dtype, *ins: Value) -> Value:
        """One operation."""
        args = [a.name for a in ins]
        return Value(self, operation(self.code, name, dtype, args, [a.dtype for a in ins], None), dtype)

    def rounded(self, value: float) -> float:
        """The number as this precision has it."""
        return float(self.dtype.type(value))

    def number(self, value: float) -> Value:
        """A real in all lanes."""
        return Value(self, self.code.splat(float(value), self.dtype), self.dtype)

    def whole(self, value: int) -> Value:
        """An integer in all lanes."""
        return Value(self, self.code.splat(int(value), self.integers), self.integers)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a b + c, with one rounding where the processor can."""
        return self.do("fma", self.dtype, a, b, c) if self.fused else a * b + c

    def lost(self, a: Value, b: Value, product: Value) -> Value:
        """a b − product, exactly."""
        if self.fused:
            return self.do("fma", self.dtype, a, b, -product)
        (ah, al), (bh, bl) = self._halves(a), self._halves(b)
        return ((ah * bh - product) + ah * bl + al * bh) + al * bl

    def _halves(self, a: Value) -> tuple[Value, Value]:
        """Veltkamp's split."""
        c = a * self.number(2.0 ** math.ceil(np.finfo(self.dtype).nmant / 2 + 0.5) + 1)
        high = c - (c - a)
        return high, a - high

    def choose(self, which: Value, yes: Value, no: Value) -> Value:
        """`yes` where `which`, else `no`."""
        return self.do("select", yes.dtype, which, no, yes)

    def clip(self, x: Value, least: float, most: float) -> Value:
        """x within bounds; NaN becomes one of them."""
        x = self.choose(x > self.number(least), x, self.number(least))
        return self.choose(x < self.number(most), x, self.number(most))

    def is_nan(self, x: Value) -> Value:
        """Where x is no number."""
        return self.do("ne", BOOL, x, x)

    def is_negative(self, x: Value) -> Value:
        """Where the sign of x is minus."""
        return self.do("lt", BOOL, x.bits(), self.whole(0))

    def absolute(self, x: Value) -> Value:
        """|x|."""
        return self.do("abs", self.dtype, x)

    def root(self, x: Value) -> Value:
        """√x."""
        return self.do("sqrt", self.dtype, x)

    def floor(self, x: Value) -> Value:
        """The largest whole number not above x."""
        return self.do("floor", self.dtype, x)

    def round(self, x: Value) -> Value:
        """The nearest whole number."""
        return self.do("round_even", self.dtype, x)

    def integer(self, x: Value) -> Value:
        """A small whole number as an integer."""
        kind, goal = self.code.type(x.dtype), self.code.type("i32")
        small = self.code.let(f"fptosi {kind} {x.name} to {goal}")
        if self.integers.itemsize == 4:
            return Value(self, small, self.integers)
        return Value(self, self.code.let(f"sext {goal} {small} to {self.code.type('i64')}"), self.integers)

    def power_of_two(self, n: Value) -> Value:
        """2ⁿ for an integer n in the range of normal numbers."""
        digits, bias = (23, 127) if self.dtype.itemsize == 4 else (52, 1023)
        return (n + self.whole(bias)).lifted(digits).reals()

    def split(self, x: Value) -> tuple[Value, Value]:
        """Exponent e and mantissa in [1, 2) of a positive number, where there is an instruction.

        0 has −∞ and 1, ∞ has ∞ and 1, and what is negative or NaN has NaN.
        """
        return self._instruction("getexp", x), self._instruction("getmant", x, ("i32", "12"))

    def lifted(self, a: Value, n: Value) -> Value:
        """a 2ⁿ for a whole real n, rounded once, where there is an instruction."""
        return self._instruction("scalef", a, (self.code.type(self.dtype), n.name))

    def _instruction(self, name: str, a: Value, *more: tuple[str, str]) -> Value:
        kind, word = self.code.type(self.dtype), "ps" if self.dtype.itemsize == 4 else "pd"
        rest = (kind, a.name), (f"i{self.code.width}", "-1"), ("i32", "4")  # all lanes, rounded as usual
        value = self.code.call(f"llvm.x86.avx512.mask.{name}.{word}.512", kind, (kind, a.name), *more, *rest)
        return Value(self, value, self.dtype)

    def wider(self) -> Maker:
        """The maker of double precision in the same function, for results that will be rounded to single."""
        return Maker(self.code, np.dtype("f8"), self.fused, self.vector, 32)

    def widened(self, x: Value) -> Value:
        """x in double precision."""
        wide = self.wider()
        return Value(wide, wide.do("convert", wide.dtype, x).name, wide.dtype)

    def narrowed(self, x: Value) -> Value:
        """x in this precision."""
        return self.do("convert", self.dtype, x)


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


Pair = tuple[Value, Value]


def power(m: Maker, x: Value, y: Value) -> Value:
    """x^y."""
    if m.dtype == F32:
        wide = m.wider()
        size = exp(wide, m.widened(y) * log(wide, wide.absolute(m.widened(x))))
        size = m.narrowed(size)
    else:
        high, low = times(m, log_pair(m, m.absolute(x)), y)
        size = exp_pair(m, high, low)
    return power_edges(m, x, y, size)


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
    e, mantissa = split(m, x)
    one, two = m.number(1), m.number(2)
    f = mantissa - one  # exact
    g, g_lost = exact_sum(two, f)
    s = f / g
    p, lost = exact_product(m, s, g)
    s, s_low = exact_sum(s, ((f - p) - lost - s * g_lost) / g)
    z = times_pair(m, (s, s_low), (s, s_low))
    tail = horner(m, z[0], [2 / (2 * i + 9) for i in range(8)])
    series = number_pair(m, Fraction(2, 7))
    series = plus_pair(series, (z[0] * tail, m.number(0)))
    for i in (5, 3):
        series = plus_pair(number_pair(m, Fraction(2, i)), times_pair(m, z, series))
    odd = times_pair(m, times_pair(m, z, series), (s, s_low))
    fine = plus_pair((two * s, two * s_low), odd)
    high, low = ln2_parts(m)
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
    n, r, error = reduced(m, bounded)
    r, error = exact_sum(r, error + low)
    return scaled(m, m.number(1) + exp_series(m, r, error), n)


def power_edges(m: Maker, x: Value, y: Value, size: Value) -> Value:
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


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "logistic": logistic,
    "pow": power,
    "rsqrt": rsqrt,
    "tanh": tanh,
}


INLINE = 200
"""Up to so many calls of exp, log and the like are written out where they are."""


def write_functions(
    operations: Sequence[Lane | Operation], width: int, fused: bool, vector: int
) -> tuple[list[str], set[str]]:
    """The text of the functions that a program calls, such as @exp_float, and the declarations they need."""
    calls = [(o.name, element(o.dtype), o.dtype) for o in operations if o.name in MATHS]
    attributes = "nounwind alwaysinline" if len(calls) <= INLINE else "nounwind noinline"
    texts, declared = [], set[str]()
    for name, real, dtype in sorted(set(calls), key=lambda call: call[:2]):
        code = Code(width)
        kind, arguments = code.type(dtype), ["%a", "%b"][: 2 if name in ("pow", "atan2") else 1]
        if name in LIBM:
            result = _by_lane(code, name, dtype, arguments, vector)
        else:
            maker = Maker(code, dtype, fused, vector)
            result = FUNCTIONS[name](maker, *(Value(maker, a, dtype) for a in arguments)).name
        code.do(f"ret {kind} {result}")
        inputs = ", ".join(f"{kind} {a}" for a in arguments)
        texts.append(code.function(f"define internal {kind} @{name}_{real}({inputs})", attributes))
        declared |= code.declared
    return texts, declared


def _by_lane(code: Code, name: str, dtype: np.dtype, arguments: list[str], vector: int) -> str:
    """The library's function of each lane."""
    function, one = name + ("f" if dtype.itemsize == 4 else ""), element(dtype)
    if not vector or os.name != "posix" or not _known(function):
        raise Unsupported(name, "there is no such function of one number here")
    code.declared.add(f"declare {one} @{function}({', '.join([one] * len(arguments))})")
    value = "poison"
    for lane in range(code.width):
        ins = [
            a if code.width == 1 else code.let(f"extractelement {code.type(dtype)} {a}, i32 {lane}") for a in arguments
        ]
        value = code.insert(one, value, code.call(function, one, *((one, a) for a in ins)), lane)
    return value


def _known(function: str) -> bool:
    """Whether this process has a function of C."""
    try:
        return bool(ctypes.CDLL(None)[function])
    except AttributeError:
        return False
