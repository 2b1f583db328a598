"""Nodes that send nothing any more, or only old samples: one alarm for each silence."""

from __future__ import annotations

import time

import numpy as np

from icvi_jax.watch.alarms import json_line
from icvi_jax.watch.journal import Store
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.shard import Shard

LOOK_SECONDS, CLOCK_SECONDS = 1.0, 30.0
"""How often to look, and after how long a node whose samples are all old has a wrong clock."""


class Silence:
    """Looks for nodes that have sent nothing for `after` seconds of real time; 0: never.

    The id of a silence has the number of the last sample of the node, so that a restart repeats it with the same id.
    """

    def __init__(self, after: float = 0.0):
        self.after = after
        self._looked: dict[str, float] = {}
        self._known: dict[str, set[tuple[int, float]]] = {}
        self._clocks: dict[str, set[str]] = {}

    def look(self, shard: Shard, store: Store, buffers: RingBuffers | None = None) -> int:
        """Raise an alarm for each node that became silent since the last call; returns how many."""
        now = time.monotonic()
        if now - self._looked.get(shard.id, -LOOK_SECONDS) < LOOK_SECONDS:
            return 0
        self._looked[shard.id] = now
        records = [*self._silent(shard, now), *self._with_wrong_clocks(shard, now)]
        if buffers is not None:
            for record in records:
                buffers.event(record)
        if records:
            store.add(shard.taken, [(str(record["id"]), json_line(record)) for record in records])
        return len(records)

    def _silent(self, shard: Shard, now: float) -> list[dict[str, object]]:
        rows = np.flatnonzero(now - shard.heard > self.after) if self.after else np.zeros(0, np.int64)
        silent = set(zip(rows.tolist(), shard.heard[rows].tolist()))  # with the time: a node may become silent again
        new, self._known[shard.id] = silent - self._known.get(shard.id, set()), silent
        names = list(shard.rows) if new else []
        return [_record(shard, names[row], "silent", f"no sample for {self.after:g} seconds") for row, _ in sorted(new)]

    def _with_wrong_clocks(self, shard: Shard, now: float) -> list[dict[str, object]]:
        """A record for each node all of whose samples have been old for some time."""
        since = {name: begun for name, begun in shard.olds.items() if now - begun > CLOCK_SECONDS}
        known = self._clocks.setdefault(shard.id, set())
        known &= set(since)
        new = [name for name in since if name not in known and name in shard.rows]
        known |= set(new)
        why = "all its samples are older than one before: is its clock wrong? (--keep-old counts them)"
        return [_record(shard, name, "clock", why) for name in new]


def _record(shard: Shard, node: str, word: str, reason: str) -> dict[str, object]:
    row = shard.rows[node]
    number = int(shard.counts[row])
    return {
        "id": f"{shard.id}-{row}-{number}-{word}",
        "node": node,
        "time": None,
        "alarm": word,
        "sample": number,
        "reason": reason,
        "text": reason,
    }
