"""Who may write the checkpoints of a partition: the one who claimed it last.

Each claim is a numbered folder, made by one `mkdir` that succeeds for one worker only. Checkpoints go into the folder
of the claim, so that a worker that comes back from the dead writes into its own old folder, never over its successor's
work; and it is told so, since there is a higher number. A restart takes the newest checkpoint of the highest claim that
has one. Folders must be where all workers see them. Object storage has no such `mkdir`; it would need another way.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from icvi_jax.checkpoint import CheckpointError
from icvi_jax.pipeline import Pipeline
from icvi_jax.text import say
from icvi_jax.watch.shard import Shard, saved_in


class Fenced(Exception):
    """Another worker has claimed the partition since."""


class Claim:
    """The right to write in a folder, until somebody else claims it."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._saves = folder, 0
        while True:
            self.number = max(self._numbers(), default=0) + 1
            self.own = folder / f"{self.number:08d}"
            try:
                self.own.mkdir()
                return
            except FileExistsError:
                continue  # somebody was faster; take the next one

    def _numbers(self) -> list[int]:
        return [int(path.name) for path in self.folder.iterdir() if path.name.isdigit()]

    def load(self, pipe: Pipeline, keep_old: bool = False, late: float = 0.0) -> Shard | None:
        """What was saved under the highest claim that has a good checkpoint; None where there is none."""
        for number in sorted(self._numbers(), reverse=True):
            place = self.folder / f"{number:08d}"
            try:
                if saved_in(place):
                    return Shard.load(place, pipe, keep_old, late)
            except CheckpointError as problem:
                if "configuration" in str(problem):
                    raise
                say(f"{problem}: looking for an earlier one")
        return None

    def save(self, shard: Shard, positions: dict[str, int], **more: object) -> None:
        """Write a checkpoint; `Fenced` where somebody else has the partition now."""
        self.check()
        try:
            shard.save(self.own, positions, **more)
        except FileNotFoundError:
            self.check()
            raise
        self._saves += 1
        if self._saves == 2:  # with one checkpoint of our own, an earlier one may still be needed
            for number in self._numbers():
                if number < self.number:
                    shutil.rmtree(self.folder / f"{number:08d}", ignore_errors=True)

    def check(self) -> None:
        """See that the claim still holds."""
        if not self.own.is_dir() or max(self._numbers()) > self.number:
            raise Fenced(f"{self.folder.name}: another worker has this partition now")
