"""Late samples are put in order, and silent nodes raise an alarm."""

from __future__ import annotations

import json
import random
import time

import jax
import numpy as np
from watching import PIPE, alarms, begun, samples, taken

from icvi_jax.watch.shard import Shard


def shuffled(items, reach, seed=0):
    """Each sample comes up to `reach` seconds late."""
    rng = random.Random(seed)
    return sorted(items, key=lambda item: item[1] + rng.uniform(0, reach))


def test_late_samples_find_their_place(tmp_path, expected):
    items = samples()
    watch = begun(late=10.0)
    watch.take(taken(shuffled(items, 9.5)))
    assert watch.old == 0 and watch.samples < len(items)
    watch.end()
    assert watch.samples == len(items) and alarms(watch.out.getvalue()) == expected
    first = begun(tmp_path, late=10.0)  # samples that wait are kept over a restart, and repeated ones are old
    sent = taken(shuffled(items, 9.5))
    first.take(sent[:300])
    first.save()
    first.take(sent[300:320])
    first.close()
    again = begun(tmp_path, late=10.0)
    again.take(sent)
    assert again.old == 320
    again.shard.flush()
    again.part.compute()
    for a, b in zip(jax.tree.leaves(again.shard.state), jax.tree.leaves(watch.shard.state)):
        np.testing.assert_array_equal(a, b)


def test_batches_do_not_matter_and_what_is_too_late_is_old_news():
    sent = [("a", t, (float(t),)) for t in (5, 100, 2, 7, 101, 99, 100, 150, 95)]
    states = []
    for size in (1, 2, 9):
        shard = Shard(PIPE, ["v"], late=10.0)
        for start in range(0, len(sent), size):
            shard.take(sent[start : start + size])
        assert (shard.taken, shard.old, shard.samples) == (6, 3, 5)  # 2, the second 100 and 95 are old; 150 waits
        states.append(shard.state)
    for state in states[1:]:
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(states[0])):
            np.testing.assert_array_equal(a, b)


def test_a_node_that_falls_silent_raises_an_alarm_once(monkeypatch):
    watch = begun(silent_after=30.0)
    watch.take(taken([("a", 1, 1.0), ("b", 1, 1.0)]))
    watch.idle()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 20)
    watch.take(taken([("a", 2, 1.0)]))
    monkeypatch.setattr(time, "monotonic", lambda: now + 40)
    watch.idle()
    watch.idle()
    (alarm,) = [json.loads(line) for line in watch.out.getvalue().splitlines()]
    assert (alarm["node"], alarm["alarm"], alarm["sample"]) == ("b", "silent", 1) and "30 seconds" in alarm["reason"]
    watch.take(taken([("b", 3, 1.0)]))
    watch.idle()
    monkeypatch.setattr(time, "monotonic", lambda: now + 80)
    watch.idle()
    found = [json.loads(line) for line in watch.out.getvalue().splitlines()]
    assert [alarm["node"] for alarm in found] == ["b", "a", "b"] and len({alarm["id"] for alarm in found}) == 3
