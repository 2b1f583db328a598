"""Columns of a file, each found to be numbers, times or text, with the place of the first bad value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.parse import Column, column_of
from icvi_jax.tables.table import TableError, check_columns, check_names
from icvi_jax.tables.text import connect, counts, load_text, locate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TEMPORAL = ("DATE", "TIMESTAMP")
NUMERIC = tuple(
    "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT DOUBLE DECIMAL "
    "BOOLEAN".split()
)
MOST_CELLS = 1 << 31
TOGETHER = 100  # columns per query: more are slower


class Sheet(NamedTuple):
    """A file loaded as a table ``raw``, with the kinds of its columns."""

    connection: DuckDBPyConnection  # the database that has the table
    shown: str  # name of the file in messages
    columns: tuple[Column, ...]  # all columns in file order
    row: Callable[[int], int]  # function from the number of a record to its row in the file
    rows: int  # how many records there are

    def find(self, name: str) -> Column:
        """Find a column by its name; the error lists the names that exist."""
        names = [column.name for column in self.columns]
        check_names(self.shown, [name], names)
        return self.columns[names.index(name)]

    def fetch(self, columns: Sequence[Column]) -> list[NDArray[np.generic]]:
        """Fetch columns in file order; a value that is not of its column's kind is an error."""
        for column in columns:
            if column.kind == "mixed" and column.bad is not None:
                raise self.complain(column, column.bad)
        picked = ", ".join(f"{column.sql} AS v{n}" for n, column in enumerate(columns))
        found = self.connection.execute(f"SELECT {picked} FROM raw ORDER BY rowid").fetchnumpy()
        return [unmask(found[f"v{n}"]) for n in range(len(columns))]

    def extremes(self, column: Column) -> NDArray[np.float64]:
        """The smallest and the largest value of a column of numbers; empty where there is none."""
        ends = self.connection.execute(f"SELECT min({column.sql}), max({column.sql}) FROM raw").fetchall()
        return np.array([end for end in ends[0] if end is not None], np.float64)

    def error(self, column: Column, record: int, what: str) -> TableError:
        """An error about one value."""
        return TableError(self.shown, what, self.row(record), column.position + 1, column.name)

    def complain(self, column: Column, record: int) -> TableError:
        """The error for a value that is not a number or time."""
        found = self.connection.execute(f"SELECT c{column.position} FROM raw WHERE rowid = ?", [record]).fetchall()
        wanted = "a time" if "timestamp" in column.sql.lower() or "strptime" in column.sql else "a number"
        hint = " (a row of units? remove it)" if record == 0 and self.rows > 1 else ""
        return self.error(column, record, f"{str(found[0][0])[:60]!r} is not {wanted}{hint}")


def open_text(path: Path, shown: str, packed: bool) -> Sheet:
    """Load delimited text."""
    connection = connect()
    found = load_text(connection, path, shown, packed)
    columns = _text_columns(connection, found.names, found.delimiter)
    (rows,) = counts(connection, "SELECT count(*) FROM raw")
    return Sheet(connection, shown, columns, lambda record: locate(path, packed, found, record), rows)


def open_parquet(path: Path, shown: str) -> Sheet:
    """Load a Parquet file."""
    import duckdb

    connection, file = connect(), [escape(str(path))]
    try:
        (rows,) = counts(connection, "SELECT num_rows FROM parquet_file_metadata(?)", file)
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", file).fetchall()
        if rows * len(described) > MOST_CELLS:
            raise TableError(
                shown, f"{rows:,} rows of {len(described)} columns do not fit into memory; take fewer rows or columns"
            )
        check_columns(shown, len(described))
        names = ", ".join(f"c{n}" for n in range(len(described)))
        connection.execute(f"CREATE TEMP TABLE raw AS SELECT * FROM read_parquet(?) AS t({names})", file)
    except duckdb.Error:
        raise TableError(
            shown, "this Parquet file is damaged or of an unknown kind: write it again, or as CSV"
        ) from None
    columns = [typed_column(connection, row[0], n, str(row[1])) for n, row in enumerate(described)]
    return Sheet(connection, shown, tuple(columns), lambda record: record + 1, rows)


def typed_column(connection: DuckDBPyConnection, name: str, position: int, declared: str) -> Column:
    """Find the kind of a column that has a declared type."""
    cell = f"c{position}"
    if declared.startswith(TEMPORAL) and not declared.endswith("]"):
        return Column(name, position, "time", f"CAST({cell} AS TIMESTAMP)")
    if declared.startswith(NUMERIC) and not declared.endswith("]"):  # "INTEGER[]" is a list
        return Column(name, position, "number", f"CAST({cell} AS DOUBLE)")
    if declared == "VARCHAR":
        return _text_columns(connection, [name], ",", position)[0]
    form = "lists" if declared.endswith("]") else declared.partition("(")[0].lower()
    return Column(name, position, "text", f"CAST({cell} AS VARCHAR)", None, form)


def _text_columns(
    connection: DuckDBPyConnection, names: Sequence[str], delimiter: str, first: int = 0
) -> tuple[Column, ...]:
    columns: list[Column] = []
    for start in range(0, len(names), TOGETHER):
        part = [(first + n, names[n]) for n in range(start, min(start + TOGETHER, len(names)))]
        plain = {n: f"try_cast(c{n} AS DOUBLE)" for n, _ in part}
        asked = ", ".join(f"count(c{n}), count({v}), count(*) FILTER (isinf({v}))" for n, v in plain.items())
        found = counts(connection, f"SELECT {asked} FROM raw")
        for (n, name), filled, cast, infinite in zip(part, found[0::3], found[1::3], found[2::3]):
            # Most columns have only plain numbers; this query finds them at a third of the cost.
            simple = filled == cast > 0 and not infinite
            columns.append(Column(name, n, "number", plain[n]) if simple else column_of(connection, name, n, delimiter))
    return tuple(columns)


def unmask(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Replace DuckDB's masks: NaN, not-a-time or an empty text."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind == "M":
        return values.filled(values.dtype.type("NaT", np.datetime_data(values.dtype)[0]))
    return values.filled(np.nan if values.dtype.kind == "f" else "")
