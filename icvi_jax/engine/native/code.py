"""Text of LLVM: values, types and loops, with W lanes a vector.

One lane is no vector but a plain number: LLVM then makes vectors of its own of operations that stand side by side.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

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
        """A name that is not taken."""
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
        """A new value."""
        name = "%" + self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a value."""
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
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def offset(self, base: str, index: str | int, kind: str = "i8") -> str:
        """The address of an element of type `kind` behind `base`."""
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def load(self, kind: str, address: str, align: int = 1) -> str:
        """A value from memory."""
        return self.let(f"load {kind}, ptr {address}, align {align}")

    def store(self, kind: str, value: str, address: str, align: int = 1) -> None:
        """A value into memory."""
        self.do(f"store {kind} {value}, ptr {address}, align {align}")

    def add(self, a: str | int, b: str | int) -> str:
        """a + b of addresses and counts."""
        return self.let(f"add i64 {a}, {b}")

    def mul(self, a: str | int, b: str | int) -> str:
        """a b of counts."""
        return self.let(f"mul i64 {a}, {b}")

    def least(self, a: str | int, b: str | int) -> str:
        """The smaller of two counts."""
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
