"""A shard: the live fleet of some nodes, with all that a restart needs. Samples may come from any source."""

from __future__ import annotations

import base64
import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from icvi_jax.array_api import Stored
from icvi_jax.checkpoint import CheckpointError, container
from icvi_jax.indices import Health
from icvi_jax.live import Live
from icvi_jax.model_selection import Portfolio
from icvi_jax.monitors import Stuck
from icvi_jax.origin import Anchor
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.report.alarm_text import RECENT, AlarmText, describe
from icvi_jax.report.incidents import Incidents
from icvi_jax.report.result import CHANGE, COLUMN_ALARMS
from icvi_jax.spec import changed
from icvi_jax.tables.column_kinds import LEAST_ROWS, Held, held_columns, hold_columns
from icvi_jax.tables.error_codes import CODES, is_code
from icvi_jax.terminal_text import Complaints, say
from icvi_jax.types import Alarm
from icvi_jax.watch.alarms import Record, alarms_of, score_of
from icvi_jax.watch.batches import Block, Tick, blocks
from icvi_jax.watch.reorder_buffer import ReorderBuffer
from icvi_jax.watch.sample import Sample, Time, checked

KEEP = ("values", "label", "k", "alarms", "seen")
ROOM = 16
LAYOUT = 5
"""Version of the extra data in a checkpoint; 1 had its own journal, 2 used counts of samples as positions, 3 subtracted
an origin of its own, which `load` adds to those of the states, 4 had neither clocks nor recent rows."""
RING = 128
"""Rows in the ring buffer of a node: what the sentence of an alarm looks back at, and the longest block."""


class Shard:
    """Feeds samples to a `Live` fleet that grows as nodes appear.

    Parameters
    ----------
    pipe : the pipeline.
    features : names of the readings of a sample.
    id : a unique name; ids of alarms begin with it.
    keep_old : also count samples that are not later than the last one of their node.
    late : hold samples back for so many seconds of their own time, so that late ones can be put in order.
    keep_codes : error codes such as −9999 are readings, not missing.
    judge : a column that only counts up in the first samples of a node keeps one value there; one with two values, too,
        until a third one comes.

    Attributes
    ----------
    taken, samples, old : how many samples were accepted, how many of them are computed (the others wait for late
        ones), and how many were skipped because they were not new.
    most, refused : how many nodes there may be, and how many samples of further nodes were refused.
    rows : row of each node in the fleet.
    counts, heard : samples of each node, and when the last one came, by `time.monotonic`, (N,).
    score, standing : score of the first monitor of each node, and whether any of its alarms lasts, (N,).
    positions, more : as given to `save`, such as offsets in a log.

    Examples
    --------
    >>> import tempfile, icvi_jax as icvi
    >>> from icvi_jax.watch import Shard
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)),
    ...                      monitors={"xb": icvi.Distress()})
    >>> shard = Shard(pipe, ["celsius"])
    >>> shard.take([("roof", 1, (20.5,)), ("cellar", 1, (12.0,)), ("roof", 2, (20.7,)), ("roof", 1, (20.5,))])
    []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = shard.save(folder, positions={"0": 4})
    ...     again = Shard.load(folder, pipe)
    >>> again.samples, list(again.rows), again.positions
    (3, ['roof', 'cellar'], {'0': 4})
    """

    def __init__(
        self,
        pipe: Pipeline,
        features: Sequence[str],
        id: str = "shard",
        keep_old: bool = False,
        late: float = 0.0,
        keep_codes: bool = False,
        judge: bool = False,
    ):
        self.pipe, self.features, self.id = pipe, tuple(features), id
        self.keep_codes, self.judge = keep_codes, judge
        self.order = ReorderBuffer(late, keep_old)
        self.live = Live(pipe, len(self.features), (), keep=KEEP, capacity=ROOM)
        self.rows: dict[str, int] = {}
        self._said_held = False
        self.taken = self.samples = 0
        self.positions: dict[str, int] = {}
        self.more: dict[str, Stored] = {}
        self.most, self.refused, self._crowded = sys.maxsize, 0, Complaints()
        self._new: set[str] = set()  # accepted nodes without a row yet
        self._said_codes: set[tuple[int, float]] = set()
        self.incidents = Incidents()
        self._ready: list[Sample] = []
        self._place(self._new_nodes(0))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        pipe: Pipeline,
        keep_old: bool = False,
        late: float = 0.0,
        keep_codes: bool = False,
    ) -> Shard:
        try:
            live = Live.load(folder, pipe, keep=KEEP)
        except CheckpointError as problem:
            if "configuration" not in str(problem):
                raise
            # a watch of 0.2 goes on with what it had: there was no alarm for sensors that are stuck, and no health
            had = {name: one for name, one in pipe.monitors.items() if not isinstance(one, Stuck)}
            panel = pipe.panel and changed(
                pipe.panel, indices=tuple(one for one in pipe.panel.indices if not isinstance(one, Health))
            )
            try:
                live = Live.load(folder, changed(pipe, monitors=had, panel=panel), keep=KEEP)
            except (CheckpointError, ValueError):
                raise CheckpointError(f"{problem}; use the options of before, or a new folder") from None
            pipe = live.pipe
        extra: Mapping[str, Any] = live.extra or {}  # written by `save`
        if extra.get("layout") not in (3, 4, LAYOUT):
            raise ValueError(f"{folder}: a checkpoint of another version of the watch: use a new folder")
        shard = cls(pipe, extra["features"], extra["id"], keep_old, late, keep_codes, extra.get("judge", False))
        shard.live, shard.rows = live, {name: row for row, name in enumerate(live.names)}
        shard._new = shard.order.restore(extra).difference(shard.rows)
        shard.taken, shard.samples = extra["taken"], extra["samples"]
        if "incident" in extra:
            shard.incidents.restore(extra["incident"])
        shard.positions, shard.more = extra["positions"], extra["more"]
        if extra["layout"] == 3:
            live.state = moved_by(live.state, np.array(extra["origin"], np.float64).reshape(-1, len(shard.features)).T)
        nodes = shard._new_nodes(len(shard.rows))
        for name in ("unusable", "counts", "score", "standing"):
            nodes[name] = extra[name]
        nodes["heard"] = time.monotonic()
        for name, key in (("recent", "recent"), ("fired", "fired"), ("held", "frozen"), ("other", "other")):
            if extra.get(key):
                nodes[name] = unpacked(extra[key], nodes[name].shape)
        if "other" not in extra:  # older checkpoints held only counters
            nodes["other"] = np.where(np.isfinite(nodes["held"]), np.inf, np.nan)
        shard._place(nodes)
        return shard

    def _new_nodes(self, count: int) -> NDArray[np.void]:
        p = len(self.features)
        kind: list[Any] = [
            ("recent", "f8", (RING, p)),
            ("fired", "f8", (p,)),
            ("held", "f8", (p,)),
            ("other", "f8", (p,)),
        ]
        kind += [("counts", "i8"), ("heard", "f8"), ("score", "f8"), ("unusable", "i4"), ("standing", "?")]
        nodes = np.zeros(count, np.dtype(kind, align=True))
        nodes["recent"] = nodes["held"] = nodes["other"] = np.nan
        return nodes

    def _place(self, nodes: NDArray[np.void]) -> None:
        """Take these records of all nodes; the arrays with names of their own are views of them."""
        self._nodes = nodes
        self._recent, self._fired, self._held, self._other = (nodes[n] for n in ("recent", "fired", "held", "other"))
        self.counts, self.heard, self._unusable = nodes["counts"], nodes["heard"], nodes["unusable"]
        self.score, self.standing = nodes["score"], nodes["standing"]

    old = property(lambda self: self.order.old)

    @property
    def state(self) -> PipelineState:
        """The state of all nodes (…, N), in the order of `rows`: the same however samples are split into batches."""
        state, missing = self.live.state, self._unusable.copy()  # without the ticks at which a node had no sample
        return state._replace(missing=missing)

    def take(self, batch: Iterable[tuple[str, Time, Sequence[float]]]) -> list[Record]:
        """Process samples (node, time, x) in order of arrival, and return the alarms.

        NaN is a missing reading. If one sample is not valid, this is a ValueError, and none of the batch is used.
        """
        self.accept([checked(node, time, x, self.features) for node, time, x in batch])
        return [alarm for tick in self.compute() for alarm in alarms_of(tick, self.id, self.features)]

    def accept(self, batch: Iterable[Sample], again: bool = False) -> list[Sample]:
        """The samples that are new, which `compute` will count; `again`: they were accepted before a restart."""
        fresh = []
        for sample in batch:
            if sample.node in self.rows or self._admit(sample.node, again):
                ready = self.order.push(sample, again)
                if ready is not None:
                    fresh.append(sample)
                    self._ready += ready
        self.taken += len(fresh)
        return fresh

    def _admit(self, node: str, again: bool) -> bool:
        """Whether a new node is admitted; the sample of one that is not is counted as refused."""
        if node not in self._new:
            if not again and len(self.rows) + len(self._new) >= self.most:
                self.refused += 1
                smaller = "; -k 3 has room for more" if isinstance(self.pipe.clusterer, Portfolio) else ""
                self._crowded.say(
                    f"there are {self.most:,} nodes, the most there may be (--most-nodes): samples of other nodes, "
                    f"such as {node!r}, are not counted{smaller}"
                )
                return False
            self._new.add(node)
        return True

    def compute(self) -> Iterator[Tick]:
        """Compute the accepted samples; yields the steps of the fleet."""
        ready, self._ready = self._ready, []
        self._make_room(ready)
        for block in blocks(ready, self.rows):
            yield self._step(block)

    def flush(self) -> None:
        """Let `compute` use the samples that wait for late ones: no more will come."""
        self._ready += self.order.flush()

    def _step(self, block: Block) -> Tick:
        samples, rows, depth, length = block
        x = block.readings(len(self.rows), len(self.features))
        if not self.keep_codes:
            self._clear_codes(block, x)
        if self.judge:
            self._hold_quiet(rows, x)
        numbers = self.counts[rows] + depth + 1
        self._recent[rows, (numbers - 1) % RING] = x[rows, depth]
        if length == 1:
            reading = jax.tree.map(lambda a: a[rows], self.live.tick(x[:, 0]))
        else:
            reading = jax.tree.map(lambda a: a[rows, depth], self.live.tick_many(x))
        self.counts[rows] = numbers  # in order: the last of several stays
        self.samples += len(samples)
        self.heard[rows] = time.monotonic()
        np.add.at(self._unusable, rows, ~reading.seen)
        alarms = list(reading.alarms.values())
        if alarms:
            self.score[rows] = score_of(reading.alarms)
            self.standing[rows] = np.any([alarm.standing for alarm in alarms], axis=0)
        return Tick(samples, rows, depth, numbers, reading, self._describe(rows, numbers, reading.alarms))

    def row_step(self) -> tuple[float, bool]:
        """The usual time between two samples of a node, and whether it is in seconds; 1 where there are no times."""
        clocks = [node.clock for node in self.order.nodes.values()]
        gaps = [(c.gap / (c.unit or 1), c.unit > 0) for c in clocks if c.gap]
        return (float(np.median([gap for gap, _ in gaps])), gaps[0][1]) if gaps else (1.0, False)

    def recent(self, row: int, number: int) -> NDArray[np.float64]:
        """The last readings of a node up to its sample `number` (from 1), oldest first, (n, p)."""
        at = np.arange(max(0, number - RECENT), number) % RING
        return np.asarray(self._recent[row, at], np.float64)

    def _describe(
        self, rows: NDArray[np.intp], numbers: NDArray[np.int64], alarms: Mapping[str, Alarm]
    ) -> dict[tuple[int, str], AlarmText]:
        """What the alarms of columns say, by the number of the sample in the block and the monitor."""
        texts = {}
        for name in COLUMN_ALARMS:
            if name not in alarms:
                continue
            for i in np.flatnonzero(alarms[name].code).tolist():
                row, number, cause = int(rows[i]), int(numbers[i]), int(alarms[name].cause[i])
                past = self.recent(row, number)[:, cause] if cause >= 0 else np.zeros(0)
                before = int(self._fired[row, cause]) if name == CHANGE and cause >= 0 else 0
                column = self.features[cause] if cause >= 0 else ""
                texts[i, name] = describe(name, column, past, float(alarms[name].p[i]), before, number)
                if name == CHANGE and cause >= 0:
                    self._fired[row, cause] += 1
        return texts

    def _clear_codes(self, block: Block, x: NDArray[np.float64]) -> None:
        """Make error codes missing, in order, since each is compared with the readings before it."""
        for i, sample in enumerate(block.samples):
            if CODES.isdisjoint(sample.x):
                continue
            row, deep = int(block.rows[i]), int(block.depth[i])
            now = np.concatenate([self.recent(row, int(self.counts[row])), x[row, :deep]])
            for j, value in enumerate(sample.x):
                if is_code(value, now[:, j]):
                    x[row, deep, j] = np.nan
                    if (j, value) not in self._said_codes:
                        self._said_codes.add((j, value))
                        what = f"{self.features[j]} is {value:.10g}{f' at node {sample.node!r}' if sample.node else ''}"
                        say(f"{what}: taken as missing (--keep-codes keeps such values)")

    def _hold_quiet(self, rows: NDArray[np.intp], x: NDArray[np.float64]) -> None:
        """Hold what says nothing by the first `LEAST_ROWS` samples of its node: counters, columns with two values."""
        begun: dict[int, NDArray[np.float64]] = {}
        for row in np.unique(rows[self.counts[rows] < LEAST_ROWS]).tolist():
            here, past = int((rows == row).sum()), int(self.counts[row])
            if past + here < LEAST_ROWS:
                continue
            first = np.concatenate([self._recent[row, :past], x[row, : LEAST_ROWS - past]])
            self._held[row], self._other[row] = held_columns(first)
            if np.isfinite(self._held[row]).all() and not self._said_held:
                self._said_held = True
                node = next(name for name, at in self.rows.items() if at == row)
                say(f"node {node!r}: each column is a counter or has two values so far: no clusters until one has more")
            before = first[:past]
            if (np.isfinite(self._held[row]) & np.isfinite(before) & (before != self._held[row])).any():
                begun[row] = before
        some = np.unique(rows[np.isfinite(self._held[rows]).any(axis=1)])
        if begun:
            self._begin_again(begun)
        if some.size:
            part = x[some]
            self._held[some], self._other[some] = hold_columns(part, Held(self._held[some], self._other[some]))
            x[some] = part

    def _begin_again(self, begun: dict[int, NDArray[np.float64]]) -> None:
        """Compute the first samples of some rows again, with what is held since: as if that had been known from the
        beginning, as it is in a file. There are no alarms so early."""
        rows = np.array(list(begun))
        x = np.full((len(rows), LEAST_ROWS, len(self.features)), np.nan)
        for n, first in enumerate(begun.values()):
            x[n, : len(first)] = first
        again = Live(self.pipe, len(self.features), len(rows), keep=KEEP)
        hold_columns(x, Held(self._held[rows], self._other[rows]))
        again.tick_many(x)

        def placed(a: NDArray[np.generic], b: NDArray[np.generic]) -> NDArray[np.generic]:
            a = np.array(a)
            a[..., rows] = b
            return a

        self.live.state = jax.tree.map(placed, self.live.state, again.state)

    def _make_room(self, samples: Sequence[Sample]) -> None:
        new = {sample.node: sample.x for sample in reversed(samples) if sample.node not in self.rows}
        if not new:
            return
        names = list(dict.fromkeys(sample.node for sample in samples if sample.node in new))
        self.live.add(names)
        self.rows |= {name: len(self.rows) + n for n, name in enumerate(names)}
        self._new.difference_update(names)
        self._place(np.concatenate([self._nodes, self._new_nodes(len(names))]))

    def _recent_rows(self) -> NDArray[np.float64]:
        """The ring buffers, with zeros in rows that no sentence looks back at any more: they compress to nothing."""
        age = (self.counts[:, None] - 1 - np.arange(RING)) % RING
        return np.where(age[:, :, None] < RECENT, self._recent, np.float64(0))

    def save(
        self, folder: str | os.PathLike[str], positions: Mapping[str, int] | None = None, **more: object
    ) -> os.PathLike[str]:
        """Write a checkpoint, with the positions in the sources from which a restart must continue."""
        self.positions, self.more = dict(positions or {}), more
        return self.live.save(
            folder,
            extra={
                "layout": LAYOUT,
                "id": self.id,
                "features": list(self.features),
                "taken": self.taken,
                "samples": self.samples,
                "positions": self.positions,
                **self.order.stored(),
                "judge": self.judge,
                "incident": self.incidents.stored(),
                "recent": packed(self._recent_rows()),
                "fired": packed(self._fired),
                "frozen": packed(self._held),
                "other": packed(self._other),
                "unusable": self._unusable.tolist(),
                "counts": self.counts.tolist(),
                "score": self.score.tolist(),
                "standing": self.standing.tolist(),
                "more": more,
            },
        )


def packed(array: NDArray[np.float64]) -> str:
    """Numbers as text that JSON can hold, much shorter than their digits."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array, "<f8").tobytes(), 1)).decode()


def unpacked(text: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The numbers that `packed` was given."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f8").reshape(shape)


def moved_by(state: PipelineState, origin: np.ndarray) -> PipelineState:
    """States of samples that `origin` (p, N) had been subtracted from, as states of the samples themselves."""
    high, low, known = map(np.asarray, state.anchor)
    value = np.where(known, high.astype(np.float64) + low + origin, 0.0)
    first = value.astype(high.dtype)
    return state._replace(anchor=Anchor(first, (value - first).astype(high.dtype), known))


def saved_in(folder: Path) -> bool:
    """Whether there is a checkpoint in a folder."""
    return any(folder.glob("*.icvi"))


def kept_clusterer(folder: Path) -> str:
    """Name of the class of the clusterer in a checkpoint under a folder; empty where there is none."""
    for path in sorted(folder.rglob("*.icvi"), reverse=True):
        try:
            return str(container.header_of(path)["configuration"]["clusterer"]["is"])
        except (OSError, KeyError, TypeError, container.Damaged):
            continue  # removed by another worker, or damaged: the load says so
    return ""
