"""Distributed: one fleet watched by several processes, each with nodes of its own.

Streams are independent, so a tick needs nobody else. What the processes do together is agree on a checkpoint, save in
step, and reduce readings to a summary of the whole fleet: collectives of JAX's own distributed runtime over one mesh of
all devices along "streams".

    python -m icvi_jax.distributed --processes 4 watch.py        # four on this machine
    python -m icvi_jax.distributed --processes 4 --id 2 --coordinator head:7777 watch.py    # one of four machines

A program calls `group = distributed.start()` before any other JAX work, and goes on like this:

    live = group.live("states", pipe, features=2, names=group.share(all_names))
    for t in range(int(live.positions.max(initial=0)), end):
        reading = live.tick(samples(t))
        if t % 100 == 99:
            group.save(live, "states")
            print(group.summary(live, reading))
"""

from icvi_jax.distributed.group import Group, PeerLost, start
from icvi_jax.distributed.meet import NotJoined
from icvi_jax.distributed.summary import Spread, Summary

__all__ = ["Group", "NotJoined", "PeerLost", "Spread", "Summary", "start"]
