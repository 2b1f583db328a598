"""The type of all streams, and reading text in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.spec import whole


class Stream(NamedTuple):
    """A stream with its ground truth: samples, modes, noise and change points."""

    x: NDArray[np.float64]  #: samples, `(n, p)` float64
    #: number of the mode at each sample, `(n,)`; −1 where there is no single one (a transition). A noise sample has the
    #: mode of its block
    mode: NDArray[np.int64]
    noise: NDArray[np.bool_]  #: true where a sample was perturbed or replaced, `(n,)`
    changes: list[int]  #: first sample of each new mode, or of the transition that leads to it, ascending
    name: str  #: short name of the stream
    features: tuple[str, ...]  #: name of each column of `x`


class Recording(NamedTuple):
    """A stream read from a file: the fields of :class:`Stream`, and the time of each sample.

    A mode of −1 means that the truth is not known, a NaN in ``x`` that nothing was measured.
    """

    x: NDArray[np.float64]
    mode: NDArray[np.int64]
    noise: NDArray[np.bool_]
    changes: list[int]
    name: str
    features: tuple[str, ...]
    #: start of the interval that each sample is the mean of, `(n,)`: datetime64 or seconds, as the reader says
    times: NDArray[np.datetime64] | NDArray[np.float64]


def read_table(
    path: str | PathLike[str], columns: Sequence[str], lines: int = 20_000, header: int = 0
) -> Iterator[NDArray[np.float64]]:
    """Read numbers separated by white space, `lines` at a time, so that a file may be larger than memory.

    Each line must have a field for every name in `columns`, but for the first `header` lines; blank ones are skipped. A
    ValueError names file, line and column of the first field that is not a number.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "two.txt"
    ...     _ = file.write_text("1 2\\n3 4\\n5 6\\n")
    ...     [piece.shape for piece in read_table(file, ("a", "b"), lines=2)]
    [(2, 2), (1, 2)]
    """
    whole("read_table", "lines", lines)
    # utf-8-sig: some copies of these files start with a byte order mark. Bytes that are not text become bad fields.
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        next_line = 1 + sum(1 for _ in islice(file, header))
        while piece := list(islice(file, lines)):
            if any(map(str.strip, piece)):
                yield _parse(path, piece, next_line, columns)
            next_line += len(piece)


def _parse(path: str | PathLike[str], piece: list[str], start: int, columns: Sequence[str]) -> NDArray[np.float64]:
    """Parse a piece at C speed; only if that fails, look line by line for the error."""
    try:
        table = np.loadtxt(piece, comments=None, ndmin=2)
        if table.shape[1] == len(columns):
            return table
    except ValueError:
        pass
    for number, line in enumerate(piece, start):
        fields = line.split()
        for column, (field, name) in enumerate(zip(fields, columns), 1):
            try:
                np.loadtxt([field], comments=None)
            except ValueError:
                raise ValueError(f"{path}, line {number}, column {column} ({name}): not a number: {field!r}") from None
        n, wanted = len(fields), len(columns)
        if 0 < n < wanted:
            absent = f"column {n + 1} ({columns[n]}): missing, the line has {n} of {wanted} columns"
            raise ValueError(f"{path}, line {number}, {absent}")
        if n > wanted:
            more = f"column {wanted + 1}: one column too many, the line has {n}, expected {wanted}"
            raise ValueError(f"{path}, line {number}, {more}")
    raise ValueError(f"{path}, lines {start} to {start + len(piece) - 1}: cannot be read as numbers")
