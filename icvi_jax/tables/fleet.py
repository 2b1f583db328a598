"""Read many nodes from one file or folder: long, wide, one file per node, or a saved array."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from icvi_jax.tables import arrays
from icvi_jax.tables.align import Readings, align
from icvi_jax.tables.clock import believed_rows
from icvi_jax.tables.columns import Picked, from_epoch, numbers, pick, sift, times
from icvi_jax.tables.folder import read_folder
from icvi_jax.tables.parse import Column
from icvi_jax.tables.raw_table import Sheet
from icvi_jax.tables.read import located, open_sheet
from icvi_jax.tables.sniff import kind
from icvi_jax.tables.table import Fleet, TableError, check_samples
from icvi_jax.tables.wide import SINGLE, split_names

NODE_NAMES = (
    "node",
    "node_id",
    "nodeid",
    "mote",
    "mote_id",
    "moteid",
    "station",
    "station_id",
    "device",
    "device_id",
    "sensor",
    "sensor_id",
    "unit",
    "unit_id",
    "id",
    "name",
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
    source
        File or folder; ``-`` is standard input.
    columns
        Names of the features; empty: all of them.
    time
        Name of the time column; empty: found as in `read`.
    node
        Name of the node column; empty: one whose name says so, such as ``node`` or ``station_id``.
    every
        Mean in windows of this length. Nodes whose times differ need windows; if this is empty, windows of the usual
        interval are taken, and a note says so.
    keep_codes
        Take error codes such as −9999 as readings.

    Raises
    ------
    TableError
        One line that names file, row and column.
    """
    if str(source) != "-" and Path(source).is_dir():
        found = read_folder(Path(source), columns, time, keep_codes)
        picked = Picked([], None, None, found.notes, bool(columns))
        fleet = _fleet(Path(source).name, found.nodes, found.features, found.readings, picked, every, keep_codes)
        return fleet._replace(time_name=found.time_name)
    with located(source) as (path, shown):
        what = kind(path, shown)
        if what in ("npy", "npz"):
            return _from_arrays(path, shown, what, columns, every, keep_codes)
        sheet = open_sheet(path, shown, what)
        named = sheet.find(node) if node else _named(sheet, NODE_NAMES)
        if named:
            return _long(sheet, named, columns, time, every, keep_codes)
        return _wide(sheet, columns, time, every, keep_codes)


def _named(sheet: Sheet, names: Sequence[str]) -> Column | None:
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
        raise TableError(
            sheet.shown, "the name of the node is missing", sheet.row(record), column.position + 1, column.name
        )
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return tuple(found[order].tolist()), rank[which.reshape(-1)]


def _long(sheet: Sheet, node: Column, columns: Sequence[str], time: str, every: str, keep_codes: bool) -> Fleet:
    """Read a table with a node column, and perhaps variable and value columns."""
    nodes, which = _as_nodes(sheet, node)
    variable, value = _named(sheet, VARIABLE_NAMES), _named(sheet, VALUE_NAMES)
    if variable and value and variable.kind == "text":
        picked = pick(sheet, [value.name], time, "", [node, variable])
        features, row_feature = _as_nodes(sheet, variable)
        flat = numbers(sheet, [value])[:, 0]
        x = np.full((len(flat), len(features)), np.nan)
        x[np.arange(len(flat)), row_feature] = flat
        if columns:
            absent = next((name for name in columns if name not in features), None)
            if absent is not None:
                raise TableError(
                    sheet.shown, f"there is no such variable; the file has {', '.join(features[:20])}", 1, None, absent
                )
            x, features = x[:, [features.index(name) for name in columns]], tuple(columns)
        picked = picked._replace(chosen=bool(columns))
    else:
        picked = pick(sheet, columns, time, "", [node])
        x, features = numbers(sheet, picked.features), tuple(column.name for column in picked.features)
    readings = Readings(which, times(sheet, picked.time) if picked.time else None, x)
    return _fleet(sheet.shown, nodes, features, readings, picked, every, keep_codes)


def _wide(sheet: Sheet, columns: Sequence[str], time: str, every: str, keep_codes: bool) -> Fleet:
    """Read a table with a column for each node and variable."""
    picked = pick(sheet, (), time, "")._replace(chosen=bool(columns))
    nodes, features, place = split_names(sheet.shown, [column.name for column in picked.features], columns)
    if features == SINGLE:
        picked.notes.append("no column names the node, so each column is a node; name the node column with --node")
    x = numbers(sheet, [picked.features[n] for n in place.reshape(-1)])
    steps = len(x)
    # As readings in rows, so that one function does windows and time order for all layouts.
    stacked = x.reshape(steps, len(nodes), len(features)).transpose(1, 0, 2).reshape(-1, len(features))
    axis = times(sheet, picked.time) if picked.time else None
    readings = Readings(
        np.repeat(np.arange(len(nodes)), steps), None if axis is None else np.tile(axis, len(nodes)), stacked
    )
    return _fleet(sheet.shown, nodes, features, readings, picked, every, keep_codes)


def _fleet(
    shown: str,
    nodes: tuple[str, ...],
    features: tuple[str, ...],
    readings: Readings,
    picked: Picked,
    every: str,
    keep_codes: bool,
) -> Fleet:
    """Leave out columns that are not readings and times that cannot be, and put the rest on one time axis."""
    if readings.times is not None:
        keep = np.ones(len(readings.x), bool)
        for n in range(len(nodes)):
            rows = np.flatnonzero(readings.node == n)
            good, _, doubts = believed_rows(readings.times[rows])
            keep[rows] = good
            picked.notes.extend(f"{nodes[n]}: {note}" for note in doubts if not good.all())
        readings = Readings(readings.node[keep], readings.times[keep], readings.x[keep])
    features, x = sift(shown, features, readings.x, picked.notes, picked.chosen, readings.node, keep_codes)
    readings = readings._replace(x=check_samples(shown, x, features))
    x, axis, notes = align(shown, readings, len(nodes), every)
    return Fleet(shown, nodes, features, x, axis, picked.time.name if picked.time else "", (*picked.notes, *notes))


def _from_arrays(path: Path, shown: str, what: str, columns: Sequence[str], every: str, keep_codes: bool) -> Fleet:
    """Read a saved array (N, T, p) with the names and times saved beside it."""
    found = arrays.load_arrays(path, shown, what)
    x = arrays.samples(found, shown, ndim=3)
    names, axis, nodes = (
        arrays.companion(found, known, length)
        for known, length in ((arrays.FEATURES, x.shape[2]), (arrays.TIMES, x.shape[1]), (arrays.NODES, x.shape[0]))
    )
    features = tuple(map(str, names[1])) if names else tuple(f"x{n}" for n in range(1, x.shape[2] + 1))
    if columns:
        absent = next((name for name in columns if name not in features), None)
        if absent is not None:
            raise TableError(
                shown, f"there is no such feature; the file has {', '.join(features[:20])}", 1, None, absent
            )
        x, features = x[:, :, [features.index(name) for name in columns]], tuple(columns)
    clock = from_epoch(axis[1]) if axis and axis[1].dtype.kind in "Mfiu" else None
    called = tuple(map(str, nodes[1])) if nodes else tuple(f"node {n}" for n in range(1, len(x) + 1))
    notes: list[str] = []
    which = np.repeat(np.arange(len(x)), x.shape[1])
    features, flat = sift(shown, features, x.reshape(-1, x.shape[2]), notes, bool(columns), which, keep_codes)
    x = check_samples(shown, flat.reshape(*x.shape[:2], len(features)), features)
    if every:
        readings = Readings(which, None if clock is None else np.tile(clock, len(x)), x.reshape(-1, x.shape[2]))
        x, clock, more = align(shown, readings, len(x), every)
        notes += more
    return Fleet(shown, called, features, x, clock, axis[0] if axis else "", tuple(notes))
