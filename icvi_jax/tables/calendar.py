"""Times written in several columns: a date and a time of day, or year, month, day and hour."""

from __future__ import annotations

from collections.abc import Sequence

from icvi_jax.tables.parse import Column
from icvi_jax.tables.raw_table import Sheet

PARTS = ("year", "month", "day", "hour", "minute", "second")
OTHER_NAMES = {"yr": "year", "mon": "month", "dom": "day", "hr": "hour", "min": "minute", "sec": "second"}
NEEDED = 3


def joined_time(sheet: Sheet, free: Sequence[Column]) -> tuple[Column, list[Column]] | None:
    """A time joined from several columns, and these columns; None where there is nothing to join."""
    return _date_and_clock(sheet, free) or _calendar(sheet, free)


def _date_and_clock(sheet: Sheet, free: Sequence[Column]) -> tuple[Column, list[Column]] | None:
    """Dates in one column, times of day in another: ``10/03/2004;18.00.00``."""
    days = next((column for column in free if column.kind == "time"), None)
    if days is None or not _all(sheet, f"date_trunc('day', {days.sql}) = {days.sql}"):
        return None
    for column in free:
        if column.kind in ("text", "time") and column is not days:
            clock = f"try_cast(replace(trim(CAST(c{column.position} AS VARCHAR)), '.', ':') AS TIME)"
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
