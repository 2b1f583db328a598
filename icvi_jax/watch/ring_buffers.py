"""What the live page shows: the last samples of every node in ring buffers, and the last events. Memory stays flat."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from icvi_jax.report.alarm_text import unusual_reading
from icvi_jax.report.health_text import HEALTH, reasons_of
from icvi_jax.report.incidents import Incidents
from icvi_jax.report.result import COLUMN_ALARMS
from icvi_jax.watch.alarms import score_of
from icvi_jax.watch.batches import Tick
from icvi_jax.watch.json_and_csv import LineFormat
from icvi_jax.watch.sample import seconds, time_in_words, zone_of
from icvi_jax.watch.shard import Shard
from icvi_jax.watch.silences import Silences

ROOM, MANY = 64, 8192
EVENTS = 500
WITH_DETAIL = ("spike", "distress")  # an alarm of a column names it already
Kind = TypeVar("Kind", bound=np.generic)


class History(NamedTuple):
    """The last samples of one node, oldest first."""

    time: NDArray[np.float64]  # seconds since 1970, or in the unit of the feed; NaN where unknown
    x: NDArray[np.float64]  # (n, p), the readings
    # label, k, code, cause: cluster of each sample, number of clusters, alarm, and the column that raised it (−1 none)
    label: NDArray[np.int16]
    k: NDArray[np.int16]
    code: NDArray[np.uint8]
    cause: NDArray[np.int16]
    score: NDArray[np.float32]  # of the first monitor
    values: NDArray[np.float32]  # (n, indices)


class RingBuffers:
    """Ring buffers of all nodes. One thread adds, others read; they wait only while some rows are copied.

    Parameters
    ----------
    indices : their names.
    length : samples kept of each node.
    silent_after : seconds without samples after which a node is silent; 0 never.
    events : how many of the last alarms are kept.
    silences, acknowledged : which nodes are muted, and which incidents a person has seen.
    """

    def __init__(
        self,
        indices: Sequence[str],
        length: int = 240,
        silent_after: float = 0.0,
        events: int = EVENTS,
        silences: Silences | None = None,
        acknowledged: Silences | None = None,
    ):
        self.indices, self.length, self.silent_after = tuple(indices), length, silent_after
        self.lock = threading.Lock()
        self.names: list[str] = []  # names, rows: of the nodes, in order of arrival
        self.rows: dict[str, int] = {}
        self.silences, self.acknowledged = silences or Silences(), acknowledged or Silences()
        self._incidents = Incidents()
        self.events: deque[dict[str, object]] = deque(maxlen=events)
        self.count = self.samples = 0  # count: events so far
        # features, units, time_name: names and units of the readings, name of the time
        self.features: tuple[str, ...] = ()
        self.units: dict[str, str] = {}
        self.time_name = ""
        self.zone: dict[int, str] = {}  # time zone of each row whose times have one
        self._maps: dict[str, list[int]] = {}
        self.head = np.zeros(0, np.int64)  # samples of each row so far
        # heard, alarmed: when each row last sent a sample and raised an alarm, by `time.monotonic`
        self.heard, self.score, self.standing = np.zeros(0), np.zeros(0, np.float32), np.zeros(0, bool)
        self.here, self.alarmed = np.zeros(0, bool), np.full(0, -np.inf)  # here: whether this process has the node now
        self.last: dict[int, str] = {}  # the word for its last alarm
        # asked, reasons: nodes whose page is open, and why their clusters do not fit, as of a moment ago
        self.asked: set[str] = set()
        self.reasons: dict[str, tuple[int, int]] = {}
        self._told = -math.inf
        n = length
        self._rings = History(
            np.zeros((0, n)),
            np.zeros((0, n, 0)),
            np.zeros((0, n), np.int16),
            np.zeros((0, n), np.int16),
            np.zeros((0, n), np.uint8),
            np.zeros((0, n), np.int16),
            np.zeros((0, n), np.float32),
            np.zeros((0, n, len(self.indices)), np.float32),
        )

    def bytes_of_node(self, features: int) -> int:
        """Memory of the ring buffer of a node with so many readings."""
        return self.length * (8 + 8 * features + 2 + 2 + 1 + 2 + 4 + 4 * len(self.indices))

    def add(self, shard: Shard, tick: Tick) -> None:
        """Add one step of the fleet."""
        with self.lock:
            rows = self._rows_of(shard, tick)
            self._write(rows, tick, self._columns_of(shard))
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

    def tell(self, form: LineFormat | None) -> None:
        """Take the name of the time and the units of readings from the format of the feed."""
        if form is not None:
            self.time_name = form.time
            self.units = dict(form.units)

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
        rings.label[rows, at], rings.k[rows, at] = reading.label, reading.k
        for column, name in enumerate(self.indices):
            rings.values[rows, at, column] = reading.values.get(name, np.nan)  # one of 0.2 goes on without health
        alarms = list(reading.alarms.values())
        if alarms:
            code = np.max([alarm.code for alarm in alarms], axis=0)
            cause = np.max([np.where(alarm.code == code, alarm.cause, -1) for alarm in alarms], axis=0)
            rings.cause[rows, at] = np.where((code > 0) & (cause >= 0), np.array([*columns, -1])[cause], -1)
            rings.code[rows, at], rings.score[rows, at] = code, score_of(reading.alarms)
            self.score[rows] = rings.score[rows, at]
            loud = rows[code != 0]
            self.alarmed[loud] = time.monotonic()
            self.standing[rows] = np.any([alarm.standing for alarm in alarms], axis=0)

    def event(self, alarm: dict[str, object], back: int = 0) -> None:
        """Add an alarm to the list of events; `back` samples of its node came after the one that raised it."""
        with self.lock:
            self.count += 1
            event = alarm | {"number": self.count, "at": time.time()} | self._incident_of(alarm)
            if str(alarm["node"]) in self.rows:
                self.last[self.rows[str(alarm["node"])]] = str(alarm["alarm"])
            if alarm["alarm"] in WITH_DETAIL and not alarm.get("cause"):
                row = self.rows[str(alarm["node"])]
                x = self._history(row, self.length).x
                here = [i for i in range(x.shape[1]) if np.isfinite(x[:, i]).any()]
                names = [self.features[i] for i in here]
                detail = (
                    unusual_reading(x[: len(x) - back][:, here], names, self.units) if len(x) > back and here else ""
                )
                event["reason"] = f"{alarm['reason']}; {detail}" if detail else alarm["reason"]
            self.events.append(event)

    def _incident_of(self, alarm: dict[str, object]) -> dict[str, object]:
        """The incident that an alarm belongs to, and its sentence so far; nodes of all partitions count."""
        if alarm["alarm"] not in (*WITH_DETAIL, *COLUMN_ALARMS):
            return {}
        group, moment = self._incidents, alarm["time"]
        when = time_in_words(moment, int(str(alarm.get("sample", 1))))  # type: ignore[arg-type]  # as in a sample
        at = seconds(moment)  # type: ignore[arg-type]
        at = group.last if np.isnan(at) else at
        text = group.add(str(alarm["node"]), at, when, str(alarm.get("cause") or ""), int(self.here.sum()))
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
        def longer(a: NDArray[Kind], fill: float = 0) -> NDArray[Kind]:
            new = np.zeros((room, *a.shape[1:]), a.dtype)  # memory that is not used yet costs nothing
            new[: len(a)] = a
            if fill:
                new[len(a) :] = fill
            return new

        for name in History._fields:  # one at a time: memory is short
            fill = np.nan if name in ("time", "x") else 0
            self._rings = self._rings._replace(**{name: longer(getattr(self._rings, name), fill)})
        self.head, self.heard, self.here = longer(self.head), longer(self.heard), longer(self.here)
        self.alarmed = longer(self.alarmed, -np.inf)
        self.score, self.standing = longer(self.score), longer(self.standing)

    def history(self, name: str) -> History | None:
        """The ring buffer of one node, oldest sample first; None if there is no such node."""
        with self.lock:
            row = self.rows.get(name)
            return None if row is None else self._history(row, self.length)

    def _history(self, row: int, most: int) -> History:
        head = int(self.head[row])
        at = np.arange(max(0, head - min(most, self.length)), head) % self.length
        return History(*(ring[row, at] for ring in self._rings))

    def ranked(self, search: str = "") -> NDArray[np.intp]:
        """Rows of nodes whose names contain `search`, worst first: in distress, by score, by last alarm; muted last."""
        with self.lock:
            n = len(self.names)
            score, standing, here = self.score[:n].copy(), self.standing[:n].copy(), self.here[:n].copy()
            alarmed = self.alarmed[:n].copy()
            muted = np.zeros(n, bool)
            muted[[self.rows[name] for name in self.silences.names if name in self.rows]] = True
            if search:
                text = search.lower()
                here &= np.array([text in name.lower() for name in self.names], bool)
        found = np.lexsort((np.arange(n), -alarmed, -np.nan_to_num(score), ~standing, muted))
        return np.asarray(found[here[found]])

    def silent(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these rows have sent nothing for too long."""
        if not self.silent_after:
            return np.zeros(len(rows), bool)
        return np.asarray(time.monotonic() - self.heard[rows] > self.silent_after)

    def strips(self, rows: Iterable[int], most: int) -> Iterator[tuple[int, History]]:
        """The last samples of some nodes."""
        for row in rows:
            with self.lock:
                found = self._history(int(row), most)
            yield int(row), found
