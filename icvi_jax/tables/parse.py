"""Numbers and times as people write them: decimal commas, thousands, booleans, dates of several countries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from icvi_jax.tables.table import some_names
from icvi_jax.tables.text import MISSING, counts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CLOCK = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
DAY_FIRST = [f"{day}{clock}" for day in ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y") for clock in CLOCK]
MONTH_FIRST = [f"{day}{clock}" for day in ("%m/%d/%Y", "%m-%d-%Y") for clock in CLOCK]
HALF_DAY = r"(:\d\d)[ \x{a0}\x{202f}]?([AaPp])[.]?[Mm][.]?$"
"""AM or PM behind a time of day, for DuckDB."""
ZONE_AFTER_MINUTES = r"(\d\d:\d\d)( ?([+-]\d\d(:?\d\d)?|[A-Za-z][A-Za-z/_]*))$"
TIMES = {
    # DuckDB 1.5 reads a zone after seconds only
    "": "coalesce(try_cast({c} AS TIMESTAMPTZ), "
    rf"try_cast(regexp_replace({{c}}, '{ZONE_AFTER_MINUTES}', '\1:00\2') AS TIMESTAMPTZ))::TIMESTAMP",
    "day first": f"try_strptime({{c}}, {DAY_FIRST})",
    "month first": f"try_strptime({{c}}, {MONTH_FIRST})",
}
HALF_DAYS = {
    "": ["%Y-%m-%d ", "%Y/%m/%d "],
    "day first": ["%d.%m.%Y ", "%d/%m/%Y ", "%d-%m-%Y "],
    "month first": ["%m/%d/%Y ", "%m-%d-%Y "],
}
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")
GAP = " '\u2019\u00a0\u2009\u202f"
"""Separators of thousands other than commas and points: several kinds of spaces and apostrophes."""
EXPONENT = r"([eE][+-]?\d+)?"
DOUBT, DOUBTFUL_NUMBER = " (it could also mean another date)", " (it could also mean another number)"
COMMA, THOUSANDS = "decimal commas", "thousands separators"
ORDINARY = rf"[+-]?(\d+\.?\d*|\.\d+){EXPONENT}"


class Column(NamedTuple):
    """One column and what its values are."""

    # name, position: name in the file; position from 0
    name: str
    position: int
    kind: str  # "number", "time", "text", "empty" or "mixed" (some values are numbers or times, some are not)
    sql: str  # expression that gives the value: a double, a timestamp, or text
    # in a mixed column, the first record (from 0) whose value is not like the others; otherwise None
    bad: int | None = None
    # form, example: how numbers or dates are written, where this is not obvious, and an example; of other values that
    # are no text their type; otherwise empty
    form: str = ""
    example: str = ""

    @property
    def what(self) -> str:
        """Its kind, or the type of values that are no text."""
        return self.form if self.form and self.kind == "text" else self.kind


class NumberFormat(NamedTuple):
    """A way to write numbers: its name, the pattern of all values, and the SQL that converts them to plain numbers."""

    name: str
    pattern: str
    sql: str


COMMAS = NumberFormat(COMMA, rf"[+-]?(\d+,?\d*|,\d+){EXPONENT}", "replace({c}, ',', '.')")
GROUPS = NumberFormat(
    THOUSANDS, rf"[+-]?[1-9]\d{{0,2}}(,\d{{3}})+(\.\d*)?{EXPONENT}|{ORDINARY}", "replace({c}, ',', '')"
)
POINTS = NumberFormat(
    f"{THOUSANDS} and {COMMA}",
    rf"[+-]?[1-9]\d{{0,2}}(\.\d{{3}})+(,\d*)?{EXPONENT}|{COMMAS.pattern}",
    "replace(replace({c}, '.', ''), ',', '.')",
)
GAPS = NumberFormat(
    THOUSANDS,
    rf"[+-]?[1-9]\d{{0,2}}([{GAP}]\d{{3}})+([.,]\d*)?{EXPONENT}|{COMMAS.pattern}|{ORDINARY}",
    f"replace(translate({{c}}, '{GAP.replace(chr(39), chr(39) * 2)}', ''), ',', '.')",
)
EITHER = NumberFormat(f"{COMMA} and points", rf"{COMMAS.pattern}|{ORDINARY}", "replace({c}, ',', '.')")


def read_number(text: str, delimiter: str = ",") -> float | None:
    """The number in a text as `column_of` understands a whole column; None where it is none.

    Examples
    --------
    >>> read_number("1,5", ";"), read_number("1,500", ","), read_number("1 234,5", ";"), read_number("n/a")
    (1.5, 1500.0, 1234.5, None)
    """
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        pass
    cell = text.strip()
    forms = ((GROUPS, "{,}"), (COMMAS, ",")) if delimiter == "," else ((COMMAS, ","), (GROUPS, "{,}"))
    for form, comma in (*forms, (POINTS, "."), (GAPS, "gap")):
        if re.fullmatch(form.pattern, cell):
            bare = cell.replace(",", "") if comma == "{,}" else cell.replace(".", "") if comma == "." else cell
            return float(bare.translate(dict.fromkeys(map(ord, GAP))).replace(",", "."))
    return None


def half_day_sql(cell: str, days: Sequence[str]) -> str:
    """SQL for a time of day with AM or PM behind one of these dates; NULL for other cells."""
    forms = [f"{day}{clock}" for day in days for clock in ("%I:%M %p", "%I:%M:%S %p")]
    return rf"try_strptime(regexp_replace({cell}, '{HALF_DAY}', '\1 \2M'), {forms})"


def column_of(connection: DuckDBPyConnection, name: str, position: int, delimiter: str) -> Column:
    """Find the kind of a text column that is not plain numbers, from all its values in the table ``raw``."""
    cell = f"trim(c{position})"
    present = f"lower({cell}) NOT IN ({', '.join(map(repr, MISSING))})"  # NULL is not present either
    # Where commas separate fields, commas inside a field more likely separate thousands.
    likely = (GROUPS, COMMAS) if delimiter == "," else (COMMAS, GROUPS)
    forms = (NumberFormat("", ".*", "{c}"), *likely, POINTS, GAPS, EITHER)
    values = [_number(form, cell, present) for form in forms]
    told = f"CASE WHEN lower({cell}) IN {TRUE} THEN 1.0 WHEN lower({cell}) IN {FALSE} THEN 0.0 END"
    asked = [f"count({value}), {_first(f'{present} AND {value} IS NULL')}" for value in (*values, told)]
    count, *found = counts(connection, f"SELECT count(*) FILTER ({present}), {', '.join(asked)} FROM raw")
    if count == 0:
        return Column(name, position, "empty", "CAST(NULL AS DOUBLE)")
    parsed, bad = found[0::2], found[1::2]
    if parsed[-1] == count:
        return Column(name, position, "number", told)
    best = max(range(len(forms)), key=lambda n: parsed[n])  # the first of equals
    if parsed[best] == count:
        if not best:
            return Column(name, position, "number", values[best])
        example = _example(connection, cell, values[best], f"{present} AND try_cast({cell} AS DOUBLE) IS NULL")
        doubt = DOUBTFUL_NUMBER if best in (1, 2) and parsed[1] == parsed[2] == count else ""
        return Column(name, position, "number", values[best], None, forms[best].name, example + doubt)
    if parsed[best]:
        return Column(name, position, "mixed", values[best], bad[best])
    return _time(connection, name, position, cell, present, count)


def _number(form: NumberFormat, cell: str, present: str) -> str:
    """SQL for the number in a cell that is written in this form, and NULL for other cells."""
    value = f"try_cast({form.sql.format(c=cell)} AS DOUBLE)"
    pattern = form.pattern.replace("'", "''")
    fits = present if form.pattern == ".*" else f"{present} AND regexp_full_match({cell}, '{pattern}')"
    return f"CASE WHEN {fits} THEN {value} END"


def _example(connection: DuckDBPyConnection, cell: str, value: str, where: str) -> str:
    """A long cell among those `where` a condition holds, and the value it is understood as."""
    found = connection.execute(
        f"SELECT {cell}, {value} FROM raw WHERE {where} ORDER BY length({cell}) DESC, rowid LIMIT 1"
    ).fetchone()
    if found is None:
        return ""
    return f"{found[0]!r} is {found[1]:.15g}" if isinstance(found[1], float) else f"{found[0]!r} is {found[1]}"


def _time(connection: DuckDBPyConnection, name: str, position: int, cell: str, present: str, count: int) -> Column:
    """Find dates among text. Of two possible meanings, the one in which time runs forward is taken, otherwise day
    first, or month first with AM and PM."""
    values = {way: time.format(c=cell) for way, time in TIMES.items()}
    half_days = _any(connection, f"{present} AND regexp_matches({cell}, '{HALF_DAY}')")
    if half_days:
        values = {way: f"coalesce({value}, {half_day_sql(cell, HALF_DAYS[way])})" for way, value in values.items()}
    counted = ", ".join(
        f"count(v{n}), {_first(f'v{n} IS NULL')}, count(*) FILTER (v{n} < before{n})" for n in range(len(values))
    )
    picked = ", ".join(f"{value} AS v{n}" for n, value in enumerate(values.values()))
    lagged = ", ".join(f"lag(v{n}) OVER (ORDER BY rowid) AS before{n}" for n in range(len(values)))
    found = counts(
        connection,
        f"WITH a AS (SELECT rowid, {picked} FROM raw WHERE {present}), b AS (SELECT *, {lagged} FROM a) "
        f"SELECT {counted} FROM b",
    )
    parsed, bad, backward = (dict(zip(values, found[n::3])) for n in range(3))
    # Most values first, then the order of time, then the order above.
    way = min(values, key=lambda key: (-parsed[key], backward[key] if key else 0, half_days and key == "day first"))
    if not parsed[way]:
        return Column(name, position, "text", f"c{position}")
    if parsed[way] < count:
        return Column(name, position, "mixed", values[way], bad[way])
    other = {"day first": "month first", "month first": "day first"}.get(way, "")
    form = example = ""
    if other and parsed[other] == count:
        form = f"dates with the {way}"
        differs = f"{present} AND {values[way]} <> {values[other]}"
        example = _example(connection, cell, f"strftime({values[way]}, '%Y-%m-%d')", differs) + DOUBT
    return Column(name, position, "time", values[way], None, form, example)


def _any(connection: DuckDBPyConnection, where: str) -> bool:
    return counts(connection, f"SELECT count(*) FROM (SELECT 1 FROM raw WHERE {where} LIMIT 1)") != (0,)


def _first(where: str) -> str:
    """SQL for the first record where a condition holds, and −1 where it never does."""
    return f"coalesce(min(rowid) FILTER ({where}), -1)"


def describe_formats(columns: Sequence[Column]) -> list[str]:
    """One sentence for each form of numbers or dates that some columns have.

    Examples
    --------
    >>> describe_formats([Column("T", 0, "number", "", None, "decimal commas", "'1,5' is 1.5")])
    ["decimal commas in 'T': '1,5' is 1.5"]
    """
    forms = dict.fromkeys(column.form for column in columns if column.form)
    lines = []
    for form in forms:
        alike = [column for column in columns if column.form == form]
        lines.append(f"{form} in {some_names([column.name for column in alike])}: {alike[0].example}")
    return lines
