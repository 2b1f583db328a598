"""The live loop, the same for every source: each sample counts exactly once, each alarm is sent at least once.

The order of the steps makes it safe. Messages are written to the journal, then acknowledged, then computed; their
alarms are stored, then printed, then marked as printed. After an error nothing is cleaned up: the folder says which
steps were done, and a restart continues from there. A part of a source without a journal of its own (a partition of a
Kafka topic) continues from the offset in its checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

import jax
import numpy as np

from icvi_jax.model_selection import Portfolio
from icvi_jax.monitors import Budget
from icvi_jax.pipeline import Pipeline
from icvi_jax.terminal_text import counted, say
from icvi_jax.watch.absent_nodes import Silence
from icvi_jax.watch.alarms import AlarmCount, agreed, alarms_of, json_line
from icvi_jax.watch.decode import Complaints, Decoder
from icvi_jax.watch.fencing import Fenced
from icvi_jax.watch.journal import JournalKeeper, Keeper, Store
from icvi_jax.watch.json_and_csv import LineFormat, Reader
from icvi_jax.watch.other_partitions import Neighbours
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.shard import RING, Shard
from icvi_jax.watch.sinks import Printer
from icvi_jax.watch.source import Batch, Message, Source

BYTES_OF_NODE = 1000
"""Memory of a node without its page and its state: names and times."""
MOST_MEMORY, LEAST_MEMORY = 1 << 30, 1 << 32
"""Memory that all nodes may take if no number is given; memory of a machine that does not tell."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How samples are counted."""

    keep_old: bool = False  # also count samples that are not later than the last one of their node
    late: float = 0.0  # seconds to wait for late samples
    silent_after: float = 0.0  # seconds without samples after which a node raises an alarm; 0 never
    every: float = 30.0  # seconds between checkpoints
    most_nodes: int = 0  # samples of further nodes are refused and counted; 0: as many as memory has room for
    agree: int = 1  # nodes that must have an alarm within some minutes before any is sent
    budget: Budget | None = None  # if it promises incidents, only those are sent

    @property
    def told_together(self) -> bool:
        """Whether alarms of single nodes are suppressed."""
        return self.agree > 1 or self.promises_incidents

    @property
    def promises_incidents(self) -> bool:
        """Whether the budget is so small that it promises incidents."""
        return self.budget is not None and self.budget.agree > 1


class Counts(NamedTuple):
    """What was counted: samples, alarms, lines that were not valid samples, samples skipped as not new, and samples of
    nodes for which there was no room."""

    samples: int = 0
    alarms: int = 0
    bad: int = 0
    old: int = 0
    refused: int = 0

    def plus(self, others: Iterable[Counts]) -> Counts:
        """The sum of these counts and others."""
        return Counts(*map(sum, zip(self, *others)))


class Partition:
    """The nodes of one part of a source: decode, journal, compute, store alarms, save.

    Parameters
    ----------
    pipe, reader, rules, buffers : the pipeline, what understands a line, how to count, and what a page shows.
    keeper : keeps what a restart needs.
    complaints : prints messages about bad lines.
    """

    def __init__(
        self,
        pipe: Pipeline,
        reader: Reader,
        keeper: Keeper,
        rules: Rules,
        complaints: Complaints,
        buffers: RingBuffers | None = None,
    ):
        self.pipe, self.keeper, self.rules, self.buffers = pipe, keeper, rules, buffers
        self.intake = Decoder(reader, complaints)
        self._crowded = Complaints()
        # alarms: how many were raised since this process has the part
        self.alarms, self._saved, self._count = 0, 0, AlarmCount()
        self._neighbours = Neighbours(keeper.folder) if keeper.shared and keeper.folder and rules.agree > 1 else None
        # the live fleet, once it is known what a sample holds
        self.shard, form, batches = keeper.restore(pipe, rules.keep_old, rules.late)
        if self.shard is not None:
            self.shard.keep_codes = reader.keep_codes
        if form is not None:
            self._check_columns(form)
            reader.go_on(form)
            self._bound_nodes()
        self._before = self.taken and self.shard.samples if self.shard and keeper.shared else 0
        self._saved = self.taken
        self.again = sum(len(batch.samples) for batch in batches)
        for batch in batches:
            self._begin()
            if self.shard is not None:
                self.shard.accept(batch.samples, again=True)
            self.compute()
        if batches:
            self.save()

    def _check_columns(self, form: LineFormat) -> None:
        known = self.intake.reader.features
        if known and known != form.features:
            raise ValueError(f"--checkpoint {self.keeper.folder}: was made with the columns {', '.join(form.features)}")

    @property
    def store(self) -> Store:
        """Where alarms wait."""
        return self.keeper.store

    @property
    def taken(self) -> int:
        """How many samples were accepted, over all restarts."""
        return self.shard.taken if self.shard else 0

    @property
    def counts(self) -> Counts:
        """What was counted: samples over all restarts, or since this process has a part that it shares."""
        if self.shard is None:
            return Counts(bad=self.intake.bad)
        shard = self.shard
        return Counts(shard.samples - self._before, self.alarms, self.intake.bad, shard.old, shard.refused)

    def accept(self, messages: Sequence[Message]) -> None:
        """Decode messages that are new, and write their samples to the journal."""
        new = self.keeper.unseen(messages)
        if not new:
            return
        samples = self.intake.samples((line, message.node) for message in new for line in message.lines)
        if samples:
            self._begin()
        before = self.taken
        fresh = []
        if self.shard is not None:
            refused = self.shard.refused
            fresh = self.shard.accept(samples)
            if self.shard.refused > refused:
                smaller = "; -k 3 has room for more" if isinstance(self.pipe.clusterer, Portfolio) else ""
                self._crowded.say(
                    f"there are {self.shard.most:,} nodes, the most there may be (--most-nodes): samples of other "
                    f"nodes, such as {samples[-1].node!r}, are not counted{smaller}"
                )
        self.keeper.note(before, fresh, self.intake.reader.form, new)

    def _begin(self) -> None:
        reader = self.intake.reader
        if self.shard is None and reader.form:
            for note in reader.notes:
                say(note)
            rules = self.rules
            ways = rules.keep_old, rules.late, reader.keep_codes, not reader.chosen
            self.shard = Shard(self.pipe, reader.form.features, self.keeper.id, *ways)
            self._bound_nodes()

    def _bound_nodes(self) -> None:
        """Limit the number of nodes by memory: a feed whose names never repeat must not exhaust it."""
        if self.shard is not None:
            features = len(self.shard.features)
            page = self.buffers.bytes_of_node(features) if self.buffers else 0
            held = 2 * state_bytes(self.shard.pipe, features)  # there is a copy while a fleet grows
            self.shard.most = self.rules.most_nodes or most_nodes(page + held + 16 * RING * features)

    def compute(self) -> None:
        """Compute the accepted samples: alarms go to the store, readings to the buffers."""
        shard, buffers = self.shard, self.buffers
        if shard is None:
            return
        if buffers is not None:
            buffers.tell(self.intake.reader.form)
        found = []
        for tick in shard.compute():
            alarms = list(alarms_of(tick, shard.id, shard.features))
            if self.rules.told_together:
                alarms = agreed(alarms, shard, self.rules.agree, self._neighbours, self.rules.budget)
            found += [(id, json_line(alarm)) for id, alarm in alarms]
            self.alarms += sum(self._count.count(alarm) for _, alarm in alarms)
            if buffers is not None:
                buffers.add(shard, tick)
                for _, alarm in alarms:
                    after = int(shard.counts[shard.rows[str(alarm["node"])]]) - int(str(alarm["sample"]))
                    buffers.event(alarm, back=after)
        if found:
            self.store.add(shard.taken, found)

    def save(self) -> None:
        """Write a checkpoint if something is new."""
        if self.shard is None:
            return
        if self.keeper.changed(self.shard, self._saved):
            self.keeper.save(self.shard, self.intake.reader.form, self._saved)
            self._saved = self.taken


def state_bytes(pipe: Pipeline, features: int) -> int:
    """Memory of the state of one node."""
    state = pipe.init(features, (1,), np, np.float32)
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(state))


def most_nodes(more: int = 0) -> int:
    """How many nodes fit into a part of the memory; state, page and recent rows need `more` bytes of each."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        memory = LEAST_MEMORY
    return max(1000, min(memory // 4, MOST_MEMORY) // (BYTES_OF_NODE + more))


class WatchLoop:
    """All parts of a source, standard output, and the times at which things are due.

    Parameters
    ----------
    pipe : the pipeline.
    make_reader : makes what turns lines into samples; each part has its own.
    rules : how to count.
    out : where alarms are written, one JSON object per line; default standard output.
    sinks : names of the other receivers of alarms.
    buffers : what a page shows.
    """

    def __init__(
        self,
        pipe: Pipeline,
        make_reader: Callable[[], Reader],
        rules: Rules | None = None,
        out: TextIO | None = None,
        sinks: Sequence[str] = (),
        buffers: RingBuffers | None = None,
    ):
        self.pipe, self.rules, self.buffers = pipe, rules or Rules(), buffers
        self._make_reader = make_reader
        self.printer = Printer(out or sys.stdout)
        self.sinks = (self.printer.name, *sinks)
        self.parts: dict[str, Partition] = {}  # by name; those of Kafka come and go
        self.source: Source | None = None
        self._silence = Silence(self.rules.silent_after)
        self._gone = Counts()
        self._complaints = Complaints()
        self._saved_at = time.monotonic()

    @property
    def shards(self) -> list[Shard]:
        """The shards of the parts that this process has now."""
        return [part.shard for part in list(self.parts.values()) if part.shard]

    @property
    def stores(self) -> list[Store]:
        """Where alarms wait."""
        return [part.store for part in list(self.parts.values())]

    @property
    def counts(self) -> Counts:
        """What was counted, with parts that this process has no more."""
        return self._gone.plus(part.counts for part in list(self.parts.values()))

    samples = property(lambda self: self.counts.samples)
    alarms = property(lambda self: self.counts.alarms)
    bad = property(lambda self: self.counts.bad)
    old = property(lambda self: self.counts.old)
    refused = property(lambda self: self.counts.refused)
    nodes = property(lambda self: sum(len(shard.rows) for shard in self.shards))

    def open(self, name: str, keeper: Keeper) -> Partition:
        """Continue with a part of the source from what its keeper has."""
        try:
            part = Partition(self.pipe, self._make_reader(), keeper, self.rules, self._complaints, self.buffers)
        except BaseException:
            keeper.close()
            raise
        self.parts[name] = part
        return part

    def open_journal(self, folder: Path | None) -> Partition:
        """Continue with the only part of a source, which has a journal in `folder`; None keeps nothing."""
        part = self.open("", JournalKeeper(folder, self.sinks))
        self.printer.pass_on(part.store)
        if part.counts.samples and part.shard is not None:
            known = f"{counted(part.counts.samples, 'sample')} of {counted(len(part.shard.rows), 'node')}"
            say(f"continuing after {known} ({part.again:,} since the last checkpoint)")
        return part

    def drop(self, name: str) -> None:
        """This process has a part no more."""
        part = self.parts.pop(name, None)
        if part is None:
            return
        self._gone = self._gone.plus([part.counts])
        if self.buffers is not None:
            self.buffers.drop(part.keeper.id)
        part.keeper.close()

    def begin(self, source: Source) -> None:
        """Open what a source has from the start."""
        self.source = source
        source.open(self)

    def turn(self, batch: Batch) -> None:
        """Process a batch, which may be empty, and do what is due."""
        here = [(self.parts[name], messages) for name, messages in batch.items() if name in self.parts]
        for part, messages in here:
            part.accept(messages)
        if batch and self.source is not None:
            self.source.acknowledge(batch)
        for part, _ in here:
            part.compute()
        for part in self.parts.values():
            if part.shard is not None:
                part.alarms += self._silence.look(part.shard, part.store, self.buffers)
            self.printer.pass_on(part.store)
        if time.monotonic() - self._saved_at > self.rules.every:
            self.save()

    def save(self, names: Sequence[str] | None = None) -> None:
        """Write checkpoints of these parts, or of all."""
        self._saved_at = time.monotonic()
        for name in list(self.parts) if names is None else names:
            try:
                self.parts[name].save()
            except Fenced as why:
                say(str(why))
                self.drop(name)
        if self.source is not None:
            self.source.saved([self.parts[name] for name in names or self.parts if name in self.parts])

    def end(self) -> None:
        """The input has ended: without a folder, samples that wait for late ones are computed now."""
        for part in self.parts.values():
            if part.shard is not None and part.keeper.folder is None:
                part.shard.flush()
                part.compute()
                self.printer.pass_on(part.store)
        self.save()

    def close(self) -> None:
        """Close all folders as they are."""
        for part in self.parts.values():
            part.keeper.close()
