"""Workers on a Kafka topic: librdkafka's mock cluster is a broker with groups and rebalances."""

from __future__ import annotations

import io
import json
import time

import jax
import numpy as np
import pytest
from watching import PATIENCE

import icvi_jax as icvi
from icvi_jax.watch.fencing import Claim, Fenced
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Rules, WatchLoop
from icvi_jax.watch.shard import Shard

PARTITIONS, NODES, TICKS = 4, 8, 120
PANEL = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
# a fixed factor: a learned threshold says nothing in so short a stream
PIPE = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=PANEL, monitors={"xb": icvi.Distress()})


@pytest.fixture
def cluster(require):
    require("confluent_kafka")
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1})
    found = producer.list_topics("readings", timeout=PATIENCE)  # asked for, it is there
    assert len(found.topics["readings"].partitions) == PARTITIONS
    broker = next(iter(found.brokers.values()))
    return f"{broker.host}:{broker.port}", producer


def readings():
    """(partition, node, time, value), as they are sent."""
    x = np.random.default_rng(0).normal(size=(TICKS, NODES))
    x[80:, 0] += 60
    return [(n % PARTITIONS, f"n{n}", t, float(x[t, n])) for t in range(TICKS) for n in range(NODES)]


def send(producer, items):
    for partition, node, t, v in items:
        producer.produce("readings", json.dumps({"node": node, "time": t, "v": v}).encode(), node, partition)
    producer.flush()


class Working(WatchLoop):
    """A worker and its watch, turned by the test."""

    def __init__(self, servers, folder, out=None, every=10.0):
        super().__init__(PIPE, Reader, Rules(every=every), out or io.StringIO())
        from icvi_jax.watch.kafka import ConsumerGroup, Worker

        self.begin(Worker(ConsumerGroup(servers, "readings", "site"), folder))
        self.waiting = self.source.batches()

    def leave(self):
        self.source.close()


def worker(*args, **options):
    return Working(*args, **options)


def turn(*workers):
    """Let each of them take in what is there."""
    for one in workers:
        one.turn(next(one.waiting))


def until_all(workers, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        turn(*workers)
        assert time.monotonic() < end


def assert_all_counted_once(folder, items):
    """States are those of one uninterrupted run, bit for bit."""
    for partition in range(PARTITIONS):
        shard = Claim(folder / f"readings-{partition}").load(PIPE)
        whole = Shard(PIPE, ["v"])
        whole.take([(node, t, (v,)) for where, node, t, v in items if where == partition])
        assert shard.samples == whole.samples and shard.rows == whole.rows
        for a, b in zip(jax.tree.leaves(shard.state), jax.tree.leaves(whole.state)):
            np.testing.assert_array_equal(a, b)


def test_workers_come_and_go_and_every_sample_counts_once(cluster, tmp_path):
    servers, producer = cluster
    items, out = readings(), io.StringIO()
    first = worker(servers, tmp_path, out, every=0.3)
    send(producer, items[:400])
    until_all([first], lambda: first.samples == 400)
    second = worker(servers, tmp_path, out, every=0.3)
    until_all([first, second], lambda: len(first.parts) == len(second.parts) == 2)
    send(producer, items[400:700])
    until_all([first, second], lambda: first.samples + second.samples == 700)
    first.leave()  # leaves the group: its partitions are saved and go to the other
    send(producer, items[700:])
    until_all([second], lambda: len(second.parts) == 4 and second.samples + first.samples == len(items))
    second.leave()
    assert_all_counted_once(tmp_path, items)
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {alarm["node"] for alarm in found} == {"n0"} and len({alarm["id"] for alarm in found}) == len(found)


def test_a_worker_that_dies_without_a_word_costs_nothing(cluster, tmp_path, monkeypatch):
    servers, producer = cluster
    items = readings()
    for name in ("SESSION_TIMEOUT_MS", "MAX_POLL_INTERVAL_MS"):
        monkeypatch.setenv(f"ICVI_KAFKA_{name}", "6000")
    first = worker(servers, tmp_path, every=0.2)
    send(producer, items[:500])
    until_all([first], lambda: first.samples == 500)
    dead = dict(first.parts)  # not saved, and it never leaves the group: it is not called again
    send(producer, items[500:])
    second = worker(servers, tmp_path)
    read = lambda: [part.keeper.offset or 0 for part in second.parts.values()]  # noqa: E731
    until_all([second], lambda: len(read()) == 4 and sum(read()) == len(items))
    for part in dead.values():  # it continues, with its own state
        part.keeper.offset = 10_000
        with pytest.raises(Fenced, match="another worker"):
            part.save()
    second.leave()
    assert_all_counted_once(tmp_path, items)
    first.parts.clear()
    first.leave()


def test_the_broker_is_told_again_until_it_has_heard_how_far_the_group_is(cluster, tmp_path, monkeypatch):
    from confluent_kafka import KafkaError, KafkaException

    servers, producer = cluster
    send(producer, [item for item in readings() if item[0] == 0])
    one = worker(servers, tmp_path, every=1000)
    until_all([one], lambda: one.samples == TICKS * NODES // PARTITIONS)
    told = []

    class Deaf:  # to the first commit, as in the middle of a rebalance
        def commit(self, offsets, asynchronous):
            told.append([(o.partition, o.offset) for o in offsets])
            if len(told) == 1:
                raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))

    real, one.source.consumer = one.source.consumer, Deaf()
    for _ in range(3):
        one.save()
    one.source.consumer = real
    assert told == [[(0, 240)]] * 2
    one.leave()
    again = worker(
        servers, tmp_path, every=1000
    )  # another worker also commits: the one that saved may have died before
    until_all([again], lambda: len(again.parts) == PARTITIONS)
    again.source.consumer, real = Deaf(), again.source.consumer
    told.append(None)
    again.save()
    again.source.consumer = real
    assert told[-1] == [(0, 240)]
    again.leave()


def test_bad_messages_are_counted_and_skipped(cluster, tmp_path, capsys):
    servers, producer = cluster
    bad = [
        b"\xff\x00",
        b"{",
        b"[1]",
        b'{"node": "a"}',
        b'{"node": "a", "v": "x"}',
        b'{"node": {}, "v": 1}',
        b'{"node": "a", "v": ' + b"1" * 900_000 + b"}",
        b"x" * 900_000,
    ]
    good = [b'{"node": "a/b/../\\u0000\\n", "v": 1}', b'{"node": "a", "v": NaN}', b'{"v": 3}']
    for value in [good[0], *bad, *good[1:]]:
        producer.produce("readings", value, b"key", 0)
    producer.flush()
    one = worker(servers, tmp_path)
    until_all([one], lambda: one.samples == 3)
    assert one.bad == len(bad) and set(one.shards[0].rows) == {"a/b/../\x00\n", "a", "key"}
    one.leave()
    assert capsys.readouterr().err.count("skipped") == 1


def test_settings_pass_through_and_a_wrong_one_is_named(require, monkeypatch, tmp_path):
    require("confluent_kafka")
    from icvi_jax.watch.kafka import ConsumerGroup, settings

    wanted = {"security.protocol": "SASL_SSL", "sasl.password": "s", "ssl.ca.location": "/ca.pem", "group.id": "other"}
    for name, value in wanted.items():
        monkeypatch.setenv("ICVI_KAFKA_" + name.upper().replace(".", "_"), value)
    found = settings(ConsumerGroup("host:9092", "t", "site"))
    assert found.items() >= (wanted | {"group.id": "site", "enable.auto.commit": False}).items()
    monkeypatch.setenv("ICVI_KAFKA_NO_SUCH_THING", "1")
    with pytest.raises(ValueError, match="no.such.thing.*ICVI_KAFKA_"):
        worker("127.0.0.1:9", tmp_path)


def test_a_claim_belongs_to_one_and_the_last_one_counts(tmp_path):
    shard = Shard(PIPE, ["v"])
    shard.take([("a", 1, (1.0,))])
    first, second = Claim(tmp_path), Claim(tmp_path)
    assert (first.number, second.number) == (1, 2)
    with pytest.raises(Fenced):
        first.save(shard, {"offset": 1})
    second.save(shard, {"offset": 1})
    shard.take([("a", 2, (2.0,))])
    assert Claim(tmp_path).load(PIPE).samples == 1
    third = Claim(tmp_path)
    for _ in range(2):
        third.save(shard, {"offset": 2})
    assert third.load(PIPE).samples == 2 and not second.own.exists()
    with pytest.raises(Fenced):
        second.save(shard, {"offset": 3})
    assert not second.own.exists()
