"""Run a watch until its input ends or the process is stopped."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeVar

from icvi_jax.monitors import Distress
from icvi_jax.pipeline import Pipeline
from icvi_jax.terminal_text import counted, say
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Rules, WatchLoop
from icvi_jax.watch.metrics import serving
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.ring_buffers import EVENTS, RingBuffers
from icvi_jax.watch.silences import ACKNOWLEDGED, Silences
from icvi_jax.watch.sinks import Sink, open_sinks
from icvi_jax.watch.source import Source, Stdin

Item = TypeVar("Item")
UNSEEN_HISTORY = 64
"""Length of the history of a node where no page shows it: what the sentences of alarms look back at."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """Input, output and servers of a watch."""

    mqtt: tuple[str, str] | None = None  # host and topic of a broker to read from
    # servers, topic and group to read from; without either, standard input is read
    kafka: tuple[str, str, str] | None = None
    folder: Path | None = None  # for the checkpoint, or None
    rules: Rules = Rules()  # how samples are counted
    # prometheus, address, worst: port and address of the metrics, and how many nodes have their own
    prometheus: int | None = None
    address: str = "127.0.0.1"
    worst: int = 10
    # page, token, history: address of the live page, its token, and how many samples of a node it shows
    page: str = ""
    token: str = ""
    history: int = 240
    # webhooks, alarms_mqtt, alarms_kafka: receivers of alarms
    webhooks: tuple[str, ...] = ()
    alarms_mqtt: tuple[str, str] | None = None
    alarms_kafka: tuple[str, str] | None = None
    # cloudevents, webhook_text: the form of what webhooks get
    cloudevents: bool = False
    webhook_text: str = ""
    # alertmanager, resend: addresses of Alertmanagers, and seconds between two times that a standing alarm is sent
    alertmanager: tuple[str, ...] = ()
    resend: float = 60.0
    # whether nodes are devices of Home Assistant, at the broker of the samples or of the alarms
    home_assistant: bool = False
    otlp: str = ""  # address of a receiver of OpenTelemetry


def serve(pipe: Pipeline, make_reader: Callable[[], Reader], service: Service) -> bool:
    """Continue from the last checkpoint, then process the input; returns whether any line was a valid sample."""
    silences, buffers = Silences(service.folder), None
    if service.page or service.home_assistant:
        indices = [index.name for index in pipe.panel.indices] if pipe.panel else []
        history = service.history if service.page else UNSEEN_HISTORY
        buffers = RingBuffers(
            indices, history, service.rules.silent_after, EVENTS, silences, Silences(service.folder, ACKNOWLEDGED)
        )
    forms = service.cloudevents, service.webhook_text
    plugs = open_plugs(service, pipe, buffers, silences, lambda: watch)
    to = open_sinks(service.webhooks, service.alarms_mqtt, service.alarms_kafka, plugs, *forms)
    if service.kafka and service.rules.promises_incidents:
        say("an incident of the budget is one of the nodes of a partition; nodes of different partitions do not count")
    watch = WatchLoop(pipe, make_reader, service.rules, sinks=[receiver.name for receiver in to], buffers=buffers)
    source = open_source(service)
    try:
        watch.begin(source)
        with _around(watch, service, to, silences) as interrupts:
            for batch in interrupts.between(source.batches()):
                watch.turn(batch)
            watch.end()  # while alarms are still sent; not after an error: a restart continues from the folder
        nodes = watch.nodes
        source.close()
    except BrokenPipeError:
        say(f"standard output was closed{'; a restart prints the alarms again' if service.folder else ''}")
        raise
    finally:
        watch.close()
    raised, bad, old = counted(watch.alarms, "alarm"), counted(watch.bad, "bad line"), counted(watch.old, "old sample")
    useless = watch.bad > 0 and watch.samples == 0
    if useless:
        why = next((part.intake.last for part in watch.parts.values() if part.intake.last), "")
        say(f"no line was a valid sample; the last one: {why}")
    more = f", {counted(watch.refused, 'sample')} of nodes beyond --most-nodes refused" if watch.refused else ""
    say(f"{counted(watch.samples, 'sample')} of {counted(nodes, 'node')}, {raised}, {bad}, {old} skipped{more}")
    return not useless


def open_source(service: Service) -> Source:
    """The source that the options name; one line here for a new one."""
    if service.kafka:
        from icvi_jax.watch.kafka import ConsumerGroup, Worker

        if service.folder is None:
            raise ValueError("--kafka: needs --checkpoint, a folder that all workers see")
        return Worker(ConsumerGroup(*service.kafka), service.folder)
    if service.mqtt:
        from icvi_jax.watch.mqtt import Subscription

        return Subscription(*service.mqtt, service.folder)
    return Stdin(service.folder)


def open_plugs(
    service: Service,
    pipe: Pipeline,
    buffers: RingBuffers | None,
    silences: Silences,
    fleet: Callable[[], WatchLoop] | None = None,
) -> list[Sink]:
    """The receivers that get more than alarms; a new one is one paragraph here. `fleet` returns the watch."""
    found: list[Sink] = []
    if service.alertmanager:
        from icvi_jax.watch.alertmanager import Alertmanager

        # an incident has no end that could be sent; workers of Kafka share the folder, and nodes move between them
        lone = not service.rules.told_together
        ending = [name for name, one in pipe.monitors.items() if isinstance(one, Distress) and lone]
        folder = None if service.kafka else service.folder
        for url in dict.fromkeys(service.alertmanager):
            one = Alertmanager(url, ending, page_link(service.page), folder, service.resend)
            silences.elsewhere[one.name] = one.silenced
            found.append(one)
    if service.home_assistant:
        from icvi_jax.watch.home_assistant import HomeAssistant

        broker = service.mqtt or service.alarms_mqtt
        if broker is None or buffers is None:
            raise ValueError("--home-assistant: needs a broker: --mqtt HOST TOPIC, or --alarms-mqtt HOST TOPIC")
        found.append(HomeAssistant(broker[0], buffers))
    if service.otlp and fleet:
        from icvi_jax.watch.otlp import Otlp

        found.append(Otlp(service.otlp, fleet, service.worst))
    return found


def page_link(page: str) -> str:
    """The address at which others find the page; empty where there is none."""
    host, _, port = page.rpartition(":")
    host = {"": "127.0.0.1", "0.0.0.0": socket.gethostname(), "[::]": socket.gethostname()}.get(host, host)
    return f"http://{host}:{port}/" if page and port != "0" else ""


@contextmanager
def _around(watch: WatchLoop, service: Service, to: list[Sink], silences: Silences) -> Iterator[Interrupts]:
    with ExitStack() as stack:
        buffers, interrupts = watch.buffers, Interrupts()
        stack.callback(interrupts.close)
        stack.enter_context(serving(watch, service.prometheus, service.address, service.worst, service.token))
        if buffers is not None and service.page:
            from icvi_jax.watch.server import page_served

            stack.enter_context(
                page_served(watch, buffers, service.page, service.token, service.worst, interrupts.busy)
            )
        for receiver in to:
            stack.callback(Sender(receiver, lambda: watch.stores, silences).start().close)
        yield interrupts


class Interrupts:
    """Ctrl-C and SIGTERM act between batches only: otherwise a sample could be lost, or counted twice after a restart.

    Both signals are handled until `close`; a second signal ends the process at once, like a kill. The first one raises
    nothing, not even while waiting: a handler may run inside anybody's code, such as a callback of the garbage
    collector, which prints the error and drops it. Sources give an empty batch at least every half second.
    """

    def __init__(self) -> None:
        self.asked = self.waiting = False
        self._since = time.monotonic()
        self.before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if self.asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.asked = True

    def between(self, batches: Iterable[Item]) -> Iterator[Item]:
        """Yield the batches until a signal has come; what a source has given by then is yielded too."""
        batches = iter(batches)
        while not self.asked:
            self.waiting = True
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._since, self.waiting = time.monotonic(), False
            yield batch

    def busy(self) -> float:
        """How many seconds the present batch has taken so far; 0 while waiting for the next one."""
        return 0.0 if self.waiting else time.monotonic() - self._since

    def close(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self.before.items():
            signal.signal(number, handler)
