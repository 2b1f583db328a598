"""Readings of many nodes on one time axis, with gaps where a node has none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.table import TableError, Times, seconds_of
from icvi_jax.tables.windows import means, seconds, slots

MOST_CELLS = 400_000_000
TOGETHER = 1.5  # nodes share a clock if all different times are at most so many times the rows of the longest node


class Readings(NamedTuple):
    """Rows in any order: for each one the number of its node, its time (or None), and its values."""

    node: NDArray[np.int64]
    times: Times | None
    x: NDArray[np.float64]


def align(
    shown: str, rows: Readings, nodes: int, every: str = ""
) -> tuple[NDArray[np.float64], Times | None, tuple[str, ...]]:
    """Put readings into an array (N, T, p), NaN where a node has none.

    Nodes without times are aligned by row number. Nodes with times are aligned by time, if they share a clock;
    otherwise means are taken in windows as long as the usual interval between two readings of a node. Several readings
    of a node at one time are averaged, feature by feature.

    Returns
    -------
    tuple
        The array, the time of each step or None, and notes.

    Examples
    --------
    >>> rows = Readings(np.array([0, 1, 0]), np.array([1.0, 2.0, 2.0]), np.array([[5.0], [6.0], [7.0]]))
    >>> x, times, notes = align("a", rows, 2)
    >>> x[:, :, 0].tolist(), times.tolist()
    ([[5.0, 7.0], [nan, 6.0]], [1.0, 2.0])
    """
    notes: list[str] = []
    clock: Times | None = None
    length = seconds(every) if every else None
    if rows.times is None:
        if length is not None:
            raise ValueError(
                f"--every {every}: {shown} has no time column (name one with --time, or give a number of rows)"
            )
        step = _count(rows.node)
    else:
        clock, step = np.unique(rows.times, return_inverse=True)
        step = step.reshape(-1)
        if length is None and len(clock) > TOGETHER * np.bincount(rows.node).max():
            length = _usual_interval(rows.node, rows.times)
            notes.append(f"the times of the nodes differ: means in windows of {length:g} s (choose with --every)")
        if length is not None:
            step, clock = slots(rows.times, length)
    if every and length is None:
        step = step // int(float(every))
        clock = None if clock is None else clock[:: int(float(every))]
    steps = int(step.max()) + 1 if clock is None else len(clock)
    if nodes * steps * rows.x.shape[1] > MOST_CELLS:
        raise TableError(
            shown,
            f"{nodes:,} nodes by {steps:,} steps by {rows.x.shape[1]} do not fit: take means in windows with --every",
        )
    x = means(rows.x, rows.node * steps + step, nodes * steps).reshape(nodes, steps, rows.x.shape[1])
    doubled = int(np.isfinite(rows.x).sum() - np.isfinite(x).sum())
    if doubled and not every and length is None:
        notes.append(f"{doubled:,} readings have the time of another one of their node and column: means are taken")
    return x, clock, tuple(notes)


def _count(node: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the rows of each node from 0, in the order of the file."""
    order = np.argsort(node, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(node))[:-1]])
    step = np.empty(len(node), np.int64)
    step[order] = np.arange(len(node)) - starts[node[order]]
    return step


def _usual_interval(node: NDArray[np.int64], times: Times) -> float:
    """Median time between two readings of one node, in seconds or in the file's unit."""
    number = seconds_of(times)
    order = np.lexsort((number, node))
    gap, same = np.diff(number[order]), np.diff(node[order]) == 0
    gaps = gap[same & (gap > 0)]
    return float(f"{np.median(gaps):.3g}") if gaps.size else 1.0
