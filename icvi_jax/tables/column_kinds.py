"""What a column is, by its name and its values: a reading, a time, a counter, a label or an identifier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icvi_jax.tables.clock import unit_of
from icvi_jax.tables.table import some_names

LABELS = frozenset(
    "label labels anomaly anomalies outlier outliers changepoint changepoints class classes target targets event "
    "events truth groundtruth fault faults attack attacks mode cluster".split()
)
IDENTIFIERS = frozenset("id ids uid uuid guid index idx row rows rownumber seq sequence serial unnamed counter".split())
LAST = {"label": "label", "labels": "label", "id": "identifier", "ids": "identifier", "uuid": "identifier"}
"""Words at the end of a name that decide what it is: `class_label`, `row_id`."""
FILLERS = frozenset("is has true gt".split())
TIME_NAMES = frozenset("time timestamp datetime date epoch unixtime unix_time".split())
TIME_WORDS = TIME_NAMES | frozenset(
    "timestamps ts t utc gmt unix when stamp at clock zeit zeitstempel datum fecha hora tiempo heure temps horodatage "
    "tijd tijdstip data ora".split()
)
UNITS = frozenset("s sec secs second seconds ms us µs μs ns millis utc".split())
LEAST_ROWS = 20
"""With fewer rows one cannot say whether a column is constant, has two values, or is a counter; counters are found in
so many rows, in files as in live streams."""
EVEN = 1e-3  # largest relative difference between the steps of a clock: no sensor increases so evenly
REASONS = {
    "label": "labels by their names; --columns uses them anyway, --label takes one as the truth",
    "identifier": "identifiers by their names; --columns uses them anyway",
    "constant": "the same value in all rows; --columns uses them anyway",
    "two values": "only two values; --columns uses them anyway",
    "counter": "counters; --columns uses them anyway",
    "time": "further times; --time chooses another one",
    "no reading": "no reading in any row",
    "empty at first": "no value in the first sample, which decides what is read; --columns uses them anyway",
}


def by_name(name: str) -> str:
    """What a column is by its name: "label", "identifier", or "" for what may be a reading.

    Examples
    --------
    >>> by_name("is_anomaly"), by_name("Unnamed: 0"), by_name("rowId"), by_name("heat index")
    ('label', 'identifier', 'identifier', '')
    """
    words = _words(name)
    whole = "".join(word for word in words if word not in FILLERS and not word.isdigit())
    if whole in LABELS:
        return "label"
    return "identifier" if whole in IDENTIFIERS else LAST.get(words[-1], "") if words else ""


def is_time_name(name: str) -> bool:
    """Whether a name says that the numbers of a column are times, whatever they look like.

    Examples
    --------
    >>> is_time_name("Time [ms]"), is_time_name("unix_time"), is_time_name("response_time")
    (True, True, False)
    """
    return "".join(word for word in _words(name) if word not in UNITS) in TIME_NAMES


def may_be_time(name: str, values: NDArray[np.float64]) -> bool:
    """Whether the numbers of a column whose name may mean a time are times since 1970, or never decrease.

    Examples
    --------
    >>> may_be_time("t [s]", np.arange(30) * 0.1), may_be_time("t [°C]", np.sin(np.arange(30.0)))
    (True, False)
    """
    known = values[np.isfinite(values)]
    rises = len(known) >= LEAST_ROWS and (np.diff(known) >= 0).all() and known[0] < known[-1]
    return has_time_word(name) and bool(epoch_unit(known) > 0 or rises)


def has_time_word(name: str) -> bool:
    """Whether a word of a name may mean a time; that alone is not enough: `t` may be a temperature."""
    return not TIME_WORDS.isdisjoint(_words(name))


def epoch_unit(values: NDArray[np.float64]) -> float:
    """Units per second of times since 1970 that lie from 1980 to 2100: 1, 1e3, 1e6 or 1e9; 0 for other numbers.

    Examples
    --------
    >>> epoch_unit(np.array([1.7e12, 1.8e12])), epoch_unit(np.array([21.5]))
    (1000.0, 0.0)
    """
    low, high = (unit_of(float(end)) for end in (values.min(), values.max())) if values.size else (0.0, 0.0)
    return low if low == high else 0.0


def by_values(x: NDArray[np.float64], node: NDArray[np.int64] | None = None) -> list[str]:
    """What each column of `x` (rows, p) is by its values: "" for readings. With the `node` of each row, constants are
    looked for in each node.

    Examples
    --------
    >>> t = np.arange(30.0)
    >>> by_values(np.column_stack([t % 2, t * 0, np.sin(t)]))
    ['two values', 'constant', '']
    """
    order = np.arange(len(x)) if node is None else np.argsort(node, kind="stable")
    starts = np.array([0]) if node is None else np.flatnonzero(np.diff(node[order], prepend=-1))
    if len(x) < LEAST_ROWS * len(starts):
        return ["no reading" if np.isnan(column).all() else "" for column in x.T]
    kinds = []
    for values in x[order].T:
        known = values[np.isfinite(values)]
        low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
        if not known.size:
            kinds.append("no reading")
        elif not (low < high).any():  # also where a node has no reading
            kinds.append("constant")
        else:
            kinds.append("two values" if np.isin(known, (known.min(), known.max())).all() else "")
    return kinds


class Held(NamedTuple):
    """Columns of a node that say nothing yet: what each is held at, (p,), NaN for readings; and the second value that
    was seen of a column with two, NaN if there was one only, infinite for a counter, which is held for good."""

    value: NDArray[np.float64]
    other: NDArray[np.float64]


def held_columns(first: NDArray[np.float64]) -> Held:
    """The columns of the first `LEAST_ROWS` rows of a node (rows, p) that only count up, evenly or in whole numbers,
    and those with at most two values, which are held until a third one comes.

    Later rows have no say, so that a recording and a live stream are read alike.

    Examples
    --------
    >>> t = np.arange(20.0)
    >>> held_columns(np.column_stack([4000 + 3 * t, t % 2, np.sin(t)]))
    Held(value=array([4057.,    0.,   nan]), other=array([inf,  1., nan]))
    """
    value, other = np.full((2, first.shape[1]), np.nan)
    for j in np.flatnonzero(_may_be_held(first)).tolist() if len(first) >= LEAST_ROWS else ():
        known = first[np.isfinite(first[:, j]), j]
        steps, further = np.diff(known), known[known != known[:1]]
        if len(steps) >= LEAST_ROWS // 2 and (steps > 0).all():
            even = (np.abs(steps - np.median(steps)) <= EVEN * np.median(steps)).all()
            if even or (known == np.floor(known)).all():
                value[j], other[j] = known[-1], np.inf
        elif known.size and (further == further[:1]).all():
            value[j], other[j] = known[0], further[0] if further.size else np.nan
    return Held(value, other)


def _may_be_held(first: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Columns that rise in every row, have no third value, or have holes: most have none of these."""
    rises = ~(first[1:] <= first[:-1]).any(axis=0)
    differ = first != first[0]
    second = first[differ.argmax(axis=0), np.arange(first.shape[1])]
    few = ~(differ & (first != second)).any(axis=0)
    return np.asarray(rises | few | np.isnan(first).any(axis=0))


def hold_columns(x: NDArray[np.float64], held: Held) -> Held:
    """Give the rows of some nodes (n, t, p) the values at which their columns are `held` (n, p), in place; returns what
    is held after them: a third value ends it."""
    value, other = (part.copy() for part in held)
    for t in range(x.shape[1]):
        now = x[:, t]
        new = np.isfinite(value) & np.isfinite(now) & (now != value) & (now != other) & (other != np.inf)
        third = new & np.isfinite(other)
        other[new] = np.where(third, np.nan, now)[new]
        value[third] = np.nan
        stays = np.isfinite(value) & np.isfinite(now)
        now[stays] = value[stays]
    return Held(value, other)


def rows_by_node(node: NDArray[np.int64] | None, rows: int) -> list[NDArray[np.int64]]:
    """The rows of each node in their order; all rows where there is one node.

    Examples
    --------
    >>> [rows.tolist() for rows in rows_by_node(np.array([1, 0, 1]), 3)]
    [[1], [0, 2]]
    """
    if node is None or not rows:
        return [np.arange(rows)]
    order = np.argsort(node, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(node[order])) + 1)


def hold_quiet(
    x: NDArray[np.float64], node: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Hold what says nothing, node by node; returns the values, and which columns of `x` (rows, p) count in every
    node."""
    counting, before = np.ones(x.shape[1], bool), x
    for rows in rows_by_node(node, len(x)):
        value, other = held_columns(x[rows[:LEAST_ROWS]])
        counting &= other == np.inf
        for j in np.flatnonzero(np.isfinite(value)).tolist():
            column = x[rows, j]
            new = np.isfinite(column) & (column != value[j])
            if other[j] != np.inf:
                third = new & (column != column[new.argmax()])
                new[third.argmax() if third.any() else len(new) :] = False
            if new.any():
                x = x.copy() if x is before else x
                x[rows[new], j] = value[j]
    return x, counting


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns that are all different: the second `flow` is `flow (2)`.

    Examples
    --------
    >>> distinct(["time", "flow", "flow"])
    ('time', 'flow', 'flow (2)')
    """
    found: list[str] = []
    for name in names:
        same, n = name, 1
        while same in found:
            n += 1
            same = f"{name} ({n})"
        found.append(same)
    return tuple(found)


def are_counted(names: Sequence[str]) -> bool:
    """Whether names are 0, 1, 2, as pandas writes columns without names, perhaps behind an index without one.

    Examples
    --------
    >>> are_counted(["", "0", "1"]), are_counted(["1", "2"])
    (True, False)
    """
    named = names[not names[0].strip() :]
    return len(named) > 1 and list(named) == [str(n) for n in range(len(named))]


def sentences(left_out: Sequence[tuple[str, str]]) -> list[str]:
    """One sentence for each rule that left columns out, given pairs of a name and a reason.

    Examples
    --------
    >>> sentences([("fan", "two values"), ("lamp", "two values")])
    ["left out: 'fan', 'lamp' (only two values; --columns uses them anyway)"]
    """
    lines = []
    for why, text in REASONS.items():
        names = [name for name, reason in left_out if reason == why]
        if names:
            lines.append(f"left out: {some_names(names)} ({text})")
    return lines


def _words(name: str) -> list[str]:
    """The words of a name in lower case, also of namesLikeThis."""
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
