"""Lines of input and their meaning: JSON objects, or CSV with a header."""

from __future__ import annotations

import csv
import json
import math
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from icvi_jax.numerics.arrays import LARGEST
from icvi_jax.tables.rules import by_name, is_time_name, sentences
from icvi_jax.tables.sniff import MISSING
from icvi_jax.watch.sample import Sample, known_as, said

NODE, UNITS, LONGEST_UNIT = "node", "units", 20
BLANK = "\ufeff" + string.whitespace
LONGEST_LINE = 1 << 20
"""Longest line in bytes; of a longer one only so much is kept that it is known to be too long."""


OTHER_MARKS = {";": "';'", "\t": "tabs"}


class Form(NamedTuple):
    """The form of a feed.

    Attributes
    ----------
    features : names of the readings.
    header : names of all fields of a CSV line; empty where lines are JSON.
    time : name of the time, or empty.
    units : pairs of a reading and its unit.
    """

    features: tuple[str, ...]
    header: tuple[str, ...]
    time: str = ""
    units: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, stored: Sequence[Any]) -> Form:
        """The form from lists, as it was stored."""
        features, header, time, units = (*stored, ())[:4]
        return cls(tuple(features), tuple(header), str(time), tuple((name, unit) for name, unit in units))


class Reader:
    """Turns lines into samples; the first line decides the format, the first sample the features.

    Parameters
    ----------
    columns : names of the features; empty: all numbers of the first sample except time, labels and identifiers.
    time, node : keys of time and node; an empty `time` is found by its name.

    Attributes
    ----------
    notes : sentences about what was left out because of its name.
    """

    def __init__(self, columns: Sequence[str] = (), time: str = "", node: str = NODE):
        self._columns = self.features = tuple(columns)
        self._settled = False
        self.time, self.node = time, node or NODE
        self.header: tuple[str, ...] = ()
        self.json = False
        self.count = 0
        self.notes: list[str] = []
        self._units: dict[str, str] = {}

    def read(self, line: bytes | str, default_node: str = "") -> Sample | None:
        """The sample in one line; None for a blank line or a header, ValueError for a bad line."""
        self.count += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"longer than {LONGEST_LINE:,} bytes")
        # Bytes that are not UTF-8 are kept: two different names must stay different.
        text = line.decode("utf-8", "surrogateescape") if isinstance(line, bytes) else line
        text = text.strip(BLANK)
        if not text:
            return None
        if text[0] == "{" or (self.json and not self.header):
            self.json = True
            record = _json(text)
        else:
            fields = _fields(text)
            if not self.header:
                self._take_header(fields)
            elif fields != self.header and self._is_header(fields):
                self.header = fields
            if fields == self.header:  # also in the middle: the process that writes the lines was started again
                return None
            if len(fields) != len(self.header):
                raise ValueError(f"{len(fields)} fields, but the header has {len(self.header)}")
            record = dict(zip(self.header, fields))
        return self._sample(record, default_node)

    @property
    def form(self) -> Form | None:
        """The form of the feed, once there was a sample."""
        if not self._settled:
            return None
        return Form(self.features, self.header, self.time, tuple(self._units.items()))

    def go_on(self, form: Form) -> None:
        """Continue with a feed that was read before."""
        self.features, self.header, self.json = form.features, form.header, not form.header
        self.time, self._settled, self._units = self.time or form.time, True, dict(form.units)

    def _take_header(self, names: tuple[str, ...]) -> None:
        """Take the first CSV line as the names."""
        absent = next((name for name in self.features if name not in names), None)
        if absent is not None:
            raise ValueError(f"neither JSON nor a CSV header with {absent!r}")
        if any(_number(name) is not None for name in names):
            raise ValueError("the first line of CSV must be a header, or lines must be JSON objects")
        if len(set(names)) < len(names):
            raise ValueError("a name appears twice in the CSV header")
        other = next((words for mark, words in OTHER_MARKS.items() if mark in names[0]), None)
        if len(names) == 1 and other:
            raise ValueError(f"the fields must be separated by commas, not by {other}")
        self.header = names

    def _is_header(self, names: tuple[str, ...]) -> bool:
        """Whether a later line is a header too: of another version of the sender, or the first one after a banner."""
        if len(set(names)) < len(names) or any(_number(n) is not None or n.lower() in MISSING for n in names):
            return False
        if self._settled:
            return {*self.features, *filter(None, [self.time])} <= set(names)
        return any(name == self.node or is_time_name(name) for name in names)

    def _sample(self, record: dict[str, object], default_node: str) -> Sample:
        """Pick node, time and readings out of a record."""
        node = record.get(self.node, default_node)
        if isinstance(node, (dict, list)) or node is None:
            raise ValueError(f"{self.node!r} is not the name of a node: expected a text or a number")
        if not self._settled:
            self._settle(record)
        x = tuple([_reading(name, record) for name in self.features])
        self._settled = True
        if UNITS in record:
            self._note_units(record[UNITS])
        return Sample(known_as(str(node)), said(record.get(self.time)) if self.time else None, x)

    def _note_units(self, given: object) -> None:
        """Store the units that come with a sample, such as {"celsius": "°C"}."""
        for name, unit in given.items() if isinstance(given, dict) else ():
            if name in self.features and isinstance(unit, str):
                self._units[name] = unit[:LONGEST_UNIT]

    def _settle(self, record: dict[str, object]) -> None:
        """Find time and features in the first sample: its numbers, except labels and identifiers by their names."""
        time = self.time or next((name for name in record if is_time_name(name) and name not in self._columns), "")
        rest = [name for name in record if name not in (self.node, time)]
        numbers = [name for name in rest if _number(record[name]) is not None]
        found = self._columns or tuple(name for name in numbers if not by_name(name))
        if not found:
            raise ValueError("the first sample has no number that could be a reading; name the readings with --columns")
        self.features, self.time = found, time
        self.notes = sentences([(name, by_name(name)) for name in numbers if name not in found and by_name(name)])


def _json(text: str) -> dict[str, object]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({str(error)[:80]})") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def _fields(text: str) -> tuple[str, ...]:
    try:
        return tuple(field.strip() for field in next(csv.reader([text])))
    except (csv.Error, StopIteration) as error:
        why = "a field is too long" if "limit" in str(error) else "a carriage return or binary data inside"
        raise ValueError(f"not a line of CSV: {why}") from None


def _reading(name: str, record: dict[str, object]) -> float:
    """The reading with this name; NaN where it is missing or not finite."""
    value = record.get(name, _reading)
    if type(value) is float and -LARGEST <= value <= LARGEST:  # nearly always
        return value
    if value is _reading:
        raise ValueError(f"{name!r} is missing, but the first sample had it (--columns sets what a sample must have)")
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    number = _number(value)
    if number is None:
        raise ValueError(f"{name!r} is {str(value)[:40]!r}, not a number")
    if not math.isfinite(number):
        return math.nan
    if abs(number) > LARGEST:
        raise ValueError(f"{name!r} is {number:.3g}, too large for a reading")
    return number


def _number(value: object) -> float | None:
    """A number, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
