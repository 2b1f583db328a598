"""The sink of the how-to: in Quix Streams if that is installed, and always with a small replacement of it."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jax
import numpy as np
import pytest
from watching import PATIENCE, until

from icvi_jax.watch import Claim, Shard
from icvi_jax.watch.fencing import Fenced

SINK = Path(__file__).parents[2] / "docs" / "howto" / "quix_sink.py"
PARTITIONS, NODES, TICKS = 4, 8, 200


def readings():
    """(partition, node, time, value); one node jumps."""
    x = np.random.default_rng(0).normal(size=(TICKS, NODES))
    x[150:, 0] += 60
    return [(n % PARTITIONS, f"n{n}", t, float(x[t, n])) for t in range(TICKS) for n in range(NODES)]


@pytest.fixture
def sink(monkeypatch):
    """The file of the how-to, with a base class that has all it needs of Quix Streams."""
    base = ModuleType("quixstreams.sinks.base")
    base.BatchingSink, base.SinkBatch = type("BatchingSink", (), {}), list
    for name, module in (("quixstreams", ModuleType("quixstreams")), ("quixstreams.sinks.base", base)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "quixstreams.sinks", ModuleType("quixstreams.sinks"))
    spec = importlib.util.spec_from_file_location("quix_sink", SINK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Batch(list):
    """Messages of one partition, as Quix Streams hands them over."""

    topic = "readings"

    def __init__(self, partition, start, end):
        mine = [item for item in readings() if item[0] == partition]
        values = [{"node": node, "time": t, "celsius": v} for _, node, t, v in mine]
        super().__init__(SimpleNamespace(offset=n, value=values[n]) for n in range(start, end))
        self.partition, self.start_offset = partition, start


def assert_counted_once(pipe, folder, partitions, count=TICKS * NODES // PARTITIONS):
    for n in partitions:
        found, whole = Claim(folder / f"readings-{n}").load(pipe), Shard(pipe, ["celsius"])
        whole.take([(node, t, (v,)) for where, node, t, v in readings() if where == n][:count])
        assert found.samples == whole.samples == count
        for a, b in zip(jax.tree.leaves(found.state), jax.tree.leaves(whole.state)):
            np.testing.assert_array_equal(a, b)


def test_each_reading_counts_once_whoever_has_the_partition(sink, tmp_path, capsys):
    def other():
        return sink.Validity(sink.PIPE, ["celsius"], tmp_path)

    first, second = other(), other()
    first.write(Batch(0, 0, 100))
    first.write(Batch(0, 60, 120))  # what was not committed comes again
    second.write(Batch(0, 100, 250))  # the partition has moved
    with pytest.raises(Fenced):
        first.write(Batch(0, 120, 260))  # it continues after a freeze
    second.write(Batch(0, 250, 300))
    first.held.clear()
    first.write(Batch(0, 300, 350))  # and moves back
    second.write(Batch(0, 350, 400))  # and again, without notice: its checkpoint is older
    assert_counted_once(sink.PIPE, tmp_path, [0])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {alarm["node"] for alarm in found} == {"n0"}


LIFE = """
import sys
from quixstreams.models.topics.admin import TopicAdmin, TopicConfig
TopicAdmin.inspect_topics = lambda self, names, timeout=30: {n: TopicConfig(4, 1) for n in names}  # the mock cannot say
sys.path.insert(0, sys.argv.pop(1))
import quix_sink
quix_sink.main(*sys.argv[1:], auto_create_topics=False, commit_interval=0.5)
"""


def test_in_quix_streams_itself(require, tmp_path):
    pytest.importorskip("quixstreams", reason="quixstreams is not installed")
    require("confluent_kafka")
    from confluent_kafka import Producer

    sys.path.insert(0, str(SINK.parent))
    import quix_sink

    producer = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics("readings", timeout=PATIENCE).brokers.values()))

    def send(items):
        for partition, node, t, v in items:
            line = json.dumps({"node": node, "time": t, "celsius": v})
            producer.produce("readings", line.encode(), node, partition)
        producer.flush()

    def life():
        where = [str(SINK.parent), f"{broker.host}:{broker.port}", "readings", str(tmp_path)]
        return subprocess.Popen([sys.executable, "-W", "ignore", "-c", LIFE, *where], stdout=subprocess.PIPE, text=True)

    def saved():
        found = [Claim.newest(folder, quix_sink.PIPE) for folder in tmp_path.iterdir()]
        return sum(shard.samples for shard in found if shard)

    items = readings()
    send(items[:1000])
    first = life()
    until(lambda: saved() == 1000, "the first readings")
    send(items[1000:1300])
    first.send_signal(signal.SIGKILL)
    before = first.communicate()[0]
    second = life()
    send(items[1300:])
    until(lambda: saved() == len(items), "all readings")
    second.send_signal(signal.SIGTERM)
    after = second.communicate(timeout=PATIENCE)[0]
    assert_counted_once(quix_sink.PIPE, tmp_path, range(PARTITIONS))
    assert {json.loads(line)["node"] for line in (before + after).splitlines()} == {"n0"}
