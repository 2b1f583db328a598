"""Lines as they come, and what a line means: JSON objects, or CSV under a header."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from icvi_jax.tables.pick import TIME_NAMES
from icvi_jax.tables.sniff import MISSING
from icvi_jax.tables.table import LARGEST

NODE, LABEL = "node", "label"
PIECE = 1 << 16


class Sample(NamedTuple):
    """One line understood: which node, when (as it was written, or None), and the readings; NaN where there is none."""

    node: str
    time: str | float | None
    x: tuple[float, ...]


class Form(NamedTuple):
    """What a feed looks like: names of the features, and of all fields of a CSV line (none where lines are JSON)."""

    features: tuple[str, ...]
    header: tuple[str, ...]


def lines_of(descriptor: int) -> Iterator[list[str]]:
    """Read all complete lines that are there, waiting only when there is none; ends with the input."""
    rest = b""
    while piece := os.read(descriptor, PIECE):
        *whole, rest = (rest + piece).split(b"\n")
        if whole:
            yield [line.decode("utf-8", errors="replace") for line in whole]
    if rest.strip():
        yield [rest.decode("utf-8", errors="replace")]


class Reader:
    """Turns lines into samples; the first line settles the format, the first sample the features.

    Parameters
    ----------
    columns
        Names of the features; empty: all numbers of the first sample but the time.
    time, node
        Keys of time and node; an empty `time` is found by its name.
    """

    def __init__(self, columns: Sequence[str] = (), time: str = "", node: str = NODE):
        self.features = tuple(columns)
        self.time, self.node = time, node or NODE
        self.header: tuple[str, ...] = ()
        self.json = False
        self.count = 0

    def read(self, line: str, default_node: str = "") -> Sample | None:
        """Understand one line; None for a blank line or a header, ValueError for a bad one."""
        self.count += 1
        text = line.strip().lstrip("\ufeff")
        if not text:
            return None
        if text.startswith("{") or (self.json and not self.header):
            self.json = True
            try:
                record = json.loads(text)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"not JSON ({error})") from None
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
        else:
            fields = tuple(field.strip() for field in next(csv.reader([text])))
            if not self.header:
                self._take_header(fields)
            if fields == self.header:  # also in the middle: whoever writes the lines was started again
                return None
            if len(fields) != len(self.header):
                raise ValueError(f"{len(fields)} fields where the header has {len(self.header)}")
            record = dict(zip(self.header, fields))
        return self._sample(record, default_node)

    @property
    def form(self) -> Form | None:
        """What is known of the feed, once there was a sample."""
        return Form(self.features, self.header) if self.features else None

    def go_on(self, form: Form) -> None:
        """Go on with a feed that was read before."""
        self.features, self.header, self.json = form.features, form.header, not form.header

    def _take_header(self, names: tuple[str, ...]) -> None:
        """Take the first CSV line as the names."""
        absent = next((name for name in self.features if name not in names), None)
        if absent is not None:
            raise ValueError(f"neither JSON nor a header with {absent!r}")
        if any(_number(name) is not None for name in names):
            raise ValueError("the first line of CSV must be a header, or lines must be JSON objects")
        if len(set(names)) < len(names):
            raise ValueError("a name appears twice in the header")
        self.header = names

    def _sample(self, record: dict[str, object], default_node: str) -> Sample:
        """Pick node, time and readings out of a record."""
        node = record.get(self.node, default_node)
        if isinstance(node, (dict, list)) or node is None:
            raise ValueError(f"{self.node!r} is not a name")
        key = self.time or next((name for name in record if name.lower() in TIME_NAMES), "")
        when = record.get(key) if key else None
        if not self.features:
            taken = {self.node, key, LABEL}
            self.features = tuple(
                name for name, value in record.items() if name not in taken and _number(value) is not None
            )
            if not self.features:
                raise ValueError("no number in the first sample")
        x = []
        for name in self.features:
            if name not in record:
                raise ValueError(f"no {name!r}")
            value = record[name]
            number = (
                math.nan
                if value is None or (isinstance(value, str) and value.strip().lower() in MISSING)
                else _number(value)
            )
            if number is None:
                raise ValueError(f"{name!r} is {str(value)[:40]!r}, not a number")
            if math.isfinite(number) and abs(number) > LARGEST:
                raise ValueError(f"{name!r} is {number:.3g}, too large for a reading")
            x.append(number if math.isfinite(number) else math.nan)
        return Sample(str(node)[:200], when if isinstance(when, (str, int, float)) else None, tuple(x))


def _number(value: object) -> float | None:
    """A number, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
