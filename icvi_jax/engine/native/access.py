"""Access: how a loop finds an operand in memory, by strides where it can and by a table where it cannot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Access(NamedTuple):
    """Slot of the first element and strides by axis, or a table of slots."""

    shape: tuple[int, ...]
    start: int
    strides: tuple[int, ...]
    table: np.ndarray | None


def access(slots: np.ndarray) -> Access:
    """The way to these slots (one an element, of the loop's shape)."""
    start = int(slots.flat[0])
    strides = tuple(
        int(slots[tuple(int(d == axis) for d in range(slots.ndim))]) - start if n > 1 else 0
        for axis, n in enumerate(slots.shape)
    )
    regular = start + sum(
        (np.arange(n) * stride).reshape([-1 if d == axis else 1 for d in range(slots.ndim)])
        for axis, (n, stride) in enumerate(zip(slots.shape, strides))
    )
    plain = np.array_equal(np.broadcast_to(regular, slots.shape), slots)
    return Access(slots.shape, start, strides, None if plain else slots)
