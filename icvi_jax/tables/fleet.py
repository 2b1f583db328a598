"""Read many nodes from one file or folder: long, wide, one file per node, or a saved array; on one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.clock import believed_rows
from icvi_jax.tables.column_kinds import rows_by_node
from icvi_jax.tables.columns import ChosenColumns, numbers, pick, sift, table, times
from icvi_jax.tables.parse import Column
from icvi_jax.tables.raw_table import Sheet
from icvi_jax.tables.read import NODES, companion, located, open_sheet, read_arrays
from icvi_jax.tables.table import Fleet, Table, TableError, Times, check_names, check_samples, seconds_of, some_names
from icvi_jax.tables.text import kind
from icvi_jax.tables.window_means import means, seconds, slots, windows

MOST_CELLS = 400_000_000
TOGETHER = 1.5  # nodes share a clock if all different times are at most so many times the rows of the longest node


class Readings(NamedTuple):
    """Rows in any order: for each one the number of its node, its time (or None), and its values."""

    node: NDArray[np.int64]
    times: Times | None
    x: NDArray[np.float64]

    def some(self, which: NDArray[np.generic]) -> Readings:
        """Some of the rows."""
        return Readings(self.node[which], None if self.times is None else self.times[which], self.x[which])


def stacked(x: NDArray[np.float64], times: Times | None) -> Readings:
    """An array (N, T, p) as rows, so that one function does windows and time order for all layouts."""
    node = np.repeat(np.arange(len(x)), x.shape[1])
    return Readings(node, None if times is None else np.tile(times, len(x)), x.reshape(-1, x.shape[2]))


def believed(
    node: NDArray[np.int64], times: Times, nodes: Sequence[str], notes: list[str]
) -> tuple[NDArray[np.bool_], Times]:
    """Which rows have a time that can be believed, given those of the same node, and the times in the order of each
    node; notes say which nodes have others."""
    keep, fixed, doubts = np.ones(len(node), bool), times.copy(), dict[str, list[str]]()
    for rows in rows_by_node(node, len(node)) if len(node) else ():
        keep[rows], fixed[rows], doubts[nodes[node[rows[0]]]] = believed_rows(times[rows])
    notes += told_once(list(doubts), list(doubts.values()))
    return keep, fixed


def first_readings(rows: Readings, notes: list[str]) -> Readings:
    """Of several readings of a node and column at one time the first stays, as live. Nodes in which more than half
    would be lost have times too coarse to tell rows apart: there all stay."""
    if rows.times is None:
        return rows
    order = np.lexsort((rows.times, rows.node))
    node, when = rows.node[order], rows.times[order]
    slot = np.cumsum((np.diff(node, prepend=-1) != 0) | np.append(True, when[1:] != when[:-1]))
    if slot[-1] == len(slot):
        return rows
    x = rows.x.copy()
    again = np.zeros(x.shape, bool)
    for j in range(x.shape[1]):
        known = np.isfinite(x[order, j])
        again[order[known][1:], j] = np.diff(slot[known]) == 0
    counts = [np.bincount(rows.node, some.sum(axis=1)) for some in (again, np.isfinite(x))]
    again &= (2 * counts[0] <= counts[1])[rows.node][:, None]
    if again.any():
        notes.append(f"{int(again.sum()):,} readings have the time of one before of their node and column: left out")
    x[again] = np.nan
    return rows._replace(x=x)


def align(
    shown: str, rows: Readings, nodes: int, every: str = ""
) -> tuple[NDArray[np.float64], Times | None, tuple[str, ...]]:
    """Put readings into an array (N, T, p), NaN where a node has none; also the time of each step or None, and notes.

    Nodes without times are aligned by row number. Nodes with times are aligned by time, if they share a clock;
    otherwise means are taken in windows as long as the usual interval between two readings of a node. Several readings
    of a node at one time are averaged, feature by feature.

    Examples
    --------
    >>> rows = Readings(np.array([0, 1, 0]), np.array([1.0, 2.0, 2.0]), np.array([[5.0], [6.0], [7.0]]))
    >>> x, times, notes = align("a", rows, 2)
    >>> x[:, :, 0].tolist(), times.tolist()
    ([[5.0, 7.0], [nan, 6.0]], [1.0, 2.0])
    """
    notes: list[str] = []
    clock, step = None, count_rows(rows.node)
    length = None
    if rows.times is not None:
        clock, step = np.unique(rows.times, return_inverse=True)
        step = step.reshape(-1)
        if not every or seconds(every) is None:
            length = interval_if_clocks_differ(rows.node, rows.times, notes)
    if rows.times is not None and length is not None:
        step, clock = slots(rows.times, length)
    elif every:
        step, clock = windows(shown, every, rows.times, step, clock)
    steps = int(step.max()) + 1 if clock is None else len(clock)
    if nodes * steps * rows.x.shape[1] > MOST_CELLS:
        raise TableError(
            shown,
            f"{nodes:,} nodes by {steps:,} steps by {rows.x.shape[1]} do not fit: take means in windows with --every",
        )
    x = means(rows.x, rows.node * steps + step, nodes * steps).reshape(nodes, steps, rows.x.shape[1])
    doubled = int(np.isfinite(rows.x).sum() - np.isfinite(x).sum())
    if doubled and not every and length is None:
        notes.append(f"{doubled:,} readings have the time of another one of their node and column: means are taken")
    return x, clock, tuple(notes)


def count_rows(node: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the rows of each node from 0, in the order of the file."""
    order = np.argsort(node, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(node))[:-1]])
    step = np.empty(len(node), np.int64)
    step[order] = np.arange(len(node)) - starts[node[order]]
    return step


def interval_if_clocks_differ(node: NDArray[np.int64], times: Times, notes: list[str]) -> float | None:
    """The median time between two readings of one node, in seconds or in the file's unit, with a note; None where the
    nodes share a clock."""
    if len(np.unique(times)) <= TOGETHER * np.unique(node, return_counts=True)[1].max():
        return None
    number = seconds_of(times)
    order = np.lexsort((number, node))
    gap, same = np.diff(number[order]), np.diff(node[order]) == 0
    gaps = gap[same & (gap > 0)]
    length = float(f"{np.median(gaps):.3g}") if gaps.size else 1.0
    notes.append(f"the times of the nodes differ: means in windows of {length:g} s (choose with --every)")
    return length


SEPARATORS = "_.:/ "
SINGLE = ("value",)
"""Name of the variable if there is only one."""


def split_names(
    shown: str, names: Sequence[str], wanted: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """Nodes and variables from column names, and the positions (nodes, variables) of their columns, so that every node
    has every variable. If no name has a separator, each column is a node with a single variable.

    Examples
    --------
    >>> nodes, variables, place = split_names("a.csv", ["n_1_temp", "n_1_hum", "n_2_temp", "n_2_hum"], ())
    >>> nodes, variables, place.tolist()
    (('n_1', 'n_2'), ('temp', 'hum'), [[0, 1], [2, 3]])
    """
    for pairs in _splittings(names):
        nodes, variables = (tuple(dict.fromkeys(part)) for part in zip(*pairs))
        if len(nodes) > 1 and len(nodes) * len(variables) == len(names) == len(set(pairs)):
            check_names(shown, wanted, variables, "variable")
            variables = tuple(wanted) or variables
            return nodes, variables, np.array([[pairs.index((node, v)) for v in variables] for node in nodes])
    if any(separator in name for name in names for separator in "_.:/"):
        raise TableError(
            shown,
            "column names are not node_variable for every node and variable, and no column is called node "
            "(name the node column with --node)",
            1,
            1,
            names[0],
        )
    if wanted:
        names = [name for name in names if name in wanted] or list(names)
    return tuple(names), SINGLE, np.arange(len(names))[:, None]


def _splittings(names: Sequence[str]) -> Iterable[list[tuple[str, str]]]:
    """Split all names at one separator, from the right and from the left, then with the variable first."""
    for separator in SEPARATORS:
        if not all(separator in name.strip(separator) for name in names):
            continue
        for split in (str.rsplit, str.split):
            for count in (1, 2):
                parts = [split(name, separator, count) for name in names]
                if all(len(part) == count + 1 for part in parts):
                    if split is str.rsplit:
                        yield [(part[0], separator.join(part[1:])) for part in parts]
                    else:
                        yield [(separator.join(part[:count]), part[count]) for part in parts]


MOST_NOTES = 6


def _from_folder(folder: Path, columns: Sequence[str], time: str, every: str, keep_codes: bool) -> Fleet:
    """Read all files that are not hidden and have the most frequent extension, each one a node.

    A column without a reading in one file is missing in that node. A column that some file does not have is left out,
    unless it was asked for: then that is an error.
    """
    files, notes = files_in(folder)
    parts: list[Table] = []
    for path in files:
        shown = f"{folder.name}/{path.name}"
        sheet = open_sheet(path, shown, kind(path, shown))
        if not sheet.rows:
            raise TableError(shown, "the table has no rows; remove the file, or wait for readings")
        # Whether a column is dead, constant or a counter is decided from all nodes together.
        parts.append(table(sheet, columns, time, judge=False, keep_codes=keep_codes))
        _check_alike(parts[-1], parts[0], shown, files[0].name)
    features = tuple(name for name in parts[0].features if all(name in part.features for part in parts))
    which = np.repeat(np.arange(len(parts)), [len(part.x) for part in parts])
    axis = None if parts[0].times is None else np.concatenate([part.times for part in parts])
    x = np.concatenate([part.x[:, [part.features.index(name) for name in features]] for part in parts])
    names = [path.name for path in files]
    notes += told_once(names, [part.notes for part in parts]) + _left_out(names, [part.features for part in parts])
    stems = tuple(path.stem for path in files)
    nodes = stems if len(set(stems)) == len(stems) else tuple(names)
    picked = ChosenColumns([], None, None, notes, bool(columns))
    fleet = _fleet(folder.name, nodes, features, Readings(which, axis, x), picked, every, keep_codes)
    return fleet._replace(time_name=parts[0].time_name)


def files_in(folder: Path) -> tuple[list[Path], list[str]]:
    """The files to read, and a note about the others."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise TableError(str(folder), "the folder has no file")
    suffixes = [path.suffix.lower() for path in files]
    usual = max(dict.fromkeys(suffixes), key=suffixes.count)
    others = [path.name for path in files if path.suffix.lower() != usual]
    notes = [f"not read: {some_names(others)} (most files are {usual or 'without extension'})"] if others else []
    return [path for path in files if path.suffix.lower() == usual], notes


def _check_alike(part: Table, first: Table, shown: str, name: str) -> None:
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
    notes = []
    for name in dict.fromkeys(name for some in features for name in some):
        without = [file for file, some in zip(files, features) if name not in some]
        if without:
            notes.append(f"left out: {name!r} (no column of numbers in {_some(without)})")
    return first_notes(notes)


def told_once(files: Sequence[str], notes: Sequence[Sequence[str]]) -> list[str]:
    """The notes about files; what is not true of all of them names its file."""
    told = []
    for note in dict.fromkeys(note for some in notes for note in some):
        having = [file for file, some in zip(files, notes) if note in some]
        told.append(note if len(having) == len(files) else f"{_some(having)}: {note}")
    return first_notes(told)


def _some(files: Sequence[str]) -> str:
    return files[0] + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def first_notes(notes: list[str]) -> list[str]:
    """Some notes, and how many more there are."""
    more = len(notes) - MOST_NOTES
    return notes if more <= 0 else [*notes[:MOST_NOTES], f"… and {more} more notes like these"]


NODE_NAMES = tuple(
    "node node_id nodeid mote mote_id moteid station station_id device device_id sensor sensor_id unit unit_id id "
    "name".split()
)
VARIABLE_NAMES = ("variable", "quantity", "parameter", "metric", "measurement", "field")
VALUE_NAMES = ("value", "reading", "measure", "val")


def read_fleet(
    source: str | Path,
    columns: Sequence[str] = (),
    time: str = "",
    node: str = "",
    every: str = "",
    keep_codes: bool = False,
) -> Fleet:
    """Read a fleet from a file or folder in any of the usual layouts.

    A *long* table has a node column; if it also has a variable and a value column, every row is one reading. A *wide*
    table has a column ``node_variable`` for each node and variable, or one column per node. A *folder* has one file per
    node, with the name of the node. An *NPZ* file has an array ``(nodes, steps, features)``.

    Parameters
    ----------
    source : file or folder; ``-`` is standard input.
    columns : names of the features; empty: all of them.
    time : name of the time column; empty: found as in `read`.
    node : name of the node column; empty: one whose name says so, such as ``node`` or ``station_id``.
    every : mean in windows of this length. Nodes whose times differ need windows; if this is empty, windows of the
        usual interval are taken, and a note says so.
    keep_codes : take error codes such as −9999 as readings.

    Raises
    ------
    TableError
        One line that names file, row and column.
    """
    if str(source) != "-" and Path(source).is_dir():
        return _from_folder(Path(source), columns, time, every, keep_codes)
    with located(source) as (path, shown):
        what = kind(path, shown)
        if what in ("npy", "npz"):
            return _from_arrays(path, shown, what, columns, every, keep_codes)
        sheet = open_sheet(path, shown, what)
        named = sheet.find(node) if node else named_column(sheet, NODE_NAMES)
        if named:
            return _long(sheet, named, columns, time, every, keep_codes)
        return _wide(sheet, columns, time, every, keep_codes)


def named_column(sheet: Sheet, names: Sequence[str]) -> Column | None:
    """Find a column by one of its usual names."""
    known = {column.name.lower(): column for column in sheet.columns}
    return next((known[name] for name in names if name in known), None)


def _as_nodes(sheet: Sheet, column: Column) -> tuple[tuple[str, ...], np.ndarray]:
    """The different names in a column, in order of appearance, and for each row the number of its name."""
    sql = f"trim(CAST(c{column.position} AS VARCHAR))"
    (values,) = sheet.fetch([column._replace(kind="text", sql=f"coalesce({sql}, '')")])
    found, first, which = np.unique(values.astype(str), return_index=True, return_inverse=True)
    if "" in found:
        record = int(np.argmax(values.astype(str) == ""))
        raise sheet.error(column, record, "the name of the node is missing")
    order = np.argsort(first)
    return tuple(found[order].tolist()), np.argsort(order)[which.reshape(-1)]


def _long(sheet: Sheet, node: Column, columns: Sequence[str], time: str, every: str, keep_codes: bool) -> Fleet:
    nodes, which = _as_nodes(sheet, node)
    variable, value = named_column(sheet, VARIABLE_NAMES), named_column(sheet, VALUE_NAMES)
    if variable and value and variable.kind == "text":
        picked = pick(sheet, [value.name], time, "", [node, variable])
        features, row_feature = _as_nodes(sheet, variable)
        flat = numbers(sheet, [value])[:, 0]
        x = np.full((len(flat), len(features)), np.nan)
        x[np.arange(len(flat)), row_feature] = flat
        if columns:
            check_names(sheet.shown, columns, features, "variable")
            x, features = x[:, [features.index(name) for name in columns]], tuple(columns)
        picked = picked._replace(chosen=bool(columns))
    else:
        picked = pick(sheet, columns, time, "", [node])
        x, features = numbers(sheet, picked.features), tuple(column.name for column in picked.features)
    readings = Readings(which, times(sheet, picked.time) if picked.time else None, x)
    return _fleet(sheet.shown, nodes, features, readings, picked, every, keep_codes)


def _wide(sheet: Sheet, columns: Sequence[str], time: str, every: str, keep_codes: bool) -> Fleet:
    picked = pick(sheet, (), time, "")._replace(chosen=bool(columns))
    nodes, features, place = split_names(sheet.shown, [column.name for column in picked.features], columns)
    if features == SINGLE:
        picked.notes.append("no column names the node, so each column is a node; name the node column with --node")
    x = numbers(sheet, [picked.features[n] for n in place.reshape(-1)])
    x = x.reshape(len(x), len(nodes), len(features)).transpose(1, 0, 2)
    readings = stacked(x, times(sheet, picked.time) if picked.time else None)
    return _fleet(sheet.shown, nodes, features, readings, picked, every, keep_codes)


def _fleet(
    shown: str,
    nodes: tuple[str, ...],
    features: tuple[str, ...],
    readings: Readings,
    picked: ChosenColumns,
    every: str,
    keep_codes: bool,
) -> Fleet:
    """Leave out columns that are not readings and times that cannot be, and put the rest on one time axis."""
    if readings.times is not None:
        keep, fixed = believed(readings.node, readings.times, nodes, picked.notes)
        readings = readings._replace(times=fixed).some(keep)
        when = np.zeros(0) if readings.times is None else seconds_of(readings.times)
        if (np.diff(when) < 0).any():  # what is a code or a counter is judged by what was before
            readings = readings.some(np.lexsort((when, readings.node)))
    features, x = sift(shown, features, readings.x, picked.notes, picked.chosen, readings.node, keep_codes)
    readings = first_readings(readings._replace(x=check_samples(shown, x, features)), picked.notes)
    x, axis, notes = align(shown, readings, len(nodes), every)
    return Fleet(shown, nodes, features, x, axis, picked.time.name if picked.time else "", (*picked.notes, *notes))


def _from_arrays(path: Path, shown: str, what: str, columns: Sequence[str], every: str, keep_codes: bool) -> Fleet:
    x, features, clock, time_name, found = read_arrays(path, shown, what, 3, columns)
    nodes = companion(found, NODES, len(x))
    called = tuple(map(str, nodes[1])) if nodes else tuple(f"node {n}" for n in range(1, len(x) + 1))
    notes: list[str] = []
    rows = stacked(x, clock)
    features, flat = sift(shown, features, rows.x, notes, bool(columns), rows.node, keep_codes)
    x = check_samples(shown, flat.reshape(*x.shape[:2], len(features)), features)
    if every:
        x, clock, more = align(shown, stacked(x, clock), len(x), every)
        notes += more
    return Fleet(shown, called, features, x, clock, time_name, tuple(notes))
