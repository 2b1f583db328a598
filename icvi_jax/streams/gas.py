"""Reader of the UCI recordings "gas sensor array under dynamic gas mixtures": 1-second means of some sensors."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from icvi_jax.streams.base import Recording, check_count, read_table

# The sixteen channels in file order: the same eight twice.
TYPES = ("tgs2602", "tgs2602", "tgs2600", "tgs2600", "tgs2610", "tgs2610", "tgs2620", "tgs2620") * 2
SENSORS = tuple(f"{kind}_{TYPES[:i].count(kind) + 1}" for i, kind in enumerate(TYPES))
COLUMNS = ("time", "gas", "ethylene", *SENSORS)


def read_gas(
    path: str | PathLike[str],
    sensors: Sequence[int] = (1, 2, 3, 4, 5, 6, 7, 8),
    rows: int = 100,
    start: int = 0,
    length: int | None = None,
    lines: int = 20_000,
) -> Recording:
    """Read block means of ``ethylene_CO.txt`` or ``ethylene_methane.txt``.

    After one header line, a line has 19 fields: time [s], set points of CO or methane and of ethylene [ppm], and
    sixteen sensors at 100 Hz: two each of TGS2602, TGS2600, TGS2610 and TGS2620, in this order, and the same again.
    A file has some 600 MB: it is read in pieces, and only the means stay. A file without its header is read as well.

    Each pair of set points is a mode, numbered in order of appearance. A block has the mode of its last row: a change
    is the first block with the new set point; the sensors react seconds to minutes later.

    Parameters
    ----------
    path
        The file.
    sensors
        Which of the sixteen, from 1; the default is the first two of each type.
    rows
        Rows of a block; 100 are a second. Rows that do not fill a block at the end of the file are left out.
    start, length
        First block and how many; None is to the end.
    lines
        Lines read at a time.

    Returns
    -------
    Recording
        ``x`` (blocks, len(sensors)); times are the time field of each block's first row, in seconds.

    Raises
    ------
    ValueError
        If a line is malformed (with file, line and column), or the file ends before the blocks asked for.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> row = "{:.2f} 0.00 {:.2f} " + "{} " * 16 + "\\n"
    >>> text = "Time (seconds), CO conc (ppm), Ethylene conc (ppm), sensor readings (16 channels)\\n"
    >>> text += "".join(row.format(n / 100, 0 if n < 200 else 16.7, *range(n, n + 16)) for n in range(400))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "ethylene_CO.txt"
    ...     _ = file.write_text(text)
    ...     recording = read_gas(file, sensors=(1, 9))
    >>> recording.x.tolist(), recording.features, recording.changes
    ([[49.5, 57.5], [149.5, 157.5], [249.5, 257.5], [349.5, 357.5]], ('tgs2602_1', 'tgs2602_3'), [2])
    """
    _check(sensors, rows, start, length)
    chosen = [2 + sensor for sensor in sensors]
    means, times, points, pending = [], [], [], np.empty((0, len(COLUMNS)))
    blocks, stop = 0, None if length is None else start + length
    for piece in read_table(path, COLUMNS, lines, header=_header(path)):
        pending = np.concatenate([pending, piece])
        ready = len(pending) // rows
        low, high = max(start - blocks, 0), ready if stop is None else min(ready, stop - blocks)
        if low < high:
            block = pending[low * rows : high * rows].reshape(high - low, rows, len(COLUMNS))
            means.append(block[:, :, chosen].mean(axis=1))
            times.append(block[:, 0, 0].copy())  # a view would keep all of the piece in memory
            points.append(block[:, -1, 1:3].copy())
        blocks += ready
        pending = pending[ready * rows :]
        if stop is not None and blocks >= stop:
            break
    kept = sum(map(len, means))
    if not kept or (length is not None and kept < length):
        raise ValueError(
            f"{path}: the file has {blocks} blocks of {rows} rows, too few for start={start}, length={length}"
        )
    mode = _number(np.concatenate(points))
    changes = (1 + np.flatnonzero(np.diff(mode))).tolist()
    names = tuple(SENSORS[sensor - 1] for sensor in sensors)
    return Recording(np.concatenate(means), mode, np.zeros(kept, bool), changes, "gas", names, np.concatenate(times))


def _check(sensors: Sequence[int], rows: int, start: int, length: int | None) -> None:
    """Raise a ValueError for wrong arguments."""
    if not len(sensors) or len(set(sensors)) < len(sensors):
        raise ValueError(f"sensors must be different numbers, at least one, got {tuple(sensors)!r}")
    for sensor in sensors:
        check_count("sensors", sensor)
        if sensor > len(SENSORS):
            raise ValueError(f"sensors must be from 1 to {len(SENSORS)}, got {sensor}")
    check_count("rows", rows)
    check_count("start", start, least=0)
    if length is not None:
        check_count("length", length)


def _header(path: str | PathLike[str]) -> int:
    """The number of header lines, 1 or 0: skipping a first line of numbers would shift every block by a row."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        fields = file.readline().split()
    try:
        return 0 if len([float(field) for field in fields]) == len(COLUMNS) else 1
    except ValueError:
        return 1


def _number(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number the different rows in order of appearance."""
    _, first, which = np.unique(points, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.reshape(-1)]
