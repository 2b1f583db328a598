"""What a page shows of a live fleet: the last samples of every node in rings and the last events, flat in memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from icvi_jax.watch.alarms import Tick
from icvi_jax.watch.sample import seconds
from icvi_jax.watch.shard import Shard

ROOM = 64
ZONE = 6  # characters of "+02:00"


class History(NamedTuple):
    """The last samples of one node, oldest first.

    Attributes
    ----------
    time : seconds since 1970, or as the feed counts; NaN where unknown.
    x : (n, p), the readings.
    label, k, code : cluster of each sample, number of clusters, and alarm.
    score : of the first monitor.
    values : (n, indices).
    """

    time: np.ndarray
    x: np.ndarray
    label: np.ndarray
    k: np.ndarray
    code: np.ndarray
    score: np.ndarray
    values: np.ndarray


class Board:
    """Rings of all nodes. One thread adds, others look; neither waits for longer than a copy of some rows takes.

    Parameters
    ----------
    indices, features : their names.
    length : samples kept of each node.
    silent_after : seconds after which a node that says nothing is silent; 0 never.
    events : how many of the last alarms are kept.
    """

    def __init__(
        self,
        indices: Sequence[str],
        features: Sequence[str] = (),
        length: int = 240,
        silent_after: float = 0.0,
        events: int = 500,
    ):
        self.indices, self.features = tuple(indices), tuple(features)
        self.length, self.silent_after = length, silent_after
        self.lock = threading.Lock()
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.muted: set[str] = set()
        self.events: deque[dict[str, object]] = deque(maxlen=events)
        self.count = self.samples = 0
        self.time_name = ""
        self.zone: dict[int, str] = {}
        self._maps: dict[str, list[int]] = {}
        self.head = np.zeros(0, np.int64)
        self.heard, self.score, self.standing = np.zeros(0), np.zeros(0, np.float32), np.zeros(0, bool)
        self.here, self.alarmed = np.zeros(0, bool), np.zeros(0)
        self._rings: History | None = None

    @property
    def bytes_per_node(self) -> int:
        """Memory that the ring of one node takes."""
        return self.length * (8 + 8 * len(self.features) + 2 + 2 + 1 + 4 + 4 * len(self.indices))

    def add(self, shard: Shard, tick: Tick) -> None:
        """Take in one step of the fleet."""
        with self.lock:
            self.features = shard.features
            rows = self._rows_of(shard, tick)
            at, rings, reading = self.head[rows] % self.length, self._rings, tick.reading
            times = [sample.time for sample in tick.samples]
            rings.time[rows, at] = [seconds(moment) for moment in times]
            for row, moment in zip(rows, times):
                if isinstance(moment, str) and moment[-ZONE:][:1] in "+-" and moment[-3:-2] == ":":
                    self.zone[int(row)] = moment[-ZONE:]
            rings.x[rows, at] = [sample.x for sample in tick.samples]
            rings.label[rows, at], rings.k[rows, at] = reading.label[tick.rows], reading.k[tick.rows]
            rings.values[rows, at] = np.stack([reading.values[name][tick.rows] for name in self.indices], axis=-1)
            for alarm in list(reading.alarms.values())[:1]:
                rings.code[rows, at], rings.score[rows, at] = alarm.code[tick.rows], alarm.score[tick.rows]
                self.score[rows], self.standing[rows] = alarm.score[tick.rows], alarm.standing[tick.rows]
                self.alarmed[rows[alarm.code[tick.rows] != 0]] = time.monotonic()
            self.head[rows] += 1
            self.heard[rows], self.here[rows] = time.monotonic(), True
            self.samples += len(tick.samples)

    def event(self, alarm: dict[str, object]) -> None:
        """Add an alarm to the list of what happened."""
        with self.lock:
            self.count += 1
            self.events.append(alarm | {"number": self.count})

    def drop(self, shard: str) -> None:
        """Another worker has the nodes of this shard now."""
        with self.lock:
            self.here[self._maps.pop(shard, [])] = False

    def _rows_of(self, shard: Shard, tick: Tick) -> np.ndarray:
        """Rows of the board for the samples of a tick; room is made for nodes that are new."""
        known = self._maps.setdefault(shard.id, [])
        for name in list(shard.rows)[len(known) :]:
            if name not in self.rows:
                self.rows[name] = len(self.names)
                self.names.append(name)
            known.append(self.rows[name])
        if len(self.names) > len(self.head) or self._rings is None:
            self._grow(max(ROOM, 2 * len(self.head), len(self.names)))
        return np.array(known)[tick.rows]

    def _grow(self, room: int) -> None:
        def longer(a: np.ndarray, fill: float = 0) -> np.ndarray:
            new = np.full((room, *a.shape[1:]), fill, a.dtype)
            new[: len(a)] = a
            return new

        n, p = self.length, len(self.features)
        old = self._rings or History(
            np.zeros((0, n)), np.zeros((0, n, p)), np.zeros((0, n), np.int16), np.zeros((0, n), np.int16),
            np.zeros((0, n), np.uint8), np.zeros((0, n), np.float32), np.zeros((0, n, len(self.indices)), np.float32),
        )  # fmt: skip
        self._rings = History(*(longer(ring) for ring in old))
        self.head, self.heard, self.here = longer(self.head), longer(self.heard), longer(self.here)
        self.alarmed = longer(self.alarmed)
        self.score, self.standing = longer(self.score), longer(self.standing)

    def history(self, name: str) -> History | None:
        """The ring of one node, oldest sample first; None where there is no such node."""
        with self.lock:
            row = self.rows.get(name)
            return None if row is None or self._rings is None else self._history(row, self.length)

    def _history(self, row: int, most: int) -> History:
        head = int(self.head[row])
        at = np.arange(max(0, head - min(most, self.length)), head) % self.length
        return History(*(ring[row, at] for ring in self._rings))

    def ranked(self, search: str = "") -> np.ndarray:
        """Rows of nodes whose names contain `search`, worst first: in distress, by score, by last alarm; muted last."""
        with self.lock:
            n = len(self.names)
            score, standing, here = self.score[:n].copy(), self.standing[:n].copy(), self.here[:n].copy()
            alarmed = self.alarmed[:n].copy()
            muted = np.zeros(n, bool)
            muted[[self.rows[name] for name in self.muted if name in self.rows]] = True
            if search:
                text = search.lower()
                here &= np.array([text in name.lower() for name in self.names], bool)
        found = np.lexsort((np.arange(n), -alarmed, -np.nan_to_num(score), ~standing, muted))
        return found[here[found]]

    def silent(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows have said nothing for too long."""
        if not self.silent_after:
            return np.zeros(len(rows), bool)
        return time.monotonic() - self.heard[rows] > self.silent_after

    def strips(self, rows: Sequence[int], most: int) -> Iterator[tuple[int, History]]:
        """The last samples of some nodes."""
        for row in rows:
            with self.lock:
                found = self._history(int(row), most)
            yield int(row), found
