"""Which columns are features, which one is the time, which one the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .sheet import Column, Sheet
from .table import LARGEST, Table, TableError, Times, check_samples, number_labels

TIME_NAMES = ("time", "timestamp", "datetime", "date", "epoch", "unixtime", "unix_time")
LABEL = "label"


class Picked(NamedTuple):
    """The parts of a sheet: features, time, label, and what was left out."""

    features: list[Column]
    time: Column | None
    label: Column | None
    notes: list[str]


def pick(sheet: Sheet, columns: Sequence[str], time: str, label: str, taken: Sequence[Column] = ()) -> Picked:
    """Choose among the columns that nobody has `taken`.

    Without names given: the first column of dates is the time, or one of numbers whose name says so; a column called
    ``label`` is the truth; all other columns of numbers are features, and text is left out with a note.
    """
    notes: list[str] = []
    free = [column for column in sheet.columns if column not in taken]
    axis = sheet.find(time) if time else next((column for column in free if column.kind == "time"), None)
    if axis is None:
        axis = next(
            (c for c in free if c.kind == "number" and c.name.lower() in TIME_NAMES and c.name not in columns), None
        )
    if axis is not None and axis.kind in ("text", "empty"):
        raise TableError(sheet.shown, "not a column of times", sheet.row(0), axis.position + 1, axis.name)
    truth = (
        sheet.find(label)
        if label
        else next((c for c in free if c.name.lower() == LABEL and c.name not in columns), None)
    )
    if columns:
        features = [sheet.find(name) for name in dict.fromkeys(columns)]
        for column in features:
            if column.kind in ("text", "time", "empty"):
                what = (
                    "no reading in any row" if column.kind == "empty" else f"a column of {column.kind}, not of numbers"
                )
                raise TableError(sheet.shown, what, sheet.row(0), column.position + 1, column.name)
    else:
        rest = [column for column in free if column not in (axis, truth)]
        features = [column for column in rest if column.kind in ("number", "mixed")]
        out = [column for column in rest if column not in features]
        if out:
            notes.append("left out: " + ", ".join(f"{column.name!r} ({column.kind})" for column in out))
    if not features:
        raise TableError(sheet.shown, "no column of numbers", 1, 1)
    return Picked(features, axis, truth, notes)


def numbers(sheet: Sheet, columns: Sequence[Column]) -> NDArray[np.float64]:
    """Fetch columns of numbers as one array; a reading nobody can measure is an error that names its place."""
    x = np.column_stack([values.astype(np.float64) for values in sheet.fetch(columns)])
    with np.errstate(invalid="ignore"):
        large = np.abs(x) > LARGEST
    if large.any():
        record, which = map(int, np.argwhere(large)[0])
        raise sheet_error(sheet, columns[which], record, f"too large for a reading (at most {LARGEST:g})")
    return check_samples(sheet.shown, x, tuple(column.name for column in columns))


def times(sheet: Sheet, axis: Column) -> Times:
    """Fetch the time axis; seconds or milliseconds since 1970 become dates, and no time may be missing."""
    (values,) = sheet.fetch([axis])
    absent = np.isnat(values) if values.dtype.kind == "M" else ~np.isfinite(values.astype(np.float64))
    if absent.any():
        raise sheet_error(sheet, axis, int(np.argmax(absent)), "the time is missing")
    return from_epoch(values)


def from_epoch(values: NDArray[np.generic]) -> Times:
    """Turn seconds or milliseconds since 1970 into dates where all values look like them.

    Examples
    --------
    >>> str(from_epoch(np.array([1191967200.0]))[0]), from_epoch(np.array([0.5]))[0].item()
    ('2007-10-09T22:00:00.000000', 0.5)
    """
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    values = values.astype(np.float64)
    for unit in (1.0, 1e3):  # 1980 to 2100
        if values.size and values.min() >= 3.2e8 * unit and values.max() < 4.1e9 * unit:
            return np.round(values * (1e6 / unit)).astype(np.int64).astype("datetime64[us]")
    return values


def sheet_error(sheet: Sheet, column: Column, record: int, what: str) -> TableError:
    """Make an error about one value of a sheet."""
    return TableError(sheet.shown, what, sheet.row(record), column.position + 1, column.name)


def table(sheet: Sheet, columns: Sequence[str] = (), time: str = "", label: str = "") -> Table:
    """Read one stream off a sheet, in the order of time."""
    picked = pick(sheet, columns, time, label)
    x = numbers(sheet, picked.features)
    axis = times(sheet, picked.time) if picked.time else None
    truth = number_labels(sheet.fetch([picked.label])[0]) if picked.label else None
    notes = list(picked.notes)
    if axis is not None and (axis[1:] < axis[:-1]).any():
        order = np.argsort(axis, kind="stable")
        notes.append(f"{int((axis[1:] < axis[:-1]).sum())} rows were not in order of time and have been sorted")
        x, axis, truth = x[order], axis[order], None if truth is None else truth[order]
    return Table(
        sheet.shown,
        tuple(c.name for c in picked.features),
        x,
        axis,
        picked.time.name if picked.time else "",
        truth,
        tuple(notes),
    )
