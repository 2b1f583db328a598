"""Nodes that somebody has muted: they rank last, and their alarms are not passed on.

With a folder the names are in a file there, so that they outlast a restart, and workers that share the folder share
them: what is muted on the page of one is muted for all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Set
from pathlib import Path

FILE = "muted.json"
LOOK_SECONDS = 1.0


class Mutes:
    """Names of muted nodes, as the file has them now.

    Parameters
    ----------
    folder : where the file is, or None: kept in memory.
    """

    def __init__(self, folder: Path | None = None):
        self._path = folder / FILE if folder else None
        self._names: frozenset[str] = frozenset()
        self._looked, self._stamp = -LOOK_SECONDS, -1

    @property
    def names(self) -> Set[str]:
        """All of them; the file is looked at once a second at most."""
        now = time.monotonic()
        if self._path is not None and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._read(self._path)
        return self._names

    def set(self, node: str, muted: bool) -> None:
        """Mute a node, or do not any more."""
        self._looked = -LOOK_SECONDS  # somebody else may have written
        names = self.names | {node} if muted else self.names - {node}
        self._names = frozenset(names)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_name(f"{FILE}.{os.getpid()}")
            new.write_text(json.dumps(sorted(names)))
            new.replace(self._path)

    def _read(self, path: Path) -> None:
        """Take the names from the file, if it is another one; one that nobody can read changes nothing."""
        try:
            stamp = path.stat().st_mtime_ns
            if stamp != self._stamp:
                names = json.loads(path.read_text())
                self._names, self._stamp = frozenset(str(name) for name in names), stamp
        except (OSError, ValueError):
            return
