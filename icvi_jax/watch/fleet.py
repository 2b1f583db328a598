"""The watch itself: lines in, samples counted exactly once, alarms out at least once.

The order is what makes it safe. Samples are noted, then computed; their alarms are stored, then printed, then marked.
After an error nothing is tidied up: the folder says how far things came, and a restart goes on from there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from icvi_jax.pipeline import Pipeline
from icvi_jax.text import say
from icvi_jax.watch.board import Board
from icvi_jax.watch.count import count
from icvi_jax.watch.intake import Intake
from icvi_jax.watch.lines import Reader
from icvi_jax.watch.shard import Shard, saved_in
from icvi_jax.watch.silence import Silence
from icvi_jax.watch.store import PRINT, Store

CHECKPOINT_SECONDS = 30.0


class Watch:
    """A shard, its notes, and standard output.

    Parameters
    ----------
    pipe : the pipeline.
    reader : understands lines.
    folder : where checkpoint and notes are kept; None keeps nothing.
    out : where alarms go, a JSON object a line; standard output.
    keep_old : count samples that are not later than the last one of their node, too.
    late : seconds to wait for samples that come late.
    sinks : names of those who pass alarms on, beside standard output.
    board : what a page shows.
    silent_after : seconds after which a node that says nothing raises an alarm; 0 never.

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
        self._unprinted = True  # what the last life left
        self._saved_at, self._saved = time.monotonic(), 0

    @property
    def shards(self) -> list[Shard]:
        """The shard, once there is one."""
        return [self.shard] if self.shard else []

    @property
    def samples(self) -> int:
        """How many samples have been counted, in all lives of this watch."""
        return self.shard.samples if self.shard else 0

    @property
    def bad(self) -> int:
        """How many lines were no sample, since the start."""
        return self.intake.bad

    @property
    def old(self) -> int:
        """How many samples were passed over as old news, since the start."""
        return self.shard.old if self.shard else 0

    @property
    def nodes(self) -> int:
        """How many nodes have been heard."""
        return len(self.shard.rows) if self.shard else 0

    def restore(self) -> int:
        """Go on from the folder, if there is anything in it; gives how many noted samples were computed again."""
        form = self.store.form
        if form:
            if self.reader.features and self.reader.features != form.features:
                raise ValueError(f"--checkpoint {self.folder}: was made with the columns {', '.join(form.features)}")
            self.reader.go_on(form)
        if self.folder and saved_in(self.folder):
            self.shard = Shard.load(self.folder, self.pipe, self.keep_old, self.late)
            if self.shard.id != self.store.id:
                raise ValueError(f"--checkpoint {self.folder}: checkpoint and notes are of two watches")
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
        """Take in lines, each with a name for a node that has none, and the tickets of the messages they came in."""
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
        """Do what is due although nothing came."""
        if self.shard is not None:
            found = self.silence.look(self.shard, self.store, self.board)
            self.alarms += found
            self._unprinted |= found > 0
        self._print()
        self._maybe_save()

    def end(self) -> None:
        """The input is at its end: without a folder, nobody will go on with what waits for late samples."""
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
        """Count what was accepted and store the alarms."""
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
        """Write a checkpoint, and forget what the one before it has: should the new one be damaged, that one serves."""
        self._saved_at = time.monotonic()
        if self.folder is None:
            self.store.forget(self._taken)  # what is out everywhere; nobody will go on from here
        if self.folder is None or self.shard is None or self._saved == self._taken:
            return
        self.store.check()  # before the checkpoint makes a folder anew that somebody took away
        self.shard.save(self.folder)
        self.store.forget(self._saved)
        self._saved = self._taken

    def close(self) -> None:
        """Let go of the folder, as it is."""
        self.store.close()
