"""Tables larger than memory: DuckDB divides the rows once, on disk, into buckets of whole nodes of similar length.

A bucket is small and has all rows of its nodes, so the rules of `read_fleet` are applied to it as they are: times
that cannot be, error codes, counters, several readings at one time, windows. Each node has its own rows; rows that
other nodes have and it has not would change nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from icvi_jax.numerics.arrays import LARGEST
from icvi_jax.tables.clock import DAY
from icvi_jax.tables.column_kinds import epoch_unit
from icvi_jax.tables.columns import TOO_LARGE, from_epoch, pick, sift
from icvi_jax.tables.error_codes import FILLS
from icvi_jax.tables.fleet import (
    NODE_NAMES,
    VALUE_NAMES,
    VARIABLE_NAMES,
    Readings,
    believed,
    count_rows,
    files_in,
    interval_if_clocks_differ,
    named_column,
)
from icvi_jax.tables.raw_table import Sheet, typed_column, unmask
from icvi_jax.tables.table import TableError, Times, check_columns, check_samples, seconds_of
from icvi_jax.tables.text import MISSING, connect, counts, kind
from icvi_jax.tables.window_means import means, seconds, slots

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMES = ("duckdb", "postgres", "postgresql")
CELLS, MOST_NODES, HEAD, BUFFERED = 5_000_000, 8192, 200_000, 4_000_000
"""Cells and nodes of a bucket, rows that show the kinds of columns, and rows that wait to be written."""
MEMORY = "600MB"
BYTES_OF_ROW, BYTES_OF_CELL = 200, 64
"""What a table takes for each row and each of its cells when it is read as a whole."""


def is_url(source: str) -> bool:
    """Whether a source is the address of a database.

    Examples
    --------
    >>> is_url("duckdb:///plant.db"), is_url("plant.parquet")
    (True, False)
    """
    return urlsplit(source).scheme in SCHEMES


def parquet_files(source: str) -> list[Path]:
    """The Parquet files of a source; none where it is something else."""
    path = Path(source)
    try:
        files = files_in(path)[0] if path.is_dir() else [path] if path.is_file() else []
        return files if all(kind(file, file.name) == "parquet" for file in files) else []
    except (OSError, ValueError):
        return []


def is_large(source: str, node: str = "") -> bool:
    """Whether Parquet files with a node column would take more than a quarter of the memory, or are several."""
    import duckdb

    files = [str(path) for path in parquet_files(source)]
    if not files:
        return False
    try:
        connection = connect()
        rows = counts(connection, "SELECT coalesce(sum(num_rows), 0) FROM parquet_file_metadata(?)", [files])[0]
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [files[:1]]).fetchall()
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (duckdb.Error, ValueError, AttributeError, OSError):  # what is wrong with it, the reader says
        return False
    named = any(row[0] == node or str(row[0]).lower() in NODE_NAMES for row in described)
    if len(files) > 1 and named:
        return True
    return (named or len(files) > 1) and rows * (BYTES_OF_ROW + BYTES_OF_CELL * len(described)) > memory // 4


class Bucket(NamedTuple):
    """All samples of some nodes: their numbers (n,), x (n, T, p), and their times in a row, those of node i from
    `starts[i]` on; notes of the rules."""

    nodes: NDArray[np.int64]
    x: NDArray[np.float64]
    times: Times | None
    starts: NDArray[np.int64]
    notes: list[str]

    def when(self, n: NDArray[np.int64], t: NDArray[np.int64]) -> Times:
        """The times of samples t of nodes n, both counted here."""
        return t.astype(float) if self.times is None else self.times[self.starts[n] + t]


class LargeTable:
    """A table with a node column in Parquet files or a database, or a folder with a Parquet file for each node.

    Arguments are those of `read_fleet`, but for a `query` for the database, a `scratch` folder for the buckets (those
    of an earlier run on the same source are used again), and the `cells` of a bucket. `nodes`, `lengths` and
    `bucket_of` are in order of appearance.
    """

    def __init__(
        self,
        source: str,
        query: str,
        scratch: Path,
        columns: Sequence[str] = (),
        time: str = "",
        node: str = "",
        every: str = "",
        keep_codes: bool = False,
        cells: int = CELLS,
    ) -> None:
        import duckdb

        self.shown = f"{urlsplit(source).scheme} {Path(urlsplit(source).path).name}" if is_url(source) else source
        self._keep_codes, self._scratch = keep_codes, scratch
        self.connection = connect()
        self.connection.execute(f"SET memory_limit = '{MEMORY}'")
        self.connection.execute("SET temp_directory = ?", [str(scratch / "spill")])
        self.connection.execute("SET preserve_insertion_order = false; SET enable_progress_bar = false")
        length = seconds(every) if every else None
        files = [] if is_url(source) else parquet_files(source)
        if not files and not is_url(source):
            raise TableError(source, "--large takes Parquet files or a database")
        try:
            self._open(source, query, files)
            self.connection.execute("BEGIN")  # a table that grows is read as it is now
            self._choose(columns, time, node, files)
            if every and (length is None) == bool(self.time_name):
                expected = "give a time, such as 10min" if self.time_name else "name the time column with --time"
                raise ValueError(f"--every {every}: for a table of this size {expected}")
            self._divide(cells)
            self.connection.execute("COMMIT")
        except duckdb.Error as error:
            said = without_password(str(error).splitlines()[0], source)
            if "No space left" in said:
                raise TableError(str(scratch), "cannot be written (No space left on device)") from None
            raise TableError(self.shown, f"cannot be read: {said[:300]}") from None
        self._judge(length, every)

    def _open(self, source: str, query: str, files: list[Path]) -> None:
        """Find the columns; `self._rows` selects them as c0, c1, … from the source."""
        if files:
            there = ", ".join(quoted(file) for file in files)
            relation, more = f"read_parquet([{there}], filename=true, file_row_number=true)", ", filename AS f"
            more += ", file_row_number AS r"
        else:
            attach(self.connection, source)
            relation, more = f"({query.strip().rstrip(';')})", ""
        described = self.connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        extra = 2 if files else 0
        self._described = [(str(row[0]), str(row[1])) for row in described[: len(described) - extra]]
        check_columns(self.shown, len(self._described))
        cells = ", ".join(
            f'"{name.replace(chr(34), chr(34) * 2)}" AS c{n}' for n, (name, _) in enumerate(self._described)
        )
        self._rows = f"(SELECT {cells}{more} FROM {relation})"

    def _choose(self, columns: Sequence[str], time: str, node: str, files: list[Path]) -> None:
        """Choose node, time and columns by their kinds and names, from the first rows."""
        self.connection.execute(f"CREATE TEMP TABLE raw AS SELECT * FROM {self._rows} LIMIT {HEAD}")
        rows = counts(self.connection, "SELECT count(*) FROM raw")[0]
        if not rows:
            raise TableError(self.shown, "the table has no rows")
        typed = [typed_column(self.connection, name, n, kind) for n, (name, kind) in enumerate(self._described)]
        head = Sheet(self.connection, self.shown, tuple(typed), lambda record: record + 1, rows)
        named = head.find(node) if node else named_column(head, NODE_NAMES)
        if named is None and len(files) < 2:
            raise TableError(self.shown, "no column names the node (name it with --node)")
        variable, value = named_column(head, VARIABLE_NAMES), named_column(head, VALUE_NAMES)
        if variable and value and variable.kind == "text":
            raise TableError(
                self.shown, "one reading in each row: expected a column for each quantity", name=value.name
            )
        self.picked = pick(head, columns, time, "", [named] if named else ())
        for column in (*self.picked.features, *([self.picked.time] if self.picked.time else [])):
            if column.kind == "mixed" and column.bad is not None:
                raise head.complain(column, column.bad)
        if self.picked.time is None and (not files or (named is not None and len(files) > 1)):
            raise TableError(self.shown, "no column of times, so rows have no order (name it with --time)")
        self.time_name = self.picked.time.name if self.picked.time else ""
        self.notes = list(self.picked.notes)
        self._named, self._key = named, f"c{named.position}" if named else "f"
        self._t = self.picked.time.sql if self.picked.time else "r"
        self._first = "min(r)" if len(files) == 1 else "0"  # nodes of several files are in the order of their names
        self.connection.execute("DROP TABLE raw")

    def _divide(self, cells: int) -> None:
        """Count the rows of each node, and write the rows of each bucket to a folder of its own."""
        keys, parts = self._scratch / "nodes.parquet", self._scratch / "buckets"
        if not keys.exists():  # written last
            timed = f"count(*) FILTER (isfinite({self._t}))" if self.picked.time else "count(*)"
            self.connection.execute(
                f"COPY (SELECT {self._key} AS raw, coalesce(trim(CAST({self._key} AS VARCHAR)), '') AS name, "
                f"count(*) AS many, {self._first} AS first, {timed} AS timed, min({self._t}) AS low, "
                f"max({self._t}) AS high, {self._unread()} AS unread FROM {self._rows} GROUP BY {self._key}) "
                f"TO {quoted(self._scratch / 'draft')} (FORMAT parquet)"
            )
        self._count(keys if keys.exists() else self._scratch / "draft")
        order, at = np.argsort(-self.lengths, kind="stable"), 0
        self.bucket_of = np.zeros(len(order), np.int64)
        self.buckets = 0
        while at < len(order):
            longest = int(self.lengths[order[at]]) * max(1, len(self.picked.features))
            end = at + min(MOST_NODES, max(1, cells // longest))
            self.bucket_of[order[at:end]] = self.buckets
            self.buckets, at = self.buckets + 1, end
        if keys.exists():
            return
        shutil.rmtree(parts, ignore_errors=True)
        values = "".join(f", {column.sql} AS v{n}" for n, column in enumerate(self.picked.features))
        self.connection.execute(f"SET partitioned_write_flush_threshold = {max(2048, BUFFERED // self.buckets)}")
        self.connection.register(
            "placed",
            {"name": np.array(self._keys, object), "n": np.arange(len(self._keys)), "b": self.bucket_of},
        )
        self.connection.execute(
            f"COPY (SELECT CAST(n AS UINTEGER) AS n, {self._t} AS t{values}, b FROM {self._rows} JOIN "
            f"(SELECT raw, n, b FROM read_parquet({quoted(self._scratch / 'draft')}) JOIN placed USING (name)) "
            f"ON {self._key} = raw) TO {quoted(parts)} (FORMAT parquet, COMPRESSION uncompressed, PARTITION_BY (b))"
        )
        self.connection.unregister("placed")
        (self._scratch / "draft").replace(keys)

    def _unread(self) -> str:
        """SQL for a cell of a column of text that is no number like those in the first rows, with the column before."""
        cases = [
            f"WHEN lower(trim(c{column.position})) NOT IN {MISSING} AND {column.sql} IS NULL "
            f"THEN '{n} ' || c{column.position}"
            for n, column in enumerate(self.picked.features)
            if self._described[column.position][1] == "VARCHAR"
        ]
        return f"min(CASE {' '.join(cases)} END)" if cases else "CAST(NULL AS VARCHAR)"

    def _count(self, keys: Path) -> None:
        """Names and lengths of the nodes in order of appearance; an error where a name or a time is missing."""
        found = self.connection.execute(
            "SELECT name, CAST(sum(many) AS BIGINT) AS many, CAST(sum(timed) AS BIGINT) AS timed, min(low) AS low, "
            f"max(high) AS high, min(unread) AS unread FROM read_parquet({quoted(keys)}) GROUP BY name "
            "ORDER BY min(first), name"
        ).fetchnumpy()
        self._keys, self.lengths = found["name"].astype(object).tolist(), np.asarray(found["many"], np.int64)
        if self._named and "" in self._keys:
            raise TableError(
                self.shown, "the name of the node is missing", None, self._named.position + 1, self._named.name
            )
        axis = self.picked.time
        if axis is not None and (self.lengths != found["timed"]).any():
            less = self._keys[int(np.argmax(self.lengths != found["timed"]))]
            raise TableError(self.shown, f"the time is missing in rows of {less!r}", None, axis.position + 1, axis.name)
        for text in unmask(found["unread"]):
            if text:
                which, _, cell = str(text).partition(" ")
                column = self.picked.features[int(which)]
                raise TableError(self.shown, f"{cell[:30]!r} is not a number", None, column.position + 1, column.name)
        stems = self._keys if self._named else [Path(name).stem for name in self._keys]
        self.nodes = tuple(stems if len(set(stems)) == len(stems) else [Path(name).name for name in self._keys])
        ends = unmask(np.concatenate([found["low"], found["high"]]))
        self._epoch = ends.dtype.kind != "M" and epoch_unit(ends.astype(np.float64)) > 0

    def _judge(self, length: float | None, every: str) -> None:
        """Leave out columns that are no readings, and choose windows, by the first bucket."""
        self._names = [column.name for column in self.picked.features]
        self._used, self._window = list(range(len(self._names))), 0.0
        rows, told = self._fetch("b=0/*"), list[str]()
        names, x = sift(self.shown, self._names, rows.x, told, self.picked.chosen, rows.node, self._keep_codes)
        self.features = tuple(names)
        check_samples(self.shown, x, self.features)
        self._used = [self._names.index(name) for name in self.features]
        self.notes += [note for note in told if not note.startswith("error codes")]
        if len(self._used) < len(self._names) and self.buckets > 1:
            self.notes.append(
                f"columns were judged by the {len(rows.x):,} rows of the longest nodes (--columns chooses)"
            )
        self._pack = int(float(every)) if every and length is None else 0
        if not every and rows.times is not None:
            length = interval_if_clocks_differ(rows.node, rows.times, self.notes)
        self._window = length or 0.0

    def _fetch(self, where: str, some: NDArray[np.int64] | None = None) -> Readings:
        values = "".join(f", v{n}" for n in self._used)
        there = f"read_parquet({quoted(self._scratch / 'buckets' / where)}, hive_partitioning=false)"
        if some is not None:
            self.connection.register("wanted", {"n": some})
            there += " SEMI JOIN wanted USING (n)"
        found = self.connection.execute(f"SELECT n, t{values} FROM {there}").fetchnumpy()
        node, t = np.asarray(found["n"]), unmask(found["t"])
        short = node - node.min() if len(node) else node
        short = short.astype(np.uint16) if short.max(initial=0) < 1 << 16 else short
        x = np.column_stack([unmask(found[f"v{n}"]) for n in self._used])
        order = np.lexsort((t, short))
        if ((np.diff(short[order]) == 0) & (t[order][1:] == t[order][:-1])).any():  # threads write in any order
            order = np.lexsort((*x.T, t, short))
        x = x[order]
        x[np.isin(np.abs(x), list(FILLS)) | np.isinf(x)] = np.nan
        large = np.abs(x) > LARGEST
        if large.any():
            column = self.picked.features[self._used[int(np.argmax(large.any(axis=0)))]]
            raise TableError(self.shown, TOO_LARGE, None, column.position + 1, column.name)
        times = None if self.picked.time is None else t[order]
        if times is not None:
            times = from_epoch(times) if self._epoch or times.dtype.kind == "M" else times.astype(np.float64)
        return Readings(node[order].astype(np.int64), times, x)

    def _samples(self, rows: Readings) -> tuple[NDArray[np.int64], Readings, list[str]]:
        """Apply the rules: the numbers of the nodes, their samples, numbered from 0 here, and notes."""
        notes: list[str] = []
        who, node = np.unique(rows.node, return_inverse=True)
        node, times, x = node.reshape(-1), rows.times, rows.x
        names = [self.nodes[n] for n in who]
        if times is not None and not _even(node, times):
            keep, times = believed(node, times, names, notes)
            node, times, x = node[keep], times[keep], x[keep]
        x = sift(self.shown, self.features, x, notes, self.picked.chosen, node, self._keep_codes, judge=False)[1]
        key = times
        if times is not None and self._window:
            step, clock = slots(times, self._window)
            key = times = clock[step]
        elif self._pack:
            key = (count_rows(node) // self._pack).astype(np.float64)
        if key is not None:
            again = np.zeros(len(node), bool)
            again[1:] = (np.diff(node) == 0) & (key[1:] == key[:-1])
            if again.any():
                slot = np.cumsum(~again) - 1
                x = means(x, slot, int(slot[-1]) + 1)
                node, times = node[~again], None if times is None else times[~again]
        return who, Readings(node, times, x), notes

    def bucket(self, number: int) -> Bucket:
        """The samples of one bucket."""
        who, rows, notes = self._samples(self._fetch(f"b={number}/*"))
        size = np.bincount(rows.node, minlength=len(who))
        x = np.full((len(who), int(size.max()), rows.x.shape[1]), np.nan)
        x[rows.node, count_rows(rows.node)] = rows.x
        return Bucket(who, x, rows.times, np.cumsum(size) - size, notes)

    def rows_of(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], Readings]:
        """All samples of some nodes, and which nodes they are."""
        return self._samples(self._fetch("*/*", nodes))[:2]


def _even(node: NDArray[np.int64], times: Times) -> bool:
    """Whether all rows of each node follow each other within a day, so that there is no doubt about any time."""
    step = np.diff(seconds_of(times))[np.diff(node) == 0]
    return times.dtype.kind == "M" and bool(((step > 0) & (step <= DAY)).all())


def attach(connection: DuckDBPyConnection, source: str) -> None:
    """Open a database for reading, and make its tables the ones that queries name."""
    import duckdb

    parts = urlsplit(source)
    if parts.scheme == "duckdb":
        if parts.netloc or not Path(parts.path).is_file():
            raise TableError(source, "there is no such database (expected duckdb:///folder/file.db, three slashes)")
        connection.execute(f"ATTACH {quoted(Path(parts.path))} AS there (READ_ONLY)")
    else:
        try:
            connection.execute("LOAD postgres")
        except duckdb.Error:
            raise TableError(
                f"{parts.scheme}://{parts.hostname}",
                "needs DuckDB's extension for Postgres; once, with a network: duckdb -c 'INSTALL postgres'",
            ) from None
        connection.execute(f"ATTACH {quoted(source)} AS there (TYPE postgres, READ_ONLY)")
    connection.execute("USE there")


def without_password(text: str, source: str) -> str:
    """A text about the address of a database, without what nobody else should read.

    Examples
    --------
    >>> without_password('no "postgres://me:a/b@host/db?password=c"', "postgres://me:a/b@host/db?password=c")
    'no "postgres://host/db?password="'
    """
    if not source.startswith("postgres"):
        return text
    user = source.partition("://")[2].rpartition("@")[0]
    for word in (user.partition(":")[2], *re.findall("password=([^&]*)", source)):
        for before, after in ((":", "@"), ("password=", ""), ('"', '"')) if word else ():
            text = text.replace(before + word + after, before + after)
    return re.sub(r'("?(?:\w+://)?)[^" ]*@', r"\1", text)


def quoted(path: Path | str) -> str:
    """A path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"
