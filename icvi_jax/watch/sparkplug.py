"""Sparkplug B: its messages as lines of JSON, with all readings of a device in each.

A device names its metrics once, in a birth message, and then sends only those that have changed, perhaps by number
(alias). So the last value of each is kept here. If a birth is not known, for example after a restart, the edge node is
asked for it again (`Node Control/Rebirth`).

The few fields that are needed are decoded here, by the field numbers of `sparkplug_b.proto` (Eclipse Tahu, EPL-2.0; no
code of it is here): the packages that bring the schema need paho-mqtt below 2 (pysparkplug) or protobuf 3.19 (tahu).
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator

PREFIX = "spBv1.0/"
ASK_SECONDS = 60.0
SIGNED = {1: 32, 2: 32, 3: 32, 4: 64}
"""Bits of the signed kinds (Int8 … Int64), which are sent as unsigned numbers."""
REBIRTH = "Node Control/Rebirth"
Field = tuple[int, int | bytes]


class Births:
    """Metrics of all devices; `ask` is called with topic and payload of a message that asks an edge node for its
    births.
    """

    def __init__(self, ask: Callable[[str, bytes], object] = lambda topic, payload: None):
        self._ask = ask
        self._asked: dict[str, float] = {}
        self._names: dict[str, dict[int, str]] = {}
        self._values: dict[str, dict[str, float]] = {}

    def lines_of(self, topic: str, payload: bytes) -> list[bytes]:
        """The samples in a message, as lines of JSON; none in a birth without readings, a death or a command."""
        _, group, kind, *place = [*topic.split("/"), "", ""][: 5 if topic.count("/") > 3 else 4]
        node = "/".join([group, *place])
        if kind[1:] not in ("BIRTH", "DATA"):
            return []
        if kind[1:] == "BIRTH":
            self._names[node], self._values[node] = {}, {}
        elif node not in self._names:
            self._ask_again(group, place[0])
            return []
        try:
            return self._decoded(node, payload, group, place[0])
        except (ValueError, struct.error, IndexError):
            return [b'{"not": "a payload of Sparkplug B"}']  # a bad line, which is counted and reported

    def _decoded(self, node: str, payload: bytes, group: str, edge: str) -> list[bytes]:
        sent, found = 0, dict[int, dict[str, float]]()
        metrics = []
        for number, value in fields(payload):
            if number == 1 and isinstance(value, int):
                sent = value
            elif number == 2 and isinstance(value, bytes):
                metrics.append(dict(fields(value)))
        for metric in metrics:
            name = self._name(node, metric)
            if name is None:
                self._ask_again(group, edge)
                continue
            number_ = _number(metric)
            if number_ is not None and not name.startswith("Node Control/") and name != "bdSeq":
                at = metric.get(3, sent)
                found.setdefault(at if isinstance(at, int) else sent, {})[name] = number_
        lines = []
        for at in sorted(found):
            self._values[node] |= found[at]
            lines.append(json.dumps({"node": node, "time": at, **self._values[node]}).encode())
        return lines

    def _name(self, node: str, metric: dict[int, int | bytes]) -> str | None:
        name, alias = metric.get(1), metric.get(2)
        if isinstance(name, bytes):
            if isinstance(alias, int):
                self._names[node][alias] = name.decode("utf-8", "replace")
            return name.decode("utf-8", "replace")
        return self._names[node].get(alias) if isinstance(alias, int) else None

    def _ask_again(self, group: str, edge: str) -> None:
        key, now = f"{group}/{edge}", time.monotonic()
        if now - self._asked.get(key, -ASK_SECONDS) >= ASK_SECONDS:
            self._asked[key] = now
            metric = b"\x0a" + bytes([len(REBIRTH)]) + REBIRTH.encode() + b"\x20\x0b\x70\x01"  # kind 11: Boolean, true
            stamp = b"\x08" + varint(int(time.time() * 1000))
            self._ask(f"{PREFIX}{group}/NCMD/{edge}", stamp + b"\x12" + varint(len(metric)) + metric)


def fields(message: bytes) -> Iterator[Field]:
    """Number and value of each field of a message of protocol buffers."""
    at = 0
    while at < len(message):
        key, at = _varint_at(message, at)
        kind = key & 7
        if kind == 0:
            number, at = _varint_at(message, at)
            yield key >> 3, number
            continue
        size = 8 if kind == 1 else 4 if kind == 5 else -1
        if kind == 2:
            size, at = _varint_at(message, at)
        if size < 0 or at + size > len(message):
            raise ValueError("not a message of protocol buffers")
        yield key >> 3, message[at : at + size]
        at += size


def varint(number: int) -> bytes:
    """A number as protocol buffers write it."""
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def _varint_at(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = message[at]
        number, at, shift = number | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("not a number of protocol buffers")


def _number(metric: dict[int, int | bytes]) -> float | None:
    """The value of a metric as a number; NaN where it is null, None for texts and other kinds."""
    if metric.get(7):
        return float("nan")
    for number, form in ((12, "<f"), (13, "<d")):
        value = metric.get(number)
        if isinstance(value, bytes):
            return float(struct.unpack(form, value)[0])
    value = metric.get(10, metric.get(11, metric.get(14)))
    if not isinstance(value, int):
        return None
    bits = SIGNED.get(int(metric.get(4, 0)), 0)
    if bits:
        value &= (1 << bits) - 1
        value -= (1 << bits) if value >> (bits - 1) else 0
    return float(value)
