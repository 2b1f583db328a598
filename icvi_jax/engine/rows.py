"""Rows: the words of a state between memory and registers, many rows in one access.

Triton analyses all operations again for each access to memory, and for each of them all others: with one word per
access it took minutes, now it takes seconds. A thread gets the words of its own stream: no thread waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

from jax import Array, lax
from jax.experimental import pallas as pl

from icvi_jax.engine.lanewise import converted
from icvi_jax.engine.lowering.unroll import Part

WIDEST = {"triton": 32, "interpret": 32}
"""Rows of one access; on other platforms one."""

Place = Callable[[], tuple[slice | pl.Slice, ...]]


class Words(NamedTuple):
    """The states of N streams as the kernel keeps them: a row for each element.

    Attributes
    ----------
    floats : (rows, N) float32.
    wholes : (rows, N) int32; truths are words here and predicates inside the kernel.
    """

    floats: Array
    wholes: Array


def as_words(parts: Sequence[Part], leaves: Sequence[Array], xp: ModuleType) -> Words:
    """The leaves (…, N) of a state as words, arrays of `xp`."""
    rows: dict[bool, list[Array]] = {True: [], False: []}
    for a, part in zip(leaves, parts):
        real = part.dtype.kind == "f"
        rows[real].append(xp.asarray(a).astype(xp.float32 if real else xp.int32).reshape(-1, a.shape[-1]))
    spare = xp.zeros((1, leaves[0].shape[-1]), xp.int32)
    floats, wholes = (xp.concatenate(rows[real] or [spare]) for real in (True, False))
    return Words(floats.astype(xp.float32), wholes)


def as_leaves(parts: Sequence[Part], words: Words) -> list[Array]:
    """Words as the leaves of a state."""
    leaves, at = [], [0, 0]
    for part in parts:
        which, n = int(part.dtype.kind != "f"), len(part.items)
        a = words[which][at[which] : at[which] + n].astype(part.dtype)
        leaves.append(a.reshape(*part.shape, a.shape[-1]))
        at[which] += n
    return leaves


def load(ref: Array, place: Place, platform: str) -> list[Array]:
    """The rows of an array; `place()` indexes this block's streams."""
    found: list[Array] = []
    for row, n in _pieces(ref.shape[0], platform):
        found += [ref[(row, *place())]] if n == 1 else _apart(ref[(pl.ds(row, n), *place())])
    return found


def store(ref: Array, place: Place, rows: Sequence[Array], platform: str) -> None:
    """Write rows; `place()` is called for each access: its addresses are computed there, not all before the first."""
    rows = [converted(a, ref.dtype) for a in rows]
    for row, n in _pieces(len(rows), platform):
        if n == 1:
            ref[(row, *place())] = rows[row]
        else:
            ref[(pl.ds(row, n), *place())] = _together(rows[row : row + n])


def _pieces(rows: int, platform: str) -> list[tuple[int, int]]:
    """Where each access begins, and its rows: a power of two, since Triton has no other lengths."""
    pieces, at = [], 0
    while at < rows:
        n = min(WIDEST.get(platform, 1), 1 << (rows - at).bit_length() - 1)
        pieces.append((at, n))
        at += n
    return pieces


def _apart(a: Array) -> list[Array]:
    n, block = a.shape
    return [part.reshape(block) for part in lax.split(lax.transpose(a, (1, 0)), (1,) * n, 1)]


def _together(rows: Sequence[Array]) -> Array:
    n = len(rows)
    while len(rows) > 1:  # Triton joins two, along a new last axis: those that are furthest apart first
        half = len(rows) // 2
        pairs = zip(rows[:half], rows[half:])
        rows = [lax.concatenate([lax.expand_dims(a, (a.ndim,)) for a in pair], pair[0].ndim) for pair in pairs]
    return lax.transpose(rows[0].reshape(-1, n), (1, 0))
