"""Means in windows of time or of rows."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.table import Table, Times, seconds_of

SECONDS = {"us": 1e-6, "ms": 1e-3} | {
    name: size
    for names, size in (("s sec", 1), ("m min", 60), ("h hour", 3600), ("d day", 86_400), ("w week", 604_800))
    for name in names.split()
}
MOST_WINDOWS = 50_000_000


def seconds(every: str) -> float | None:
    """Convert a length of time such as 10min to seconds; None for a plain number, which counts rows.

    Examples
    --------
    >>> seconds("10min"), seconds("1.5 h"), seconds("100")
    (600.0, 5400.0, None)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*?)s?\s*", every, re.IGNORECASE)
    unit = found[2].lower() or ("s" if every.strip().lower().endswith("s") else "") if found else ""
    if not found or float(found[1]) <= 0 or (unit and unit not in SECONDS):
        raise ValueError(
            f"--every {every!r}: expected a length of time such as 10min, 30s, 1h or 1d, or a number of rows"
        )
    if not unit:
        if not float(found[1]).is_integer():
            raise ValueError(
                f"--every {every!r}: expected an integer number of rows; for a time add its unit, such as 10min"
            )
        return None
    return float(found[1]) * SECONDS[unit]


def slots(times: Times, length: float) -> tuple[NDArray[np.int64], Times]:
    """The number of the window of each sample, and the start of every window from the first to the last.

    Windows of dates start at multiples of their length since 1970, so that ten-minute means start on the hour.
    """
    number = seconds_of(times)
    window = np.floor(number / length).astype(np.int64)
    first, last = int(window.min()), int(window.max())
    if last - first >= MOST_WINDOWS:
        raise ValueError(
            f"{last - first + 1:,} windows of {length:g} s from the first to the last time: take longer windows"
        )
    start = np.arange(first, last + 1) * length
    if times.dtype.kind == "M":
        return window - first, np.round(start * 1e6).astype(np.int64).astype("datetime64[us]")
    return window - first, start.astype(np.float64)


def windows(
    shown: str, every: str, times: Times | None, step: NDArray[np.int64], clock: Times | None
) -> tuple[NDArray[np.int64], Times | None]:
    """The number of the window of each row, given its time and its step, and the start of every window; `clock` has the
    time of each step."""
    length = seconds(every)
    if length is None:
        rows = int(float(every))
        return step // rows, None if clock is None else clock[::rows]
    if times is None:
        raise ValueError(
            f"--every {every}: {shown} has no time column (name one with --time, or give a number of rows)"
        )
    return slots(times, length)


def means(x: NDArray[np.float64], slot: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Mean of the readings in each window, feature by feature; NaN where there is none. The order of the rows does not
    matter, to the last bit."""
    out = np.full((count, x.shape[1]), np.nan)
    for j in range(x.shape[1]):
        known = np.isfinite(x[:, j])
        mine, values = slot[known], x[known, j]
        number = np.bincount(mine, minlength=count)
        if number.max(initial=0) > 2:  # a sum of two is the same in either order
            order = np.lexsort((values, mine))
            mine, values = mine[order], values[order]
        total = np.bincount(mine, weights=values, minlength=count)
        out[:, j] = np.divide(total, number, out=out[:, j], where=number > 0)
    return out


def resample(table: Table, every: str) -> Table:
    """Replace the samples by their means in windows.

    An empty window is a missing sample; the label of a window is that of its last sample.

    Examples
    --------
    >>> table = Table("t", ("a",), np.array([[1.0], [3.0], [5.0], [9.0]]))
    >>> resample(table, "2").x.tolist()
    [[2.0], [7.0]]
    """
    slot, times = windows(table.name, every, table.times, np.arange(len(table.x)), table.times)
    count = int(slot[-1]) + 1 if times is None else len(times)
    truth = None
    if table.truth is not None:
        last = np.full(count, -1)
        last[slot] = np.arange(len(slot))  # the last sample of a window stays
        truth = np.where(last >= 0, table.truth[last], -1)
    unit = " rows" if seconds(every) is None else ""
    note = f"means in windows of {every}{unit}: {len(table.x):,} rows make {count:,} samples"
    return table._replace(x=means(table.x, slot, count), times=times, truth=truth, notes=(*table.notes, note))
