"""Room: memory for the readings of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

APART = 2**25
"""Bytes from which on an output has memory of its own, so that who keeps one does not keep the others."""

LINE = 64
"""Bytes of a line of the cache."""


def room(wanted: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    """New arrays of these shapes and types, those of less than `APART` bytes in one piece of memory.

    The system gives large pieces in large pages. Twenty arrays of a megabyte each would come in pages of 4 kB, and to
    fetch these takes longer than a scan takes to fill them.
    """
    sizes = [-(-math.prod(shape) * dtype.itemsize // LINE) * LINE for shape, dtype in wanted]
    shared = np.empty(sum(size for size in sizes if size < APART) + LINE, np.uint8)
    at = -shared.ctypes.data % LINE
    arrays = []
    for (shape, dtype), size in zip(wanted, sizes):
        if size >= APART:
            arrays.append(np.empty(shape, dtype))
            continue
        arrays.append(shared[at : at + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape))
        at += size
    return arrays
