"""Read one stream from a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import BinaryIO

from icvi_jax.tables import arrays
from icvi_jax.tables import raw_table as sheet
from icvi_jax.tables.columns import from_epoch, sift, table
from icvi_jax.tables.sniff import kind
from icvi_jax.tables.table import Table, TableError, check_samples, marks_stretches, number_labels


def read(
    source: str | Path, columns: Sequence[str] = (), time: str = "", label: str = "", keep_codes: bool = False
) -> Table:
    """Read delimited text (also gzipped), Parquet, NPY or NPZ; ``-`` is standard input.

    Parameters
    ----------
    source
        Path of the file. Its format is found from its content, not from its name.
    columns
        Names of the features; empty: all columns of numbers that look like readings. Not used (with a note): time and
        label, names such as ``anomaly`` or ``id``, constants, columns of two values, and counters.
    time
        Name of the time column; empty: the first that has dates, or numbers with a name such as ``time``, or times
        since 1970 with a name that may mean a time.
    label
        Name of the column with the true class; empty: a column called ``label``, if there is one.
    keep_codes
        Take error codes such as −9999 as readings; otherwise they are missing, and a note says so.

    Raises
    ------
    TableError
        One line that names file, row and column.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "a.csv"
    ...     _ = file.write_text("when,temp [°C],hum\\n2024-01-01 00:00,1,2\\n2024-01-01 00:10,3,\\n")
    ...     found = read(file)
    >>> found.features, found.x.tolist(), found.time_name
    (('temp [°C]', 'hum'), [[1.0, 2.0], [3.0, nan]], 'when')
    """
    with located(source) as (path, shown):
        what = kind(path, shown)
        if what in ("npy", "npz"):
            return _from_arrays(path, shown, what, columns, keep_codes)
        return table(open_sheet(path, shown, what), columns, time, label, keep_codes=keep_codes)


def open_sheet(path: Path, shown: str, what: str) -> sheet.Sheet:
    """Open a file that has named columns."""
    if what == "parquet":
        return sheet.open_parquet(path, shown)
    return sheet.open_text(path, shown, packed=what == "gzip")


@contextmanager
def located(source: str | Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and its name in messages; standard input is copied to a file, since it is read twice."""
    if str(source) == "-":
        if sys.stdin is None:
            raise TableError("standard input", "it is closed; give a file, or pipe one into the command")
        with _spooled(sys.stdin.buffer) as spool:
            yield spool, "standard input"
        return
    path = Path(source)
    if _is_pipe(path):
        with path.open("rb") as pipe, _spooled(pipe) as spool:
            yield spool, path.name
        return
    try:
        if path.is_dir():
            raise TableError(str(source), "is a folder, expected a file (icvi fleet takes folders)")
        if not path.is_file():
            raise TableError(str(source), "is not a regular file" if path.exists() else "there is no such file")
        path.open("rb").close()
    except (OSError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise TableError(str(source), f"cannot be opened ({reason})") from None
    yield path, path.name


def _is_pipe(path: Path) -> bool:
    """Whether this is a pipe, as in ``icvi run <(zcat file.gz)``."""
    try:
        return path.is_fifo()
    except OSError:  # a name that is too long
        return False


@contextmanager
def _spooled(pipe: BinaryIO) -> Iterator[Path]:
    """A temporary file with everything that comes out of a pipe; removed at the end of the `with`."""
    with TemporaryDirectory(prefix="icvi-") as folder:
        spool = Path(folder) / "pipe"
        with spool.open("wb") as file:
            copyfileobj(pipe, file)
        yield spool


def _from_arrays(path: Path, shown: str, what: str, columns: Sequence[str], keep_codes: bool) -> Table:
    """Read one stream from saved arrays."""
    found = arrays.load_arrays(path, shown, what)
    x = arrays.samples(found, shown, ndim=2)
    names, times, truth = (
        arrays.companion(found, known, length)
        for known, length in ((arrays.FEATURES, x.shape[1]), (arrays.TIMES, len(x)), (arrays.LABELS, len(x)))
    )
    features = tuple(map(str, names[1])) if names else tuple(f"x{n}" for n in range(1, x.shape[1] + 1))
    if columns:
        for name in columns:
            if name not in features:
                raise TableError(
                    shown, f"there is no such column; the file has {', '.join(features[:20])}", 1, None, name
                )
        x, features = x[:, [features.index(name) for name in columns]], tuple(columns)
    notes: list[str] = []
    features, x = sift(shown, features, x, notes, bool(columns), None, keep_codes)
    axis = from_epoch(times[1]) if times and times[1].dtype.kind in "Mfiu" else None
    return Table(
        shown,
        features,
        check_samples(shown, x, features),
        axis,
        times[0] if times else "",
        number_labels(truth[1]) if truth else None,
        tuple(notes),
        truth is not None and marks_stretches(truth[1]),
    )
