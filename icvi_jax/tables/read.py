"""Read one stream from a file: delimited text, Parquet, or arrays saved from Python."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.columns import from_epoch, sift, table
from icvi_jax.tables.raw_table import Sheet, open_parquet, open_text
from icvi_jax.tables.table import Table, TableError, Times, check_names, check_samples, truth_of
from icvi_jax.tables.text import kind

SAMPLES = ("X", "x", "data", "samples", "values", "readings")
TIMES = ("times", "time", "time_utc", "timestamp", "timestamps", "t")
NODES = ("nodes", "node", "node_id", "node_ids", "ids", "names")
FEATURES = ("features", "columns", "feature_names", "variables")
DAMAGED = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, SyntaxError, MemoryError, RuntimeError)
LABELS = ("label", "labels", "mode", "y")


def load_arrays(path: Path, shown: str, kind: str) -> dict[str, NDArray[np.generic]]:
    """Load all arrays of an NPZ file, or the one of an NPY file under the name ``X``; Python objects are refused."""
    try:
        if kind == "npy":
            # A memory map compares the size in the header with that of the file before anything is allocated.
            return {"X": np.array(np.load(path, mmap_mode="r", allow_pickle=False))}
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _check_size(archive, member, shown)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except TableError:
        raise
    except DAMAGED as error:
        objects = "pickle" in str(error) or "objects" in str(error)
        what = "it holds Python objects, not numbers" if objects else "it is damaged; save it again"
        raise TableError(shown, f"this {kind.upper()} file cannot be read: {what}") from None


def _check_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, shown: str) -> None:
    """Refuse an array whose header claims more data than the file has."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if np.prod([float(n) for n in shape]) * dtype.itemsize > member.file_size:
        raise TableError(
            shown, f"array {member.filename!r} claims the shape {shape}, but the file has less data; save it again"
        )


def samples(arrays: dict[str, NDArray[np.generic]], shown: str, ndim: int) -> NDArray[np.float64]:
    """Choose the samples: by name, otherwise the only array with `ndim` dimensions."""
    numeric = {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}
    fitting = [name for name, array in numeric.items() if array.ndim == ndim]
    vectors = [name for name, array in numeric.items() if array.ndim == 1 and name in SAMPLES]
    if ndim == 2 and vectors and not fitting:  # a single feature saved as a vector
        return numeric[vectors[0]].astype(np.float64)[:, None]
    named = [name for name in fitting if name in SAMPLES] or fitting
    if len(named) == 1:
        return arrays[named[0]].astype(np.float64)
    has = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in list(arrays.items())[:12])
    shape = "(rows, features)" if ndim == 2 else "(nodes, steps, features)"
    raise TableError(
        shown, f"expected one array of numbers {shape}, called X if there are several; the file has {has or 'none'}"
    )


def companion(
    arrays: dict[str, NDArray[np.generic]], names: tuple[str, ...], length: int
) -> tuple[str, NDArray[np.generic]] | None:
    """Find a vector of the right length that belongs to the samples."""
    for name in names:
        if name in arrays and arrays[name].shape == (length,):
            return name, arrays[name]
    return None


def read(
    source: str | Path, columns: Sequence[str] = (), time: str = "", label: str = "", keep_codes: bool = False
) -> Table:
    """Read delimited text (also gzipped), Parquet, NPY or NPZ; ``-`` is standard input.

    Parameters
    ----------
    source : path of the file. Its format is found from its content, not from its name.
    columns : names of the features; empty: all columns of numbers that look like readings. Not used (with a note): time
        and label, names such as ``anomaly`` or ``id``, constants, columns of two values, and counters.
    time : name of the time column; empty: the first that has dates, or numbers with a name such as ``time``, or times
        since 1970 with a name that may mean a time.
    label : name of the column with the true class; empty: a column called ``label``, if there is one.
    keep_codes : take error codes such as −9999 as readings; otherwise they are missing, and a note says so.

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


def open_sheet(path: Path, shown: str, what: str) -> Sheet:
    """Open a file that has named columns."""
    return open_parquet(path, shown) if what == "parquet" else open_text(path, shown, packed=what == "gzip")


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
    try:
        if path.is_dir():
            raise TableError(str(source), "is a folder, expected a file (icvi fleet takes folders)")
        if not path.is_file() and not path.is_fifo():
            raise TableError(str(source), "is not a regular file" if path.exists() else "there is no such file")
        file = path.open("rb")
    except TableError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TableError(str(source), f"cannot be opened ({reason})") from None
    with file:
        if not path.is_fifo():
            yield path, path.name
            return
        with _spooled(file) as spool:  # as in ``icvi run <(zcat file.gz)``
            yield spool, path.name


@contextmanager
def _spooled(pipe: BinaryIO) -> Iterator[Path]:
    """A temporary file with everything that comes out of a pipe; removed at the end of the `with`."""
    with TemporaryDirectory(prefix="icvi-") as folder:
        spool = Path(folder) / "pipe"
        with spool.open("wb") as file:
            copyfileobj(pipe, file)
        yield spool


class Saved(NamedTuple):
    """Arrays saved from Python: samples (…, T, p) with the names and times beside them, and all arrays of the file."""

    x: NDArray[np.float64]
    features: tuple[str, ...]
    times: Times | None
    time_name: str
    arrays: dict[str, NDArray[np.generic]]


def read_arrays(path: Path, shown: str, what: str, ndim: int, columns: Sequence[str]) -> Saved:
    """Read the samples of an NPY or NPZ file, and what is saved beside them."""
    found = load_arrays(path, shown, what)
    x = samples(found, shown, ndim)
    names, times = companion(found, FEATURES, x.shape[-1]), companion(found, TIMES, x.shape[-2])
    features = tuple(map(str, names[1])) if names else tuple(f"x{n}" for n in range(1, x.shape[-1] + 1))
    if columns:
        check_names(shown, columns, features)
        x, features = x[..., [features.index(name) for name in columns]], tuple(columns)
    axis = from_epoch(times[1]) if times and times[1].dtype.kind in "Mfiu" else None
    return Saved(x, features, axis, times[0] if times else "", found)


def _from_arrays(path: Path, shown: str, what: str, columns: Sequence[str], keep_codes: bool) -> Table:
    x, features, axis, time_name, found = read_arrays(path, shown, what, 2, columns)
    labels = companion(found, LABELS, len(x))
    truth, marks = truth_of(labels[1] if labels else None)
    notes: list[str] = []
    features, x = sift(shown, features, x, notes, bool(columns), None, keep_codes)
    return Table(shown, features, check_samples(shown, x, features), axis, time_name, truth, tuple(notes), marks)
