"""Run a watch until its input ends or the process is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from icvi_jax.pipeline import Pipeline
from icvi_jax.text import counted, say
from icvi_jax.watch.decode import Complaints
from icvi_jax.watch.fleet import Watch
from icvi_jax.watch.journal import PRINT, Store
from icvi_jax.watch.lines import Reader, lines_of
from icvi_jax.watch.metrics import Fleet, serving
from icvi_jax.watch.notify import Receiver, Sender, receivers
from icvi_jax.watch.partition import Partition
from icvi_jax.watch.ring_buffers import Board
from icvi_jax.watch.signals import Interrupts
from icvi_jax.watch.silences import Mutes


@dataclass(frozen=True, kw_only=True)
class Service:
    """Input, output and servers of a watch.

    Attributes
    ----------
    mqtt : host and topic of a broker to read from.
    kafka : servers, topic and group to read from; without either, standard input is read.
    folder : for the checkpoint, or None.
    keep_old, late, silent_after : as for a watch.
    prometheus, address, worst : port and address of the metrics, and how many nodes have their own.
    page, token, history : address of the live page, its token, and how many samples of a node it shows.
    webhooks, alarms_mqtt, alarms_kafka : receivers of alarms.
    """

    mqtt: tuple[str, str] | None = None
    kafka: tuple[str, str, str] | None = None
    folder: Path | None = None
    keep_old: bool = False
    late: float = 0.0
    silent_after: float = 0.0
    prometheus: int | None = None
    address: str = "127.0.0.1"
    worst: int = 10
    page: str = ""
    token: str = ""
    history: int = 240
    webhooks: tuple[str, ...] = ()
    alarms_mqtt: tuple[str, str] | None = None
    alarms_kafka: tuple[str, str] | None = None


def serve(pipe: Pipeline, make_reader: Callable[[], Reader], service: Service) -> None:
    """Continue from the last checkpoint, then process the input."""
    to = receivers(service.webhooks, service.alarms_mqtt, service.alarms_kafka)
    board = None
    if service.page:
        indices = [index.name for index in pipe.panel.indices] if pipe.panel else []
        board = Board(indices, service.history, service.silent_after, mutes=Mutes(service.folder))
    run = _kafka if service.kafka else _one_process
    run(pipe, make_reader, service, to, board)


def _one_process(
    pipe: Pipeline, make_reader: Callable[[], Reader], service: Service, to: list[Receiver], board: Board | None
) -> None:
    """Standard input or MQTT: one shard, with its own journal."""
    sinks = [receiver.name for receiver in to]
    watch = Watch(
        pipe,
        make_reader(),
        service.folder,
        keep_old=service.keep_old,
        late=service.late,
        sinks=sinks,
        board=board,
        silent_after=service.silent_after,
    )
    try:
        again = watch.restore()
        if watch.samples:
            known = f"{counted(watch.samples, 'sample')} of {counted(watch.nodes, 'node')}"
            say(f"continuing after {known} ({again:,} since the last checkpoint)")
        with _around(watch, lambda: [watch.store], service, to, board) as interrupts:
            with suppress(KeyboardInterrupt):
                if service.mqtt:
                    _from_broker(watch, interrupts, service.mqtt)
                elif sys.stdin is None:
                    raise ValueError("standard input is closed: nothing to watch")
                else:
                    for lines in interrupts.between(lines_of(sys.stdin.fileno())):
                        if lines:
                            watch.take([(line, "") for line in lines])
                        watch.idle()
            watch.end()  # while alarms are still sent; not after an error: a restart continues from the folder
    except BrokenPipeError:
        say(f"standard output was closed{'; a restart prints the alarms again' if watch.folder else ''}")
        raise
    finally:
        watch.close()
    _tell(watch, f"{counted(watch.samples, 'sample')} of {counted(watch.nodes, 'node')}")


def _from_broker(watch: Watch, interrupts: Interrupts, mqtt: tuple[str, str]) -> None:
    """Process the messages of the broker."""
    from icvi_jax.watch.mqtt import Subscription, lines_in, news

    subscription = Subscription(*mqtt, watch.folder)
    try:
        for messages in interrupts.between(subscription.bundles()):
            new = news(messages, watch.store)
            watch.take(lines_in(new.messages), new.tickets, new.topics)
            subscription.acknowledge(messages)
            watch.idle()
    finally:
        subscription.close()


def _kafka(
    pipe: Pipeline, make_reader: Callable[[], Reader], service: Service, to: list[Receiver], board: Board | None
) -> None:
    """Kafka: a shard for each partition that this worker has."""
    from icvi_jax.watch.kafka import Place, Worker

    if service.folder is None or service.kafka is None:
        raise ValueError("--kafka: needs --checkpoint, a folder that all workers see")
    sinks = [PRINT, *(receiver.name for receiver in to)]

    def make(folder: Path, id: str, complaints: Complaints) -> Partition:
        return Partition(pipe, make_reader(), folder, id, sinks, service.keep_old, service.late, complaints, board)

    place = Place(*service.kafka)
    worker = Worker(place, service.folder, make, sys.stdout, board, service.silent_after)
    say(f"{place.servers}: reading {place.topic} as one of the group {place.group}")
    with _around(worker, lambda: worker.stores, service, to, board) as interrupts:
        for messages in interrupts.between(worker.batches()):
            worker.take(messages)
    nodes = sum(len(shard.rows) for shard in worker.shards)
    worker.close()
    _tell(worker, f"{worker.samples:,} samples, {nodes:,} nodes here at the end")


@contextmanager
def _around(
    fleet: Fleet, stores: Callable[[], list[Store]], service: Service, to: list[Receiver], board: Board | None
) -> Iterator[Interrupts]:
    """Signals, metrics, the page and the senders of alarms, during the `with`; Ctrl-C is its usual end."""
    with ExitStack() as stack:
        interrupts, mutes = Interrupts(), board.mutes if board else Mutes(service.folder)
        stack.callback(interrupts.close)
        stack.enter_context(serving(fleet, service.prometheus, service.address, service.worst))
        if board is not None:
            from icvi_jax.watch.server import page_served

            stack.enter_context(page_served(fleet, board, service.page, service.token, service.worst, interrupts.busy))
        for receiver in to:
            sender = Sender(receiver, stores, mutes)
            stack.callback(sender.close)
        try:
            yield interrupts
        except KeyboardInterrupt:
            pass


def _tell(fleet: Fleet, heard: str) -> None:
    raised, bad, old = counted(fleet.alarms, "alarm"), counted(fleet.bad, "bad line"), counted(fleet.old, "old sample")
    say(f"{heard}, {raised}, {bad}, {old} skipped")
