"""`icvi watch`: live samples from standard input or a broker, alarms on standard output."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import fields, replace
from pathlib import Path

from icvi_jax.cli.alarms import budget_of
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.clusterers import MANY, choosing_k, leaves_k_open
from icvi_jax.cli.compute import remember_programs
from icvi_jax.cli.options import Alarms, Config, Feed, Model, ServiceOptions
from icvi_jax.clusterers import SequentialKMeans
from icvi_jax.model_selection import Portfolio
from icvi_jax.monitors import Budget
from icvi_jax.terminal_text import say
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Rules
from icvi_jax.watch.service import Service, serve
from icvi_jax.watch.shard import kept_clusterer


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
    good = serve(
        pipe,
        lambda: Reader(feed.columns, feed.time, feed.node, feed.keep_codes),
        service_of(feed, site, alarms, budget),
    )
    return 0 if good else 2


def _choosing_k(model: Model, folder: Path | None, nodes: int | None) -> tuple[Model, list[str]]:
    """As for files; but a folder that was begun with one k, or with several, goes on with what it has."""
    kept = kept_clusterer(folder) if folder and leaves_k_open(model) else ""
    if kept:
        return replace(model, k="auto" if kept == Portfolio.__name__ else SequentialKMeans.usual), []
    if nodes is None and leaves_k_open(model):
        many = f"for more than {MANY:,} nodes give --nodes: it is {SequentialKMeans.usual} then, as in files"
        return choosing_k(model)[0], [f"k is chosen live; {many}"]
    return choosing_k(model, nodes or 1)


def service_of(feed: Feed, site: ServiceOptions, alarms: Alarms, budget: Budget | None = None) -> Service:
    """The service that the options describe; an error where they make no sense."""
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
    given = vars(feed) | vars(site)
    same = {field.name for field in fields(Service)} & given.keys()
    rules = Rules(
        keep_old=feed.keep_old,
        late=feed.late,
        silent_after=site.silent_after,
        every=10.0 if feed.kafka else 30.0,  # what is not in a checkpoint is read again from the log
        most_nodes=feed.most_nodes,
        agree=alarms.agree,
        budget=budget,
    )
    different = {
        "kafka": (feed.kafka, feed.topic, feed.group) if feed.kafka else None,
        "folder": folder,
        "address": site.prometheus_address,
        "page": site.serve,
        "token": os.environ.get("ICVI_SERVE_TOKEN", ""),
        "webhooks": site.webhook,
    }
    return Service(rules=rules, **{name: given[name] for name in same} | different)
