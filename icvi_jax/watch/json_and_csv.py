"""Lines of input and their meaning: JSON objects, or CSV with a header."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import string
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from icvi_jax.numerics.arrays import LARGEST
from icvi_jax.tables.column_kinds import (
    are_counted,
    by_name,
    distinct,
    epoch_unit,
    has_time_word,
    is_time_name,
    sentences,
)
from icvi_jax.tables.columns import NEEDED, OTHER_NAMES, PARTS
from icvi_jax.tables.error_codes import FILLS
from icvi_jax.tables.fleet import NODE_NAMES
from icvi_jax.tables.parse import read_number
from icvi_jax.tables.text import MISSING
from icvi_jax.terminal_text import Complaints, say
from icvi_jax.watch.device_formats import check_pattern, line_protocol, node_in, records_of
from icvi_jax.watch.sample import HALF_DAY, Sample, Time, known_as, of_24_hours, order, said

NODE, UNITS, LONGEST_UNIT = "node", "units", 20
BLANK = "\ufeff" + string.whitespace
LONGEST_LINE = 1 << 20
"""Longest line in bytes. A longer one is cut just beyond it, so that it is still seen to be too long."""
DELIMITERS, MOST_HEADERS = ",;\t|", 8
FIRST_LINES = 20
"""After how many lines to say that most of them are bad."""
JOIN, CLOCK = "\t", re.compile(rf"\d{{1,2}}[:.]\d\d([:.]\d\d([.,]\d+)?)?({HALF_DAY})?")
"""Between the names of columns that are the time together (no name has a tab); a time of day."""


DATE = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2(\d{4})(?=[ T]|$)")


class LineFormat(NamedTuple):
    """The form of a feed."""

    features: tuple[str, ...]  # names of the readings
    header: tuple[str, ...]  # names of all fields of a CSV line; empty where lines are JSON
    time: str = ""  # name of the time, or empty; names of several columns have a tab between them
    units: tuple[tuple[str, str], ...] = ()  # pairs of a reading and its unit
    delimiter: str = ","  # between two fields of a CSV line
    node: str = ""  # name of the node column, where it was found by its name
    first: str = ""  # "day" or "month": what is first in dates such as 03/04/2024, once one of them told

    @classmethod
    def of(cls, stored: Sequence[Any]) -> LineFormat:
        """The form from lists, as it was stored; older watches stored fewer."""
        features, header, time, units, delimiter, node, first = (*stored, *("", (), ",", "", "")[len(stored) - 2 :])[:7]
        pairs = tuple((name, unit) for name, unit in units)
        return cls(tuple(features), tuple(header), str(time), pairs, str(delimiter), str(node), str(first))


class Reader:
    """Turns lines into samples as `icvi run` reads a file: the first line decides the format, the first sample the
    features.

    CSV may be separated by commas, semicolons, tabs or bars; where it is not by commas, numbers may have decimal
    commas. A header in a stream that has its columns counts only for lines that fit no other one.

    Parameters
    ----------
    columns : names of the features; empty: all numbers of the first sample except time, labels and identifiers.
    time, node : keys of time and node; found by their names where they are empty. A pattern of topics, such as
        ``site/+/+/state``: the levels that + stands for name the node of a line without one.
    keep_codes : a fill value such as 1e20 is an error, not missing.

    Attributes
    ----------
    count, bad : how many lines there were, and how many of them were not valid samples.
    last : what was wrong with the last one of them.
    complaints : what says so; readers of one source share it.
    """

    def __init__(self, columns: Sequence[str] = (), time: str = "", node: str = NODE, keep_codes: bool = False):
        self._columns = self.features = tuple(columns)
        self._settled = False
        self.pattern = node if "+" in node or "#" in node else ""
        if self.pattern:
            check_pattern(self.pattern)
        self.time, self.node = time, NODE if self.pattern else node or NODE
        self.header: tuple[str, ...] = ()
        self.json = False
        self.count, self.bad, self.last, self.complaints = 0, 0, "", Complaints()
        self.notes: list[str] = []  # sentences about what was left out because of its name
        self._units: dict[str, str] = {}
        self.delimiter, self.keep_codes = ",", keep_codes
        self._others: list[tuple[str, ...]] = []  # headers that came later
        self._first = ""  # see `LineFormat.first`

    def samples(self, lines: Iterable[tuple[bytes, str]]) -> list[Sample]:
        """The samples in lines, each with a node name to use if it has none; a bad line is counted, said and
        skipped."""
        found: list[Sample] = []
        for line, node in lines:
            try:
                found += self.read_all(line, node)
            except ValueError as error:
                self.bad += 1
                self.last = str(error)
                self.complaints.say(f"line {self.count}: {error}: skipped")
            if self.count == FIRST_LINES and 2 * self.bad > self.count:
                say(f"{self.bad} of the first {self.count} lines are not valid samples; the last one: {self.last}")
        return found

    def read(self, line: bytes | str, default_node: str = "") -> Sample | None:
        """The first sample in a line, as `read_all`; None where there is none."""
        found = self.read_all(line, default_node)
        return found[0] if found else None

    def read_all(self, line: bytes | str, default_node: str = "") -> list[Sample]:
        """The samples in one line: none in a blank line or a header, several in an array; ValueError for a bad line."""
        self.count += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"longer than {LONGEST_LINE:,} bytes")
        # Bytes that are not UTF-8 are kept: two different names must stay different.
        text = line.decode("utf-8", "surrogateescape") if isinstance(line, bytes) else line
        text = text.strip(BLANK)
        if not text:
            return []
        if self.pattern and default_node:
            default_node = node_in(default_node, self.pattern)
        if text[0] in "{[":
            self.json = self.json or text[0] == "{" or not self.header
            return [self._sample(record, default_node) for record in records_of(_json(text))]
        if not self.header:
            record = line_protocol(text)
            if record is not None or self.json:
                sample = self._sample(record if record is not None else next(records_of(_json(text))), default_node)
                self.json = True
                return [sample]
            self._take_header(text)
            return []
        fields = _fields(text, self.delimiter)
        again = fields[0] == self.header[0] and distinct(fields) == self.header
        if (again and not are_counted(fields)) or self._is_header(fields):
            return []  # 0, 1, 2 a second time may be a sample: none is lost
        return [self._by_header(fields, default_node)]

    def _by_header(self, fields: tuple[str, ...], default_node: str) -> Sample:
        """The sample in the fields of a line, by the header of the line before or by another one that fits it."""
        failed: ValueError | None = None
        for header in (self.header, *self._others):
            try:
                if len(fields) != len(header):
                    raise ValueError(f"{len(fields)} fields, but the header has {len(header)}")
                sample = self._sample(dict(zip(header, fields)), default_node)
                if header is not self.header or not self._others or order(sample.time) is not None or not self.time:
                    self._others = [other for other in (self.header, *self._others) if other != header]
                    self.header = header
                    return sample
                failed = failed or ValueError(f"{str(sample.time)[:40]!r} is not a time")
            except ValueError as error:
                failed = failed or error
        raise failed or ValueError("no header")

    @property
    def chosen(self) -> bool:
        """Whether the readings were named; otherwise columns may be left out because of their values."""
        return bool(self._columns)

    @property
    def form(self) -> LineFormat | None:
        """The form of the feed, once there was a sample."""
        if not self._settled:
            return None
        node = self.node if self.node != NODE else ""
        units = tuple(self._units.items())
        return LineFormat(self.features, self.header, self.time, units, self.delimiter, node, self._first)

    def go_on(self, form: LineFormat) -> None:
        """Continue with a feed that was read before."""
        self.features, self.header, self.json = form.features, form.header, not form.header
        self.time, self._settled, self._units = self.time or form.time, True, dict(form.units)
        self.delimiter, self.node, self._first = form.delimiter, form.node or self.node, form.first

    def _take_header(self, text: str) -> None:
        self.delimiter = max(DELIMITERS, key=text.count)  # the first of equals: a comma
        names = distinct(_fields(text, self.delimiter))
        absent = next((name for name in self.features if name not in names), None)
        if absent is not None:
            raise ValueError(f"neither JSON nor a CSV header with {absent!r}")
        if any(self._number(name) is not None for name in names) and not are_counted(names):
            raise ValueError("the first line of CSV must be a header, or lines must be JSON objects")
        self.header = names

    def _is_header(self, names: tuple[str, ...]) -> bool:
        """Whether a line is another header. Before the first sample it replaces the one before; later it counts only
        for lines that fit it and not the one before: one line cannot spoil the others."""
        wrong = any(self._number(name) is not None or name.lower() in MISSING for name in names)
        if len(set(names)) < len(names) or wrong:
            return False
        if self._settled:
            known = {*self.features, *filter(None, self.time.split(JOIN))} <= set(names)
            if known and names not in self._others:
                self._others = [names, *self._others][:MOST_HEADERS]
            return known
        found = any(name == self.node or is_time_name(name) for name in names)
        if found:
            self.header = names
        return found

    def _sample(self, record: dict[str, object], default_node: str) -> Sample:
        if not self._settled and self.node == NODE and NODE not in record and not default_node:
            known = {name.lower(): name for name in record}
            self.node = next((known[name] for name in NODE_NAMES if name in known), NODE)
        node = record.get(self.node, default_node)
        if isinstance(node, (dict, list)) or node is None:
            raise ValueError(f"{self.node!r} is not the name of a node: expected a text or a number")
        if not self._settled:
            self._settle(record)
        x = tuple([self._reading(name, record) for name in self.features])
        self._settled = True
        if UNITS in record:
            self._note_units(record[UNITS])
        return Sample(known_as(str(node)), self._moment(record) if self.time else None, x)

    def _moment(self, record: dict[str, object]) -> Time:
        """The time of a sample; a date and a time of day, or year, month, day and hour, are joined as in a file."""
        names = self.time.split(JOIN)
        if len(names) == 1:
            time = said(record.get(self.time))
            return self._dated(time.strip()) if isinstance(time, str) else time
        parts = [str(record.get(name, "")).strip() for name in names]
        if len(names) == 2:
            return self._dated(f"{parts[0]} {of_24_hours(parts[1]).replace('.', ':')}")
        numbers = [int(part) if part.isdecimal() else -1 for part in [*parts, "0", "0", "0"][:6]]
        return "{:04d}-{:02d}-{:02d} {:02d}:{:02d}:{:02d}".format(*numbers)

    def _dated(self, time: str) -> str:
        """A time as it was, or with its date as year, month, day where an earlier line told what 03/04/2024 is: one
        line cannot tell, and read in another way than its neighbours it would be old, and skipped."""
        date = DATE.match(time)
        if date is None:
            return time
        a, b = int(date[1]), int(date[3])
        if not self._first and (a > 12) != (b > 12):
            self._first = "day" if a > 12 else "month"
        if not self._first or (self._first == "day" and of_24_hours(time) == time):
            return time  # `order` takes the day as first
        day, month = (a, b) if self._first == "day" else (b, a)
        clock = of_24_hours(time[date.end() :].strip())
        return f"{date[4]}-{month:02}-{day:02}" + (f" {clock.zfill(len(clock) + (clock[1:2] == ':'))}" if clock else "")

    def _note_units(self, given: object) -> None:
        """Store the units that come with a sample, such as {"celsius": "°C"}."""
        for name, unit in given.items() if isinstance(given, dict) else ():
            if name in self.features and isinstance(unit, str):
                self._units[name] = unit[:LONGEST_UNIT]

    def _settle(self, record: dict[str, object]) -> None:
        """Find time and features in the first sample, by the rules of `icvi run`: its numbers, except labels and
        identifiers by their names; the time is a date, or a number whose name says so."""
        time = self.time or self._time_of(record)
        rest = [name for name in record if name != self.node and name not in time.split(JOIN)]
        numbers = [name for name in rest if self._number(record[name]) is not None]
        further = [name for name in numbers if self._may_be_time(name, record[name])]
        found = self._columns or tuple(name for name in numbers if not by_name(name) and name not in further)
        if not found:
            raise ValueError("the first sample has no number that could be a reading; name the readings with --columns")
        self.features, self.time = found, time
        why = {name: "time" if name in further else by_name(name) for name in numbers if name not in found}
        if not self._columns:
            why |= {name: "empty at first" for name in rest if _is_missing(record[name])}
        self.notes = sentences([(name, reason) for name, reason in why.items() if reason])

    def _time_of(self, record: dict[str, object]) -> str:
        free = [name for name in record if name not in (self.node, *self._columns)]
        dates = [name for name in free if isinstance(record[name], str) and self._number(record[name]) is None]
        days = next((name for name in dates if _is_day(str(record[name]))), None)
        clock = next((name for name in dates if CLOCK.fullmatch(str(record[name]).strip())), None)
        if days is not None and clock is not None:
            return f"{days}{JOIN}{clock}"
        named = {OTHER_NAMES.get(name.lower(), name.lower()): name for name in free}
        parts = [named[part] for part in itertools.takewhile(named.__contains__, PARTS)]
        if len(parts) >= NEEDED and all(self._number(record[name]) is not None for name in parts):
            return JOIN.join(parts)
        ways = (
            (name for name in dates if order(of_24_hours(str(record[name]).strip())) is not None),
            (name for name in free if is_time_name(name)),
            (name for name in free if self._may_be_time(name, record[name])),
        )
        return next((name for way in ways for name in way), "")

    def _may_be_time(self, name: str, value: object) -> bool:
        number = self._number(value)
        return number is not None and has_time_word(name) and epoch_unit(np.array([number])) > 0

    def _number(self, value: object) -> float | None:
        if isinstance(value, str):
            return read_number(value, self.delimiter)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        try:
            return float(value)
        except OverflowError:
            return None

    def _reading(self, name: str, record: dict[str, object]) -> float:
        """The reading with this name; NaN where it is missing or not finite."""
        value = record.get(name, self)
        if type(value) is float and -LARGEST <= value <= LARGEST:  # nearly always
            return value
        if value is self:
            raise ValueError(
                f"{name!r} is missing, but the first sample had it (--columns sets what a sample must have)"
            )
        if _is_missing(value):
            return math.nan
        number = self._number(value)
        if number is None:
            raise ValueError(f"{name!r} is {str(value)[:40]!r}, not a number")
        if not math.isfinite(number) or (abs(number) in FILLS and not self.keep_codes):
            return math.nan
        if abs(number) > LARGEST:
            raise ValueError(f"{name!r} is {number:.3g}, too large for a reading")
        return number


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING)


def _is_day(text: str) -> bool:
    return ":" not in text and order(text) is not None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos + 1})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({str(error)[:80]})") from None


def _fields(text: str, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(field.strip() for field in next(csv.reader([text], delimiter=delimiter)))
    except (csv.Error, StopIteration) as error:
        why = "a field is too long" if "limit" in str(error) else "a carriage return or binary data inside"
        raise ValueError(f"not a line of CSV: {why}") from None
