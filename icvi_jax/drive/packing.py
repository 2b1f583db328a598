"""Packing: a tree of small arrays as one buffer, because every buffer in a call costs more than what is in it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from icvi_jax.types import Array


class Field(NamedTuple):
    """Where one leaf lies in the buffer: rows `start` to `stop`, and the shape (without streams) and type it has."""

    start: int
    stop: int
    shape: tuple[int, ...]
    dtype: np.dtype


class Packing:
    """The plan by which a tree of `(…, streams)` arrays lies in one `(rows, streams)` buffer of signed integers.

    Floats are kept bit by bit, integers and booleans by value, so nothing is rounded. The carrier is as wide as the
    floats.

    Parameters
    ----------
    tree : the tree, or its shapes and types (`jax.eval_shape`); streams are the last axis.
    """

    def __init__(self, tree: object):
        leaves, self.structure = jax.tree.flatten(tree)
        widths = {np.dtype(a.dtype).itemsize for a in leaves if np.dtype(a.dtype).kind == "f"}
        self.carrier = np.dtype(f"i{max(widths, default=4)}")
        self.floats = np.dtype(f"f{self.carrier.itemsize}")
        self.possible = widths <= {self.carrier.itemsize} and all(
            np.dtype(a.dtype).kind in "fiub" and np.dtype(a.dtype).itemsize <= self.carrier.itemsize for a in leaves
        )
        self.fields, row = [], 0
        for a in leaves:
            rows = int(np.prod(a.shape[:-1], dtype=int))
            self.fields.append(Field(row, row + rows, tuple(a.shape[:-1]), np.dtype(a.dtype)))
            row += rows
        self.rows = row

    def pack(self, tree: object) -> Array:
        """The tree as one buffer; inside a compiled function."""
        rows = []
        for a in jax.tree.leaves(tree):
            if a.dtype.kind == "f":
                a = jax.lax.bitcast_convert_type(a, self.carrier)
            rows.append(a.astype(self.carrier).reshape(-1, a.shape[-1]))
        return jax.numpy.concatenate(rows)

    def packed(self, tree: object) -> np.ndarray:
        """The tree of NumPy arrays as one buffer of its own."""
        rows = []
        for a in jax.tree.leaves(tree):
            a = np.ascontiguousarray(a)
            a = a.view(self.carrier) if a.dtype.kind == "f" else a.astype(self.carrier)
            rows.append(a.reshape(-1, a.shape[-1]))
        return np.concatenate(rows)

    def unpack(self, buffer: Array) -> object:
        """The tree in a buffer; inside a compiled function."""
        leaves = []
        for start, stop, shape, dtype in self.fields:
            a = buffer[start:stop].reshape(*shape, buffer.shape[-1])
            leaves.append(jax.lax.bitcast_convert_type(a, dtype) if dtype.kind == "f" else a.astype(dtype))
        return jax.tree.unflatten(self.structure, leaves)

    def unpacked(self, buffer: np.ndarray) -> object:
        """The tree in a NumPy buffer (rows, streams), with streams trailing: views where possible."""
        leaves = []
        for start, stop, shape, dtype in self.fields:
            a = buffer[start:stop].reshape(*shape, buffer.shape[-1])
            leaves.append(a.view(dtype) if dtype.kind == "f" else a.astype(dtype))
        return jax.tree.unflatten(self.structure, leaves)

    def views(self, buffer: np.ndarray, streams: int) -> object:
        """The tree in a NumPy buffer (…, rows, streams), cut to `streams` and with them leading: views where possible.

        A leaf is (streams, …, *shape), where … are the axes before the rows.
        """
        words, floats = _leading(buffer, streams), _leading(buffer.view(self.floats), streams)
        leaves = []
        for start, stop, shape, dtype in self.fields:  # few calls: at one stream they are a third of a tick
            whole = floats if dtype.kind == "f" else words
            a = whole[..., start:stop] if shape else whole[..., start]
            if len(shape) > 1:
                a = a.reshape(a.shape[:-1] + shape)
            leaves.append(a if dtype.kind == "f" or dtype == self.carrier else a.astype(dtype))
        return jax.tree.unflatten(self.structure, leaves)


def _leading(buffer, streams):
    """(…, rows, streams) as (streams, …, rows)."""
    if buffer.shape[-1] != streams:
        buffer = buffer[..., :streams]
    return buffer.T if buffer.ndim == 2 else np.moveaxis(buffer, -1, 0)
