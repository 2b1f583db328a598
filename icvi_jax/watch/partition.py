"""One partition of a Kafka topic: a shard whose journal is the log of the broker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from icvi_jax.pipeline import Pipeline
from icvi_jax.text import say
from icvi_jax.watch.count import count
from icvi_jax.watch.decode import Complaints, Intake
from icvi_jax.watch.fencing import Claim
from icvi_jax.watch.journal import Store
from icvi_jax.watch.lines import Form, Reader
from icvi_jax.watch.ring_buffers import Board
from icvi_jax.watch.shard import Shard


class Message(Protocol):
    """A message as a Kafka consumer gives it."""

    def offset(self) -> int: ...  # noqa: D102
    def key(self) -> bytes | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102


class Counts(NamedTuple):
    """What was counted: samples, alarms, lines that were not valid samples, and samples skipped as not new."""

    samples: int
    alarms: int
    bad: int
    old: int


class Partition:
    """The nodes of one partition.

    A checkpoint has the state together with the offset from which to continue, and the alarms that are not sent yet.
    After any crash, the log from that offset on gives the same state again, bit for bit, and the same alarms.

    Parameters
    ----------
    pipe, reader, keep_old, late : as for a watch.
    folder : for the checkpoints of the partition, shared by all workers.
    id : a name that no other partition has.
    sinks : names of the receivers of alarms.

    Attributes
    ----------
    offset, saved, told : where to continue reading; the offset in the newest checkpoint; the one committed.
    """

    def __init__(
        self,
        pipe: Pipeline,
        reader: Reader,
        folder: Path,
        id: str,
        sinks: Sequence[str],
        keep_old: bool = False,
        late: float = 0.0,
        complaints: Complaints | None = None,
        board: Board | None = None,
    ):
        self.pipe, self.id, self.keep_old, self.late = pipe, id, keep_old, late
        self.intake = Intake(reader, complaints)
        self.claim = Claim(folder)
        self.store = Store(None, sinks)
        self.board = board
        self.alarms = 0
        self.shard = self.claim.load(pipe, keep_old, late)
        self.offset: int | None = None
        if self.shard is not None:
            self.offset = self.shard.positions["offset"]
            self.intake.reader.go_on(Form.of(self.shard.more["form"]))
            self.store.add(self.shard.taken, [(id, line) for id, line in self.shard.more["waiting"]])
        self.saved, self.told = self.offset, -1
        self._before = self.shard.samples if self.shard else 0

    @property
    def counts(self) -> Counts:
        """What was counted since this worker got the partition."""
        samples, old = (self.shard.samples - self._before, self.shard.old) if self.shard else (0, 0)
        return Counts(samples, self.alarms, self.intake.bad, old)

    def take(self, messages: Sequence[Message]) -> None:
        """Process messages in the order of the log; those before the offset have been counted."""
        new = [message for message in messages if self.offset is None or message.offset() >= self.offset]
        if not new:
            return
        if self.offset is not None and new[0].offset() > self.offset and self.saved == self.offset:
            say(f"{self.id}: messages {self.offset:,} to {new[0].offset() - 1:,} are not in the log any more")
        samples = self.intake.samples((m.value() or b"", _name(m.key())) for m in new)
        form = self.intake.reader.form
        if self.shard is None and form:
            self.shard = Shard(self.pipe, form.features, self.id, self.keep_old, self.late)
        if self.shard is not None:
            self.shard.accept(samples)
            if self.board is not None:
                self.board.tell(form)
            self.alarms += count(self.shard, self.store, self.board)
        self.offset = new[-1].offset() + 1

    def save(self) -> None:
        """Write a checkpoint if something is new."""
        if self.shard is None or self.offset is None or self.offset == self.saved:
            return
        waiting, form = self.store.unmarked(), self.intake.reader.form
        self.claim.save(self.shard, {"offset": self.offset}, form=form, waiting=waiting)
        self.store.forget(self.shard.taken)
        self.saved = self.offset


def _name(key: bytes | None) -> str:
    """The name in the key of a message, for samples without a node."""
    return (key or b"").decode("utf-8", "surrogateescape")
