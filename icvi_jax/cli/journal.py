"""A journal between checkpoints: what was taken in since the last one, so that a killed watch loses nothing.

Samples that came together are appended with one write before they are computed, which a kill of the process does not
undo. After a checkpoint a new journal begins and the old one goes. A restart loads the checkpoint and computes the
journal again; alarms that were already printed are not printed twice. With the samples go the tickets of the messages
they came in: a broker that had not yet heard that a message is safe sends it again, and it must not count twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from icvi_jax.cli.feed import Form, Sample

TICKETS = 4096
"""So many of the latest tickets are kept: more than a broker sends ahead of the answers."""


class Entry(NamedTuple):
    """Samples that came together; the first tick they make has this number."""

    number: int
    samples: list[Sample]


class Journal:
    """The journal of one folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file: int | None = None
        self.tickets: dict[str, None] = {}

    def replay(self, after: int) -> tuple[list[Entry], int, Form | None]:
        """The entries above number `after` in order, the last tick whose alarms were printed, and the form of lines."""
        entries: dict[int, Entry] = {}
        printed, form = after, None
        for path in sorted(self.folder.glob("journal-*.jsonl")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the line a kill cut short: its samples were never acknowledged
                self._keep(entry.get("tickets", ()))
                if "printed" in entry:
                    printed = max(printed, entry["printed"])
                elif "form" in entry:
                    form = Form(*map(tuple, entry["form"]))
                elif entry["number"] > after:
                    samples = [Sample(node, time, tuple(x)) for node, time, x in entry["samples"]]
                    entries[entry["number"]] = Entry(entry["number"], samples)
        return sorted(entries.values()), printed, form

    def begin(self, number: int, form: Form | None) -> None:
        """Start the journal that follows checkpoint `number`, and remove those before it."""
        if self.file is not None:
            os.close(self.file)
        path = self.folder / f"journal-{number:012d}.jsonl"
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if form:
            self.note_form(form)
        if self.tickets:
            self._append({"number": number, "samples": [], "tickets": list(self.tickets)})
        for other in self.folder.glob("journal-*.jsonl"):
            if other.name < path.name:
                other.unlink()

    def note_form(self, form: Form) -> None:
        """Note what the values of samples are called, before the first of them."""
        self._append({"form": [list(names) for names in form]})

    def write(self, number: int, samples: Sequence[Sample], tickets: Sequence[str] = ()) -> None:
        """Note samples before they are computed, from tick `number` on."""
        self._keep(tickets)
        self._append({"number": number, "samples": [list(sample) for sample in samples], "tickets": list(tickets)})

    def _keep(self, tickets: Sequence[str]) -> None:
        self.tickets |= dict.fromkeys(tickets)
        while len(self.tickets) > TICKETS:
            del self.tickets[next(iter(self.tickets))]

    def mark_printed(self, number: int) -> None:
        """Note that the alarms up to this tick are out."""
        self._append({"printed": number})

    def _append(self, entry: dict[str, object]) -> None:
        os.write(self.file, (json.dumps(entry) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            os.close(self.file)
            self.file = None
