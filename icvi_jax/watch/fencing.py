"""Which worker may write the checkpoints of a partition: the one that claimed it last.

Each claim is a numbered folder, made by one `mkdir` that succeeds for one worker only. Checkpoints go into the folder
of the claim. So a worker that was frozen and continues writes into its own old folder and never destroys the work of
the next worker; it then gets an error, since there is a higher number. A restart takes the newest checkpoint of the
highest claim that has one. All workers must share the folder. Object storage has no such `mkdir` and cannot be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from icvi_jax.checkpoint import CheckpointError, container
from icvi_jax.pipeline import Pipeline
from icvi_jax.terminal_text import say
from icvi_jax.watch.journal import Restored, Store
from icvi_jax.watch.json_and_csv import LineFormat
from icvi_jax.watch.sample import Sample
from icvi_jax.watch.shard import Shard, saved_in
from icvi_jax.watch.source import Message


class Fenced(Exception):
    """Another worker has claimed the partition since."""


class Claim:
    """The right to write in a folder, until another worker claims it.

    Parameters
    ----------
    folder : for the checkpoints of one partition, shared by all workers.

    Examples
    --------
    >>> import tempfile, icvi_jax as icvi
    >>> from icvi_jax.watch import Claim, Shard
    >>> pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     claim = Claim(Path(place))
    ...     shard = claim.load(pipe) or Shard(pipe, ["celsius"])
    ...     alarms = shard.take([("roof", 1, (20.5,))])
    ...     claim.save(shard, {"offset": 1})
    ...     after = Claim(Path(place))  # another worker, say
    ...     claim.save(shard, {"offset": 1})
    Traceback (most recent call last):
    icvi_jax.watch.fencing.Fenced: ...: another worker has this partition now
    """

    def __init__(self, folder: Path):
        container.make_folder(folder)
        self.folder, self._saves = folder, 0
        while True:
            self.number = max(_numbers(self.folder), default=0) + 1
            self.own = folder / f"{self.number:08d}"
            try:
                self.own.mkdir()
                container.sync_folder(folder)
                return
            except FileExistsError:
                continue  # another worker was faster; take the next number

    def load(self, pipe: Pipeline, keep_old: bool = False, late: float = 0.0) -> Shard | None:
        """The shard saved under the highest claim that has a good checkpoint; None if there is none."""
        return self.newest(self.folder, pipe, keep_old, late)

    @staticmethod
    def newest(folder: Path, pipe: Pipeline, keep_old: bool = False, late: float = 0.0) -> Shard | None:
        """As `load`, without a claim: for reading only."""
        for number in sorted(_numbers(folder), reverse=True):
            place = folder / f"{number:08d}"
            try:
                if saved_in(place):
                    return Shard.load(place, pipe, keep_old, late)
            except CheckpointError as problem:
                if "configuration" in str(problem):
                    raise
                say(f"{problem}: trying an earlier checkpoint")
        return None

    def save(self, shard: Shard, positions: dict[str, int], **more: object) -> None:
        """Write a checkpoint; raises `Fenced` if another worker has the partition now."""
        self.check()
        try:
            shard.save(self.own, positions, **more)
        except FileNotFoundError:
            self.check()
            raise
        self._saves += 1
        if self._saves == 2:  # after the first checkpoint of this claim, those of earlier claims may still be needed
            for number in _numbers(self.folder):
                if number < self.number:
                    _remove(self.folder / f"{number:08d}")

    def check(self) -> None:
        """Raise `Fenced` if the claim no longer holds."""
        if not self.own.is_dir() or max(_numbers(self.folder)) > self.number:
            raise Fenced(f"{self.folder.name}: another worker has this partition now")


def _remove(claim: Path) -> None:
    """Remove an old claim; what another worker writes there at this moment stays, and nobody reads it."""
    with suppress(OSError):
        for path in claim.iterdir():
            path.unlink(missing_ok=True)
        claim.rmdir()


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


class LogKeeper:
    """Keeps a partition of a log that several workers share: the log of the broker is the journal.

    A checkpoint has the state together with the offset from which to continue, and the alarms that are not sent yet.
    After any crash, the log from that offset on gives the same state again, bit for bit, and the same alarms.
    """

    shared = True

    def __init__(self, folder: Path, id: str, sinks: Sequence[str]):
        self.folder, self.id, self.store, self.claim = folder, id, Store(None, sinks), Claim(folder)
        self.offset: int | None = None  # where to continue reading
        self.saved: int | None = None  # the offset in the newest checkpoint
        self.committed = -1  # the one that the broker knows

    def restore(self, pipe: Pipeline, keep_old: bool, late: float) -> Restored:
        shard = self.claim.load(pipe, keep_old, late)
        if shard is None:
            return None, None, []
        self.offset = self.saved = shard.positions["offset"]
        self.store.add(shard.taken, [(id, line) for id, line in shard.more["waiting"]])
        return shard, LineFormat.of(shard.more["form"]), []

    def unseen(self, messages: Sequence[Message]) -> list[Message]:
        """Messages in the order of the log; those before the offset have been counted."""
        new = [message for message in messages if self.offset is None or message.offset >= self.offset]
        if new and self.offset is not None and new[0].offset > self.offset and self.saved == self.offset:
            say(f"{self.id}: messages {self.offset:,} to {new[0].offset - 1:,} are not in the log any more")
        return new

    def note(
        self, before: int, samples: Sequence[Sample], form: LineFormat | None, messages: Sequence[Message]
    ) -> None:
        """Remember how far the log was read; the next checkpoint has it."""
        self.offset = messages[-1].offset + 1

    def save(self, shard: Shard, form: LineFormat | None) -> None:
        if self.offset is not None and self.offset != self.saved:
            self.claim.save(shard, {"offset": self.offset}, form=form, waiting=self.store.unmarked())
            self.store.forget(shard.taken)
            self.saved = self.offset

    def close(self) -> None:
        """Nothing: the checkpoint has the alarms that wait, and a sender may be reading the store."""
