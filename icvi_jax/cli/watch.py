"""`icvi watch`: live samples from standard input or a broker, alarms on standard output."""

from __future__ import annotations

import io
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from icvi_jax.cli.alarms import budget_of
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.clusterers import MANY, choosing_k, leaves_k_open
from icvi_jax.cli.compute import remember_programs
from icvi_jax.cli.options import Alarms, Config, Feed, Model, ServiceOptions
from icvi_jax.clusterers import SequentialKMeans
from icvi_jax.model_selection import Portfolio
from icvi_jax.monitors import Distress
from icvi_jax.pipeline import Pipeline
from icvi_jax.terminal_text import counted, say
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Interrupts, Rules, WatchLoop
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.shard import kept_clusterer
from icvi_jax.watch.silences import ACKNOWLEDGED, Silences
from icvi_jax.watch.sinks import Sink
from icvi_jax.watch.source import Source, Stdin

UNSEEN_HISTORY = 64
"""Length of the history of a node where no page shows it: what the sentences of alarms look back at."""


def watch(
    *,
    feed: Feed = Feed(),
    model: Model = Model(),
    alarms: Alarms = Alarms(),
    site: ServiceOptions = ServiceOptions(),
    config: Config = Config(),
) -> int:
    """Validate live samples and print every alarm as a line of JSON.

    Reads JSON objects or CSV with a header, one sample per line, from standard input: `mosquitto_sub … | icvi watch`.
    """
    remember_programs()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the terminal uses
    budget = budget_of(alarms, nodes=feed.nodes)
    model, which = _choosing_k(model, site.checkpoint, feed.nodes)
    for note in which:
        say(note)
    pipe = pipeline_of(model, alarms=alarms, budget=budget)
    if budget is not None:
        say(f"to expect: {budget.leaving_out(pipe.monitors)}")
    _check(feed, site, alarms)
    rules = Rules(
        keep_old=feed.keep_old,
        late=feed.late,
        silent_after=site.silent_after,
        every=10.0 if feed.kafka else 30.0,  # what is not in a checkpoint is read again from the log
        most_nodes=feed.most_nodes,
        agree=alarms.agree,
        budget=budget,
    )
    return 0 if _serve(pipe, rules, feed, site) else 2


def _choosing_k(model: Model, folder: Path | None, nodes: int | None) -> tuple[Model, list[str]]:
    """As for files; but a folder that was begun with one k, or with several, goes on with what it has."""
    kept = kept_clusterer(folder) if folder and leaves_k_open(model) else ""
    if kept:
        return replace(model, k="auto" if kept == Portfolio.__name__ else SequentialKMeans.usual), []
    if nodes is None and leaves_k_open(model):
        many = f"for more than {MANY:,} nodes give --nodes: k is then {SequentialKMeans.usual}, as for files"
        return choosing_k(model)[0], [f"k is chosen live; {many}"]
    return choosing_k(model, nodes or 1)


def _check(feed: Feed, site: ServiceOptions, alarms: Alarms) -> None:
    """Refuse options that make no sense, alone or together."""
    folder = site.checkpoint
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint {folder}: is a file, expected a folder")
    for option, value in (("--late", feed.late), ("--silent-after", site.silent_after)):
        if not 0 <= value < float("inf"):
            raise ValueError(f"{option} {value:g}: expected seconds, 0 or more")
    if feed.most_nodes < 0:
        raise ValueError(f"--most-nodes {feed.most_nodes}: expected a number of nodes")
    if alarms.agree < 1:
        raise ValueError(f"--agree {alarms.agree}: expected 1 node or more")
    if site.history < 2:
        raise ValueError(f"--history {site.history}: expected 2 samples or more")
    if not feed.mqtt and ("+" in feed.node or "#" in feed.node):
        raise ValueError(f"--node {feed.node}: a pattern of topics needs --mqtt")
    if feed.kafka and not feed.topic:
        raise ValueError("--kafka: name the topic with --topic")
    if feed.topic and not feed.kafka:
        raise ValueError(f"--topic {feed.topic}: needs the address of the servers, --kafka HOST:PORT")
    if feed.group != Feed.group and not feed.kafka:
        raise ValueError(f"--group {feed.group}: needs the address of the servers, --kafka HOST:PORT")
    pairs = [("--mqtt", feed.mqtt), ("--alarms-mqtt", site.alarms_mqtt), ("--alarms-kafka", site.alarms_kafka)]
    pairs += [("--kafka", (feed.kafka, feed.group))] if feed.kafka else []
    for option, pair in pairs:
        if pair is not None and not all(map(str.strip, pair)):
            raise ValueError(f"{option} {' '.join(map(repr, pair))}: expected two words, none of them empty")
    if not all(map(str.strip, feed.columns)):
        raise ValueError("--columns: the name of a column is empty")
    if site.resend != ServiceOptions.resend and not site.alertmanager:
        raise ValueError(f"--resend {site.resend:g}: needs --alertmanager URL")
    if site.worst < 0:
        raise ValueError(f"--worst {site.worst}: expected a number of nodes")
    if feed.kafka and feed.mqtt:
        raise ValueError("--kafka and --mqtt: give only one of them")


def _serve(pipe: Pipeline, rules: Rules, feed: Feed, site: ServiceOptions) -> bool:
    """Continue from the last checkpoint, then process the input; returns whether any line was a valid sample."""
    folder, silences, buffers = site.checkpoint, Silences(site.checkpoint), None
    if site.serve or site.home_assistant:
        indices = [index.name for index in pipe.panel.indices] if pipe.panel else []
        history = site.history if site.serve else UNSEEN_HISTORY
        buffers = RingBuffers(indices, history, rules.silent_after, silences, Silences(folder, ACKNOWLEDGED))
    make_reader: Callable[[], Reader] = lambda: Reader(feed.columns, feed.time, feed.node, feed.keep_codes)  # noqa: E731
    watch = WatchLoop(pipe, make_reader, rules, buffers=buffers)
    sinks = open_sinks(feed, site, watch, silences)
    watch.sinks += tuple(sink.name for sink in sinks)
    if feed.kafka and rules.promises_incidents:
        say("an incident of the budget is one of the nodes of a partition; nodes of different partitions do not count")
    source = open_source(feed, folder)
    try:
        watch.begin(source)
        with _around(watch, site, sinks, silences) as interrupts:
            for batch in interrupts.between(source.batches()):
                watch.turn(batch)
            watch.end()  # while alarms are still sent; not after an error: a restart continues from the folder
        nodes = watch.nodes
        source.close()
    except BrokenPipeError:
        say(f"standard output was closed{'; a restart prints the alarms again' if folder else ''}")
        raise
    finally:
        watch.close()
    raised, bad, old = counted(watch.alarms, "alarm"), counted(watch.bad, "bad line"), counted(watch.old, "old sample")
    useless = watch.bad > 0 and watch.samples == 0
    if useless:
        why = next((part.reader.last for part in watch.parts.values() if part.reader.last), "")
        say(f"no line was a valid sample; the last one: {why}")
    more = f", {counted(watch.refused, 'sample')} of nodes beyond --most-nodes refused" if watch.refused else ""
    say(f"{counted(watch.samples, 'sample')} of {counted(nodes, 'node')}, {raised}, {bad}, {old} skipped{more}")
    return not useless


def open_source(feed: Feed, folder: Path | None) -> Source:
    """The source that the options name; one line here for a new one."""
    if feed.kafka:
        from icvi_jax.watch.kafka import ConsumerGroup, Worker

        if folder is None:
            raise ValueError("--kafka: needs --checkpoint, a folder that all workers see")
        return Worker(ConsumerGroup(feed.kafka, feed.topic, feed.group), folder)
    if feed.mqtt:
        from icvi_jax.watch.mqtt import Subscription

        return Subscription(*feed.mqtt, folder)
    return Stdin(folder)


def open_sinks(feed: Feed, site: ServiceOptions, watch: WatchLoop, silences: Silences) -> list[Sink]:
    """The receivers of alarms that the options name; a new one is one paragraph here."""
    from icvi_jax.watch.webhook import Webhook, read_template

    if (site.cloudevents or site.webhook_text) and not site.webhook:
        raise ValueError(f"{'--cloudevents' if site.cloudevents else '--webhook-text'}: needs --webhook URL")
    if site.cloudevents and site.webhook_text:
        raise ValueError("--cloudevents and --webhook-text: give only one of them")
    template = read_template(site.webhook_text) if site.webhook_text else None
    found: list[Sink] = [Webhook(url, site.cloudevents, template) for url in dict.fromkeys(site.webhook)]
    if site.alarms_mqtt:
        from icvi_jax.watch.mqtt import Publisher

        found.append(Publisher(*site.alarms_mqtt))
    if site.alarms_kafka:
        from icvi_jax.watch.kafka import Topic

        found.append(Topic(*site.alarms_kafka))
    if site.alertmanager:
        from icvi_jax.watch.alertmanager import Alertmanager

        # an incident has no end that could be sent; workers of Kafka share the folder, and nodes move between them
        lone = not watch.rules.told_together
        ending = [name for name, one in watch.pipe.monitors.items() if isinstance(one, Distress) and lone]
        folder = None if feed.kafka else site.checkpoint
        for url in dict.fromkeys(site.alertmanager):
            one = Alertmanager(url, ending, page_link(site.serve), folder, site.resend)
            silences.elsewhere[one.name] = one.silenced
            found.append(one)
    if site.home_assistant:
        from icvi_jax.watch.home_assistant import HomeAssistant

        broker = feed.mqtt or site.alarms_mqtt
        if broker is None or watch.buffers is None:
            raise ValueError("--home-assistant: needs a broker: --mqtt HOST TOPIC, or --alarms-mqtt HOST TOPIC")
        found.append(HomeAssistant(broker[0], watch.buffers))
    if site.otlp:
        from icvi_jax.watch.otlp import Otlp

        found.append(Otlp(site.otlp, watch, site.worst))
    for sink in found:
        say(f"alarms also go to {sink.name}")
    return found


def page_link(page: str) -> str:
    """The address at which others find the page; empty where there is none."""
    host, _, port = page.rpartition(":")
    host = {"": "127.0.0.1", "0.0.0.0": socket.gethostname(), "[::]": socket.gethostname()}.get(host, host)
    return f"http://{host}:{port}/" if page and port != "0" else ""


@contextmanager
def _around(watch: WatchLoop, site: ServiceOptions, sinks: list[Sink], silences: Silences) -> Iterator[Interrupts]:
    token = os.environ.get("ICVI_SERVE_TOKEN", "")
    with ExitStack() as stack:
        interrupts = Interrupts()
        stack.callback(interrupts.close)
        if site.prometheus is not None:
            from icvi_jax.watch.metrics import serving

            stack.enter_context(serving(watch, site.prometheus, site.prometheus_address, site.worst, token))
        if watch.buffers is not None and site.serve:
            from icvi_jax.watch.server import page_served

            page = page_served(watch, watch.buffers, site.serve, token, site.worst, interrupts.busy)
            stack.enter_context(page)
        for sink in sinks:
            stack.callback(Sender(sink, lambda: watch.stores, silences).start().close)
        yield interrupts
