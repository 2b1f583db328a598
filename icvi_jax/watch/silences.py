"""Muted nodes, which rank last and whose alarms are not sent to receivers; and incidents that were acknowledged.

With a folder, the names are in a file there. So they are kept over a restart, and workers that share the folder share
them: a node muted on the page of one worker is muted for all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Set
from pathlib import Path

from icvi_jax.checkpoint import container
from icvi_jax.watch.alarms import Record

MUTED, ACKNOWLEDGED = "muted.json", "acknowledged.json"
LOOK_SECONDS = 1.0


class Silences:
    """Names of muted nodes, or of acknowledged incidents; in memory where there is no folder."""

    def __init__(self, folder: Path | None = None, file: str = MUTED):
        self._path = folder / file if folder else None
        self._names: frozenset[str] = frozenset()
        self._looked, self._stamp = -LOOK_SECONDS, -1
        # whether an alarm is silenced by another program, by the name of the receiver that asks it
        self.elsewhere: dict[str, Callable[[Record], bool]] = {}

    def stop(self, record: Record, receiver: str) -> bool:
        """Whether an alarm is suppressed: its node is muted, or it is silenced at another receiver."""
        if record["node"] in self.names:
            return True
        return any(silenced(record) for name, silenced in self.elsewhere.items() if name != receiver)

    @property
    def names(self) -> Set[str]:
        """The names of all muted nodes; the file is read at most once per second."""
        now = time.monotonic()
        if self._path is not None and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._read(self._path)
        return self._names

    def set(self, name: str, muted: bool, among: Set[str] | None = None) -> None:
        """Add a name, or take it away; only those `among` these are kept."""
        self._looked = -LOOK_SECONDS  # another worker may have changed the file
        names = self.names | {name} if muted else self.names - {name}
        names = names if among is None else names & among
        self._names = frozenset(names)
        if self._path is not None:
            container.make_folder(self._path.parent)
            container.write(self._path, json.dumps(sorted(names)).encode())

    def _read(self, path: Path) -> None:
        """Read the names from the file, if it has changed; a file that cannot be read changes nothing."""
        try:
            stamp = path.stat().st_mtime_ns
            if stamp != self._stamp:
                names = json.loads(path.read_text())
                self._names, self._stamp = frozenset(str(name) for name in names), stamp
        except (OSError, ValueError):
            return
