"""Delay lines: words of the state that move up one place at a step, kept still in memory with a place that moves on.

A monitor that looks `lag` samples back has a ring of words: where a row counts, each word becomes the next one and the
last becomes the new value. Written as it stands, that is a load and a store of every word at every step. Here the words
of a tile stay where they are, and the place of the oldest one goes round. All lanes share that place: the words of a
lane whose row does not count are turned once instead, in a block that is left out where all rows count. A single lane
has its own place, which waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.engine.lowering.ssa import Flat
from icvi_jax.engine.native.codegen import BOOL, Code

SHORT = 8
"""Lines of fewer words are not worth a branch."""


class Line(NamedTuple):
    """Words by their numbers, the oldest first, and the places in the list of their mask and of the new value."""

    words: tuple[int, ...]
    mask: int
    value: int


def lines(flat: Flat, first: int) -> list[Line]:
    """The delay lines of a step whose state begins with the input `first`."""
    word = {i: lane.element - first for i, lane in enumerate(flat.lanes) if lane.name == "input" and not lane.uniform}
    moves = {}
    for w, place in enumerate(flat.after):
        lane = flat.lanes[place]
        if lane.name == "select" and lane.dtype != BOOL and word.get(lane.args[1]) == w:
            moves[w] = lane.args[0], lane.args[2]
    follows = {w: word[new] for w, (mask, new) in moves.items() if moves.get(word.get(new, -1), (-1,))[0] == mask}
    found = []
    for start in moves.keys() - set(follows.values()):
        chain = [start]
        while (after := follows.get(chain[-1])) is not None:
            chain.append(after)
        if len(chain) >= SHORT:
            found.append(Line(tuple(chain), *moves[chain[-1]]))
    return sorted(found)


class Delays:
    """The delay lines of a time loop that is being written.

    The loop calls `enter` before it, `begin` and `read` at the start of a step, `move` at its end and `read` again
    behind it.
    """

    def __init__(self, code: Code, flat: Flat, first: int, kinds: Sequence[np.dtype]) -> None:
        self.code, self.kinds = code, kinds
        self.lines = lines(flat, first)
        self.groups = list(dict.fromkeys(map(_group, self.lines)))
        self.words = {w: (line, i) for line in self.lines for i, w in enumerate(line.words)}
        moves = {flat.after[w] for w in self.words}
        used = {a for i, lane in enumerate(flat.lanes) if i not in moves for a in lane.args}
        used |= {*flat.outputs, *(line.value for line in self.lines)}
        used |= {place for w, place in enumerate(flat.after) if w not in self.words}
        self.unused = moves - used
        self.used = used | {a for i in moves & used for a in flat.lanes[i].args}

    def enter(self, start: Sequence[str]) -> None:
        """Bring the words into memory of this function."""
        for line in self.lines:
            kind, size = self._kind(line)
            # in the first block, wherever this one is: memory of a fixed size
            self.code.lines.insert(0, f"  {self._ring(line)} = alloca [{size * len(line.words)} x i8], align 64")
            for i, w in enumerate(line.words):
                self.code.store(kind, start[w], self.code.offset(self._ring(line), size * i), size)

    def begin(self, before: str = "enter") -> None:
        """The places at this step; `before` is the block ahead of the loop."""
        for g in range(len(self.groups)):
            self.code.do(f"%place{g} = phi i64 [0, %{before}], [%place{g}.next, %next]")

    def read(self, w: int, after: str = "") -> str:
        """A word as it is before the step, or behind it with `after` ".next"."""
        line, i = self.words[w]
        kind, size = self._kind(line)
        return self.code.load(kind, self._address(line, i, after), size)

    def move(self, names: dict[int, str]) -> None:
        """The step: the oldest words make room for the new values, and the places move on."""
        code, truths = self.code, self.code.type("i1")
        for g, (mask, n) in enumerate(self.groups):
            which, bits = names[mask], f"i{code.width}"
            group = [line for line in self.lines if _group(line) == (mask, n)]
            if code.width > 1:
                some = code.let(f"icmp ne {bits} {code.let(f'bitcast {truths} {which} to {bits}')}, -1")
                with code.when(some):
                    for line in group:
                        self._turn(line, which)
            for line in group:
                kind, size = self._kind(line)
                here = self._address(line, 0)
                code.store(kind, self._chosen(kind, which, names[line.value], code.load(kind, here, size)), here, size)
            on = self._further(f"%place{g}", 1, n)
            if code.width == 1:
                on = self._chosen("i64", which, on, f"%place{g}")
            code.do(f"%place{g}.next = add i64 {on}, 0")

    def _turn(self, line: Line, which: str) -> None:
        """Where a row does not count, each word moves on with the place."""
        code, n = self.code, len(line.words)
        kind, size = self._kind(line)
        oldest = code.load(kind, self._address(line, 0), size)
        with code.loop(1, n) as i:
            back = code.let(f"sub i64 {n}, {i}")
            near, far = (self._address(line, place) for place in (back, code.add(back, 1)))
            code.store(kind, self._chosen(kind, which, *(code.load(kind, a, size) for a in (far, near))), far, size)
        first = self._address(line, 1)
        code.store(kind, self._chosen(kind, which, code.load(kind, first, size), oldest), first, size)

    def _chosen(self, kind: str, which: str, yes: str, no: str) -> str:
        return self.code.let(f"select {self.code.type('i1')} {which}, {kind} {yes}, {kind} {no}")

    def _kind(self, line: Line) -> tuple[str, int]:
        """The vector type of a line's words and its bytes."""
        dtype = self.kinds[line.words[0]]
        return self.code.type(dtype), dtype.itemsize * self.code.width

    def _ring(self, line: Line) -> str:
        return f"%ring{line.words[0]}"

    def _address(self, line: Line, i: str | int, after: str = "") -> str:
        """Where the i-th oldest word is."""
        place = f"%place{self.groups.index(_group(line))}{after}"
        place = self._further(place, i, len(line.words)) if i else place
        return self.code.offset(self._ring(line), self.code.mul(place, self._kind(line)[1]))

    def _further(self, place: str, by: str | int, n: int) -> str:
        """A place further on in a circle of n, `by` at most the whole of it."""
        on = self.code.add(place, by)
        over = self.code.let(f"icmp sge i64 {on}, {n}")
        return self.code.let(f"select i1 {over}, i64 {self.code.add(on, -n)}, i64 {on}")


def _group(line: Line) -> tuple[int, int]:
    """Lines with this in common share a place."""
    return line.mask, len(line.words)
