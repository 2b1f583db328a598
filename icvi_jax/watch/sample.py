"""A sample of a live feed: its node, its time and its readings."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from icvi_jax.numerics.arrays import LARGEST
from icvi_jax.report.alarm_text import clock
from icvi_jax.tables.clock import unit_of

LONGEST_NAME = 200
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
LATEST = 1e30
Time = str | int | float | None


class Sample(NamedTuple):
    """One sample."""

    node: str  # name of the node
    time: Time  # as in the input, or None
    x: tuple[float, ...]  # the readings; NaN where one is missing


def checked(node: str, time: Time, x: Sequence[float], features: Sequence[str]) -> Sample:
    """A sample from Python code; a ValueError if it is not valid.

    Examples
    --------
    >>> checked("roof", 1, [20], ["celsius"])
    Sample(node='roof', time=1, x=(20.0,))
    >>> checked("roof", 1, [20, 30], ["celsius"])
    Traceback (most recent call last):
    ValueError: sample of 'roof' at 1: 2 readings, expected 1 (celsius)
    """
    where = f"sample of {node!r} at {time!r}"
    if not isinstance(node, str):
        raise ValueError(f"{where}: the name of a node must be text")
    if not isinstance(time, (str, int, float, type(None))):
        raise ValueError(f"{where}: a time is a number, a text or None")
    if len(x) != len(features):
        raise ValueError(f"{where}: {len(x)} readings, expected {len(features)} ({', '.join(features)})")
    try:
        numbers = tuple(map(float, x))
    except (TypeError, ValueError):
        raise ValueError(f"{where}: {x!r} are not numbers") from None
    for name, number in zip(features, numbers):
        if math.isfinite(number) and abs(number) > LARGEST:
            raise ValueError(f"{where}: {name!r} is {number:.3g}, too large for a reading")
    return Sample(known_as(node), said(time), tuple(x if math.isfinite(x) else math.nan for x in numbers))


def said(time: object) -> Time:
    """The time as in the input; None for what is not a time, and for NaN and infinity, which JSON does not have."""
    if isinstance(time, float):
        return time if math.isfinite(time) else None
    return time if isinstance(time, (str, int)) else None


def order(time: Time) -> int | float | None:
    """A number that grows with time: numbers as they are, ISO dates in microseconds; None where there is no order.

    A date without a time zone is taken as UTC.

    Examples
    --------
    >>> order("2024-05-01T12:00:00+02:00") == order("2024-05-01 10:00"), order("17"), order("noon"), order(float("nan"))
    (True, 17, None, None)
    """
    return _read(time)[0]


def _read(time: Time) -> tuple[int | float | None, bool]:
    """What `order` returns, and whether the time is a date."""
    if isinstance(time, str):
        return _read_text(time.strip())
    usable = time is not None and not isinstance(time, bool) and -LATEST < time < LATEST
    return time if usable else None, False


HALF_DAY = "[ \u00a0\u202f]?([AaPp])[.]?[Mm][.]?"
"""AM or PM behind a time of day."""


def of_24_hours(text: str) -> str:
    """The text of a time with its hour from 0 to 23, if it has AM or PM."""
    found = re.fullmatch(rf"((?:.*[ T])?)(\d{{1,2}})(:\d\d(?::\d\d)?){HALF_DAY}", text)
    if found is None or not 1 <= int(found[2]) <= 12:
        return text
    return f"{found[1]}{int(found[2]) % 12 + 12 * (found[4] in 'Pp'):02}{found[3]}"


@lru_cache(4096)
def _read_text(text: str) -> tuple[int | float | None, bool]:
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        return number if -LATEST < number < LATEST else None, False
    whole = of_24_hours(text)
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        parts = re.fullmatch(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T](\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?))?", whole)
        if parts is None:
            return None, False
        day_first = int(parts[3]) <= 12  # also where both can be
        if whole != text and day_first and int(parts[1]) <= 12 and parts[2] != ".":
            return None, False  # with AM and PM either may be first, and one line cannot tell
        day, month = (parts[1], parts[3]) if day_first else (parts[3], parts[1])
        try:
            moment = datetime.fromisoformat(f"{parts[4]}-{month:0>2}-{day:0>2}T{parts[5] or '00:00':0>5}")
        except ValueError:
            return None, False
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND, True


def seconds(time: Time) -> float:
    """A time in seconds: dates and epoch times since 1970, other numbers as they are; NaN where there is no order.

    Examples
    --------
    >>> seconds("1970-01-01T00:01Z"), seconds(1_700_000_000_000), seconds("17"), seconds("noon")
    (60.0, 1700000000.0, 17.0, nan)
    """
    when, dated = _read(time)
    return math.nan if when is None else when / 1e6 if dated else when / (unit_of(when) or 1)


def is_local(time: Time) -> bool:
    """Whether a time is a date without a zone: its clock may be set back by an hour."""
    return isinstance(time, str) and _read(time)[1] and not zone_of(time.strip())


def time_in_words(time: Time, number: int) -> str:
    """The time of sample `number` (from 1) in a sentence, as `icvi run` writes it.

    Examples
    --------
    >>> time_in_words("2024-05-01T12:00:00+02:00", 5), time_in_words(1714557600, 5), time_in_words(None, 5)
    ('2024-05-01 10:00', '2024-05-01 10:00', 'sample 4')
    """
    when, dated = _read(time)
    if when is None:
        return f"sample {number - 1}"
    unit = 1e6 if dated else unit_of(when)
    return clock(np.datetime64(round(when * (1e6 / unit)), "us") if unit else float(when))


def zone_of(text: str) -> str:
    """The time zone of a date, such as +02:00; empty where it has none.

    Examples
    --------
    >>> zone_of("2024-05-01T12:00:00+02:00"), zone_of("2024-05-01T12:00Z"), zone_of("2024-05-01")
    ('+02:00', 'UTC', '')
    """
    if text[-1:] in "Zz" and text[:1].isdigit():
        return "UTC"
    return text[-6:] if text[-6:-5] in ("+", "-") and text[-3:-2] == ":" and ":" in text[:-6] else ""


@lru_cache(65536)
def known_as(name: str) -> str:
    """The name used for a node: its own; if that is too long or not valid text, its beginning and a digest.

    Examples
    --------
    >>> known_as("roof"), known_as("\\ud800")
    ('roof', '\\\\ud800~9fd9735e8a')
    """
    if len(name) <= LONGEST_NAME:
        try:
            name.encode()
            return name
        except UnicodeEncodeError:
            pass
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    return name[: LONGEST_NAME // 2].encode("utf-8", "backslashreplace").decode() + "~" + digest
