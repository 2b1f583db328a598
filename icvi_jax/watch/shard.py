"""A shard: the live fleet of some nodes, with all that a restart needs. Samples may come from any source."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from icvi_jax.anchor import Anchor
from icvi_jax.array_api import Stored
from icvi_jax.checkpoint import CheckpointError
from icvi_jax.live import Live
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.watch.alarms import alarms_of, score_of
from icvi_jax.watch.reorder_buffer import Late
from icvi_jax.watch.sample import Sample, Time, checked, order
from icvi_jax.watch.ticks import Block, Tick, blocks

KEEP = ("values", "label", "k", "alarms", "seen")
ROOM = 16
LAYOUT = 4
"""Version of the extra data in a checkpoint; 1 had its own journal, 2 used counts of samples as positions, 3 subtracted
an origin of its own, which `load` adds to those of the states."""


class Shard:
    """Feeds samples to a `Live` fleet that grows as nodes appear.

    Parameters
    ----------
    pipe : the pipeline.
    features : names of the readings of a sample.
    id : a unique name; ids of alarms begin with it.
    keep_old : also count samples that are not later than the last one of their node.
    late : hold samples back for so many seconds of their own time, so that late ones can be put in order.

    Attributes
    ----------
    taken, samples, old : how many samples were accepted, how many of them are computed (the others wait for late
        ones), and how many were skipped because they were not new.
    rows : row of each node in the fleet.
    positions : as given to `save`, such as offsets in a log.
    heard : when each node last sent a sample, by `time.monotonic`, (N,).
    counts : samples of each node, (N,).
    score, standing : score of the first monitor of each node, and whether any of its alarms lasts, (N,).
    more : other data given to `save`.

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
        self.more: dict[str, Stored] = {}
        self._last: dict[str, int | float] = {}
        self._ready: list[Sample] = []
        self._unusable, self.counts = np.zeros(0, np.int32), np.zeros(0, np.int64)
        self.heard = np.zeros(0)
        self.score, self.standing = np.zeros(0), np.zeros(0, bool)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], pipe: Pipeline, keep_old: bool = False, late: float = 0.0) -> Shard:
        """The shard as it was saved."""
        try:
            live = Live.load(folder, pipe, keep=KEEP)
        except CheckpointError as problem:
            if "configuration" not in str(problem):
                raise
            raise CheckpointError(f"{problem}; use the options of before, or a new folder") from None
        extra: Mapping[str, Any] = live.extra or {}  # written by `save`
        if extra.get("layout") not in (3, LAYOUT):
            raise ValueError(f"{folder}: a checkpoint of another version of the watch: use a new folder")
        shard = cls(pipe, extra["features"], extra["id"], keep_old, late)
        shard.live, shard.rows = live, {name: row for row, name in enumerate(live.names)}
        shard.late.restore(extra["late"])
        shard.taken, shard.samples, shard._last = extra["taken"], extra["samples"], extra["last"]
        shard.positions, shard.more = extra["positions"], extra["more"]
        if extra["layout"] == 3:
            live.state = moved_by(live.state, np.array(extra["origin"], np.float64).reshape(-1, len(shard.features)).T)
        shard._unusable, shard.counts = np.array(extra["unusable"], np.int32), np.array(extra["counts"], np.int64)
        shard.heard = np.full(len(shard.rows), time.monotonic())
        shard.score, shard.standing = np.array(extra["score"], np.float64), np.array(extra["standing"], bool)
        return shard

    @property
    def state(self) -> PipelineState:
        """The state of all nodes (…, N), in the order of `rows`: the same however samples are split into batches."""
        state, missing = self.live.state, self._unusable.copy()  # without the ticks at which a node had no sample
        return state._replace(missing=missing)

    def take(self, batch: Iterable[tuple[str, Time, Sequence[float]]]) -> list[dict[str, object]]:
        """Process samples (node, time, x) in order of arrival, and return the alarms.

        NaN is a missing reading. If one sample is not valid, this is a ValueError, and none of the batch is used.
        """
        self.accept([checked(node, time, x, self.features) for node, time, x in batch])
        return [alarm for tick in self.compute() for _, alarm in alarms_of(tick, self.id, self.features)]

    def accept(self, batch: Iterable[Sample], again: bool = False) -> list[Sample]:
        """The samples that are new, which `compute` will count; `again`: they were accepted before a restart."""
        fresh = []
        for sample in batch:
            when = order(sample.time)
            if not (again or self.keep_old) and self._is_old(sample, when):
                self.old += 1
                continue
            if when is None:
                self._ready.append(sample)
            else:
                self._line_up(sample, when)
            fresh.append(sample)
        self.taken += len(fresh)
        return fresh

    def _is_old(self, sample: Sample, when: int | float | None) -> bool:
        """Whether a sample is not later than the last one of its node, as far as this is known."""
        last = self._last.get(sample.node)
        if when is None:  # a time without an order, like "nan": if sent again, it would count twice
            return last is not None and sample.time is not None
        return (last is not None and when <= last) or (self.late.wait > 0 and self.late.has(sample))

    def _line_up(self, sample: Sample, when: int | float) -> None:
        """Let a sample wait for late ones; without waiting, it is ready at once."""
        turn = [(sample, when)]
        if self.late.wait:
            turn = [(one, order(one.time) or 0) for one in self.late.push(sample)]
        for one, moment in turn:
            self._last[one.node] = max(moment, self._last.get(one.node, moment))
            self._ready.append(one)

    def compute(self) -> Iterator[Tick]:
        """Compute the accepted samples; yields the steps of the fleet."""
        ready, self._ready = self._ready, []
        self._make_room(ready)
        for block in blocks(ready, self.rows):
            yield self._step(block)

    def flush(self) -> None:
        """Let `compute` use the samples that wait for late ones: no more will come."""
        self._ready += self.late.held()
        self.late.clear()

    def _step(self, block: Block) -> Tick:
        """Advance the fleet by a block."""
        samples, rows, depth, length = block
        x = block.readings(len(self.rows), len(self.features))
        if length == 1:
            reading = jax.tree.map(lambda a: a[rows], self.live.tick(x[:, 0]))
        else:
            reading = jax.tree.map(lambda a: a[rows, depth], self.live.tick_many(x))
        numbers = self.counts[rows] + depth + 1
        self.counts[rows] = numbers  # in order: the last of several stays
        self.samples += len(samples)
        self.heard[rows] = time.monotonic()
        np.add.at(self._unusable, rows, ~reading.seen)
        alarms = list(reading.alarms.values())
        if alarms:
            self.score[rows] = score_of(reading.alarms)
            self.standing[rows] = np.any([alarm.standing for alarm in alarms], axis=0)
        return Tick(samples, rows, depth, numbers, reading)

    def _make_room(self, samples: Sequence[Sample]) -> None:
        """Add the nodes that were not seen before."""
        new = {sample.node: sample.x for sample in reversed(samples) if sample.node not in self.rows}
        if not new:
            return
        names = list(dict.fromkeys(sample.node for sample in samples if sample.node in new))
        self.live.add(names)
        self.rows |= {name: len(self.rows) + n for n, name in enumerate(names)}
        zeros = np.zeros(len(names))
        self._unusable = np.append(self._unusable, zeros.astype(np.int32))
        self.counts = np.append(self.counts, zeros.astype(np.int64))
        self.heard, self.score = np.append(self.heard, zeros), np.append(self.score, zeros)
        self.standing = np.append(self.standing, zeros.astype(bool))

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
                "late": self.late.held(),
                "positions": self.positions,
                "last": self._last,
                "unusable": self._unusable.tolist(),
                "counts": self.counts.tolist(),
                "score": self.score.tolist(),
                "standing": self.standing.tolist(),
                "more": more,
            },
        )


def moved_by(state: PipelineState, origin: np.ndarray) -> PipelineState:
    """States of samples that `origin` (p, N) had been subtracted from, as states of the samples themselves."""
    high, low, known = map(np.asarray, state.anchor)
    value = np.where(known, high.astype(np.float64) + low + origin, 0.0)
    first = value.astype(high.dtype)
    return state._replace(anchor=Anchor(first, (value - first).astype(high.dtype), known))


def saved_in(folder: Path) -> bool:
    """Whether there is a checkpoint in a folder."""
    return any(folder.glob("*.icvi"))
