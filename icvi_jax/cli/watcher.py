"""The live fleet behind `icvi watch`: samples in, alarms out, checkpoints on the way."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import icvi_jax as icvi
from icvi_jax.cli.feed import Form, Sample
from icvi_jax.cli.journal import Journal
from icvi_jax.drive.live import Live
from icvi_jax.report.result import CODES

KEEP = ("values", "k", "alarms", "seen")
ROOM = 16
CHECKPOINT_SECONDS = 30.0


class Watcher:
    """Feeds samples to a `Live` fleet that grows as nodes appear.

    Parameters
    ----------
    pipe
        The pipeline.
    folder
        Where checkpoint and journal are kept; None keeps nothing.
    out
        Where alarms go, a JSON object a line.
    """

    def __init__(self, pipe: icvi.Pipeline, folder: Path | None = None, out=None):
        self.pipe, self.out = pipe, out or sys.stdout
        self.journal = Journal(folder) if folder else None
        self.folder = folder
        self.live: Live | None = None
        self.form: Form | None = None
        self.origin: dict[str, list[float]] = {}
        self.rows: dict[str, int] = {}
        self.ticks, self.samples, self.alarms, self.bad = 0, 0, 0, 0
        self.score, self.standing = np.zeros(0), np.zeros(0, bool)
        self.saved_at = time.monotonic()

    def restore(self) -> int:
        """Go on from the folder, if there is anything in it; gives how many journalled samples were computed again."""
        if self.journal is None or self.folder is None:
            return 0
        if any(self.folder.glob("*.icvi")):
            self.live = Live.load(self.folder, self.pipe, keep=KEEP)
            extra = self.live.extra
            self.ticks, self.samples, self.origin = extra["ticks"], extra["samples"], extra["origin"]
            self.form = Form(*map(tuple, extra["form"]))
            self.rows = {name: row for row, name in enumerate(self.live.names)}
            self.score, self.standing = np.array(extra["score"]), np.array(extra["standing"], bool)
        entries, printed, form = self.journal.replay(self.ticks)
        self.form = form or self.form
        for entry in entries:
            for samples in _ticks(entry.samples):
                self._compute(samples, silent=self.ticks < printed)
        self.save()
        return sum(len(entry.samples) for entry in entries)

    def knows(self, ticket: str) -> bool:
        """Whether the message with this ticket was taken in before."""
        return self.journal is not None and ticket in self.journal.tickets

    def take(self, samples: Sequence[Sample], form: Form, tickets: Sequence[str] = ()) -> None:
        """Take in samples of a feed of this form, and the tickets of the messages they came in."""
        if self.form is None:
            self.form = form
            if self.journal:
                self.journal.note_form(form)
        if self.journal:
            self.journal.write(self.ticks + 1, samples, tickets)
        for tick in _ticks(samples):
            self._compute(tick)
        if self.journal and time.monotonic() - self.saved_at > CHECKPOINT_SECONDS:
            self.save()

    def _compute(self, samples: Sequence[Sample], silent: bool = False) -> None:
        """Tick once with these samples, at most one a node, and print the alarms."""
        live = self._with_room(samples)
        x = np.full((len(live.names), live.features), np.nan)
        for sample in samples:
            # About the first reading of the node: float32 at an offset of 1e6 would lose what matters.
            first = self.origin.setdefault(sample.node, [value if value == value else 0.0 for value in sample.x])
            x[self.rows[sample.node]] = np.subtract(sample.x, first)
        offered = live.positions
        offered[[self.rows[sample.node] for sample in samples]] += 1  # a node's own count: others tick without it
        reading = live.tick(x, offered)
        self.ticks += 1
        self.samples += len(samples)
        name, alarm = next(iter(reading.alarms.items()))
        self.score, self.standing = np.array(alarm.score), np.array(alarm.standing)
        loud = [(sample, self.rows[sample.node]) for sample in samples if alarm.code[self.rows[sample.node]]]
        self.alarms += len(loud)
        if not loud or silent:
            return
        for sample, row in loud:
            print(
                json.dumps(
                    {
                        "node": sample.node,
                        "time": sample.time,
                        "alarm": CODES[int(alarm.code[row])],
                        "index": name,
                        "value": _plain(reading.values[name][row]),
                        "score": _plain(alarm.score[row]),
                        "clusters": int(reading.k[row]),
                        "sample": int(offered[row]),
                    },
                    ensure_ascii=False,
                ),
                file=self.out,
            )
        self.out.flush()
        if self.journal:
            self.journal.mark_printed(self.ticks)

    def _with_room(self, samples: Sequence[Sample]) -> Live:
        """The fleet, begun with the first sample, and with the nodes that were not seen before."""
        new = [sample.node for sample in samples if sample.node not in self.rows]
        if self.live is None:
            self.live = Live(self.pipe, len(samples[0].x), new, keep=KEEP, capacity=ROOM)
        elif new:
            self.live.add(new)
        self.rows |= {name: len(self.rows) + n for n, name in enumerate(new)}
        return self.live

    def save(self) -> None:
        """Write a checkpoint and begin a new journal."""
        self.saved_at = time.monotonic()
        if self.journal is None:
            return
        if self.live is not None and self.form is not None:
            self.live.save(
                self.folder,
                extra={
                    "ticks": self.ticks,
                    "samples": self.samples,
                    "form": [list(names) for names in self.form],
                    "origin": self.origin,
                    "score": self.score.tolist(),
                    "standing": self.standing.tolist(),
                },
            )
        self.journal.begin(self.ticks, self.form)

    def close(self) -> None:
        """Write the last checkpoint."""
        self.save()
        if self.journal:
            self.journal.close()


def _ticks(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Cut samples into ticks: several of one node make several, in their order."""
    waiting = list(samples)
    while waiting:
        tick: list[Sample] = []
        later: list[Sample] = []
        nodes: set[str] = set()
        for sample in waiting:
            (later if sample.node in nodes else tick).append(sample)
            nodes.add(sample.node)
        yield tick
        waiting = later


def _plain(number: np.generic) -> float | None:
    """A number that JSON has: four digits, None for what is not finite."""
    return float(f"{float(number):.6g}") if np.isfinite(number) else None
