"""Samples from a Kafka topic, read by several workers: each partition is a part of the watch. Alarms to a topic.

Offsets are in the checkpoints; those committed to the broker only show other tools how far this group is.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from icvi_jax.terminal_text import Complaints, say
from icvi_jax.watch.fencing import LogKeeper
from icvi_jax.watch.sinks import Sink
from icvi_jax.watch.source import Batch, Message, Source

if TYPE_CHECKING:
    from icvi_jax.watch.loop import Partition, WatchLoop

BATCH, WAIT, TIMEOUT = 10_000, 0.2, 10.0
SETTINGS = "ICVI_KAFKA_"
QUIET = logging.Logger("kafka", logging.CRITICAL + 1)
"""For the client library, whose log has every broken connection; real problems are raised as errors."""


class ConsumerGroup(NamedTuple):
    """Where to read: brokers, topic and group."""

    servers: str
    topic: str
    group: str


def settings(place: ConsumerGroup) -> dict[str, object]:
    """Settings of the client library for reading; TLS and SASL come from `given`."""
    return {
        "client.id": "icvi",
        "partition.assignment.strategy": "cooperative-sticky",
        **given(),
        "bootstrap.servers": place.servers,
        "group.id": place.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }


def given() -> dict[str, object]:
    """Settings from the environment: `ICVI_KAFKA_SASL_PASSWORD` is the client library's `sasl.password`, and so on."""
    return {
        name.removeprefix(SETTINGS).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(SETTINGS)
    }


class Worker(Source):
    """One member of the group: reads the partitions that are assigned to it. All workers share the folder.

    Nothing is acknowledged: offsets are committed when a checkpoint has them, not before.
    """

    def __init__(self, place: ConsumerGroup, folder: Path):
        self.place, self.folder, self.name = place, folder, place.servers
        self._errors = Complaints()

    def open(self, watch: WatchLoop) -> None:
        """Join the group; partitions come when it has decided who gets which."""
        self.watch, place = watch, self.place
        heard = {"error_cb": lambda error: self._errors.say(f"{place.servers}: {error.str()}")}
        try:
            self.consumer = Consumer(settings(place) | heard, logger=QUIET)
        except KafkaException as error:
            raise ValueError(f"--kafka {place.servers}: {error.args[0].str()} ({SETTINGS}… sets it)") from None
        self.consumer.subscribe([place.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        say(f"{place.servers}: reading {place.topic} as one of the group {place.group}")

    def batches(self) -> Iterator[Batch]:
        """Yield the messages that have come, a limited number at a time; never ends by itself."""
        while True:
            found: dict[str, list[Message]] = defaultdict(list)
            for record in cast("list[Any]", self.consumer.consume(BATCH, WAIT)):
                error = record.error()
                if error is None:
                    name = (record.key() or b"").decode("utf-8", "surrogateescape")
                    found[self._part(record.partition())].append(
                        Message([record.value() or b""], name, record.offset())
                    )
                elif error.code() != KafkaError._PARTITION_EOF:
                    self._errors.say(f"{self.place.servers}: {error.str()}")
            yield found

    def _part(self, partition: int) -> str:
        return f"{self.place.topic}-{partition}"

    def saved(self, parts: Sequence[Partition]) -> None:
        """Commit the offsets of checkpoints to the broker; repeated until it succeeds."""
        kept = [part.keeper for part in parts if isinstance(part.keeper, LogKeeper)]
        news = {one: one.saved for one in kept if one.saved is not None and one.saved != one.committed}
        if not news:
            return
        offsets = [TopicPartition(self.place.topic, int(k.id.rpartition("-")[2]), at) for k, at in news.items()]
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:  # for example during a rebalance; the checkpoint is what counts
            self._errors.say(f"{self.place.servers}: {error.args[0].str()}")
            return
        for keeper, at in news.items():
            keeper.committed = at

    def _assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        for one in given:
            name = self._part(one.partition)
            keeper = LogKeeper(self.folder / name, f"{self.place.group}.{name}", self.watch.sinks)
            self.watch.open(name, keeper)
            one.offset = OFFSET_BEGINNING if keeper.offset is None else keeper.offset
        consumer.incremental_assign(given)
        say(f"partitions {sorted(int(name.rpartition('-')[2]) for name in self.watch.parts)}")

    def _revoked(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        names = [self._part(one.partition) for one in taken]
        self.watch.save([name for name in names if name in self.watch.parts])
        self._lost(consumer, taken)

    def _lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """Another worker has them already: what was computed here since the checkpoint is dropped."""
        for one in taken:
            self.watch.drop(self._part(one.partition))
        consumer.incremental_unassign(taken)

    def close(self) -> None:
        """Save what is assigned, then leave the group. A broker that does not answer is not waited for."""
        if not within(3 * TIMEOUT, self.consumer.close):  # seen where a group had thrown this worker out
            say(f"{self.place.servers}: the broker was not told that this worker leaves; it will notice")


class Topic(Sink):
    """A Kafka topic for alarms; the key is the node."""

    def __init__(self, servers: str, topic: str):
        self.name, self.topic = f"Kafka topic {topic}", topic
        self._producer = Producer(
            {"client.id": "icvi", **given(), "bootstrap.servers": servers, "enable.idempotence": True}, logger=QUIET
        )

    def send(self, line: str) -> None:
        failed: list[str] = []
        key = str(json.loads(line)["node"]).encode()
        report = lambda error, _message: failed.append(error.str()) if error else None  # noqa: E731
        self._producer.produce(self.topic, line.encode(), key, on_delivery=report)
        if self._producer.flush(TIMEOUT):
            self._producer.purge()
            raise OSError("the broker does not answer")
        if failed:
            raise OSError(failed[0])


def within(seconds: float, call: Callable[[], object]) -> bool:
    """Call it, and say whether it returned in that time; its errors are raised here.

    Examples
    --------
    >>> import time
    >>> within(10, lambda: None), within(0.01, lambda: time.sleep(1))
    (True, False)
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    return not thread.is_alive()
