"""Values with operators, to write mathematics as text of LLVM."""

from __future__ import annotations

import math

import numpy as np

from icvi_jax.engine.native.code import BOOL, Code
from icvi_jax.engine.native.codegen import operation


class Value:
    """A vector of a function that is being written."""

    def __init__(self, maker: Maker, name: str, dtype: np.dtype) -> None:
        self.m, self.name, self.dtype = maker, name, dtype

    def _do(self, what: str, *others: Value, to: np.dtype | None = None) -> Value:
        return self.m.do(what, to or self.dtype, self, *others)

    def __add__(self, b: Value) -> Value:
        return self._do("add", b)

    def __sub__(self, b: Value) -> Value:
        return self._do("sub", b)

    def __mul__(self, b: Value) -> Value:
        return self._do("mul", b)

    def __truediv__(self, b: Value) -> Value:
        return self._do("div", b)

    def __neg__(self) -> Value:
        return self._do("neg")

    def __lt__(self, b: Value) -> Value:
        return self._do("lt", b, to=BOOL)

    def __gt__(self, b: Value) -> Value:
        return self._do("gt", b, to=BOOL)

    def __eq__(self, b: Value) -> Value:  # type: ignore[override]
        return self._do("eq", b, to=BOOL)

    def __or__(self, b: Value) -> Value:
        return self._do("or", b)

    def __and__(self, b: Value) -> Value:
        return self._do("and", b)

    def __xor__(self, b: Value) -> Value:
        return self._do("xor", b)

    def __invert__(self) -> Value:
        return self._do("not")

    def shifted(self, digits: int) -> Value:
        """An integer divided by 2^digits, rounded down."""
        return self._do("shift_right_arithmetic", self.m.whole(digits))

    def lifted(self, digits: int) -> Value:
        """An integer times 2^digits."""
        return self._do("shift_left", self.m.whole(digits))

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
