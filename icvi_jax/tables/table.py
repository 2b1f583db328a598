"""What readers of files return: samples with their names and times; and the one kind of error they raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from icvi_jax.numerics.arrays import LARGEST

Times: TypeAlias = NDArray[np.datetime64 | np.float64]
"""A date and time for each sample, or a number in the file's own unit."""

MOST_NAMES, MOST_COLUMNS = 12, 2000
"""Most names in a sentence; most columns of a text or Parquet file (finding the kinds of 10,000 takes minutes)."""


class TableError(ValueError):
    """A file cannot be read; the message is one line that names file, row and column.

    Rows are counted as in an editor or a spreadsheet: the first line of the file is row 1.

    Examples
    --------
    >>> str(TableError("a.csv", "'x' is not a number", row=3, column=2, name="temp"))
    "a.csv: row 3, column 2 ('temp'): 'x' is not a number"
    """

    def __init__(self, file: str, what: str, row: int | None = None, column: int | None = None, name: str = ""):
        where = [] if row is None else [f"row {row}"]
        if column is not None:
            where.append(f"column {column}" + (f" ({name!r})" if name else ""))
        elif name:
            where.append(f"column {name!r}")
        super().__init__(f"{file}: {', '.join(where)}: {what}" if where else f"{file}: {what}")


class Table(NamedTuple):
    """One stream from a file."""

    name: str  # name of the stream: that of the file, without its folder
    features: tuple[str, ...]  # name of each column of `x` as in the file, with units
    x: NDArray[np.float64]  # samples, `(n, p)` float64; NaN where nothing was measured
    times: Times | None = None  # `(n,)`, or None: samples are counted
    time_name: str = ""  # name of the time column; empty if there is none
    # the label of each sample, `(n,)` integers in order of first appearance, or None
    truth: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()  # what the reader did that a person may want to know, a sentence each
    marks: bool = False  # whether the truth is 0 or 1 and marks events: a stretch of 1 is one event, not two changes


class Fleet(NamedTuple):
    """Many streams on one time axis."""

    name: str  # name of the fleet
    nodes: tuple[str, ...]  # name of each stream
    features: tuple[str, ...]  # name of each variable
    x: NDArray[np.float64]  # samples, `(N, T, p)` float64; NaN where a node has no reading
    times: Times | None = None  # `(T,)`, or None: samples are counted
    time_name: str = ""  # name of the time column; empty where there is none
    notes: tuple[str, ...] = ()  # what the reader did that a person may want to know, a sentence each


def seconds_of(times: Times) -> NDArray[np.float64]:
    """Times as numbers: seconds since 1970, or the unit of the file.

    Examples
    --------
    >>> seconds_of(np.array(["1970-01-01T00:01"], "datetime64[s]")).tolist()
    [60.0]
    """
    dates = times.dtype.kind == "M"
    return times.astype("datetime64[us]").astype(np.int64) / 1e6 if dates else times.astype(np.float64)


def some_names(names: Sequence[str]) -> str:
    """Names for a sentence: the first twelve, and how many more there are.

    Examples
    --------
    >>> some_names(["a", "b"])
    "'a', 'b'"
    """
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(repr, names[:MOST_NAMES])) + more


def check_names(file: str, wanted: Sequence[str], known: Sequence[str], what: str = "column") -> None:
    """Refuse a name that is not known; the error lists those that are."""
    for name in wanted:
        if name not in known:
            names = ", ".join(map(repr, known[:20]))
            raise TableError(file, f"there is no such {what}; the file has {names}", 1, None, name)


def check_columns(file: str, count: int) -> None:
    """Refuse a table with too many columns."""
    if count > MOST_COLUMNS:
        raise TableError(
            file,
            f"{count:,} columns, at most {MOST_COLUMNS:,} can be read: split the file, or write many nodes as a long "
            "table (time, node, value)",
        )


def check_samples(file: str, x: NDArray[np.float64], features: tuple[str, ...]) -> NDArray[np.float64]:
    """Refuse samples that cannot be used: none, all missing, or too large; infinite values become missing."""
    x = np.asarray(x, np.float64)
    if x.shape[-1] == 0:
        raise TableError(file, "no column of numbers")
    if x.size == 0:
        raise TableError(file, "no row of readings")
    with np.errstate(invalid="ignore"):
        large = np.isfinite(x) & (np.abs(x) > LARGEST)
    if large.any():
        *row, column = map(int, np.argwhere(large)[0])
        raise TableError(
            file,
            f"{x[(*row, column)]:.3g} is too large for a reading (at most {LARGEST:g})",
            row[-1] + 1,
            column + 1,
            features[column],
        )
    x = np.where(np.isfinite(x), x, np.nan)
    empty = np.isnan(x).all(axis=tuple(range(x.ndim - 1)))
    if empty.any():
        column = int(np.argmax(empty))
        raise TableError(file, "no reading in any row", 1, column + 1, features[column])
    return x


def truth_of(labels: NDArray[np.generic] | None) -> tuple[NDArray[np.int64] | None, bool]:
    """Labels of any kind as numbers in order of first appearance, and whether they mark events: those are 0 and 1 (or
    false and true), and stay as they are.

    Examples
    --------
    >>> truth_of(np.array(["b", "a", "b"])), truth_of(np.array([1.0, 0.0]))
    ((array([0, 1, 0]), False), (array([1, 0]), True))
    """
    if labels is None:
        return None, False
    if labels.dtype.kind in "biuf" and np.isin(labels, (0, 1)).all():
        return labels.astype(np.int64), True
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[which.reshape(-1)], np.int64), False
