"""Every disk that a crash can leave while a watch counts messages: a restart on each counts every message once.

All operations of a watch are recorded (journal, checkpoints, claims, syncs, links, removals). Before each of them,
every state that POSIX allows is made from what is not synced: any subset of the pending changes where there are few,
otherwise each of them lost alone or kept alone, all and none; and the last write torn.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from contextlib import redirect_stderr
from io import StringIO
from unittest import mock

import jax
import numpy as np
import pytest

for needed in ("apsw", "confluent_kafka", "paho"):
    pytest.importorskip(needed)

from brokers import Cluster  # noqa: E402
from disk import Disk, Write  # noqa: E402
from world import PIPE  # noqa: E402

from icvi_jax.watch import kafka  # noqa: E402
from icvi_jax.watch.json_and_csv import Reader  # noqa: E402
from icvi_jax.watch.loop import Rules, WatchLoop  # noqa: E402
from icvi_jax.watch.source import ONLY, Message  # noqa: E402

FEW, LINES, BATCH = 4, 11, 3
VALUES = np.random.default_rng(0).normal(size=LINES) + 60 * (np.arange(LINES) > LINES // 2)


def line(number, timed):
    """A sample of one of two nodes; without a time, only its ticket or offset shows that it came before."""
    return json.dumps({"node": "ab"[number % 2], "v": VALUES[number]} | ({"time": number} if timed else {})).encode()


class Stdin:
    """Lines with a time, from a file that is sent again after a crash, from its first line."""

    timed = True

    def __init__(self, folder, known):
        self.folder, self.known, self.again = folder, set(known or ()), known is not None

    def open(self, watch):
        watch.open_journal(self.folder)

    def batches(self):
        for first in range(0, LINES, BATCH):
            yield {ONLY: [self.message(number) for number in range(first, min(first + BATCH, LINES))]}

    def message(self, number):
        return Message([line(number, self.timed)])

    def acknowledge(self, batch):
        pass

    saved = close = acknowledge


class Mqtt(Stdin):
    """Messages without a time: a broker sends again, marked, what is not acknowledged. `known`: those that are."""

    timed = False

    def batches(self):
        left = [number for number in range(LINES) if number not in self.known]
        for first in range(0, len(left), BATCH):
            yield {ONLY: [self.message(number) for number in left[first : first + BATCH]]}

    def message(self, number):
        return super().message(number)._replace(ticket=str(number), again=self.again)

    def acknowledge(self, batch):
        self.known |= {int(message.ticket) for message in batch[ONLY]}


class Kafka(kafka.Worker):
    """The real worker on two partitions; retention removes all that is committed. `known`: the committed offsets."""

    def __init__(self, folder, known):
        super().__init__(kafka.ConsumerGroup("cluster", "readings", "site"), folder)
        self.cluster = Cluster(2)
        self.cluster.committed = dict(known or ())
        self.cluster.remove_committed()
        for number in range(LINES):
            self.cluster.logs[number % 2].append((b"key", line(number, False)))

    @property
    def known(self):
        return self.cluster.committed.items()

    def open(self, watch):
        with mock.patch.object(kafka, "Consumer", self.cluster.make):
            super().open(watch)

    def batches(self):
        for batch in super().batches():
            if not batch:
                return
            yield batch


def run(source, out):
    """One life; a checkpoint after every second batch, where there is a journal, otherwise after every one."""
    watch = WatchLoop(PIPE, Reader, Rules(every=1e9), out)
    watch.begin(source)
    for number, batch in enumerate(source.batches(), 1):
        watch.turn(batch)
        if number % 2 == 0 or isinstance(source, Kafka):
            watch.save()
    watch.end()
    shards = [watch.parts[name].shard for name in sorted(watch.parts)]
    watch.close()
    found = [(shard.samples, list(shard.rows), jax.tree.leaves(shard.state)) for shard in shards]
    return [(samples, rows, [np.asarray(leaf) for leaf in leaves]) for samples, rows, leaves in found]


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


@pytest.mark.parametrize("kind, least", [(Stdin, (50, 100)), (Mqtt, (50, 100)), (Kafka, (60, 60))])
def test_a_restart_on_every_state_counts_every_message_once(tmp_path, kind, least):
    disk, found, operations = Disk(tmp_path / "disk"), {}, 0
    source = kind(disk.root / "kept", None)
    operation = disk.operation

    def recorded(what, life=None, writes=False):
        nonlocal operations
        operations += 1
        for tree in possible(disk):
            found.setdefault((key(tree), frozenset(source.known)), tree)
        return operation(what, life, writes)

    disk.operation = recorded
    with redirect_stderr(StringIO()), disk.recorded(), mock.patch.object(kafka, "BATCH", 1):
        expected = run(source, StringIO())
        disk.operation = operation
        assert sum(samples for samples, *_ in expected) == LINES
        for (_, known), tree in found.items():
            disk.life += 1
            disk.become(tree)
            again = run(kind(disk.root / "kept", known), StringIO())
            assert [one[:2] for one in again] == [one[:2] for one in expected], f"after {sorted(known)}"
            for (*_, a), (*_, b) in zip(again, expected):
                jax.tree.map(np.testing.assert_array_equal, a, b)
    print(f"{kind.__name__}: {operations} operations, {len(found)} states")
    assert operations > least[0] and len(found) > least[1]
