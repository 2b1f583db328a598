"""What devices send: nested JSON, arrays of samples, and the line protocol of InfluxDB, as flat records.

`docs/howto/devices.md` has a line of each form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from icvi_jax.tables.column_kinds import is_time_name
from icvi_jax.tables.fleet import NODE_NAMES

Record = dict[str, Any]
WRAPPERS = frozenset(("values", "fields", "data", "payload", "readings", "measurements", "metrics", "samples", "state"))
"""Names that say nothing about what is in them: they are left out of the names of readings."""
DEEPEST = 8
KEPT = frozenset(("units", "node", *NODE_NAMES))
"""Names whose values are never taken apart."""
_NAME = r"(?:[^,=\s\\]|\\.)+"
_FIELD = rf'{_NAME}=(?:"(?:[^"\\]|\\.)*"|[^,\s"]+)'
LINE = re.compile(rf"((?:[^,\s\\]|\\.)+)((?:,{_NAME}={_NAME})*) ({_FIELD}(?:,{_FIELD})*)(?: (-?\d+))?")
NUMBER = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?\d+)?)[iu]?")


def records_of(found: object, depth: int = 0) -> Iterator[Record]:
    """The samples in a value of JSON, each as a flat record.

    Examples
    --------
    >>> list(records_of({"ts": 5, "values": {"celsius": 20, "wind": {"x": 1, "y": 2}}}))
    [{'ts': 5, 'celsius': 20, 'wind.x': 1, 'wind.y': 2}]
    >>> list(records_of({"device": "roof", "samples": [{"t": 1, "v": 3}, {"t": 2, "v": 4}]}))
    [{'device': 'roof', 't': 1, 'v': 3}, {'device': 'roof', 't': 2, 'v': 4}]
    >>> list(records_of({"device": "roof", "time": [1, 2], "v": [3, 4]}))
    [{'device': 'roof', 'time': 1, 'v': 3}, {'device': 'roof', 'time': 2, 'v': 4}]
    """
    if isinstance(found, list) and depth < DEEPEST:
        for one in found:
            yield from records_of(one, depth + 1)
        return
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    flat = _flat(found) if any(isinstance(value, (dict, list)) for value in found.values()) else found
    inner = next((name for name, value in flat.items() if _is_samples(value)), None)
    lists = [name for name, value in flat.items() if isinstance(value, list)]
    times = next((name for name in lists if is_time_name(name)), None) if len(lists) > 1 else None
    if inner is not None and depth < DEEPEST:
        around = {name: value for name, value in flat.items() if name != inner}
        for one in flat[inner]:
            yield from records_of(around | one, depth + 1)
    elif times is not None:
        size = len(flat[times])
        if any(isinstance(value, list) and len(value) != size for value in flat.values()):
            raise ValueError(f"the arrays of a message have different lengths; {times!r} has {size:,}")
        for n in range(size):
            yield {name: value[n] if isinstance(value, list) else value for name, value in flat.items()}
    else:
        yield _numbered(flat)


def _is_samples(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _flat(record: Record, prefix: str = "", depth: int = 0) -> Record:
    """A record without objects in it: `wind.x` is the x in wind."""
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, dict) and value and name.lower() not in KEPT and depth < DEEPEST:
            found |= _flat(value, prefix if name.lower() in WRAPPERS else f"{prefix}{name}.", depth + 1)
        else:
            found[prefix + name] = value
    return found


def _numbered(record: Record) -> Record:
    """A record in which an array of numbers is a vector: `acceleration.0`, `acceleration.1`, …"""
    if not any(isinstance(value, list) for value in record.values()):
        return record
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, list) and value and name.lower() not in KEPT and not is_time_name(name):
            found |= {f"{name}.{n}": one for n, one in enumerate(value)}
        else:
            found[name] = value
    return found


def line_protocol(text: str) -> Record | None:
    """The sample in a line of InfluxDB's line protocol; None if it is none.

    The node is a tag with a usual name, otherwise all tags together. Times are in nanoseconds since 1970.

    Examples
    --------
    >>> line_protocol('air,room=roof celsius=20.5,fan=3i,on=true,note="a b" 1700000000000000000')
    {'celsius': 20.5, 'fan': 3.0, 'node': 'roof', 'time': 1700000000000000}
    >>> line_protocol("time,node,celsius")
    """
    match = LINE.fullmatch(text) if "=" in text else None
    if match is None:
        return None
    _, tags, fields, time = match.groups()
    record: Record = {}
    for pair in re.findall(_FIELD, fields):
        name, _, value = pair.partition("=")
        if number := NUMBER.fullmatch(value):
            record[_plain(name)] = float(number[1])
    named = [(_plain(a).lower(), _plain(b)) for a, b in re.findall(f"({_NAME})=({_NAME})", tags)]
    known = dict(named)
    node = next((known[name] for name in NODE_NAMES if name in known), "/".join(value for _, value in named))
    if node:
        record["node"] = node
    if time:
        record["time"] = int(time) // 1000  # microseconds, the smallest unit that is known
    return record


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def check_pattern(pattern: str, option: str = "--node") -> None:
    """Refuse a pattern of topics that none can fit."""
    levels = pattern.split("/")
    if any(("+" in one or "#" in one) and len(one) > 1 for one in levels) or "#" in levels[:-1]:
        raise ValueError(f"{option} {pattern}: + stands for a whole level of a topic, # for all at its end")


def node_in(topic: str, pattern: str) -> str:
    """The name of a node in a topic: the levels that + and # of the pattern stand for; all of it if it does not fit.

    Examples
    --------
    >>> node_in("site/roof/3/state", "site/+/+/state"), node_in("site/roof", "site/#"), node_in("x", "site/+")
    ('roof/3', 'roof', 'x')
    """
    levels, wanted = topic.split("/"), pattern.split("/")
    if wanted[-1] == "#" and len(levels) >= len(wanted):
        wanted = [*wanted[:-1], *["+"] * (len(levels) - len(wanted) + 1)]
    fits = len(levels) == len(wanted) and all(b in ("+", a) for a, b in zip(levels, wanted))
    return "/".join(a for a, b in zip(levels, wanted) if b == "+") if fits else topic
