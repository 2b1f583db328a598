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
from icvi_jax.watch.alarms import alarms_of, json_line
from icvi_jax.watch.lines import Reader
from icvi_jax.watch.sample import Sample
from icvi_jax.watch.shard import Shard, saved_in
from icvi_jax.watch.store import Store

CHECKPOINT_SECONDS = 30.0
COMPLAINT_SECONDS = 60.0
PRINT = "print"


class Watch:
    """A shard, its notes, and standard output.

    Parameters
    ----------
    pipe : the pipeline.
    reader : understands lines.
    folder : where checkpoint and notes are kept; None keeps nothing.
    out : where alarms go, a JSON object a line; standard output.
    keep_old : count samples that are not later than the last one of their node, too.

    Attributes
    ----------
    alarms, bad : how many alarms were raised and how many lines were no sample, since the start.
    """

    def __init__(
        self,
        pipe: Pipeline,
        reader: Reader,
        folder: Path | None = None,
        out: TextIO | None = None,
        keep_old: bool = False,
    ):
        self.pipe, self.reader, self.folder, self.keep_old = pipe, reader, folder, keep_old
        self.out = out or sys.stdout
        self.store = Store(folder, (PRINT,))
        self.shard: Shard | None = None
        self.alarms = self.bad = 0
        self._unprinted = True  # what the last life left
        self._saved_at, self._saved = time.monotonic(), 0
        self._complained_at, self._unsaid = -COMPLAINT_SECONDS, 0

    @property
    def samples(self) -> int:
        """How many samples have been counted, in all lives of this watch."""
        return self.shard.samples if self.shard else 0

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
            self.shard = Shard.load(self.folder, self.pipe, self.keep_old)
            if self.shard.id != self.store.id:
                raise ValueError(f"--checkpoint {self.folder}: checkpoint and notes are of two watches")
        self._saved = self.samples
        batches = self.store.after(self.samples)
        for batch in batches:
            self._begin()
            self._compute(batch.samples)
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
        samples = self._understood(lines)
        if samples:
            self._begin()
        fresh = self.shard.sift(samples) if self.shard else []
        if fresh or tickets or topics:
            self.store.note(self.samples, fresh, self.reader.form, tickets, topics)
        self._compute(fresh)
        self._print()
        if self.folder and time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()

    def _begin(self) -> None:
        """Make the shard, once it is known what a sample holds."""
        if self.shard is None and self.reader.form:
            for note in self.reader.notes:
                say(note)
            self.shard = Shard(self.pipe, self.reader.form.features, self.store.id, self.keep_old)

    def _understood(self, lines: Sequence[tuple[bytes, str]]) -> list[Sample]:
        """The samples in lines; a bad line is said and skipped."""
        samples = []
        for line, topic in lines:
            try:
                sample = self.reader.read(line, topic)
            except ValueError as error:
                self.bad += 1
                self._complain(f"line {self.reader.count}: {error}: skipped")
                continue
            if sample is not None:
                samples.append(sample)
        return samples

    def _complain(self, text: str) -> None:
        """Say what is wrong with a line, once a minute at most."""
        now = time.monotonic()
        if now - self._complained_at < COMPLAINT_SECONDS:
            self._unsaid += 1
            return
        say(text + (f" ({self._unsaid:,} others since the last such message)" if self._unsaid else ""))
        self._complained_at, self._unsaid = now, 0

    def _compute(self, samples: Sequence[Sample]) -> None:
        """Count samples and store their alarms."""
        if not samples or self.shard is None:
            return
        ticks = self.shard.compute(samples)
        found = [(id, json_line(alarm)) for tick in ticks for id, alarm in alarms_of(tick, self.shard.id)]
        self.alarms += len(found)
        if found:
            self.store.add(self.samples, found)
            self._unprinted = True

    def _print(self) -> None:
        """Print the alarms that are not out yet, and mark them."""
        while self._unprinted and (waiting := self.store.waiting(PRINT)):
            for alarm in waiting:
                print(alarm.line, file=self.out)
            self.out.flush()
            self.store.mark(PRINT, waiting[-1].number)
        self._unprinted = False

    def save(self) -> None:
        """Write a checkpoint, and forget what the one before it has: should the new one be damaged, that one serves."""
        self._saved_at = time.monotonic()
        if self.folder is None or self.shard is None or self._saved == self.samples:
            return
        self.store.check()  # before the checkpoint makes a folder anew that somebody took away
        self.shard.save(self.folder)
        self.store.forget(self._saved)
        self._saved = self.samples

    def close(self) -> None:
        """Let go of the folder, as it is."""
        self.store.close()
