"""A journal between checkpoints: what was taken in since the last one, so that a killed watch loses nothing.

Each batch of samples is appended with one write before it is computed, which a kill of the process does not undo. After
a checkpoint a new journal begins and the old one goes. A restart loads the checkpoint and computes the journal again;
alarms that were already printed are not printed twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from icvi_jax.cli.feed import Form, Sample


class Journal:
    """The journal of one folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file: int | None = None

    def replay(self, after: int) -> tuple[list[tuple[int, list[Sample]]], int, Form | None]:
        """The batches above number `after` in order, the last one whose alarms were printed, and the form of lines."""
        batches: dict[int, list[Sample]] = {}
        printed, form = after, None
        for path in self.folder.glob("journal-*.jsonl"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the line a kill cut short: its samples were never acknowledged
                if "printed" in entry:
                    printed = max(printed, entry["printed"])
                elif "form" in entry:
                    form = Form(*map(tuple, entry["form"]))
                elif entry["batch"] > after:
                    batches[entry["batch"]] = [Sample(node, time, tuple(x)) for node, time, x in entry["samples"]]
        return sorted(batches.items()), printed, form

    def begin(self, number: int, form: Form | None) -> None:
        """Start the journal that follows checkpoint `number`, and remove those before it."""
        if self.file is not None:
            os.close(self.file)
        path = self.folder / f"journal-{number:012d}.jsonl"
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if form:
            self.note_form(form)
        for other in self.folder.glob("journal-*.jsonl"):
            if other.name < path.name:
                other.unlink()

    def note_form(self, form: Form) -> None:
        """Note what the values of samples are called, before the first of them."""
        self._append({"form": [list(names) for names in form]})

    def write(self, number: int, samples: Sequence[Sample]) -> None:
        """Note a batch before it is computed."""
        self._append({"batch": number, "samples": [list(sample) for sample in samples]})

    def mark_printed(self, number: int) -> None:
        """Note that the alarms up to this batch are out."""
        self._append({"printed": number})

    def _append(self, entry: dict[str, object]) -> None:
        os.write(self.file, (json.dumps(entry) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            os.close(self.file)
            self.file = None
