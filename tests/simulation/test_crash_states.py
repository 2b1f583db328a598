"""Every disk that a crash can leave while a watch counts messages: a restart on each counts every message once.

All operations of a watch are recorded (journal, checkpoints, syncs, links, removals). Before each of them, every state
that POSIX allows is made from what is not synced: any subset of the pending changes where there are few, otherwise each
of them lost alone or kept alone, all and none; and the last write torn.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from contextlib import redirect_stderr
from io import StringIO

import jax
import numpy as np
import pytest

for needed in ("apsw", "confluent_kafka", "paho"):
    pytest.importorskip(needed)

from disk import Disk, Write  # noqa: E402
from world import PIPE  # noqa: E402

from icvi_jax.watch.lines import Reader  # noqa: E402
from icvi_jax.watch.loop import Rules, Watch  # noqa: E402
from icvi_jax.watch.source import ONLY, Message  # noqa: E402

FEW, LINES, BATCH = 4, 15, 3


class Acknowledged:
    """Messages without a time: a broker sends those that are not acknowledged again, marked."""

    name = "broker"

    def __init__(self, folder, done=()):
        self.folder, self.done, self.first = folder, set(done), True

    def open(self, watch):
        watch.open_journal(self.folder)

    def batches(self):
        values = np.random.default_rng(0).normal(size=LINES) + 60 * (np.arange(LINES) > LINES // 2)
        left = [n for n in range(LINES) if n not in self.done]
        again = not self.first or bool(self.done)
        for start in range(0, len(left), BATCH):
            yield {
                ONLY: [
                    Message([json.dumps({"node": "ab"[n % 2], "v": values[n]}).encode()], ticket=str(n), again=again)
                    for n in left[start : start + BATCH]
                ]
            }

    def acknowledge(self, batch):
        self.done |= {int(message.ticket) for message in batch[ONLY]}

    def saved(self, parts):
        pass

    def close(self):
        pass


def run(source, out):
    """One life; a checkpoint after every second batch."""
    watch = Watch(PIPE, Reader, Rules(every=1e9), out)
    watch.begin(source)
    for number, batch in enumerate(source.batches(), 1):
        watch.turn(batch)
        if number % 2 == 0:
            watch.save()
    watch.end()
    shard = watch.parts[ONLY].shard
    watch.close()
    return shard.samples, list(shard.rows), [np.asarray(leaf) for leaf in jax.tree.leaves(shard.state)]


def possible(disk):
    """The states that a crash now could leave."""
    pending = [(id(node), id(change)) for node, change in disk.states()]
    changes = {(id(node), id(change)): change for node, change in disk.states()}
    sets = [()] + [(one,) for one in pending]
    if len(pending) <= FEW:
        sets = [some for size in range(len(pending) + 1) for some in itertools.combinations(pending, size)]
    else:
        sets += [tuple(set(pending) - set(some)) for some in sets]
    for lost in sets:
        yield disk.tree(lambda node, change, lost=lost: (id(node), id(change)) not in lost)
    if pending and isinstance(changes[pending[-1]], Write) and changes[pending[-1]].data:
        half = len(changes[pending[-1]].data) // 2
        yield disk.tree(lambda node, change: half if (id(node), id(change)) == pending[-1] else True)


def key(tree):
    return hashlib.sha256(repr(tree).encode()).hexdigest()


def test_a_restart_on_every_state_counts_every_message_once(tmp_path):
    disk, found, operations = Disk(tmp_path / "disk"), {}, 0
    source = Acknowledged(disk.root / "kept")
    operation = disk.operation

    def recorded(what, life=None, writes=False):
        nonlocal operations
        operations += 1
        for tree in possible(disk):
            found.setdefault((key(tree), frozenset(source.done)), tree)
        return operation(what, life, writes)

    disk.operation = recorded
    out = StringIO()
    with redirect_stderr(StringIO()), disk.recorded():
        expected = run(source, out)
        disk.operation = operation
        assert expected[0] == LINES
        for (_, done), tree in found.items():
            disk.life += 1
            disk.become(tree)
            again = Acknowledged(disk.root / "kept", done)
            again.first = False  # what was on its way comes again, marked
            samples, rows, state = run(again, StringIO())
            assert (samples, rows) == expected[:2], f"{len(done)} messages were acknowledged"
            for a, b in zip(state, expected[2]):
                np.testing.assert_array_equal(a, b)
    print(f"{operations} operations, {len(found)} states")
    assert operations > 50 and len(found) > 100
