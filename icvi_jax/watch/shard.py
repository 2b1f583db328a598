"""A shard: the live fleet of some nodes, with all that a restart needs, whoever brings the samples."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from icvi_jax.drive.live import Live
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.watch.alarms import Tick, alarms_of
from icvi_jax.watch.late import Late
from icvi_jax.watch.sample import Sample, order

KEEP = ("values", "label", "k", "alarms", "seen")
ROOM = 16
LAYOUT = 2
"""Version of what a checkpoint says beside the state; 1 had a journal of its own."""


class Shard:
    """Feeds samples to a `Live` fleet that grows as nodes appear.

    Parameters
    ----------
    pipe : the pipeline.
    features : names of the readings of a sample.
    id : a name that no other shard has; ids of alarms begin with it.
    keep_old : count samples that are not later than the last one of their node, too.
    late : hold samples back for so many seconds of their own time, so that those that come late find their place.

    Attributes
    ----------
    taken, samples, old : how many were accepted, how many of them are counted by now (the others wait for late ones),
        and how many were passed over as old news.
    rows : row of each node in the fleet.
    positions : what the caller gave to `save`, such as offsets in a log.
    heard : when each node was last heard, as `time.monotonic` has it, (N,).
    score, standing : of each node's first monitor, (N,).
    more : what else the caller gave to `save`.

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
        self, pipe: Pipeline, features: Sequence[str], id: str = "shard", keep_old: bool = False, late: float = 0.0
    ):
        self.pipe, self.features, self.id, self.keep_old = pipe, tuple(features), id, keep_old
        self.late = Late(late)
        self.live = Live(pipe, len(self.features), (), keep=KEEP, capacity=ROOM)
        self.rows: dict[str, int] = {}
        self.taken = self.samples = self.old = 0
        self.positions: dict[str, int] = {}
        self.more: dict[str, object] = {}
        self._last: dict[str, int | float] = {}
        self._ready: list[Sample] = []
        self._origin = np.zeros((0, len(self.features)))
        self._unusable = np.zeros(0, np.int32)
        self.heard = np.zeros(0)
        self.score, self.standing = np.zeros(0), np.zeros(0, bool)

    @classmethod
    def load(cls, folder: str | os.PathLike, pipe: Pipeline, keep_old: bool = False, late: float = 0.0) -> Shard:
        """The shard as it was saved."""
        live = Live.load(folder, pipe, keep=KEEP)
        extra = live.extra or {}
        if extra.get("layout") != LAYOUT:
            raise ValueError(f"{folder}: a checkpoint of another version of the watch: begin with a new folder")
        shard = cls(pipe, extra["features"], extra["id"], keep_old, late)
        shard.late.restore(extra["late"])
        shard.taken = extra["taken"]
        shard.live = live
        shard.rows = {name: row for row, name in enumerate(live.names)}
        shard.samples, shard.positions, shard._last = extra["samples"], extra["positions"], extra["last"]
        shard.more = extra["more"]
        shard._origin = np.array(extra["origin"], float).reshape(-1, len(shard.features))
        shard._unusable = np.array(extra["unusable"], np.int32)
        shard.heard = np.full(len(shard.rows), time.monotonic())
        shard.score, shard.standing = np.array(extra["score"], float), np.array(extra["standing"], bool)
        return shard

    @property
    def state(self) -> PipelineState:
        """The state of all nodes (…, N), in the order of `rows`: the same however samples were cut into batches."""
        return self.live.state._replace(missing=self._unusable.copy())  # not: ticks at which a node had nothing to say

    def take(self, batch: Iterable[tuple[str, str | int | float | None, Sequence[float]]]) -> list[dict[str, object]]:
        """Take in samples (node, time, x) in the order in which they came, and give the alarms."""
        self.accept(Sample(node, time, tuple(x)) for node, time, x in batch)
        return [alarm for tick in self.compute() for _, alarm in alarms_of(tick, self.id, self.features)]

    def accept(self, batch: Iterable[Sample], again: bool = False) -> list[Sample]:
        """The samples without old news, which `compute` will count; `again`: they were accepted in an earlier life."""
        fresh = []
        for sample in batch:
            when = order(sample.time)
            if when is None:
                self._ready.append(sample)
            elif not (again or self.keep_old) and self._is_old(sample, when):
                self.old += 1
                continue
            else:
                self._line_up(sample)
            fresh.append(sample)
        self.taken += len(fresh)
        return fresh

    def _is_old(self, sample: Sample, when: int | float) -> bool:
        last = self._last.get(sample.node)
        return (last is not None and when <= last) or (self.late.wait > 0 and self.late.has(sample))

    def _line_up(self, sample: Sample) -> None:
        """Let a sample wait for its turn in time; where none waits, its turn is now."""
        for one in self.late.push(sample) if self.late.wait else (sample,):
            when = order(one.time) or 0
            self._last[one.node] = max(when, self._last.get(one.node, when))
            self._ready.append(one)

    def compute(self) -> Iterator[Tick]:
        """Count what was accepted: the steps that the fleet makes with it."""
        ready, self._ready = self._ready, []
        for tick in _ticks(ready):
            yield self._step(tick)

    def flush(self) -> None:
        """Let `compute` count what waits for late samples, since none will come."""
        self._ready += self.late.held()
        self.late.clear()

    def _step(self, samples: list[Sample]) -> Tick:
        """Tick once with these samples, at most one a node."""
        self._make_room(samples)
        rows = np.array([self.rows[sample.node] for sample in samples])
        x = np.full((len(self.live.names), self.live.features), np.nan)
        # About the first reading of the node: float32 at an offset of 1e6 would lose what matters.
        x[rows] = np.array([sample.x for sample in samples]) - self._origin[rows]
        offered = self.live.positions
        offered[rows] += 1  # a node's own count: others tick without it
        reading = self.live.tick(x, offered)
        self.samples += len(samples)
        self.heard[rows] = time.monotonic()
        self._unusable[rows] += ~reading.seen[rows]
        for alarm in list(reading.alarms.values())[:1]:
            self.score[rows], self.standing[rows] = alarm.score[rows], alarm.standing[rows]
        return Tick(samples, rows, offered[rows], reading)

    def _make_room(self, samples: Sequence[Sample]) -> None:
        """Add the nodes that were not seen before."""
        new = [sample for sample in samples if sample.node not in self.rows]
        if not new:
            return
        for sample in new:
            if len(sample.x) != len(self.features):
                raise ValueError(f"{sample.node!r}: {len(sample.x)} readings, expected {len(self.features)}")
        self.live.add([sample.node for sample in new])
        self.rows |= {sample.node: len(self.rows) + n for n, sample in enumerate(new)}
        self._origin = np.concatenate([self._origin, np.nan_to_num([sample.x for sample in new])])
        self._unusable = np.append(self._unusable, np.zeros(len(new), np.int32))
        self.heard = np.append(self.heard, np.zeros(len(new)))
        self.score = np.append(self.score, np.zeros(len(new)))
        self.standing = np.append(self.standing, np.zeros(len(new), bool))

    def save(
        self, folder: str | os.PathLike, positions: Mapping[str, int] | None = None, **more: object
    ) -> os.PathLike:
        """Write a checkpoint, with the positions in the sources from which a restart has to go on."""
        self.positions, self.more = dict(positions or {}), more
        return self.live.save(
            folder,
            extra={
                "layout": LAYOUT,
                "id": self.id,
                "features": list(self.features),
                "taken": self.taken,
                "samples": self.samples,
                "late": self.late.held(),
                "positions": self.positions,
                "origin": self._origin.tolist(),
                "last": self._last,
                "unusable": self._unusable.tolist(),
                "score": self.score.tolist(),
                "standing": self.standing.tolist(),
                "more": more,
            },
        )


def saved_in(folder: Path) -> bool:
    """Whether there is a checkpoint in a folder."""
    return any(folder.glob("*.icvi"))


def _ticks(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Cut samples into ticks: several of one node make several, in their order."""
    ticks: list[list[Sample]] = []
    depth: dict[str, int] = defaultdict(int)
    for sample in samples:
        if depth[sample.node] == len(ticks):
            ticks.append([])
        ticks[depth[sample.node]].append(sample)
        depth[sample.node] += 1
    return ticks
