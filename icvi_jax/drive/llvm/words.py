"""Words: how state lies in memory between calls, and its way to and from pytrees of `(lead…, streams)` arrays.

Streams come in groups of as many as a vector has lanes. Of each group all words follow each other, and of each word the
lanes: the array has the shape (groups, words, lanes). A word has 4 bytes, or 8 where a type needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.drive.llvm.code import BOOL, Code, element


class Leaf(NamedTuple):
    """Shape for one stream and type."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def n(self) -> int:
        """How many elements one stream has."""
        return int(np.prod(self.shape, dtype=int))


def size_of(leaves: Sequence[Leaf]) -> int:
    """Bytes of a word that holds any of these."""
    return max([4, *(leaf.dtype.itemsize for leaf in leaves)])


def packed(arrays: Sequence[np.ndarray], leaves: Sequence[Leaf], width: int) -> np.ndarray:
    """Arrays (lead…, N) as words (groups, words, width); lanes beyond N repeat the last stream."""
    size = size_of(leaves)
    streams = arrays[0].shape[-1]
    groups = -(-streams // width)
    lanes = np.minimum(np.arange(groups * width), streams - 1)
    words = np.empty((groups, sum(leaf.n for leaf in leaves), width), f"i{size}")
    at = 0
    for a, leaf in zip(arrays, leaves):
        if a.shape != (*leaf.shape, streams):
            raise ValueError(f"expected a state of shape {(*leaf.shape, streams)}, got {a.shape}")
        flat = np.ascontiguousarray(a, leaf.dtype).reshape(leaf.n, streams)
        if leaf.dtype.kind == "f":
            flat = flat.view(f"i{leaf.dtype.itemsize}")
        wide = flat if streams == len(lanes) else flat[:, lanes]
        words[:, at : at + leaf.n] = wide.reshape(leaf.n, groups, width).swapaxes(0, 1)
        at += leaf.n
    return words


def unpacked(words: np.ndarray, leaves: Sequence[Leaf], streams: int) -> list[np.ndarray]:
    """Words as new arrays (lead…, N)."""
    arrays, at = [], 0
    for leaf in leaves:
        part = words[:, at : at + leaf.n].swapaxes(0, 1).reshape(leaf.n, -1)[:, :streams]
        at += leaf.n
        if leaf.dtype.kind == "f":
            part = np.ascontiguousarray(part.astype(f"i{leaf.dtype.itemsize}", copy=False)).view(leaf.dtype)
        arrays.append(part.astype(leaf.dtype).reshape(*leaf.shape, streams))
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
