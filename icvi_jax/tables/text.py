"""CSV, TSV and other delimited text, read with DuckDB; errors name the line and the value."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from icvi_jax.tables.sniff import Layout, layout
from icvi_jax.tables.table import TableError, check_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SAMPLE_LINES, LONGEST_LINE = 200, 1_000_000


def connect() -> DuckDBPyConnection:
    """A separate DuckDB that loads nothing from the network; times without a zone are taken as UTC."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    connection.execute("SET TimeZone='UTC'")
    return connection


def counts(connection: DuckDBPyConnection, query: str, values: Sequence[object] = ()) -> tuple[int, ...]:
    """The one row of integers that a query returns."""
    return tuple(int(number) for row in connection.execute(query, list(values)).fetchall() for number in row)


def load_text(connection: DuckDBPyConnection, path: Path, shown: str, packed: bool = False) -> Layout:
    """Load the file into the table ``raw``, all columns as text, and return its layout.

    Types come later, from all rows: DuckDB guesses them from some rows, and a guess must not decide whether a bad value
    is an error or makes its column text.
    """
    import duckdb

    with _open(path, packed) as file:
        lines = _first_lines(file, shown)
    found = layout(lines, shown)
    check_columns(shown, len(found.names))
    columns = {f"c{n}": "VARCHAR" for n in range(len(found.names))}
    # a logger that starts again writes its header again
    fields = {f"field{n}": name for n, name in enumerate(found.header)}
    again = " AND ".join(f"trim(coalesce(c{n}, '')) = $field{n}" for n in range(len(fields)))
    with unglobbed(path, ".csv.gz" if packed else ".csv") as safe:
        try:
            connection.execute(
                "CREATE OR REPLACE TEMP TABLE raw AS SELECT * FROM read_csv($path, auto_detect=false, delim=$delim, "
                "quote='\"', escape='\"', strict_mode=true, header=$header, skip=$skip, columns=$columns, "
                "compression=$compression, max_line_size=$longest)" + (f" WHERE NOT ({again})" if again else ""),
                {
                    "path": str(safe),
                    "delim": found.delimiter,
                    "header": bool(found.header),
                    "skip": found.skip,
                    "columns": columns,
                    "longest": LONGEST_LINE,
                    "compression": "gzip" if packed else "none",
                    **fields,
                },
            )
        except duckdb.Error as error:
            raise _explain(str(error), shown, found, path, packed) from None
    return found


def locate(path: Path, packed: bool, found: Layout, record: int) -> int:
    """The line of the file on which a record (from 0) starts; blank lines and quoted line ends count."""
    with _open(path, packed) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
        for _ in range(found.skip):
            next(text)
        reader, before = csv.reader(text, delimiter=found.delimiter), 0
        try:
            for row in reader:
                named = found.header and tuple(field.strip() for field in row) == found.header
                if (row or len(found.names) == 1) and not named:
                    if record == 0:
                        return found.skip + before + 1
                    record -= 1
                before = reader.line_num
        except csv.Error:  # a field too long for this reader: the line is near enough
            return found.skip + before + 1
    return found.skip + before


@contextmanager
def unglobbed(path: Path, suffix: str) -> Iterator[Path]:
    """A path that DuckDB takes literally: in other names it expands ``*``, ``?`` and ``[``."""
    if not set("*?[") & set(str(path)):
        yield path
        return
    with TemporaryDirectory(prefix="icvi-") as folder:
        link = Path(folder) / f"file{suffix}"
        link.symlink_to(path.resolve())
        yield link


def _open(path: Path, packed: bool) -> io.BufferedReader | gzip.GzipFile:
    """Open the unpacked bytes."""
    return gzip.open(path) if packed else path.open("rb")


def _first_lines(file: io.BufferedReader | gzip.GzipFile, shown: str) -> list[str]:
    """Decode the first lines; another encoding is found here or by DuckDB."""
    lines = []
    for number, line in enumerate(iter(lambda: file.readline(1 << 20), b""), 1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            before = line[: error.start]
            column = 1 + max(before.count(delimiter) for delimiter in (b",", b";", b"\t"))
            raise TableError(shown, "not UTF-8 text: save the file as UTF-8", number, column) from None
        if number == SAMPLE_LINES:
            break
    return lines


def _explain(message: str, shown: str, found: Layout, path: Path, packed: bool) -> TableError:
    """Turn DuckDB's long message into one line with row and column."""
    line = re.search(r"CSV Error on Line: (\d+)", message)
    row = int(line[1]) if line else None
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if counts:
        expected, got = int(counts[1]), int(counts[2])
        commas = found.delimiter == "," and got > expected
        hint = " (decimal commas? then put semicolons between the fields)" if commas else ""
        return TableError(
            shown,
            f"{got} fields, but the first row has {expected}{hint}",
            row,
            min(expected, got) + 1,
            found.names[got] if got < expected else "",
        )
    if "unicode" in message.lower() or "utf-8" in message.lower():
        return TableError(shown, "not UTF-8 text: save the file as UTF-8", row, _bad_byte(path, packed, row, found))
    if "line size" in message.lower():
        return TableError(shown, f"a line of more than {LONGEST_LINE:,} bytes: is this a table?", row, 1)
    if "quote" in message:
        return TableError(shown, "a quoted text that does not end: close the quote", row, 1)
    return TableError(shown, "cannot be read as a table of rows and columns: save it again as CSV", row, 1)


def _bad_byte(path: Path, packed: bool, row: int | None, found: Layout) -> int:
    """Find the column of the first byte that is not UTF-8."""
    with _open(path, packed) as file:
        for number, line in enumerate(file, 1):
            if row is None or number >= row:
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return 1 + line[: error.start].count(found.delimiter.encode())
    return 1
