"""The watch: reads lines, counts every sample exactly once, sends every alarm at least once.

The order of the steps makes it safe. Samples are written to the journal, then computed; their alarms are stored, then
printed, then marked as printed. After an error nothing is cleaned up: the folder says which steps were done, and a
restart continues from there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from icvi_jax.pipeline import Pipeline
from icvi_jax.text import say
from icvi_jax.watch.absent_nodes import Silence
from icvi_jax.watch.count import count
from icvi_jax.watch.decode import Intake
from icvi_jax.watch.journal import PRINT, Store
from icvi_jax.watch.lines import Reader
from icvi_jax.watch.ring_buffers import Board
from icvi_jax.watch.shard import Shard, saved_in

CHECKPOINT_SECONDS = 30.0


class Watch:
    """A shard, its journal, and standard output.

    Parameters
    ----------
    pipe : the pipeline.
    reader : turns lines into samples.
    folder : for checkpoint and journal; None keeps nothing.
    out : where alarms are written, one JSON object per line; default standard output.
    keep_old : also count samples that are not later than the last one of their node.
    late : seconds to wait for late samples.
    sinks : names of the other receivers of alarms.
    board : what a page shows.
    silent_after : seconds without samples after which a node raises an alarm; 0 never.

    Attributes
    ----------
    alarms : how many alarms were raised since the start.
    """

    def __init__(
        self,
        pipe: Pipeline,
        reader: Reader,
        folder: Path | None = None,
        out: TextIO | None = None,
        keep_old: bool = False,
        late: float = 0.0,
        sinks: Sequence[str] = (),
        board: Board | None = None,
        silent_after: float = 0.0,
    ):
        self.pipe, self.reader, self.folder, self.keep_old, self.late = pipe, reader, folder, keep_old, late
        self.out = out or sys.stdout
        self.store = Store(folder, (PRINT, *sinks))
        self.board, self.silence = board, Silence(silent_after)
        self.shard: Shard | None = None
        self.intake = Intake(reader)
        self.alarms = 0
        self._unprinted = True  # left by the last process
        self._saved_at, self._saved = time.monotonic(), 0

    @property
    def shards(self) -> list[Shard]:
        """The shard, once there is one."""
        return [self.shard] if self.shard else []

    @property
    def samples(self) -> int:
        """How many samples have been counted, over all restarts of this watch."""
        return self.shard.samples if self.shard else 0

    @property
    def bad(self) -> int:
        """How many lines were not valid samples, since the start."""
        return self.intake.bad

    @property
    def old(self) -> int:
        """How many samples were skipped because they were not new, since the start."""
        return self.shard.old if self.shard else 0

    @property
    def nodes(self) -> int:
        """How many nodes have sent samples."""
        return len(self.shard.rows) if self.shard else 0

    def restore(self) -> int:
        """Continue from the folder, if it has data; returns how many samples of the journal were computed again."""
        form = self.store.form
        if form:
            if self.reader.features and self.reader.features != form.features:
                raise ValueError(f"--checkpoint {self.folder}: was made with the columns {', '.join(form.features)}")
            self.reader.go_on(form)
        if self.folder and saved_in(self.folder):
            self.shard = Shard.load(self.folder, self.pipe, self.keep_old, self.late)
            if self.shard.id != self.store.id:
                raise ValueError(
                    f"--checkpoint {self.folder}: checkpoint and journal are from different watches; use another folder"
                )
        self._saved = self._taken
        batches = self.store.after(self._taken)
        for batch in batches:
            self._begin()
            if self.shard:
                self.shard.accept(batch.samples, again=True)
            self._compute()
        self._print()
        if batches:
            self.save()
        return sum(len(batch.samples) for batch in batches)

    def take(
        self,
        lines: Sequence[tuple[bytes, str]],
        tickets: Sequence[str] = (),
        topics: Mapping[str, str] | None = None,
    ) -> None:
        """Process lines, each with a node name to use if it has none, and the tickets of the messages they came in."""
        samples = self.intake.samples(lines)
        if samples:
            self._begin()
        before = self._taken
        fresh = self.shard.accept(samples) if self.shard else []
        if fresh or tickets or topics:
            self.store.note(before, fresh, self.reader.form, tickets, topics)
        self._compute()
        self._print()
        self._maybe_save()

    def idle(self) -> None:
        """Do what is due when there is no input."""
        if self.shard is not None:
            found = self.silence.look(self.shard, self.store, self.board)
            self.alarms += found
            self._unprinted |= found > 0
        self._print()
        self._maybe_save()

    def end(self) -> None:
        """The input has ended: without a folder, samples that wait for late ones are computed now."""
        if self.shard is not None and self.folder is None:
            self.shard.flush()
            self._compute()
            self._print()
        self.save()

    def _maybe_save(self) -> None:
        if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()

    def _begin(self) -> None:
        """Make the shard, once it is known what a sample holds."""
        if self.shard is None and self.reader.form:
            for note in self.reader.notes:
                say(note)
            self.shard = Shard(self.pipe, self.reader.form.features, self.store.id, self.keep_old, self.late)

    @property
    def _taken(self) -> int:
        return self.shard.taken if self.shard else 0

    def _compute(self) -> None:
        """Compute the accepted samples and store the alarms."""
        if self.shard is None:
            return
        if self.board is not None:
            self.board.tell(self.reader.form)
        found = count(self.shard, self.store, self.board)
        self.alarms += found
        self._unprinted |= found > 0

    def _print(self) -> None:
        if self._unprinted:
            self.store.print_waiting(self.out)
        self._unprinted = False

    def save(self) -> None:
        """Write a checkpoint, and delete the journal before the previous one, which is used if the new one is
        damaged."""
        self._saved_at = time.monotonic()
        if self.folder is None:
            self.store.forget(self._taken)  # alarms that all receivers have; there is no restart without a folder
        if self.folder is None or self.shard is None or self._saved == self._taken:
            return
        self.store.check()  # otherwise the checkpoint would make a removed folder again
        self.shard.save(self.folder)
        self.store.forget(self._saved)
        self._saved = self._taken

    def close(self) -> None:
        """Close the folder as it is."""
        self.store.close()
