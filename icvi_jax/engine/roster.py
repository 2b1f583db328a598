"""Roster: the streams of a live fleet, and its capacity."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import numpy as np

from icvi_jax.types import Array


def room_for(streams: int) -> int:
    """The capacity for so many streams: a power of two."""
    return 1 << max(streams - 1, 0).bit_length()


def float_type(dtype: type | str | np.dtype | None) -> np.dtype:
    """`dtype` as a NumPy type; by default float32, or float64 with `jax_enable_x64`."""
    if dtype is None:
        return np.dtype(np.float64 if jax.config.read("jax_enable_x64") else np.float32)
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"Live(dtype={dtype}): expected a type of floats, float32 or float64")
    return dtype


def all_names(old: tuple[str, ...], new: Iterable[str]) -> tuple[str, ...]:
    """The names of a fleet and the new ones; all must be different."""
    names = (*old, *new)
    seen = set(old)
    for name in names[len(old) :]:
        if not isinstance(name, str):
            raise ValueError(f"Live(streams=…): expected strings as names, got {name!r}")
        if name in seen:
            raise ValueError(f"Live(streams=…): two streams have the name {name!r}")
        seen.add(name)
    return names


def moved_on(names: tuple[str, ...], now: np.ndarray, offsets: Array) -> np.ndarray:
    """The offsets (N,) as the new positions of the streams, none of which may go back."""
    new = np.asarray(offsets)
    if new.shape != now.shape or new.dtype.kind not in "iu":
        raise ValueError(f"Live(offsets=…): expected one integer per stream, ({len(names)},)")
    back = np.flatnonzero(new < now)
    if len(back):
        name, here, there = names[back[0]], now[back[0]], new[back[0]]
        raise ValueError(f"Live(offsets=…): stream {name!r} is at {here} already and cannot go back to {there}")
    return new.astype(np.int64)
