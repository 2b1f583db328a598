"""What the live page shows: the last samples of every node in ring buffers, and the last events. Memory stays flat."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from icvi_jax.report.alarm_text import unusual_reading
from icvi_jax.report.health_text import HEALTH, reasons_of
from icvi_jax.report.incidents import Incidents
from icvi_jax.report.result import COLUMN_ALARMS
from icvi_jax.watch.alarms import Record
from icvi_jax.watch.batches import Tick
from icvi_jax.watch.json_and_csv import LineFormat
from icvi_jax.watch.sample import seconds, time_in_words, zone_of
from icvi_jax.watch.shard import Shard
from icvi_jax.watch.silences import Silences

ROOM, MANY = 64, 8192
EVENTS, LATELY = 500, 600.0
"""How many of the last alarms are kept, and for how many seconds an alarm is new."""
WITH_DETAIL = ("spike", "distress")  # an alarm of a column names it already
CONDITIONS = ("fine", "new", "distress", "silent", "muted", "away")
FINE, NEWS, DISTRESS, SILENT, MUTED, AWAY = range(6)
"""The conditions of a node, in words and as numbers; away: another worker has it."""
Kind = TypeVar("Kind", bound=np.generic)
ROW = np.dtype(
    [
        ("head", "i8"),  # how many samples it had so far
        ("heard", "f8"),  # when it last sent one, and when it raised an alarm, by `time.monotonic`
        ("alarmed", "f8"),
        ("score", "f4"),
        ("k", "i2"),  # clusters at the last sample
        ("standing", "?"),  # whether an alarm lasts
        ("here", "?"),  # whether this process has the node now
    ],
    align=True,
)
"""What is known of a node besides its samples."""


class History(NamedTuple):
    """The last samples of one node, oldest first."""

    time: NDArray[np.float64]  # seconds since 1970, or in the unit of the feed; NaN where unknown
    x: NDArray[np.float64]  # (n, p), the readings
    label: NDArray[np.int16]  # the cluster of each sample
    code: NDArray[np.uint8]  # alarm, and the column that raised it (−1 none)
    cause: NDArray[np.int16]
    values: NDArray[np.float32]  # (n, indices)


class RingBuffers:
    """The last `length` samples of all nodes. One thread adds, others read, and wait for each other.

    `silences` are the nodes that are muted, `acknowledged` the incidents that a person has seen.
    """

    def __init__(
        self,
        indices: Sequence[str],
        length: int = 240,
        silent_after: float = 0.0,
        silences: Silences | None = None,
        acknowledged: Silences | None = None,
    ):
        self.indices, self.length, self.silent_after = tuple(indices), length, silent_after
        self.lock = threading.RLock()
        self.names: list[str] = []  # names, rows: of the nodes, in order of arrival
        self.rows: dict[str, int] = {}
        self.silences, self.acknowledged = silences or Silences(), acknowledged or Silences()
        self._incidents = Incidents()
        self.events: deque[Record] = deque(maxlen=EVENTS)
        self.count = self.samples = 0  # count: events so far
        self.form = LineFormat((), ())  # of the feed
        self.features: tuple[str, ...] = ()  # of all partitions
        self.zone: dict[int, str] = {}  # time zone of each row whose times have one
        self.last: dict[int, str] = {}  # the word for its last alarm
        self._maps: dict[str, list[int]] = {}
        # asked, reasons: nodes whose page is open, and why their clusters do not fit, as of a moment ago
        self.asked: set[str] = set()
        self.reasons: dict[str, tuple[int, int]] = {}
        self._told = -math.inf
        self._place(np.zeros(0, ROW))
        shape = 0, length
        self._rings = History(
            np.zeros(shape),
            np.zeros((*shape, 0)),
            np.zeros(shape, np.int16),
            np.zeros(shape, np.uint8),
            np.zeros(shape, np.int16),
            np.zeros((*shape, len(self.indices)), np.float32),
        )

    def _place(self, nodes: NDArray[np.void]) -> None:
        """Take these records of all nodes; the arrays with names of their own are views of them."""
        self._nodes = nodes
        self.head, self.heard, self.alarmed, self.score = (nodes[n] for n in ("head", "heard", "alarmed", "score"))
        self.k, self.standing, self.here = nodes["k"], nodes["standing"], nodes["here"]

    def bytes_of_node(self, features: int) -> int:
        return self.length * (8 + 8 * features + 2 + 1 + 2 + 4 * len(self.indices))

    def add(self, shard: Shard, tick: Tick) -> None:
        """Add one step of the fleet."""
        with self.lock:
            rows = self._rows_of(shard, tick)
            self._write(rows, tick, self._columns_of(shard))
            self.score[rows], self.standing[rows] = shard.score[tick.rows], shard.standing[tick.rows]
            self.head[rows] += tick.depth + 1  # the last of several samples of a node has the greatest depth
            self.heard[rows], self.here[rows] = time.monotonic(), True
            self.samples += len(tick.samples)
        self._explain(shard)

    def _explain(self, shard: Shard) -> None:
        """Note why the clusters of the nodes that somebody looks at do not fit, at most once a second.

        Done here, since only this thread may read the state of the fleet.
        """
        now = time.monotonic()
        if HEALTH not in self.indices or not self.asked or now - self._told < 1:
            return
        mine = [name for name in self.asked if name in shard.rows]
        if mine:
            why = reasons_of(shard.pipe, shard.live.state)
            self.reasons = {name: why[shard.rows[name]] for name in mine}
            self.asked, self._told = set(), now

    def trust(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Health of these rows at their last sample; NaN where it is not known."""
        if HEALTH not in self.indices:
            return np.full(len(rows), np.nan, np.float32)
        last = (self.head[rows] - 1) % self.length
        found = self._rings.values[rows, last, self.indices.index(HEALTH)]
        return np.where(self.head[rows] > 0, found, np.float32(np.nan))

    def _write(self, rows: NDArray[np.intp], tick: Tick, columns: list[int]) -> None:
        """Put the samples of a tick into the ring buffers; if a buffer is shorter than a tick, the last samples
        stay."""
        at, rings, reading = (self.head[rows] + tick.depth) % self.length, self._rings, tick.reading
        times = [sample.time for sample in tick.samples]
        rings.time[rows, at] = [seconds(moment) for moment in times]
        for row, moment in zip(rows, times):
            if isinstance(moment, str) and (zone := zone_of(moment)):
                self.zone[int(row)] = zone
        rings.x[rows[:, None], at[:, None], columns] = [sample.x for sample in tick.samples]
        rings.label[rows, at], self.k[rows] = reading.label, reading.k
        for column, name in enumerate(self.indices):
            rings.values[rows, at, column] = reading.values.get(name, np.nan)  # one of 0.2 goes on without health
        alarms = list(reading.alarms.values())
        if alarms:
            code = np.max([alarm.code for alarm in alarms], axis=0)
            cause = np.max([np.where(alarm.code == code, alarm.cause, -1) for alarm in alarms], axis=0)
            rings.cause[rows, at] = np.where((code > 0) & (cause >= 0), np.array([*columns, -1])[cause], -1)
            rings.code[rows, at] = code
            self.alarmed[rows[code != 0]] = time.monotonic()

    def event(self, alarm: Record, back: int = 0) -> None:
        """Add an alarm to the list of events; `back` samples of its node came after the one that raised it."""
        node = alarm["node"]
        with self.lock:
            self.count += 1
            event = alarm | {"number": self.count, "at": time.time()} | self._incident_of(alarm)
            if node in self.rows:
                self.last[self.rows[node]] = alarm["alarm"]
            history = self.history(node) if alarm["alarm"] in WITH_DETAIL and not alarm.get("cause") else None
            if history is not None and len(history.x) > back:
                here = np.flatnonzero(np.isfinite(history.x).any(axis=0))
                x = history.x[: len(history.x) - back, here]
                names, units = [self.features[i] for i in here], dict(self.form.units)
                detail = unusual_reading(x, names, units) if names else ""
                event["reason"] += f"; {detail}" if detail else ""
            self.events.append(event)

    def _incident_of(self, alarm: Record) -> Record:
        """The incident that an alarm belongs to, and its sentence so far; nodes of all partitions count."""
        if alarm["alarm"] not in (*WITH_DETAIL, *COLUMN_ALARMS):
            return {}
        group, at = self._incidents, seconds(alarm["time"])
        at, when = group.last if np.isnan(at) else at, time_in_words(alarm["time"], alarm.get("sample", 1))
        text = group.add(alarm["node"], at, when, alarm.get("cause") or "", int(self.here.sum()))
        first = group.members[0]
        return {"incident": f"{first.node} {first.when}", "nodes": text if len(group.members) > 1 else ""}

    def acknowledge(self, incident: str, seen: bool) -> bool:
        """Note that a person has seen an incident, or has not; False if there is no such incident."""
        with self.lock:
            known = {str(event["incident"]) for event in self.events if "incident" in event}
        if incident in known:
            self.acknowledged.set(incident, seen, known)
        return incident in known

    def drop(self, shard: str) -> None:
        """Remove the nodes of this shard: another worker has them now."""
        with self.lock:
            self.here[self._maps.pop(shard, [])] = False

    def _rows_of(self, shard: Shard, tick: Tick) -> NDArray[np.intp]:
        known = self._maps.setdefault(shard.id, [])
        for name in list(shard.rows)[len(known) :]:
            if name not in self.rows:
                self.rows[name] = len(self.names)
                self.names.append(name)
            known.append(self.rows[name])
        if len(self.names) > len(self.head):
            size = len(self.head)
            self._grow(max(ROOM, size + (size if size < MANY else size // 8), len(self.names)))
        return np.array(known, np.intp)[tick.rows]

    def _columns_of(self, shard: Shard) -> list[int]:
        if shard.features != self.features:
            self.features += tuple(name for name in shard.features if name not in self.features)
            x = self._rings.x
            more = np.full((*x.shape[:2], len(self.features) - x.shape[2]), np.nan)
            self._rings = self._rings._replace(x=np.concatenate([x, more], axis=2))
        return [self.features.index(name) for name in shard.features]

    def _grow(self, room: int) -> None:
        def longer(a: NDArray[Kind]) -> NDArray[Kind]:
            new = np.zeros((room, *a.shape[1:]), a.dtype)  # memory that is not used yet costs nothing
            new[: len(a)] = a
            return new

        size = len(self.head)
        for name in History._fields:  # one at a time: memory is short
            ring = longer(getattr(self._rings, name))
            if name in ("time", "x"):
                ring[size:] = np.nan
            self._rings = self._rings._replace(**{name: ring})
        nodes = longer(self._nodes)
        nodes["alarmed"][len(self._nodes) :] = -np.inf
        self._place(nodes)

    def history(self, name: str, most: int | None = None) -> History | None:
        """The last samples of one node, at most so many; None if there is no such node."""
        with self.lock:
            row = self.rows.get(name)
            if row is None:
                return None
            head = int(self.head[row])
            at = np.arange(max(0, head - min(most or self.length, self.length)), head) % self.length
            return History(*(ring[row, at] for ring in self._rings))

    def conditions(self) -> NDArray[np.uint8]:
        """The condition of each node, in the order of rows."""
        now, muted = time.monotonic(), self.silences.names
        with self.lock:
            n = len(self.names)
            found = np.where(now - self.alarmed[:n] < LATELY, np.uint8(NEWS), np.uint8(FINE))
            if self.silent_after:
                found[now - self.heard[:n] > self.silent_after] = SILENT
            found[self.standing[:n]] = DISTRESS
            found[[self.rows[name] for name in muted if name in self.rows]] = MUTED
            found[~self.here[:n]] = AWAY
        return np.asarray(found)

    def ranked(self, search: str = "") -> NDArray[np.intp]:
        """Rows of nodes whose names contain `search`, worst first: in distress, by score, by last alarm; muted last."""
        conditions = self.conditions()
        n = len(conditions)
        with self.lock:
            score, standing, alarmed = self.score[:n].copy(), self.standing[:n].copy(), self.alarmed[:n].copy()
        found = np.lexsort((np.arange(n), -alarmed, -np.nan_to_num(score), ~standing, conditions == MUTED))
        shown, text = conditions != AWAY, search.lower()
        return np.array([row for row in found[shown[found]] if text in self.names[row].lower()], np.intp)
