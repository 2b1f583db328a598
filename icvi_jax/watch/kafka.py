"""Samples from a Kafka topic, read by several workers: each partition is a shard.

Offsets are in the checkpoints; those committed to the broker only show other tools how far this group is.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, TextIO, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from icvi_jax.text import say
from icvi_jax.watch.absent_nodes import Silence
from icvi_jax.watch.decode import Complaints
from icvi_jax.watch.fencing import Fenced
from icvi_jax.watch.journal import Store
from icvi_jax.watch.partition import Counts, Message, Partition
from icvi_jax.watch.ring_buffers import Board
from icvi_jax.watch.shard import Shard
from icvi_jax.watch.timeout import within

BATCH, WAIT, TIMEOUT = 10_000, 0.2, 10.0
SETTINGS = "ICVI_KAFKA_"


class Place(NamedTuple):
    """Where to read: brokers, topic and group."""

    servers: str
    topic: str
    group: str


class Read(Message, Protocol):
    """A message that was read from a log: unlike one to be sent, it always has a partition and an offset."""

    def partition(self) -> int: ...
    def error(self) -> KafkaError | None: ...


def settings(place: Place) -> dict[str, object]:
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


class Worker:
    """One member of the group: processes the messages of the partitions that are assigned to it.

    Parameters
    ----------
    place : where to read.
    folder : for all checkpoints, shared by all workers.
    make : makes a partition, given its folder and id.
    out : where alarms are written, one JSON object per line.
    board, silent_after : as for a watch.
    every : seconds between checkpoints.

    Attributes
    ----------
    samples, alarms, bad, old : of this process, since its start.
    """

    def __init__(
        self,
        place: Place,
        folder: Path,
        make: Callable[[Path, str, Complaints], Partition],
        out: TextIO,
        board: Board | None = None,
        silent_after: float = 0.0,
        every: float = 10.0,
    ):
        self.place, self.folder, self._make, self.every = place, folder, make, every
        self.out, self.board, self.silence = out, board, Silence(silent_after)
        self.partitions: dict[int, Partition] = {}
        self._gone = Counts(0, 0, 0, 0)
        self._complaints, self._errors = Complaints(), Complaints()
        self._saved_at = time.monotonic()
        heard = {"error_cb": lambda error: self._errors.say(f"{place.servers}: {error.str()}")}
        try:
            self.consumer = Consumer(settings(place) | heard, logger=_Silent())
        except KafkaException as error:
            raise ValueError(f"--kafka {place.servers}: {error.args[0].str()} ({SETTINGS}… sets it)") from None
        self.consumer.subscribe([place.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    @property
    def shards(self) -> list[Shard]:
        """The shards of the partitions that this worker has now."""
        return [part.shard for part in list(self.partitions.values()) if part.shard]

    @property
    def stores(self) -> list[Store]:
        """The stores in which alarms wait."""
        return [part.store for part in list(self.partitions.values())]

    @property
    def counts(self) -> Counts:
        """What this process has counted since its start."""
        return Counts(*map(sum, zip(self._gone, *(part.counts for part in list(self.partitions.values())))))

    samples = property(lambda self: self.counts.samples)
    alarms = property(lambda self: self.counts.alarms)
    bad = property(lambda self: self.counts.bad)
    old = property(lambda self: self.counts.old)

    def batches(self) -> Iterator[list[Read]]:
        """Yield the messages that have come, a limited number at a time; never ends by itself."""
        while True:
            yield cast("list[Read]", self.consumer.consume(BATCH, WAIT))

    def take(self, messages: list[Read]) -> None:
        """Process messages of all partitions, and save from time to time."""
        found: dict[int, list[Read]] = defaultdict(list)
        for message in messages:
            error = message.error()
            if error is None:
                found[message.partition()].append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                self._errors.say(f"{self.place.servers}: {error.str()}")
        for number, part in found.items():
            if number in self.partitions:
                self.partitions[number].take(part)
        for own in self.partitions.values():
            if own.shard is not None:
                own.alarms += self.silence.look(own.shard, own.store, self.board)
            own.store.print_waiting(self.out)
        if time.monotonic() - self._saved_at > self.every:
            self.save(list(self.partitions))

    def save(self, numbers: list[int]) -> None:
        """Write checkpoints of these partitions, and commit their offsets to the broker."""
        self._saved_at = time.monotonic()
        for number in numbers:
            try:
                self.partitions[number].save()
            except Fenced as why:
                say(str(why))
                self._forget(number)
        self._tell([number for number in numbers if number in self.partitions])

    def _tell(self, numbers: list[int]) -> None:
        """Commit the offsets of the checkpoints to the broker; repeated until it succeeds."""
        saved = {number: self.partitions[number].saved for number in numbers}
        news = {n: at for n, at in saved.items() if at is not None and at != self.partitions[n].told}
        if not news:
            return
        try:
            self.consumer.commit(
                offsets=[TopicPartition(self.place.topic, n, at) for n, at in news.items()], asynchronous=False
            )
        except KafkaException as error:  # for example during a rebalance; the checkpoint is what counts
            self._errors.say(f"{self.place.servers}: {error.args[0].str()}")
            return
        for number, at in news.items():
            self.partitions[number].told = at

    def _assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        for one in given:
            name = f"{self.place.topic}-{one.partition}"
            part = self._make(self.folder / name, f"{self.place.group}.{name}", self._complaints)
            self.partitions[one.partition] = part
            one.offset = OFFSET_BEGINNING if part.offset is None else part.offset
        consumer.incremental_assign(given)
        say(f"partitions {sorted(self.partitions)}")

    def _revoked(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        numbers = [one.partition for one in taken if one.partition in self.partitions]
        self.save(numbers)
        self._drop(consumer, taken)

    def _lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """Another worker has them already: what was computed here since the checkpoint is dropped."""
        self._drop(consumer, taken)

    def _drop(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        for one in taken:
            self._forget(one.partition)
        consumer.incremental_unassign(taken)

    def _forget(self, number: int) -> None:
        part = self.partitions.pop(number, None)
        if part is None:
            return
        self._gone = Counts(*map(sum, zip(self._gone, part.counts)))
        if self.board is not None:
            self.board.drop(part.id)

    def close(self) -> None:
        """Save what is assigned, then leave the group. A broker that does not answer is not waited for."""
        if not within(3 * TIMEOUT, self.consumer.close):  # seen where a group had thrown this worker out
            say(f"{self.place.servers}: the broker was not told that this worker leaves; it will notice")


class Topic:
    """A Kafka topic for alarms; the key is the node."""

    def __init__(self, servers: str, topic: str):
        self.name, self.topic = f"Kafka topic {topic}", topic
        self._producer = Producer(
            {"client.id": "icvi", **given(), "bootstrap.servers": servers, "enable.idempotence": True}, logger=_Silent()
        )

    def send(self, line: str) -> None:
        """Send one alarm and wait until the broker has it."""
        failed: list[str] = []
        key = str(json.loads(line)["node"]).encode()
        report = lambda error, _message: failed.append(error.str()) if error else None  # noqa: E731
        self._producer.produce(self.topic, line.encode(), key, on_delivery=report)
        if self._producer.flush(TIMEOUT):
            self._producer.purge()
            raise OSError("the broker does not answer")
        if failed:
            raise OSError(failed[0])

    def close(self) -> None:
        """Nothing to do: `send` waits for every alarm."""


class _Silent:
    """Drops the log of the client library, which has every broken connection; real problems are raised as errors."""

    def log(self, *_: object) -> None:
        """Ignore it."""
