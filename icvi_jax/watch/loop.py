"""The live loop, the same for every source: each sample counts exactly once, each alarm is sent at least once.

The order of the steps makes it safe. Messages are written to the journal, then acknowledged, then computed; their
alarms are stored, then printed, then marked as printed. After an error nothing is cleaned up: the folder says which
steps were done, and a restart continues from there. A part of a source without a journal of its own (a partition of a
Kafka topic) continues from the offset in its checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TextIO, TypeVar

import jax
import numpy as np

from icvi_jax.monitors import Budget
from icvi_jax.pipeline import Pipeline
from icvi_jax.terminal_text import Complaints, counted, say
from icvi_jax.watch.alarms import AlarmCount, Record, Silence, agreed, alarms_of, json_line
from icvi_jax.watch.fencing import Fenced, LogKeeper
from icvi_jax.watch.journal import JournalKeeper, Store
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.other_partitions import Neighbours
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.shard import RING, Shard
from icvi_jax.watch.sinks import Printer
from icvi_jax.watch.source import Batch, Message, Source

Item = TypeVar("Item")
Keeper = JournalKeeper | LogKeeper
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
    """What was counted."""

    samples: int = 0
    alarms: int = 0
    bad: int = 0  # lines that were not valid samples
    old: int = 0  # samples skipped as not new
    refused: int = 0  # samples of nodes for which there was no room

    def plus(self, others: Iterable[Counts]) -> Counts:
        return Counts(*map(sum, zip(self, *others)))


class Partition:
    """The nodes of one part of a source: decode, journal, compute, store alarms, save."""

    def __init__(
        self, pipe: Pipeline, reader: Reader, keeper: Keeper, rules: Rules, buffers: RingBuffers | None = None
    ):
        self.pipe, self.reader, self.keeper, self.rules, self.buffers = pipe, reader, keeper, rules, buffers
        self.store = keeper.store
        self.alarms = 0  # how many were raised since this process has the part
        self._count, self._silence = AlarmCount(), Silence(rules.silent_after)
        self._neighbours = Neighbours(keeper.folder) if keeper.shared and keeper.folder and rules.agree > 1 else None
        # the live fleet, once it is known what a sample holds
        self.shard, form, batches = keeper.restore(pipe, rules.keep_old, rules.late)
        if form is not None:
            if reader.features and reader.features != form.features:
                was = ", ".join(form.features)
                raise ValueError(f"--checkpoint {keeper.folder}: was made with the columns {was}")
            reader.go_on(form)
        if self.shard is not None:
            self.shard.keep_codes = reader.keep_codes
            self._bound_nodes(self.shard)
        self._before = self.shard.samples if self.shard and keeper.shared else 0
        self.again = sum(map(len, batches))
        for batch in batches:
            self._begun().accept(batch, again=True)
            self.compute()
        if batches:
            self.save()

    @property
    def taken(self) -> int:
        return self.shard.taken if self.shard else 0

    @property
    def counts(self) -> Counts:
        """What was counted: samples over all restarts, or since this process has a part that it shares."""
        shard, bad = self.shard, self.reader.bad
        if shard is None:
            return Counts(bad=bad)
        return Counts(shard.samples - self._before, self.alarms, bad, shard.old, shard.refused)

    def accept(self, messages: Sequence[Message]) -> None:
        """Decode messages that are new, and write their samples to the journal."""
        new = self.keeper.unseen(messages)
        if not new:
            return
        samples = self.reader.samples((line, message.node) for message in new for line in message.lines)
        before = self.taken
        fresh = self._begun().accept(samples) if samples else []
        self.keeper.note(before, fresh, self.reader.form, new)

    def _begun(self) -> Shard:
        """The shard; at the first sample a new one."""
        reader, rules = self.reader, self.rules
        if self.shard is None:
            for note in reader.notes:
                say(note)
            ways = rules.keep_old, rules.late, reader.keep_codes, not reader.chosen
            self.shard = Shard(self.pipe, reader.features, self.keeper.id, *ways)
            self._bound_nodes(self.shard)
        return self.shard

    def _bound_nodes(self, shard: Shard) -> None:
        """Limit the number of nodes by memory: a feed whose names never repeat must not exhaust it."""
        features = len(shard.features)
        page = self.buffers.bytes_of_node(features) if self.buffers else 0
        held = 2 * state_bytes(shard.pipe, features)  # there is a copy while a fleet grows
        shard.most = self.rules.most_nodes or most_nodes(page + held + 16 * RING * features)

    def compute(self) -> None:
        """Compute the accepted samples: alarms go to the store, readings to the buffers."""
        shard, buffers = self.shard, self.buffers
        if shard is None:
            return
        if buffers is not None and self.reader.form is not None:
            buffers.form = self.reader.form
        found = []
        for tick in shard.compute():
            alarms = list(alarms_of(tick, shard.id, shard.features))
            if self.rules.told_together:
                alarms = agreed(alarms, shard, self.rules.agree, self._neighbours, self.rules.budget)
            if buffers is not None:
                buffers.add(shard, tick)
            found += self._counted(alarms)
        self._keep(found)

    def look(self) -> None:
        """Raise alarms for nodes that have become silent."""
        if self.shard is not None:
            self._keep(self._counted(self._silence.look(self.shard)))

    def _counted(self, alarms: list[Record]) -> list[Record]:
        self.alarms += sum(map(self._count.count, alarms))
        if self.buffers is not None and self.shard is not None:
            for alarm in alarms:
                self.buffers.event(alarm, back=int(self.shard.counts[self.shard.rows[alarm["node"]]]) - alarm["sample"])
        return alarms

    def _keep(self, alarms: list[Record]) -> None:
        if alarms:
            self.store.add(self.taken, [(alarm["id"], json_line(alarm)) for alarm in alarms])

    def save(self) -> None:
        """Write a checkpoint if something is new."""
        if self.shard is not None:
            self.keeper.save(self.shard, self.reader.form)


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

    Each part has a reader of its own. Alarms are written to `out` (default: standard output), and wait for the other
    `sinks`, which are names.
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
        self._make_reader, self._complaints = make_reader, Complaints()
        self.printer = Printer(out or sys.stdout)
        self.sinks = (self.printer.name, *sinks)
        self.parts: dict[str, Partition] = {}  # by name; those of Kafka come and go
        self.source: Source | None = None
        self._gone = Counts()
        self._saved_at = time.monotonic()

    @property
    def shards(self) -> list[Shard]:
        """The shards of the parts that this process has now."""
        return [part.shard for part in list(self.parts.values()) if part.shard]

    @property
    def stores(self) -> list[Store]:
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
        reader = self._make_reader()
        reader.complaints = self._complaints
        try:
            part = Partition(self.pipe, reader, keeper, self.rules, self.buffers)
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
            part.look()
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
        for part in self.parts.values():
            part.keeper.close()


class Interrupts:
    """Ctrl-C and SIGTERM act between batches only: otherwise a sample could be lost, or counted twice after a restart.

    Both signals are handled until `close`; a second signal ends the process at once, like a kill. The first one raises
    nothing, not even while waiting: a handler may run inside anybody's code, such as a callback of the garbage
    collector, which prints the error and drops it. Sources give an empty batch at least every half second.
    """

    def __init__(self) -> None:
        self.asked = self.waiting = False
        self._since = time.monotonic()
        self.before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if self.asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.asked = True

    def between(self, batches: Iterable[Item]) -> Iterator[Item]:
        """Yield the batches until a signal has come; what a source has given by then is yielded too."""
        batches = iter(batches)
        while not self.asked:
            self.waiting = True
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._since, self.waiting = time.monotonic(), False
            yield batch

    def busy(self) -> float:
        """How many seconds the present batch has taken so far; 0 while waiting for the next one."""
        return 0.0 if self.waiting else time.monotonic() - self._since

    def close(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
