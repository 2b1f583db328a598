"""A folder with one file per node: the columns that all files have, under the names of the files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from icvi_jax.tables.align import Readings
from icvi_jax.tables.columns import table
from icvi_jax.tables.read import open_sheet
from icvi_jax.tables.sniff import kind
from icvi_jax.tables.table import Table, TableError, some_names

MOST_NOTES = 6


class Folder(NamedTuple):
    """The nodes and their readings, as the files have them."""

    nodes: tuple[str, ...]
    features: tuple[str, ...]
    readings: Readings
    time_name: str
    notes: list[str]


def read_folder(folder: Path, columns: Sequence[str], time: str, keep_codes: bool = False) -> Folder:
    """Read all files that are not hidden and have the most frequent extension.

    A column without a reading in one file is missing in that node. A column that some file does not have is left out,
    unless it was asked for: then that is an error.
    """
    files, notes = _files(folder)
    parts: list[Table] = []
    for path in files:
        shown = f"{folder.name}/{path.name}"
        sheet = open_sheet(path, shown, kind(path, shown))
        if not sheet.rows:
            raise TableError(shown, "the table has no rows; remove the file, or wait for readings")
        # Whether a column is dead, constant or a counter is decided from all nodes together.
        parts.append(table(sheet, columns, time, judge=False, keep_codes=keep_codes))
        _compare(parts[-1], parts[0], shown, files[0].name)
    features = tuple(name for name in parts[0].features if all(name in part.features for part in parts))
    which = np.repeat(np.arange(len(parts)), [len(part.x) for part in parts])
    axis = None if parts[0].times is None else np.concatenate([part.times for part in parts])
    x = np.concatenate([part.x[:, [part.features.index(name) for name in features]] for part in parts])
    names = [path.name for path in files]
    notes += _told(names, [part.notes for part in parts]) + _left_out(names, [part.features for part in parts])
    stems = tuple(path.stem for path in files)
    nodes = stems if len(set(stems)) == len(stems) else tuple(names)
    return Folder(nodes, features, Readings(which, axis, x), parts[0].time_name, notes)


def _files(folder: Path) -> tuple[list[Path], list[str]]:
    """The files to read, and a note about the others."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise TableError(str(folder), "the folder has no file")
    suffixes = [path.suffix.lower() for path in files]
    usual = max(dict.fromkeys(suffixes), key=suffixes.count)
    others = [path.name for path in files if path.suffix.lower() != usual]
    notes = [f"not read: {some_names(others)} (most files are {usual or 'without extension'})"] if others else []
    return [path for path in files if path.suffix.lower() == usual], notes


def _compare(part: Table, first: Table, shown: str, name: str) -> None:
    """Refuse a file that does not fit the first one."""
    if part.times is None or first.times is None:
        if part.times is not first.times:
            raise TableError(shown, f"{'no ' if part.times is None else 'a '}time column, unlike {name}", 1, 1)
    elif part.times.dtype.kind != first.times.dtype.kind:
        kinds = ["dates" if one.dtype.kind == "M" else "numbers" for one in (part.times, first.times)]
        raise TableError(shown, f"the times are {kinds[0]}, those of {name} are {kinds[1]}")
    if not set(part.features) & set(first.features):
        has = f"none of the columns of {name} ({some_names(first.features)}); it has {some_names(part.features)}"
        raise TableError(shown, has)


def _left_out(files: Sequence[str], features: Sequence[Sequence[str]]) -> list[str]:
    """A note for each column that some file does not have."""
    notes = []
    for name in dict.fromkeys(name for some in features for name in some):
        without = [file for file, some in zip(files, features) if name not in some]
        if without:
            notes.append(f"left out: {name!r} (no column of numbers in {_some(without)})")
    return _first(notes)


def _told(files: Sequence[str], notes: Sequence[Sequence[str]]) -> list[str]:
    """The notes about files; what is not true of all of them names its file."""
    told = []
    for note in dict.fromkeys(note for some in notes for note in some):
        having = [file for file, some in zip(files, notes) if note in some]
        told.append(note if len(having) == len(files) else f"{_some(having)}: {note}")
    return _first(told)


def _some(files: Sequence[str]) -> str:
    return files[0] + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def _first(notes: list[str]) -> list[str]:
    more = len(notes) - MOST_NOTES
    return notes if more <= 0 else [*notes[:MOST_NOTES], f"… and {more} more notes like these"]
