"""Bad input is counted and skipped, with a message at most once per minute, and never stops a watch."""

from __future__ import annotations

import json
import random
import string

import numpy as np
import pytest
from watching import PIPE, alarms, begun, messages, samples, taken

from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.page_data import fleet_view, node_view, summary
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.shard import Shard
from icvi_jax.watch.sse import Broadcaster

LARGE = 10_000_000
BAD = [
    b"not JSON",
    b"\xff\x00\xfe",
    b"{",
    b"[1, 2]",
    b"null",
    b'{"node": "a"}',
    b'{"node": "a", "time": 1, "w": 1}',
    b'{"node": "a", "v": "x"}',
    b'{"node": "a", "v": [1]}',
    b'{"node": "a", "v": true}',
    b'{"node": {}, "v": 1}',
    b'{"node": null, "v": 1}',
    b'{"node": "a", "v": 1e99}',
    b'{"node": "a", "v": ' + b"9" * 5000 + b"}",
    b"[" * 100_000,
    b'{"node": "a", "v": "' + b"x" * LARGE + b'"}',
    b'{"node": "' + b"n" * LARGE + b'", "v": 1}',
]
ODD = [  # no mistakes: a reading that is missing, names and times of all kinds
    b'{"node": "a", "v": NaN}',
    b'{"node": "a", "v": -Infinity}',
    b'{"node": "../../etc/passwd", "v": 1}',
    b'{"node": "a\\u0000\\n\\r\\t\\u001b[31m\\u202e", "v": 1}',
    b'{"node": "\\ud800", "v": 1}',
    b'{"node": "\xff\xfe", "v": 1}',
    b'{"node": 17, "v": 1}',
    b'{"node": "a", "time": NaN, "v": 1}',
    b'{"node": "a", "time": 1e999, "v": 1}',
    b'{"node": "a", "time": ' + b"9" * 400 + b', "v": 1}',
    b'{"node": "a", "time": "' + b"9" * 400 + b'", "v": 1}',
    b'{"node": "a", "time": "0001-01-01T00:00+23:59", "v": 1}',
    b'{"node": "a", "time": [], "v": 1}',
    b'{"node": "a", "units": {"v": 3, "w": "m"}, "v": 1}',
    b'{"node": "a", "units": "m", "v": 1}',
]


def test_bad_lines_between_good_ones_change_nothing(expected, capsys):
    rng = random.Random(0)
    good, mixed = taken(samples()), []
    for number, line in enumerate(good):
        mixed += [line, *messages(rng.sample(BAD[:-2] if number % 100 else BAD, number % 3))]
    watch = begun()
    for start in range(0, len(mixed), 50):
        watch.take(mixed[start : start + 50])
    assert watch.samples == len(good) and watch.bad == len(mixed) - len(good)
    assert alarms(watch.out.getvalue()) == expected
    said = capsys.readouterr().err
    assert said.count("skipped") == 1 and "Traceback" not in said


def test_odd_names_and_times_are_samples_and_all_that_leaves_is_json():
    buffers = RingBuffers(["xb"])
    watch = begun(None, buffers=buffers, silent_after=1e-9)
    watch.take(messages([b'{"node": "a", "time": 1, "v": 1}', *ODD]))
    watch.idle()  # a silent node is an alarm, with its name
    assert watch.bad == 0 and watch.samples == 1 + len(ODD) - watch.old
    assert {"../../etc/passwd", "a\x00\n\r\t\x1b[31m\u202e", "17"} < set(watch.shard.rows)
    refuse = lambda word: pytest.fail(f"{word} is no JSON")  # noqa: E731
    found = [json.loads(line, parse_constant=refuse) for line in watch.out.getvalue().splitlines()]
    assert {alarm["node"] for alarm in found} == set(watch.shard.rows)
    views = [summary(watch, buffers), fleet_view(buffers, 0), *(node_view(buffers, name) for name in buffers.names)]
    for view in views:
        json.loads(json.dumps(view, allow_nan=False).encode().decode())
    broadcaster = Broadcaster()
    client = broadcaster.join(None)
    broadcaster.publish(summary(watch, buffers), buffers)
    assert client.queue.get_nowait().count("\n") == 3  # nothing in a name ends a message


@pytest.mark.parametrize("time", [b"NaN", b"1e999", b"-Infinity", b"[]"])
def test_a_time_that_is_none_is_not_passed_on(time):
    assert Reader().read(b'{"node": "a", "time": ' + time + b', "v": 1}').time is None


def test_noise_never_stops_a_watch():
    rng = random.Random(1)
    seed = [*BAD[:-3], *ODD, *(message.lines[0] for message in taken(samples(20)))]
    watch = begun()
    for _ in range(60):
        batch = []
        for line in rng.choices(seed, k=20):
            piece = bytearray(line[:300])
            for _ in range(rng.randrange(4)):
                piece[rng.randrange(len(piece))] = rng.choice(string.printable.encode() + bytes(range(256)))
            batch.append(bytes(piece))
        watch.take(messages(batch))
    before = watch.samples
    watch.take(messages([b'{"node": "new", "time": 1, ' + b'"v": 1, "x": 1, "y": 2}']))
    assert watch.samples + watch.bad > before
    for leaf in (watch.shard.score, *watch.shard.state.anchor[:2]):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (("a", 1, (1.0, 2.0)), "2 readings, expected 1"),
        (("a", 1, ("x",)), "not numbers"),
        (("a", 1, (1e30,)), "too large"),
        ((None, 1, (1.0,)), "must be text"),
        (("a", [], (1.0,)), "a time is"),
    ],
)
def test_a_shard_refuses_a_batch_with_a_bad_sample_and_takes_none_of_it(sample, why):
    shard = Shard(PIPE, ["v"])
    with pytest.raises(ValueError, match=why):
        shard.take([("a", 0, (1.0,)), sample])
    assert shard.samples == shard.taken == 0 and not shard.rows
    shard.take([("a", 0, (float("inf"),)), ("a", 1, (float("nan"),)), ("a", 2, (1.0,))])
    assert shard.samples == 3 and np.isfinite(shard.state.anchor.high).all()


def test_nodes_without_end_are_refused_said_and_counted(tmp_path, capsys):
    named = lambda first, last: messages(b'{"node": "n%d", "v": 1}' % n for n in range(first, last))  # noqa: E731
    watch = begun(tmp_path, most_nodes=10)
    watch.take(named(0, 6))
    watch.take(named(3, 30))
    assert (watch.samples, watch.nodes, watch.refused) == (13, 10, 20)
    watch.take(named(0, 10))  # those that are known go on
    assert (watch.samples, watch.refused) == (23, 20)
    said = capsys.readouterr().err
    assert said.count("--most-nodes") == 1 and "10 nodes, the most" in said
    watch.close()
    again = begun(tmp_path, most_nodes=10)
    again.take(named(9, 12))
    assert (again.samples, again.nodes, again.refused) == (24, 10, 2)


def test_most_nodes_follow_from_memory(monkeypatch):
    from icvi_jax.watch import loop

    memory = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 18}  # 1 GB
    monkeypatch.setattr(loop.os, "sysconf", memory.__getitem__)
    assert 10_000 < loop.most_nodes(12_000) < loop.most_nodes(0) == (1 << 28) // loop.BYTES_OF_NODE
    memory["SC_PHYS_PAGES"] = 1 << 30
    assert loop.most_nodes(0) == (1 << 30) // loop.BYTES_OF_NODE  # not more on a large machine
