"""Compute the samples that a shard has accepted: alarms go to the store, readings to the board."""

from __future__ import annotations

from icvi_jax.watch.alarms import alarms_of, json_line
from icvi_jax.watch.journal import Store
from icvi_jax.watch.ring_buffers import Board
from icvi_jax.watch.shard import Shard


def count(shard: Shard, store: Store, board: Board | None = None) -> int:
    """Compute, and return how many alarms were raised."""
    found = []
    for tick in shard.compute():
        alarms = list(alarms_of(tick, shard.id, shard.features))
        found += [(id, json_line(alarm)) for id, alarm in alarms]
        if board is not None:
            board.add(shard, tick)
            for _, alarm in alarms:
                board.event(alarm, back=int(shard.counts[shard.rows[str(alarm["node"])]]) - int(str(alarm["sample"])))
    if found:
        store.add(shard.taken, found)
    return len(found)
