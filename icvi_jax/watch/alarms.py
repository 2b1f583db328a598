"""Alarms of a live fleet for people and other software: one JSON object per line, each with an id."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, SupportsFloat

import numpy as np

from icvi_jax.report.alarm_text import MEANING, alarm_word
from icvi_jax.report.health_text import HEALTH
from icvi_jax.report.incidents import WITHIN, sentence_of
from icvi_jax.report.result import COLUMN_ALARMS
from icvi_jax.types import Alarm
from icvi_jax.watch.batches import Tick
from icvi_jax.watch.sample import seconds, time_in_words

if TYPE_CHECKING:
    from icvi_jax.monitors import Budget
    from icvi_jax.watch.other_partitions import Neighbours
    from icvi_jax.watch.shard import Shard


def alarms_of(tick: Tick, shard: str, features: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, object]]]:
    """The alarms of a tick, each with a unique id (shard, row, sample, monitor); a repeated alarm has the same id."""
    reading = tick.reading
    raised = [(int(i), name) for name, alarm in reading.alarms.items() for i in np.flatnonzero(alarm.code)]
    for i, name in sorted(raised, key=lambda found: found[0]):
        alarm, values, sample = reading.alarms[name], reading.values.get(name), tick.samples[i]
        word, cause = alarm_word(name, int(alarm.code[i])), int(alarm.cause[i])
        column = features[cause] if 0 <= cause < len(features) else None
        number = int(tick.numbers[i])
        text = tick.texts.get((i, name))
        reason = text.text if text else MEANING[word]
        record: dict[str, object] = {
            "id": f"{shard}-{tick.rows[i]}-{number}-{name}",
            "node": sample.node,
            "time": sample.time,
            "alarm": word,
            "index": name,
            "value": None if values is None else plain(values[i]),
            "score": plain(alarm.score[i]),
            "clusters": int(reading.k[i]),
            "trust": None if (trust := reading.values.get(HEALTH)) is None else plain(trust[i]),
            "sample": number,
            "cause": column,
            "p": plain(alarm.p[i]),
            "once_in_rows": text.once_in_rows if text else None,
            "from": plain(text.before) if text else None,
            "to": plain(text.now) if text else None,
            "reason": reason,
            "text": f"at {time_in_words(sample.time, number)} {reason.replace(' has arrived', ' arrived')}",
        }
        yield str(record["id"]), record


def agreed(
    alarms: Sequence[tuple[str, dict[str, object]]],
    shard: Shard,
    agree: int,
    neighbours: Neighbours | None = None,
    budget: Budget | None = None,
) -> list[tuple[str, dict[str, object]]]:
    """The alarms that enough nodes share, each with the sentence of its incident; the others are dropped."""
    if not alarms:
        return []
    step, dated = shard.row_step()
    shard.incidents.agree, shard.incidents.within = agree, max(WITHIN, step) if dated else 5 * step
    shard.incidents.follow(budget, step)
    told = []
    for id, record in alarms:
        if record["alarm"] == "recovered":
            continue
        at = seconds(record["time"])  # type: ignore[arg-type]  # as `alarms_of` has it
        at = int(str(record["sample"])) * shard.incidents.step if math.isnan(at) else at
        when = time_in_words(record["time"], int(str(record["sample"])))  # type: ignore[arg-type]
        text = shard.incidents.add(str(record["node"]), at, when, str(record["cause"] or ""), len(shard.rows))
        members = shard.incidents.members
        if neighbours is not None and shard.incidents.by is None:
            members, nodes = neighbours.joined(members, len(shard.rows), shard.incidents.within)
            text = sentence_of(members, nodes) if len(members) >= agree else ""
        if text:
            first = members[0]
            told.append((id, record | {"incident": f"{first.node} {first.when}", "nodes": text}))
    return told


class AlarmCount:
    """Counts alarms by the definition of `count_alarms`: recovered is none, distress after a spike is the same one."""

    def __init__(self) -> None:
        self._spiked: set[tuple[object, object]] = set()

    def count(self, record: Mapping[str, object]) -> int:
        """1 for a record that is an alarm of its own, otherwise 0."""
        key, word = (record["node"], record.get("index")), record["alarm"]
        if word == "spike":
            self._spiked.add(key)
        follows = word == "recovered" or (word == "distress" and key in self._spiked)
        if follows:
            self._spiked.discard(key)
        return int(not follows)


def score_of(alarms: dict[str, Alarm]) -> np.ndarray:
    """How bad each node is by its indices; where no index is watched, by the alarms of its columns."""
    listening = [alarm for name, alarm in alarms.items() if name not in COLUMN_ALARMS]
    if listening:
        return np.asarray(listening[0].score)
    columns = next(iter(alarms.values()))
    return np.where(np.asarray(columns.code) > 0, columns.score, 0)


def json_line(record: dict[str, object]) -> str:
    """A record as a line of JSON that is valid in any Unicode encoding."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # half a character, from a time that is not valid text
        line = json.dumps(record)
    return line


def plain(number: SupportsFloat) -> float | None:
    """A number that JSON has: six digits, None for what is not finite.

    Examples
    --------
    >>> plain(1 / 3), plain(float("inf"))
    (0.333333, None)
    """
    value = float(number)
    return float(f"{value:.6g}") if math.isfinite(value) else None
