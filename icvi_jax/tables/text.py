"""Delimited text: the kind of a file, its layout, and its rows, read with DuckDB; errors name line and value."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from glob import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from icvi_jax.tables.column_kinds import are_counted, distinct
from icvi_jax.tables.table import TableError, check_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HEAD = 1 << 16
BOMB_RATIO, BOMB_BYTES = 200, 1 << 24  # real files get 3 to 30 times smaller; 200 times only files made to do harm
GZIP = b"\x1f\x8b"
DELIMITERS = ",;\t| "
INFINITE = tuple(sign + word for word in ("inf", "infinity") for sign in ("", "-", "+"))
MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", *INFINITE)


class CsvLayout(NamedTuple):
    """The layout of a text file."""

    delimiter: str  # between two fields
    skip: int  # comment lines (`#`) and empty ones before the table
    header: tuple[str, ...]  # the fields of the first row, where it holds names; otherwise empty
    names: tuple[str, ...]  # names of the columns: the header's (the second `flow` is `flow (2)`), or x1, x2, …


def kind(path: Path, shown: str) -> str:
    """The kind of a file: "parquet", "npy", "npz", "gzip" or "text"; everything else is an error."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.strip():
        raise TableError(shown, "the file is empty")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK"):
        return _zip_kind(path, shown)
    if head.startswith(GZIP):
        _refuse_gzip_bomb(path, shown)
        return "gzip"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(shown, "the text is in UTF-16: save it as UTF-8", 1, 1)
    if b"\0" in head:
        row = head[: head.index(b"\0")].count(b"\n") + 1
        raise TableError(shown, "a binary file, but not Parquet, NPY or NPZ: save it as one of these or CSV", row, 1)
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    if start in (b"{", b"["):
        raise TableError(shown, "JSON, not a table: save it as CSV (icvi watch reads one JSON object per line)", 1, 1)
    if start == b"<":
        raise TableError(shown, "HTML or XML, not a table: save it as CSV", 1, 1)
    if b"\r" in head and b"\n" not in head:
        raise TableError(shown, "lines end with a carriage return only: save the file with usual line ends", 1, 1)
    return "text"


def _zip_kind(path: Path, shown: str) -> str:
    """Accept a ZIP file only as NPZ, and none that unpacks to something enormous."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError):
        raise TableError(shown, "a damaged ZIP or NPZ file: save it again") from None
    if any(member.filename.startswith("xl/") for member in members):
        raise TableError(shown, "an Excel workbook: save the sheet as CSV")
    unpacked = sum(member.file_size for member in members)
    if unpacked > BOMB_BYTES and unpacked > BOMB_RATIO * path.stat().st_size:
        raise TableError(shown, f"refused: {path.stat().st_size:,} bytes unpack to {unpacked:,}; unpack it first")
    if not members or not all(member.filename.endswith(".npy") for member in members):
        raise TableError(shown, "a ZIP archive that is not an NPZ file: unpack it first")
    return "npz"


def _refuse_gzip_bomb(path: Path, shown: str) -> None:
    """Unpack without keeping the data, and stop as soon as it is too much."""
    unpacked, packed = 0, path.stat().st_size
    try:
        with gzip.open(path) as file:
            while piece := file.read(1 << 22):
                unpacked += len(piece)
                if unpacked > BOMB_BYTES and unpacked > BOMB_RATIO * packed:
                    raise TableError(
                        shown, f"refused: {packed:,} bytes unpack to more than {unpacked:,}; unpack it first"
                    )
    except (gzip.BadGzipFile, zlib.error):
        raise TableError(shown, "a damaged gzip file: pack it again") from None
    except EOFError:
        raise TableError(shown, "a gzip file that ends too early: pack it again") from None


def layout(lines: list[str], shown: str) -> CsvLayout:
    """Find the delimiter and the names from the first lines."""
    skip = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    lines = [line for line in lines[skip:] if line.strip()]
    if not lines:
        raise TableError(shown, "the file has no row of readings")
    delimiter = _delimiter(lines)
    try:
        first = next(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        what = f"a field of more than {csv.field_size_limit():,} characters: is this a table, with all quotes closed?"
        raise TableError(shown, what, skip + 1, 1) from None
    values = all(map(_plain, first)) and any(field.strip().lower() not in MISSING for field in first)
    if values and not (are_counted(first) and any("." in line for line in lines[1:])):
        return CsvLayout(delimiter, skip, (), tuple(f"x{n}" for n in range(1, len(first) + 1)))
    names = distinct([name.strip() or f"column{n}" for n, name in enumerate(first, 1)])
    return CsvLayout(delimiter, skip, tuple(name.strip() for name in first), names)


def _delimiter(lines: list[str]) -> str:
    """The delimiter that splits most lines into equally many fields; a comma if there is none."""

    def score(delimiter: str) -> tuple[int, int]:
        reader, before, many = csv.reader(lines[:50], delimiter=delimiter), 0, Counter[int]()
        for row in reader:  # a row may have several lines
            many[len(row)] += reader.line_num - before
            before = reader.line_num
        ((usual, count),) = many.most_common(1)
        return (count if usual > 1 else 0, usual)

    try:
        return max(DELIMITERS, key=score)  # the first of equals: a comma before a space
    except csv.Error:
        return ","


def _plain(field: str) -> bool:
    """Whether a field of the first row is a value and not a name."""
    field = field.strip()
    if field.lower() in MISSING:
        return True
    try:
        float(field.replace(",", "."))
    except ValueError:
        # A date in the first row: 2007-10-10T00:00 or 10.10.2007, digits first and last.
        return len(field) > 7 and field[0].isdigit() and sum(map(str.isdigit, field)) >= len(field) // 2
    return True


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


def load_text(connection: DuckDBPyConnection, path: Path, shown: str, packed: bool = False) -> CsvLayout:
    """Load the file into the table ``raw``, all columns as text, and return its layout.

    Types come later, from all rows: DuckDB guesses them from some rows, and a guess must not decide whether a bad value
    is an error or makes its column text.
    """
    import duckdb

    found = layout(list(islice(_decoded(path, packed, shown), SAMPLE_LINES)), shown)
    check_columns(shown, len(found.names))
    columns = {f"c{n}": "VARCHAR" for n in range(len(found.names))}
    # a logger that starts again writes its header again
    fields = {f"field{n}": name for n, name in enumerate(found.header)}
    again = " AND ".join(f"trim(coalesce(c{n}, '')) = $field{n}" for n in range(len(fields)))
    try:
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE raw AS SELECT * FROM read_csv($path, auto_detect=false, delim=$delim, "
            "quote='\"', escape='\"', strict_mode=true, header=$header, skip=$skip, columns=$columns, "
            "compression=$compression, max_line_size=$longest)" + (f" WHERE NOT ({again})" if again else ""),
            {
                "path": escape(str(path)),
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
        if "unicode" in str(error).lower() or "utf-8" in str(error).lower():
            deque(_decoded(path, packed, shown), maxlen=0)  # finds the place
        raise _explain(str(error), shown, found) from None
    return found


def locate(path: Path, packed: bool, found: CsvLayout, record: int) -> int:
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


def _open(path: Path, packed: bool) -> io.BufferedReader | gzip.GzipFile:
    return gzip.open(path) if packed else path.open("rb")


def _decoded(path: Path, packed: bool, shown: str) -> Iterator[str]:
    """The lines of a file; an error at the first byte that is not UTF-8."""
    with _open(path, packed) as file:
        for number, line in enumerate(iter(lambda: file.readline(1 << 20), b""), 1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                before = line[: error.start]
                column = 1 + max(before.count(delimiter) for delimiter in (b",", b";", b"\t"))
                raise TableError(shown, "not UTF-8 text: save the file as UTF-8", number, column) from None


def _explain(message: str, shown: str, found: CsvLayout) -> TableError:
    """Turn DuckDB's long message into one line with row and column."""
    line = re.search(r"CSV Error on Line: (\d+)", message)
    row = int(line[1]) if line else None
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if counts:
        expected, got = int(counts[1]), int(counts[2])
        hint = " (aligned with several spaces? put commas between the fields)" if found.delimiter == " " else ""
        if found.delimiter == "," and got > expected:
            hint = " (decimal commas? then put semicolons between the fields)"
        return TableError(
            shown,
            f"{got} fields, but the first row has {expected}{hint}",
            row,
            min(expected, got) + 1,
            found.names[got] if got < expected else "",
        )
    if "line size" in message.lower():
        return TableError(shown, f"a line of more than {LONGEST_LINE:,} bytes: is this a table?", row, 1)
    if "quote" in message:
        return TableError(shown, "a quoted text that does not end: close the quote", row, 1)
    return TableError(shown, "cannot be read as a table of rows and columns: save it again as CSV", row, 1)
