"""Distributed: one fleet in several processes, each with its own nodes.

Streams are independent, so a tick needs no other process. Together the processes agree on a checkpoint, save at the
same sample, and reduce readings to a summary of the fleet. They use the collectives of JAX's distributed runtime, over
one mesh of all devices along "streams".

    python -m icvi_jax.distributed --processes 4 watch.py        # four on this machine
    python -m icvi_jax.distributed --processes 4 --id 2 --coordinator head:7777 watch.py    # one of four machines

A script calls `group = distributed.start()` before any other JAX work, and then for example:

    live = group.live("states", pipe, features=2, names=group.share(all_names))
    for t in range(int(live.positions.max(initial=0)), end):
        reading = live.tick(samples(t))
        if t % 100 == 99:
            group.save(live, "states")
            print(group.summary(live, reading))
"""

from icvi_jax.distributed.group import Group, PeerLost, start
from icvi_jax.distributed.rendezvous import NotJoined
from icvi_jax.distributed.summary import Spread, Summary

__all__ = ["Group", "NotJoined", "PeerLost", "Spread", "Summary", "start"]
