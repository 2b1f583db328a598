"""Operations on lanes as text of LLVM: values, types and loops, with W lanes a vector.

One lane is no vector but a plain number: LLVM then makes vectors of its own of operations that stand side by side. No
instruction may be rounded in another way, and a product is joined with a sum only where the list of operations says
"fma": so the bits do not depend on the number of lanes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from icvi_jax.engine.lowering.graph import Attribute, Unsupported

BOOL = np.dtype(bool)

ALIGNED = 'nounwind "stackrealign"'
"""How functions are compiled: vectors on the stack each lie in one line of the cache, which LLVM does not see to."""


def element(dtype: np.dtype) -> str:
    """LLVM's name of a type."""
    if dtype == BOOL:
        return "i1"
    if dtype.kind == "f":
        return {4: "float", 8: "double"}[dtype.itemsize]
    return f"i{8 * dtype.itemsize}"


@lru_cache(maxsize=4096)
def literal(value: float | int | bool, name: str) -> str:
    """A number as LLVM reads it; floats by their bits."""
    if name in ("float", "double"):
        exact = struct.unpack("f", struct.pack("f", value))[0] if name == "float" else float(value)
        return "0x" + struct.pack(">d", exact).hex().upper()
    return str(int(value))


class Code:
    """Lines of one function, and the names of its values."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        self.block = "enter"
        self.declared: set[str] = set()
        self._count = 0

    def name(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def type(self, dtype: np.dtype | str) -> str:
        """The vector type of a dtype or of LLVM's element type."""
        name = dtype if isinstance(dtype, str) else element(dtype)
        return name if self.width == 1 else f"<{self.width} x {name}>"

    def suffix(self, dtype: np.dtype) -> str:
        """How LLVM's own functions are called for this type, such as v16f32."""
        name = f"f{8 * dtype.itemsize}" if dtype.kind == "f" else element(dtype)
        return name if self.width == 1 else f"v{self.width}{name}"

    def let(self, text: str) -> str:
        name = "%" + self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def splat(self, value: float | int | bool | np.generic, dtype: np.dtype | str) -> str:
        """A constant in all lanes."""
        name = dtype if isinstance(dtype, str) else element(dtype)
        number = literal(value.item() if isinstance(value, np.generic) else value, name)
        return number if self.width == 1 else f"<{', '.join([f'{name} {number}'] * self.width)}>"

    def insert(self, kind: str, vector: str, value: str, lane: int) -> str:
        """A vector of elements of type `kind` with one of them replaced."""
        if self.width == 1:
            return value
        return self.let(f"insertelement {self.type(kind)} {vector}, {kind} {value}, i32 {lane}")

    def everywhere(self, kind: str, value: str) -> str:
        """A value in all lanes."""
        one = self.insert(kind, "poison", value, 0)
        return one if self.width == 1 else shuffle(self, self.type(kind), one, "poison", [0] * self.width)

    def call(self, function: str, result: str, *args: tuple[str, str]) -> str:
        """A call of a function that is declared on the way; `args` are pairs of type and value."""
        if function.startswith("llvm."):
            self.declared.add(f"declare {result} @{function}({', '.join(kind for kind, _ in args)})")
        text = f"call {result} @{function}({', '.join(f'{kind} {value}' for kind, value in args)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def offset(self, base: str, index: str | int, kind: str = "i8") -> str:
        """The address of an element of type `kind` behind `base`."""
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def load(self, kind: str, address: str, align: int = 1) -> str:
        return self.let(f"load {kind}, ptr {address}, align {align}")

    def store(self, kind: str, value: str, address: str, align: int = 1) -> None:
        self.do(f"store {kind} {value}, ptr {address}, align {align}")

    def fetch(self, address: str, write: bool = False, level: int = 3) -> None:
        """Bring a line of memory into the first cache, or the second (`level` 2), without waiting for it."""
        self.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 {int(write)}, i32 {level}, i32 1)")

    def add(self, a: str | int, b: str | int) -> str:
        return self.let(f"add i64 {a}, {b}")

    def mul(self, a: str | int, b: str | int) -> str:
        return self.let(f"mul i64 {a}, {b}")

    def least(self, a: str | int, b: str | int) -> str:
        return self.let(f"select i1 {self.let(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    @contextmanager
    def loop(self, start: str | int, stop: str | int, step: int = 1) -> Iterator[str]:
        """A block run for i = start, start + step, … below `stop`."""
        head, body, latch, end = (self.name(stem) for stem in ("head", "body", "latch", "end"))
        before, i, after = self.block, "%" + self.name("i"), "%" + self.name("i")
        self.do(f"br label %{head}")
        self.label(head)
        self.do(f"{i} = phi i64 [{start}, %{before}], [{after}, %{latch}]")
        self.do(f"br i1 {self.let(f'icmp slt i64 {i}, {stop}')}, label %{body}, label %{end}")
        self.label(body)
        yield i
        self.do(f"br label %{latch}")
        self.label(latch)
        self.do(f"{after} = add i64 {i}, {step}")
        self.do(f"br label %{head}")
        self.label(end)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A block run where `condition` holds."""
        then, end = self.name("then"), self.name("end")
        self.do(f"br i1 {condition}, label %{then}, label %{end}")
        self.label(then)
        yield
        self.do(f"br label %{end}")
        self.label(end)

    def function(self, head: str, attributes: str = ALIGNED) -> str:
        """The text of the function, e.g. of the head "define void @f(ptr %a)"."""
        return "\n".join([f"{head} {attributes} {{", "enter:", *self.lines, "}"])


def shuffle(code: Code, kind: str, a: str, b: str, mask: Sequence[int]) -> str:
    """Lanes of a and b by their numbers."""
    numbers = ", ".join(f"i32 {i}" for i in mask)
    return code.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{numbers}>")


FLOAT_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
BITWISE = {"and": "and", "or": "or", "xor": "xor"}
SHIFTS = {"shift_left": "shl", "shift_right_logical": "lshr", "shift_right_arithmetic": "ashr"}
INTRINSIC = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "roundeven",
    "round": "round",
    "fma": "fma",
}
LIBM = frozenset("sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erf erfc cbrt".split())
"""Functions that the system's library computes, lane by lane."""
MATHS = frozenset("exp exp2 log log1p expm1 pow tanh logistic rsqrt".split()) | LIBM
"""Functions of `icvi_jax.engine.native.maths`."""


def operation(
    code: Code,
    name: str,
    dtype: np.dtype,
    ins: list[str],
    kinds: list[np.dtype],
    attribute: Attribute | np.generic,
    numbers: tuple[bool, ...] = (),
) -> str:
    """Emit one operation and return the name of its value.

    Parameters
    ----------
    ins, kinds : the arguments and their types.
    numbers : which arguments are known not to be NaN.
    """
    of = kinds[0]
    kind, real = code.type(of), of.kind == "f"
    signed = of.kind == "i"
    if name in ("add", "sub", "mul") and of != BOOL:
        return code.let(f"{'f' if real else ''}{name} {kind} {ins[0]}, {ins[1]}")
    if name in ("add", "mul"):
        return code.let(f"{'or' if name == 'add' else 'and'} {kind} {ins[0]}, {ins[1]}")
    if name == "div" and real:
        return code.let(f"fdiv {kind} {ins[0]}, {ins[1]}")
    if name == "rem" and real:
        return code.let(f"frem {kind} {ins[0]}, {ins[1]}")
    if name in ("div", "rem"):
        return _whole_division(code, name, of, ins)
    if name in FLOAT_COMPARE:
        test = FLOAT_COMPARE[name] if real else name if name in ("eq", "ne") else ("s" if signed else "u") + name
        return code.let(f"{'fcmp' if real else 'icmp'} {test} {kind} {ins[0]}, {ins[1]}")
    if name == "select":
        choice = code.type(dtype)
        return code.let(f"select {kind} {ins[0]}, {choice} {ins[2]}, {choice} {ins[1]}")
    if name in ("max", "min"):
        return _extreme(code, name, of, ins, numbers or (False, False))
    if name.startswith("shift_"):
        return _shift(code, name, of, ins)
    if name in BITWISE:
        return code.let(f"{BITWISE[name]} {kind} {ins[0]}, {ins[1]}")
    if name == "not":
        return code.let(f"xor {kind} {ins[0]}, {code.splat(1 if of == BOOL else -1, of)}")
    if name == "neg":
        return code.let(f"fneg {kind} {ins[0]}" if real else f"sub {kind} {code.splat(0, of)}, {ins[0]}")
    if name == "abs" and not real:
        return code.call(f"llvm.abs.{code.suffix(of)}", kind, (kind, ins[0]), ("i1", "false"))
    if name == "sign":
        return _sign(code, of, ins[0])
    if name == "isfinite":
        size = operation(code, "abs", of, ins, kinds, None)
        return code.let(f"fcmp olt {kind} {size}, {code.splat(np.inf, of)}")
    if name in INTRINSIC:
        return code.call(f"llvm.{INTRINSIC[name]}.{code.suffix(of)}", kind, *((kind, a) for a in ins))
    if name in ("population_count", "clz"):
        what = "ctpop" if name == "population_count" else "ctlz"
        extra = [("i1", "false")] if name == "clz" else []
        return code.call(f"llvm.{what}.{code.suffix(of)}", kind, (kind, ins[0]), *extra)
    if name == "convert":
        return convert(code, ins[0], of, dtype)
    if name == "bitcast":
        return code.let(f"bitcast {kind} {ins[0]} to {code.type(dtype)}")
    if name in MATHS:
        return code.call(f"{name}_{element(of)}", kind, *((kind, a) for a in ins))
    raise Unsupported(name)


def _whole_division(code: Code, name: str, of: np.dtype, ins: list[str]) -> str:
    """XLA's: x / 0 is −1 and x % 0 is x, and the smallest integer by −1 is itself and leaves 0."""
    kind, mark = code.type(of), "s" if of.kind == "i" else "u"
    zero = code.let(f"icmp eq {kind} {ins[1]}, {code.splat(0, of)}")
    odd, one = zero, code.splat(1, of)
    if mark == "s":
        odd = code.let(f"or {code.type('i1')} {zero}, {code.let(f'icmp eq {kind} {ins[1]}, {code.splat(-1, of)}')}")
    safe = code.let(f"select {code.type('i1')} {odd}, {kind} {one}, {kind} {ins[1]}")
    plain = code.let(f"{mark}{name} {kind} {ins[0]}, {safe}")
    if mark == "s" and name == "rem":
        plain = code.let(f"select {code.type('i1')} {odd}, {kind} {code.splat(0, of)}, {kind} {plain}")
    elif mark == "s":
        turned = code.let(f"sub {kind} {code.splat(0, of)}, {ins[0]}")
        plain = code.let(f"select {code.type('i1')} {odd}, {kind} {turned}, {kind} {plain}")
    other = code.splat(-1, of) if name == "div" else ins[0]
    return code.let(f"select {code.type('i1')} {zero}, {kind} {other}, {kind} {plain}")


def _shift(code: Code, name: str, of: np.dtype, ins: list[str]) -> str:
    """By as many digits as a word has, or more, nothing is left (of a negative number its sign)."""
    kind, mask, digits = code.type(of), code.type("i1"), 8 * of.itemsize
    fits = code.let(f"icmp ult {kind} {ins[1]}, {code.splat(digits, of)}")
    arithmetic = name == "shift_right_arithmetic"
    by = code.let(f"select {mask} {fits}, {kind} {ins[1]}, {kind} {code.splat(digits - 1 if arithmetic else 0, of)}")
    shifted = code.let(f"{SHIFTS[name]} {kind} {ins[0]}, {by}")
    return shifted if arithmetic else code.let(f"select {mask} {fits}, {kind} {shifted}, {kind} {code.splat(0, of)}")


def _extreme(code: Code, name: str, of: np.dtype, ins: list[str], numbers: tuple[bool, ...]) -> str:
    """The larger or smaller of two; NaN if one of them is."""
    a, b = ins
    kind, mask = code.type(of), code.type("i1")
    if of == BOOL:
        return code.let(f"{'or' if name == 'max' else 'and'} {mask} {a}, {b}")
    if of.kind != "f":
        test = ("s" if of.kind == "i" else "u") + ("gt" if name == "max" else "lt")
        return code.let(f"select {mask} {code.let(f'icmp {test} {kind} {a}, {b}')}, {kind} {a}, {kind} {b}")
    if numbers[1]:
        a, b = b, a
    test = code.let(f"fcmp {'ogt' if name == 'max' else 'olt'} {kind} {a}, {b}")
    best = code.let(f"select {mask} {test}, {kind} {a}, {kind} {b}")  # b where one is NaN
    if any(numbers):
        return best
    return code.let(f"select {mask} {code.let(f'fcmp uno {kind} {a}, {a}')}, {kind} {a}, {kind} {best}")


def _sign(code: Code, of: np.dtype, a: str) -> str:
    kind, mask, zero = code.type(of), code.type("i1"), code.splat(0, of)
    compare = "fcmp o" if of.kind == "f" else "icmp s" if of.kind == "i" else "icmp u"
    down = code.let(f"{compare}lt {kind} {a}, {zero}")
    up = code.let(f"{compare}gt {kind} {a}, {zero}")
    low = code.let(f"select {mask} {down}, {kind} {code.splat(-1, of)}, {kind} {a if of.kind == 'f' else zero}")
    return code.let(f"select {mask} {up}, {kind} {code.splat(1, of)}, {kind} {low}")


def convert(code: Code, a: str, of: np.dtype, to: np.dtype) -> str:
    """A value in another type, as XLA converts it: floats to integers towards 0, into range, NaN to 0."""
    kind, goal = code.type(of), code.type(to)
    if of == to:
        return a
    if to == BOOL:
        return code.let(f"{'fcmp une' if of.kind == 'f' else 'icmp ne'} {kind} {a}, {code.splat(0, of)}")
    if of == BOOL:
        mask = code.type("i1")
        return code.let(f"select {mask} {a}, {goal} {code.splat(1, to)}, {goal} {code.splat(0, to)}")
    if of.kind == "f" and to.kind == "f":
        return code.let(f"{'fpext' if of.itemsize < to.itemsize else 'fptrunc'} {kind} {a} to {goal}")
    if of.kind == "f":
        what = "fptosi" if to.kind == "i" else "fptoui"
        return code.call(f"llvm.{what}.sat.{code.suffix(to)}.{code.suffix(of)}", goal, (kind, a))
    if to.kind == "f":
        return code.let(f"{'si' if of.kind == 'i' else 'ui'}tofp {kind} {a} to {goal}")
    if of.itemsize == to.itemsize:
        return a
    what = "trunc" if of.itemsize > to.itemsize else "sext" if of.kind == "i" else "zext"
    return code.let(f"{what} {kind} {a} to {goal}")
