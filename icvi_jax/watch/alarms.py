"""Alarms of a live fleet as people and programs read them: one JSON object a line, each with an id."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.report.result import CODES
from icvi_jax.types import Reading
from icvi_jax.watch.sample import Sample


class Tick(NamedTuple):
    """One step of the fleet.

    Attributes
    ----------
    samples : at most one a node.
    rows : row of each of their nodes.
    numbers : which sample of its node each one is, from 1.
    reading : of the whole fleet.
    """

    samples: list[Sample]
    rows: np.ndarray
    numbers: np.ndarray
    reading: Reading


MEANING = {
    "spike": "something new has arrived",
    "recovered": "the clusters have learned what was new",
    "distress": "the clusters fail to follow",
}


def alarms_of(tick: Tick, shard: str, features: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, object]]]:
    """The alarms of a tick, each with an id that only its own repetition has: shard, row, sample, monitor."""
    for name, alarm in tick.reading.alarms.items():
        values = tick.reading.values.get(name)
        for i in np.flatnonzero(alarm.code[tick.rows]):
            sample, row, number = tick.samples[i], int(tick.rows[i]), int(tick.numbers[i])
            word, cause, p = CODES[int(alarm.code[row])], int(alarm.cause[row]), plain(alarm.p[row])
            column = features[cause] if 0 <= cause < len(features) else None
            record: dict[str, object] = {
                "id": f"{shard}-{row}-{number}-{name}",
                "node": sample.node,
                "time": sample.time,
                "alarm": word,
                "index": name,
                "value": None if values is None else plain(values[row]),
                "score": plain(alarm.score[row]),
                "clusters": int(tick.reading.k[row]),
                "sample": number,
                "cause": column,
                "p": p,
                "reason": f"{column} changed" if column else MEANING[word],
            }
            yield str(record["id"]), record


def json_line(record: dict[str, object]) -> str:
    """A record as a line of JSON that any encoding of Unicode can hold."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # half a character, from a time nobody can read
        line = json.dumps(record)
    return line


def plain(number: np.generic | float) -> float | None:
    """A number that JSON has: six digits, None for what is not finite.

    Examples
    --------
    >>> plain(1 / 3), plain(float("inf"))
    (0.333333, None)
    """
    value = float(number)
    return float(f"{value:.6g}") if math.isfinite(value) else None
