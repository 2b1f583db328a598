"""Alarms of a live fleet, and of its nodes that are silent, as JSON: for people and other software, with unique ids."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat

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

Record = dict[str, Any]
"""An alarm: the keys of its JSON, as `alarms_of` makes them."""
LATEST_TIME = 2.5e11  # the year 9999
LOOK_SECONDS, CLOCK_SECONDS = 1.0, 30.0
"""How often to look for silent nodes, and after how long a node whose samples are all old has a wrong clock."""


def alarms_of(tick: Tick, shard: str, features: Sequence[str] = ()) -> Iterator[Record]:
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
        yield {
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


def agreed(
    alarms: Sequence[Record],
    shard: Shard,
    agree: int,
    neighbours: Neighbours | None = None,
    budget: Budget | None = None,
) -> list[Record]:
    """The alarms that enough nodes share, each with the sentence of its incident; the others are dropped."""
    if not alarms:
        return []
    step, dated = shard.row_step()
    shard.incidents.agree, shard.incidents.within = agree, max(WITHIN, step) if dated else 5 * step
    shard.incidents.follow(budget, step)
    told = []
    for record in alarms:
        if record["alarm"] == "recovered":
            continue
        at = seconds(record["time"])
        at = record["sample"] * shard.incidents.step if math.isnan(at) else at
        when = time_in_words(record["time"], record["sample"])
        text = shard.incidents.add(record["node"], at, when, record["cause"] or "", len(shard.rows))
        members = shard.incidents.members
        if neighbours is not None and shard.incidents.by is None:
            members, nodes = neighbours.joined(members, len(shard.rows), shard.incidents.within)
            text = sentence_of(members, nodes) if len(members) >= agree else ""
        if text:
            first = members[0]
            told.append(record | {"incident": f"{first.node} {first.when}", "nodes": text})
    return told


def begun_at(alarm: Record) -> float | None:
    """Seconds since 1970 at which an alarm began; None where its time is no date."""
    begun = seconds(alarm.get("time"))
    return begun if 1e9 < begun < LATEST_TIME else None


class Silence:
    """Looks for nodes of a shard that have sent nothing for `after` seconds of real time; 0: never.

    The id of a silence has the number of the last sample of the node, so that a restart repeats it with the same id.
    """

    def __init__(self, after: float = 0.0):
        self.after, self._looked = after, -LOOK_SECONDS
        self._silent = set[tuple[int, float]]()  # rows, with the time: a node may become silent again
        self._wrong = set[str]()

    def look(self, shard: Shard) -> list[Record]:
        """An alarm for each node that became silent since the last call."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return []
        self._looked = now
        rows = np.flatnonzero(now - shard.heard > self.after) if self.after else np.zeros(0, np.int64)
        before, self._silent = self._silent, set(zip(rows.tolist(), shard.heard[rows].tolist()))
        new = sorted(self._silent - before)
        names = list(shard.rows) if new else []
        found = [_record(shard, names[row], "silent", f"no sample for {self.after:g} seconds") for row, _ in new]
        since = {name for name, begun in shard.order.olds.items() if now - begun > CLOCK_SECONDS and name in shard.rows}
        why = "all its samples are older than one before: is its clock wrong? (--keep-old counts them)"
        found += [_record(shard, name, "clock", why) for name in sorted(since - self._wrong)]
        self._wrong = since
        return found


def _record(shard: Shard, node: str, word: str, reason: str) -> Record:
    row = shard.rows[node]
    number = int(shard.counts[row])
    return {
        "id": f"{shard.id}-{row}-{number}-{word}",
        "node": node,
        "time": None,
        "alarm": word,
        "sample": number,
        "reason": reason,
        "text": reason,
    }


class AlarmCount:
    """Counts alarms by the definition of `count_alarms`: recovered is none, distress after a spike is the same one."""

    def __init__(self) -> None:
        self._spiked: set[tuple[object, object]] = set()

    def count(self, record: Record) -> int:
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


def json_line(record: Record) -> str:
    """A record as a line of JSON that is valid in any Unicode encoding."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # half a character, from a time that is not valid text
        line = json.dumps(record)
    return line


def plain(number: SupportsFloat, digits: int = 6) -> float | None:
    """A number that JSON has, with so many digits (17: all of them); None for what is not finite.

    Examples
    --------
    >>> plain(1 / 3), plain(float("inf"))
    (0.333333, None)
    """
    value = float(number)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
