"""Words: how state lies in memory between calls, and its way to and from pytrees of `(lead…, streams)` arrays.

Each word of the state is a row with one element a stream: the array has the shape (words, room). A word has 4 bytes, or
8 where a type needs them. Streams are run in groups of as many as a vector has lanes, so the room is a number of whole
groups, and an odd one: rows a power of two apart would share few places of the cache. With one lane there are no rows:
the words of a stream follow each other in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.engine.native.code import BOOL, Code, element


class Leaf(NamedTuple):
    """Shape for one stream and type."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def n(self) -> int:
        """How many elements one stream has."""
        return math.prod(self.shape)


def size_of(leaves: Sequence[Leaf]) -> int:
    """Bytes of a word that holds any of these."""
    return max([4, *(leaf.dtype.itemsize for leaf in leaves)])


def shape_of(leaves: Sequence[Leaf], streams: int, width: int) -> tuple[int, int]:
    """Words and room for so many streams."""
    return sum(leaf.n for leaf in leaves), width * (-(-streams // width) | 1) if streams else 0


def packed(arrays: Sequence[np.ndarray], leaves: Sequence[Leaf], width: int) -> np.ndarray:
    """Arrays (lead…, N) as words (words, room); lanes beyond N repeat the last stream."""
    streams = arrays[0].shape[-1]
    rows = np.empty(shape_of(leaves, streams, width), f"i{size_of(leaves)}", "F" if width == 1 else "C")
    at = 0
    for a, leaf in zip(arrays, leaves):
        if a.shape != (*leaf.shape, streams):
            raise ValueError(f"expected a state of shape {(*leaf.shape, streams)}, got {a.shape}")
        alike = streams > 1 and a.strides[-1] == 0
        flat = np.ascontiguousarray(a[..., :1] if alike else a, leaf.dtype).reshape(leaf.n, -1)
        rows[at : at + leaf.n, :streams] = flat.view(f"i{leaf.dtype.itemsize}") if leaf.dtype.kind == "f" else flat
        at += leaf.n
    rows[:, streams:] = rows[:, streams - 1 : streams]
    return rows


def unpacked(words: np.ndarray, leaves: Sequence[Leaf], streams: int) -> list[np.ndarray]:
    """Words as arrays (lead…, N), which may be views of them."""
    arrays, at = [], 0
    for leaf in leaves:
        part = words[at : at + leaf.n, :streams]
        at += leaf.n
        if leaf.dtype.kind == "f":
            part = part.astype(f"i{leaf.dtype.itemsize}", copy=False).view(leaf.dtype)
        arrays.append(part.astype(leaf.dtype, copy=False).reshape(*leaf.shape, streams))
    return arrays


def load_word(code: Code, address: str, dtype: np.dtype, size: int) -> str:
    """The vector of a word from memory."""
    raw = code.load(code.type(f"i{8 * size}"), address, size)
    kind, bits = code.type(f"i{8 * size}"), code.type(f"i{8 * dtype.itemsize}")
    if dtype == BOOL:
        return code.let(f"icmp ne {kind} {raw}, {code.splat(0, f'i{8 * size}')}")
    if dtype.itemsize < size:
        raw = code.let(f"trunc {kind} {raw} to {bits}")
    return code.let(f"bitcast {bits} {raw} to {code.type(dtype)}") if dtype.kind == "f" else raw


def store_word(code: Code, value: str, address: str, dtype: np.dtype, size: int) -> None:
    """The vector of a word into memory."""
    kind = code.type(f"i{8 * size}")
    if dtype == BOOL:
        value = code.let(f"zext {code.type('i1')} {value} to {kind}")
    else:
        bits = code.type(f"i{8 * dtype.itemsize}")
        if dtype.kind == "f":
            value = code.let(f"bitcast {code.type(dtype)} {value} to {bits}")
        if dtype.itemsize < size:
            value = code.let(f"sext {bits} {value} to {kind}")
    code.store(kind, value, address, size)


def stored(dtype: np.dtype) -> str:
    """The element type of outputs in memory: a truth has one byte."""
    return "i8" if dtype == BOOL else element(dtype)
