"""A sample of a live feed: which node, when, and what it read."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

LONGEST_NAME = 200
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
Time = str | int | float | None


class Sample(NamedTuple):
    """One line understood.

    Attributes
    ----------
    node : name of the node.
    time : as it was written, or None.
    x : the readings; NaN where there is none.
    """

    node: str
    time: Time
    x: tuple[float, ...]


def order(time: Time) -> int | float | None:
    """A number that grows with the time: numbers as they are, ISO dates in microseconds; None where there is no order.

    A date without a time zone is taken as UTC.

    Examples
    --------
    >>> order("2024-05-01T12:00:00+02:00") == order("2024-05-01 10:00"), order("17"), order("noon"), order(float("nan"))
    (True, 17, None, None)
    """
    if isinstance(time, str):
        return _order_of_text(time.strip())
    if time is None or isinstance(time, bool):
        return None
    return time if math.isfinite(time) else None


def _order_of_text(text: str) -> int | float | None:
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def seconds(time: Time) -> float:
    """A time in seconds: dates and epoch times since 1970, other numbers as they are; NaN where there is no order.

    Examples
    --------
    >>> seconds("1970-01-01T00:01Z"), seconds(1_700_000_000_000), seconds("17"), seconds("noon")
    (60.0, 1700000000.0, 17.0, nan)
    """
    when = order(time)
    if when is None:
        return math.nan
    if isinstance(time, str) and _is_date(time):
        return when / 1e6
    return when / next((unit for unit in (1, 1e3, 1e6, 1e9) if 3.2e8 * unit <= when < 4.1e9 * unit), 1)


def _is_date(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return True
    return False


def known_as(name: str) -> str:
    """The name a node goes by: its own, or where that is long or no valid text, a readable part and a digest of all.

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
