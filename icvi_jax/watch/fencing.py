"""Which worker may write the checkpoints of a partition: the one that claimed it last.

Each claim is a numbered folder, made by one `mkdir` that succeeds for one worker only. Checkpoints go into the folder
of the claim. So a worker that was frozen and continues writes into its own old folder and never destroys the work of
the next worker; it then gets an error, since there is a higher number. A restart takes the newest checkpoint of the
highest claim that has one. All workers must share the folder. Object storage has no such `mkdir` and cannot be used.
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
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._saves = folder, 0
        while True:
            self.number = max(_numbers(self.folder), default=0) + 1
            self.own = folder / f"{self.number:08d}"
            try:
                self.own.mkdir()
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
                    shutil.rmtree(self.folder / f"{number:08d}", ignore_errors=True)

    def check(self) -> None:
        """Raise `Fenced` if the claim no longer holds."""
        if not self.own.is_dir() or max(_numbers(self.folder)) > self.number:
            raise Fenced(f"{self.folder.name}: another worker has this partition now")


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
