"""Columns of a file, each told apart as numbers, times or text, with the place of the first bad value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .sniff import MISSING
from .table import TableError
from .text import connect, load_text, locate, unglobbed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CLOCK = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
DAY_FIRST = [f"{day}{clock}" for day in ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y") for clock in CLOCK]
MONTH_FIRST = [f"{day}{clock}" for day in ("%m/%d/%Y", "%m-%d-%Y") for clock in CLOCK]
TEMPORAL = ("DATE", "TIMESTAMP")
NUMERIC = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "BOOLEAN",
    "UHUGEINT",
)
MOST_CELLS = 1 << 31


class Column(NamedTuple):
    """One column and what its values are.

    Attributes
    ----------
    name, position
        Name in the file; position from 0.
    kind
        "number", "time", "text", "empty" or "mixed": some values are numbers or times, some are not.
    sql
        Expression that gives the value: a double, a timestamp, or text.
    bad
        Of a mixed column, the first record (from 0) that is unlike the rest, else None.
    """

    name: str
    position: int
    kind: str
    sql: str
    bad: int | None = None


class Sheet(NamedTuple):
    """A file loaded as a table ``raw``, with its columns told apart.

    Attributes
    ----------
    connection
        The database that holds it.
    shown
        What to call the file in messages.
    columns
        All columns in file order.
    row
        Gives the row in the file of a record.
    """

    connection: DuckDBPyConnection
    shown: str
    columns: tuple[Column, ...]
    row: Callable[[int], int]

    def find(self, name: str) -> Column:
        """Find a column by its name, or complain with the names there are."""
        for column in self.columns:
            if column.name == name:
                return column
        names = ", ".join(repr(column.name) for column in self.columns[:20])
        raise TableError(self.shown, f"there is no such column; the file has {names}", 1, None, name)

    def fetch(self, columns: Sequence[Column]) -> list[NDArray[np.generic]]:
        """Fetch columns in file order; a value that is not of its column's kind is an error."""
        for column in columns:
            if column.kind == "mixed":
                raise self.complain(column, column.bad)
        picked = ", ".join(f"{column.sql} AS v{n}" for n, column in enumerate(columns))
        found = self.connection.execute(f"SELECT {picked} FROM raw ORDER BY rowid").fetchnumpy()
        return [_unmask(found[f"v{n}"]) for n in range(len(columns))]

    def complain(self, column: Column, record: int | None) -> TableError:
        """Say that a value is not a number or time."""
        value = self.connection.execute(f"SELECT c{column.position} FROM raw WHERE rowid = ?", [record]).fetchone()
        wanted = "a time" if "timestamp" in column.sql.lower() or "strptime" in column.sql else "a number"
        return TableError(
            self.shown, f"{str(value[0])[:60]!r} is not {wanted}", self.row(record), column.position + 1, column.name
        )


def open_text(path: Path, shown: str, packed: bool) -> Sheet:
    """Load delimited text."""
    connection = connect()
    found = load_text(connection, path, shown, packed)
    # A comma inside a field that is not between fields is a decimal comma, as in most of Europe.
    cell = "CASE WHEN {c} LIKE '%.%' THEN {c} ELSE replace({c}, ',', '.') END" if found.delimiter != "," else "{c}"
    columns = [_text_column(connection, name, n, cell) for n, name in enumerate(found.names)]
    return Sheet(connection, shown, tuple(columns), lambda record: locate(path, packed, found, record))


def open_parquet(path: Path, shown: str) -> Sheet:
    """Load a Parquet file."""
    import duckdb

    connection = connect()
    with unglobbed(path, ".parquet") as safe:
        try:
            (rows,) = connection.execute("SELECT num_rows FROM parquet_file_metadata(?)", [str(safe)]).fetchone()
            described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(safe)]).fetchall()
            if rows * len(described) > MOST_CELLS:
                raise TableError(shown, f"refused: {rows:,} rows of {len(described)} columns do not fit into memory")
            names = ", ".join(f"c{n}" for n in range(len(described)))
            connection.execute(f"CREATE TEMP TABLE raw AS SELECT * FROM read_parquet(?) AS t({names})", [str(safe)])
        except duckdb.Error as error:
            raise TableError(shown, f"a damaged Parquet file ({str(error).splitlines()[0][:120]})") from None
    columns = [_typed_column(connection, row[0], n, str(row[1])) for n, row in enumerate(described)]
    return Sheet(connection, shown, tuple(columns), lambda record: record + 1)


def _typed_column(connection: DuckDBPyConnection, name: str, position: int, declared: str) -> Column:
    """Tell the kind of a column that comes with a type."""
    cell = f"c{position}"
    if declared.startswith(TEMPORAL):
        return Column(name, position, "time", f"CAST({cell} AS TIMESTAMP)")
    if declared.startswith(NUMERIC):
        return Column(name, position, "number", f"CAST({cell} AS DOUBLE)")
    if declared == "VARCHAR":
        return _text_column(connection, name, position, "{c}")
    return Column(name, position, "text", f"CAST({cell} AS VARCHAR)")


def _text_column(connection: DuckDBPyConnection, name: str, position: int, cell: str) -> Column:
    """Tell the kind of a text column from all its values."""
    c = f"c{position}"
    plain = f"try_cast({cell.format(c=c)} AS DOUBLE)"
    filled, cast, infinite = connection.execute(
        f"SELECT count({c}), count({plain}), count(*) FILTER (isinf({plain})) FROM raw"
    ).fetchone()
    if filled == cast > 0 and not infinite:  # most columns: nothing but numbers, told at a third of the cost
        return Column(name, position, "number", plain)
    present = f"lower(trim({c})) NOT IN ({', '.join(map(repr, MISSING))})"  # NULL is not present either
    number = f"try_cast(CASE WHEN {present} THEN {cell.format(c=c)} END AS DOUBLE)"
    count, numbers, bad = connection.execute(
        f"SELECT count(*) FILTER ({present}), count({number}), "
        f"min(rowid) FILTER ({present} AND {number} IS NULL) FROM raw"
    ).fetchone()
    if count == 0:
        return Column(name, position, "empty", "CAST(NULL AS DOUBLE)")
    if numbers == count:
        return Column(name, position, "number", number)
    if numbers:
        return Column(name, position, "mixed", number, bad)
    best, most = "", 0
    for time in (
        f"try_cast({c} AS TIMESTAMPTZ)::TIMESTAMP",
        f"try_strptime({c}, {DAY_FIRST})",
        f"try_strptime({c}, {MONTH_FIRST})",
    ):
        parsed, bad_time = connection.execute(
            f"SELECT count({time}), min(rowid) FILTER ({present} AND {time} IS NULL) FROM raw WHERE {present}"
        ).fetchone()
        if parsed > most:
            best, most, bad = time, parsed, bad_time
    if most == count:
        return Column(name, position, "time", best)
    return Column(name, position, "mixed", best, bad) if most else Column(name, position, "text", c)


def _unmask(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Replace DuckDB's masks: NaN, not-a-time or an empty text."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    fill = {"f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind, "")
    return values.filled(fill)
