"""One partition of a topic: a shard whose journal is the log itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from icvi_jax.pipeline import Pipeline
from icvi_jax.text import say
from icvi_jax.watch.board import Board
from icvi_jax.watch.claims import Claim
from icvi_jax.watch.count import count
from icvi_jax.watch.intake import Complaints, Intake
from icvi_jax.watch.lines import Form, Reader
from icvi_jax.watch.shard import Shard
from icvi_jax.watch.store import Store


class Message(Protocol):
    """What a consumer hands over."""

    def offset(self) -> int: ...  # noqa: D102
    def key(self) -> bytes | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102


class Counts(NamedTuple):
    """What was counted: samples, alarms, lines that were no sample, and samples passed over as old news."""

    samples: int
    alarms: int
    bad: int
    old: int


class Partition:
    """The nodes of one partition.

    A checkpoint holds the state together with the offset from which to read on, and the alarms that are not out yet:
    whatever dies, the log from that offset on makes the same state again, bit for bit, and the same alarms.

    Parameters
    ----------
    pipe, reader, keep_old, late : as for a watch.
    folder : of the partition's checkpoints, seen by all workers.
    id : a name that no other partition has.
    sinks : those who pass alarms on.

    Attributes
    ----------
    offset, saved, told : from where to read on; that in the newest checkpoint; and what the broker was told of it.
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
        """What was counted since this worker has the partition."""
        samples, old = (self.shard.samples - self._before, self.shard.old) if self.shard else (0, 0)
        return Counts(samples, self.alarms, self.intake.bad, old)

    def take(self, messages: Sequence[Message]) -> None:
        """Take in messages in the order of the log; those from before the offset have been counted."""
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
        """Write a checkpoint if there is anything new."""
        if self.shard is None or self.offset is None or self.offset == self.saved:
            return
        waiting, form = self.store.unmarked(), self.intake.reader.form
        self.claim.save(self.shard, {"offset": self.offset}, form=form, waiting=waiting)
        self.store.forget(self.shard.taken)
        self.saved = self.offset


def _name(key: bytes | None) -> str:
    """The name in a message's key, for samples that name no node."""
    return (key or b"").decode("utf-8", "surrogateescape")
