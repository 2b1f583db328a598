"""Write tables: completely or not at all, and so that a spreadsheet takes text as text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO, ENOSPC
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.text import connect

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it if the `with` ends without an error, otherwise remove it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            draft = Path(file.name)
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield draft
        # Temporary files are private; the result has the usual rights of the user's files.
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)
        draft.replace(path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        draft.unlink(missing_ok=True)


def as_text(cell: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula.

    Examples
    --------
    >>> as_text("=cmd()"), as_text("node 1")
    ("'=cmd()", 'node 1')
    """
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def check_extension(path: Path) -> str:
    """The extension in lower case; an error if it cannot be written."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise ValueError(f"{path.name}: expected a name that ends in .csv, .tsv or .parquet")
    return suffix


def write_table(
    path: Path, columns: dict[str, NDArray[np.generic]], texts: dict[str, tuple[str, ...]] | None = None
) -> None:
    """Write columns of equal length as CSV, TSV or Parquet, by the extension of `path`; NaN and NaT are empty cells.

    `texts` has the text of each number of columns of integers that stand for text: two million rows are then two
    million small integers, not Python strings.
    """
    import duckdb

    suffix = check_extension(path)
    parquet = suffix == ".parquet"
    show = (lambda cell: cell) if parquet else as_text
    connection = connect()
    numbers = {f"c{n}": np.ascontiguousarray(values) for n, values in enumerate(columns.values())}
    connection.register("numbers", numbers)
    picked, joined = [], []
    for n, name in enumerate(columns):
        value = f"c{n}"
        if texts and name in texts:
            known = np.array([show(cell) for cell in texts[name]], object)
            connection.register(f"texts{n}", {"id": np.arange(len(known)), "name": known})
            joined.append(f"LEFT JOIN texts{n} ON texts{n}.id = numbers.c{n}")
            value = f"texts{n}.name"
        picked.append(f'{value} AS "{show(name).replace(chr(34), chr(34) * 2)}"')
    query = f"SELECT {', '.join(picked)} FROM numbers {' '.join(joined)}"
    if joined:
        numbers["row"] = np.arange(len(numbers["c0"]))  # a join does not keep the order
        query += " ORDER BY row"
    form = (
        "FORMAT parquet" if parquet else f"FORMAT csv, HEADER true, DELIMITER '{chr(9) if suffix == '.tsv' else ','}'"
    )
    with whole(path) as draft:
        try:
            connection.execute(f"COPY ({query}) TO '{str(draft).replace(chr(39), chr(39) * 2)}' ({form})")
        except duckdb.IOException as error:
            full = "no space" in str(error).lower()
            raise OSError(ENOSPC if full else EIO, os.strerror(ENOSPC if full else EIO)) from None
