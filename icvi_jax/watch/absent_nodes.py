"""Nodes that send nothing any more: one alarm for each silence."""

from __future__ import annotations

import time

import numpy as np

from icvi_jax.watch.alarms import json_line
from icvi_jax.watch.journal import Store
from icvi_jax.watch.ring_buffers import Board
from icvi_jax.watch.shard import Shard

LOOK_SECONDS = 1.0


class Silence:
    """Looks for nodes that have sent nothing for `after` seconds of real time; 0: never.

    The id of a silence has the number of the last sample of the node, so that a restart repeats it with the same id.
    """

    def __init__(self, after: float = 0.0):
        self.after = after
        self._looked: dict[str, float] = {}
        self._known: dict[str, set[tuple[int, float]]] = {}

    def look(self, shard: Shard, store: Store, board: Board | None = None) -> int:
        """Raise an alarm for each node that became silent since the last call; returns how many."""
        now = time.monotonic()
        if not self.after or now - self._looked.get(shard.id, -LOOK_SECONDS) < LOOK_SECONDS:
            return 0
        self._looked[shard.id] = now
        rows = np.flatnonzero(now - shard.heard > self.after)
        silent = set(zip(rows.tolist(), shard.heard[rows].tolist()))  # with the time: a node may become silent again
        new, self._known[shard.id] = silent - self._known.get(shard.id, set()), silent
        names = list(shard.rows) if new else []
        found = []
        for row, _ in sorted(new):
            number = int(shard.counts[row])
            record: dict[str, object] = {
                "id": f"{shard.id}-{row}-{number}-silent",
                "node": names[row],
                "time": None,
                "alarm": "silent",
                "sample": number,
                "reason": f"no sample for {self.after:g} seconds",
            }
            found.append((str(record["id"]), json_line(record)))
            if board is not None:
                board.event(record)
        if found:
            store.add(shard.taken, found)
        return len(found)
