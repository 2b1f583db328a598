"""Choose the columns: which ones are features, which one (or several together) is the time, which one the truth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.numerics.arrays import LARGEST
from icvi_jax.tables.clock import believed_rows, unit_of
from icvi_jax.tables.column_kinds import (
    by_name,
    by_values,
    epoch_unit,
    has_time_word,
    hold_quiet,
    is_time_name,
    may_be_time,
    rows_by_node,
    sentences,
)
from icvi_jax.tables.error_codes import CODES, FILLS, clear_codes, code_notes
from icvi_jax.tables.parse import Column, describe_formats, half_day_sql
from icvi_jax.tables.raw_table import Sheet
from icvi_jax.tables.table import Table, TableError, Times, check_samples, seconds_of, truth_of

PARTS = ("year", "month", "day", "hour", "minute", "second")
OTHER_NAMES = {"yr": "year", "mon": "month", "dom": "day", "hr": "hour", "min": "minute", "sec": "second"}
NEEDED = 3


def _date_and_clock(sheet: Sheet, free: Sequence[Column]) -> tuple[Column, list[Column]] | None:
    """Dates in one column, times of day in another: ``10/03/2004;18.00.00``."""
    days = next((column for column in free if column.kind == "time"), None)
    if days is None or not _all(sheet, f"date_trunc('day', {days.sql}) = {days.sql}"):
        return None
    for column in free:
        if column.kind in ("text", "time") and column is not days:
            text = f"trim(CAST(c{column.position} AS VARCHAR))"
            clock = f"coalesce(try_cast(replace({text}, '.', ':') AS TIME), {half_day_sql(text, [''])}::TIME)"
            if _all(sheet, f"{clock} IS NOT NULL"):
                name = f"{days.name} {column.name}"
                return days._replace(name=name, sql=f"(CAST({days.sql} AS DATE) + {clock})"), [days, column]
    return None


def _calendar(sheet: Sheet, free: Sequence[Column]) -> tuple[Column, list[Column]] | None:
    """Year, month and day, and if present hour, minute and second, each in its own column."""
    named = {OTHER_NAMES.get(column.name.lower(), column.name.lower()): column for column in free}
    parts: list[Column] = []
    for part in PARTS:
        if part not in named or named[part].kind != "number":
            break
        parts.append(named[part])
    if len(parts) < NEEDED:
        return None
    fields = [f"CAST({column.sql} AS BIGINT)" for column in parts] + ["0"] * (len(PARTS) - len(parts))
    sql = f"try_cast(printf('%04d-%02d-%02d %02d:%02d:%02d', {', '.join(fields)}) AS TIMESTAMP)"
    if not _all(sheet, f"{sql} IS NOT NULL"):
        return None
    name = " ".join(column.name for column in parts)
    return Column(name, parts[0].position, "time", sql), parts


def _all(sheet: Sheet, condition: str) -> bool:
    """Whether a condition holds in every row, and there are rows."""
    found = sheet.connection.execute(f"SELECT count(*) FROM raw WHERE {condition}").fetchall()
    return bool(sheet.rows) and int(found[0][0]) == sheet.rows


LABEL = "label"
EPOCHS = {1.0: "seconds", 1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
TOO_LARGE = f"too large for a reading (at most {LARGEST:g}); leave the column out with --columns"


class ChosenColumns(NamedTuple):
    """The chosen columns: features, time, label, notes for the user, and whether the user named the features."""

    features: list[Column]
    time: Column | None
    label: Column | None
    notes: list[str]
    chosen: bool = True


def pick(
    sheet: Sheet, columns: Sequence[str], time: str, label: str, taken: Sequence[Column] = (), dead: bool = False
) -> ChosenColumns:
    """Choose among the columns that are not `taken`, by their kinds and names; `sift` then looks at the values.

    If no names are given: the time is the first column of dates, or a column of numbers with a name such as ``time``,
    or one whose name may mean a time and whose numbers are times since 1970 or never decrease. A column called
    ``label`` is the truth. All other columns of numbers are features, except those whose names say that they are labels
    or identifiers. Notes say what is left out. `dead`: a column without a reading may be a feature.
    """
    free = [column for column in sheet.columns if column not in taken]
    unnamed = [column for column in free if column.name not in columns]
    joined = None if time else _date_and_clock(sheet, unnamed) or _calendar(sheet, unnamed)
    axis = sheet.find(time) if time else joined[0] if joined else _time_of(sheet, unnamed)
    if axis is not None and axis.kind in ("text", "empty"):
        raise sheet.error(axis, 0, "expected a column of times")
    labels = [column for column in unnamed if column.name.lower() == LABEL]
    truth = sheet.find(label) if label else labels[0] if labels else None
    notes = _about_time(sheet, axis) if axis is not None else []
    if joined:
        free = [column for column in free if column not in joined[1]]
        together = ", ".join(repr(column.name) for column in joined[1])
        notes.append(f"{together} together are the time (--time chooses another)")
    if columns:
        features = [sheet.find(name) for name in dict.fromkeys(columns)]
        for column in features:
            if column.kind in ("text", "time"):
                raise sheet.error(column, 0, f"this column has {column.what}, expected numbers")
            if column.kind == "empty" and not dead:
                raise sheet.error(column, 0, "no reading in any row")
    else:
        rest = [column for column in free if column not in (axis, truth)]
        numeric = [column for column in rest if column.kind in ("number", "mixed", *(["empty"] if dead else []))]
        out = [column for column in rest if column not in numeric]
        if out:
            notes.append("left out: " + ", ".join(f"{column.name!r} ({column.what})" for column in out))
        judged = [(column, by_name(column.name) or _second_time(sheet, column)) for column in numeric]
        features = [column for column, why in judged if not why]
        notes += sentences([(column.name, why) for column, why in judged if why])
        if numeric and not features:
            raise nothing_left(sheet.shown, notes)
    if not features:
        text = next((column for column in free if column.kind == "text" and sheet.rows), None)
        begins = "" if text is None else f"; {text.name!r} begins with {str(sheet.fetch([text])[0][0])[:30]!r}"
        raise TableError(sheet.shown, f"no column of numbers{begins}" if sheet.rows else "the table has no rows", 1, 1)
    notes += describe_formats(features)
    return ChosenColumns(features, axis, truth, notes, bool(columns))


def _time_of(sheet: Sheet, free: Sequence[Column]) -> Column | None:
    """The time column: dates, else numbers with the name of a time, else times since 1970 with a usual name."""
    numeric = [column for column in free if column.kind == "number"]
    dates = (column for column in free if column.kind == "time")
    named = (column for column in numeric if is_time_name(column.name))
    return next(chain(dates, named, (column for column in numeric if _second_time(sheet, column))), None)


def _about_time(sheet: Sheet, axis: Column) -> list[str]:
    """Notes about the time: which column it is, and in which unit it counts since 1970."""
    if axis.kind != "number":
        return describe_formats([axis])
    unit = EPOCHS.get(epoch_unit(sheet.extremes(axis)))
    if unit:
        return [f"{axis.name!r} is the time, in {unit} since 1970 (--time chooses another)"]
    return [] if is_time_name(axis.name) else [f"{axis.name!r} is the time (--time chooses another)"]


def _second_time(sheet: Sheet, column: Column) -> str:
    """ "time" if a column of numbers holds times, otherwise ""."""
    if column.kind != "number":
        return ""
    if is_time_name(column.name):
        return "time"
    held = has_time_word(column.name) and may_be_time(column.name, sheet.fetch([column])[0].astype(np.float64))
    return "time" if held else ""


def sift(
    shown: str,
    features: Sequence[str],
    x: NDArray[np.float64],
    notes: list[str],
    chosen: bool,
    node: NDArray[np.int64] | None = None,
    keep_codes: bool = False,
    judge: bool = True,
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Make error codes missing, and leave out the columns of `x` (rows, p) that are not readings by name or values,
    unless the user has `chosen` them; notes say which. Not to `judge` leaves none out: counters only get one value.
    """
    if not keep_codes and np.isin(x, list(CODES)).any():
        x = x.copy()
        found = []
        for some in rows_by_node(node, len(x)):
            part = x[some]
            found.append(clear_codes(part))
            x[some] = part
        notes += code_notes(features, found)
    if chosen or not len(x):
        return tuple(features), x
    given = x
    x, counting = hold_quiet(x, node)
    if not judge:
        return tuple(features), x
    reasons = zip(counting, by_values(x, node), by_values(given, node))
    kinds = ["counter" if counts else held and (why or "two values") for counts, held, why in reasons]
    judged = [by_name(name) or why for name, why in zip(features, kinds)]
    kept = [n for n, why in enumerate(judged) if not why]
    notes += sentences([(name, why) for name, why in zip(features, judged) if why])
    if not kept and features:
        raise nothing_left(shown, notes)
    return tuple(features[n] for n in kept), x if len(kept) == len(features) else x[:, kept]


def nothing_left(shown: str, notes: Sequence[str]) -> TableError:
    """The error when no column is left as a feature."""
    return TableError(shown, f"no column is left to cluster: {'; '.join(notes)}")


def numbers(sheet: Sheet, columns: Sequence[Column]) -> NDArray[np.float64]:
    """Fetch columns of numbers as one array; a value too large for a reading is an error that names its place."""
    x = np.column_stack([values.astype(np.float64) for values in sheet.fetch(columns)])
    x[np.isin(np.abs(x), list(FILLS))] = np.nan  # written where nothing was measured
    large = np.isfinite(x) & (np.abs(x) > LARGEST)  # 1e400 is infinite, and missing as inf is
    if large.any():
        record, which = map(int, np.argwhere(large)[0])
        raise sheet.error(columns[which], record, TOO_LARGE)
    return np.where(np.isfinite(x), x, np.nan)


def times(sheet: Sheet, axis: Column) -> Times:
    """Fetch the time axis; times since 1970 become dates, and no time may be missing."""
    (values,) = sheet.fetch([axis])
    absent = np.isnat(values) if values.dtype.kind == "M" else ~np.isfinite(values.astype(np.float64))
    if absent.any():
        raise sheet.error(axis, int(np.argmax(absent)), "the time is missing")
    return from_epoch(values)


def from_epoch(values: NDArray[np.generic]) -> Times:
    """Turn seconds, milli-, micro- or nanoseconds since 1970 into dates where all values look like them.

    Examples
    --------
    >>> str(from_epoch(np.array([1191967200.0]))[0]), from_epoch(np.array([0.5]))[0].item()
    ('2007-10-09T22:00:00.000000', 0.5)
    """
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    number = values.astype(np.float64)
    unit: float | NDArray[np.float64] = epoch_unit(number)
    if not unit and number.size and number.min() >= 3.2e8 and number.max() < 4.1e18:  # units that follow each other
        units = np.array([unit_of(value) for value in number.tolist()])
        unit = units if units.all() else 0.0
    return np.round(number * (1e6 / unit)).astype(np.int64).astype("datetime64[us]") if np.all(unit) else number


def table(
    sheet: Sheet,
    columns: Sequence[str] = (),
    time: str = "",
    label: str = "",
    judge: bool = True,
    keep_codes: bool = False,
) -> Table:
    """Read one stream from a sheet, in time order; `judge`: columns may be left out because of their values."""
    picked = pick(sheet, columns, time, label, dead=not judge)
    notes = picked.notes
    names = tuple(column.name for column in picked.features)
    x = numbers(sheet, picked.features)
    features, x = sift(sheet.shown, names, x, notes, picked.chosen or not judge, None, keep_codes)
    x = check_samples(sheet.shown, x, features) if judge else x
    axis = times(sheet, picked.time) if picked.time else None
    truth, marks = truth_of(sheet.fetch([picked.label])[0] if picked.label else None)
    if axis is not None:
        kept, axis, doubts = believed_rows(axis)
        notes += doubts
        rows = np.flatnonzero(kept)
        if back := int((np.diff(seconds_of(axis[rows])) < 0).sum()):
            rows = rows[np.argsort(axis[rows], kind="stable")]
            many = (
                "1 row was not in time order and has" if back == 1 else f"{back:,} rows were not in time order and have"
            )
            notes.append(f"{many} been sorted")
        again = np.append(False, axis[rows[1:]] == axis[rows[:-1]])[: len(rows)]
        if 0 < 2 * again.sum() <= len(rows):  # otherwise times are too coarse to tell rows apart, and all count
            many = "1 row has" if again.sum() == 1 else f"{again.sum():,} rows have"
            notes.append(f"{many} the time of one before: left out")
            rows = rows[~again]
        x, axis, truth = x[rows], axis[rows], None if truth is None else truth[rows]
    time_name = picked.time.name if picked.time else ""
    return Table(sheet.shown, features, x, axis, time_name, truth, tuple(notes), marks)
