"""The options that commands share, written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

DATA = Group("Data", sort_key=1)
MODEL = Group("Clusters and indices", sort_key=2)
ALARMS = Group("Alarms", sort_key=3)
OUTPUT = Group("Output", sort_key=4)
STDIN = "stdin:"
"""Replaces `-` while parsing: if SOURCE could begin with a hyphen, a mistyped option would be taken for it."""
Source = Annotated[str, Parameter(converter=lambda _type, tokens: tokens[0].value.replace(STDIN, "-"), group=DATA)]
InData = Parameter(group=DATA)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class PanelOptions:
    """Indices and the settings of clusterers, without the choice of a clusterer."""

    memory: float | None = None
    """How many samples of a cluster its centre remembers; `inf` forgets nothing. Default for sk-means on a file: 50."""
    slots: int | None = None
    """Number of prototypes of `merge-split`, which has several per cluster; 16 if not given."""
    capacity: int | None = None
    """Largest number of clusters of `oec`; 16 if not given."""
    set: Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE")] = ()
    """Further options of the clusterer, such as `gain=10 far=2.5`; `icvi clusterers` lists them."""
    index: tuple[str, ...] = ("xb", "db", "health")
    """Indices to compute, or `all`; `icvi indices` lists them. The first one named raises alarms. `health` is shown as
    trust: low, medium or high."""
    forgetting: float = 0.9
    """Weight of the past at each sample: 0.9 remembers about 10 samples, 1 forgets nothing."""
    standardize: Annotated[bool | None, Parameter(negative="--no-standardize")] = None
    """Scale each column by the mean and spread of its first 200 rows, so that units do not matter. This is
    the default for files and live feeds alike; built-in streams are left as they are."""


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class Model(PanelOptions):
    """The same, with a clusterer and its k."""

    clusterer: Annotated[str | None, Parameter(metavar="NAME")] = None
    """sk-means (the default), rebirth, fuzzy, merge-split, oec, …; `icvi clusterers` says what each one is for."""
    k: Annotated[int | Literal["auto"] | None, Parameter(name="-k", metavar="K|auto", show_choices=False)] = None
    """Number of clusters of sk-means and fuzzy; largest number of clusters of rebirth (10). `auto` runs 2 to 12 of
    them beside each other and shows the one that can be trusted most: the default for sk-means with up to 1,000 nodes
    (of a file, or --nodes of a watch); 3 with more."""


@Parameter(name="*", group=ALARMS)
@dataclass(frozen=True, kw_only=True)
class Alarms:
    """What raises alarms, and how many of them may be false."""

    false_alarms: Annotated[str, Parameter(metavar="N/ROWS|N/day")] = "10/10000"
    """False alarms you accept: per number of rows of each stream (10/10000), or per time (1/day, 2/hour) for the stream
    or fleet; all monitors share them. `none` promises no rate: an index has to get 6 times worse."""
    monitor: tuple[str, ...] = ("change", "distress", "stuck")
    """Monitors to use; `icvi monitors` lists them."""
    agree: Annotated[int, Parameter(metavar="NODES")] = 1
    """Report only alarms that so many nodes of a fleet raise within five minutes: what only one node has is left out.
    False alarms of several nodes at once are much rarer than those of one."""
    patience: int = 100
    """Rows that the clusters have to learn something new, before it counts as distress."""
    settle: Annotated[int | None, Parameter(metavar="ROWS")] = None
    """Rows at the start without alarms; if not given, 60 for changes of a column and 50 for an index."""
    jumps: Annotated[bool, Parameter(negative="", show=False)] = False
    """Deprecated, and does nothing: jumps are seen without it. Goes with 0.4."""
    season: Annotated[str, Parameter(metavar="ROWS|auto")] = "0"
    """Rows in a cycle, such as 144 for a day of ten-minute means: what a column usually is at that time of the cycle is
    taken from it before changes are looked for. The first cycle is only learned from. `auto` looks for a cycle in the
    whole file."""
    interval: float | None = None
    """Seconds between two rows of a node, for false alarms per hour or day; found in the file if not given."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class Data:
    """Which columns and rows of a file to use."""

    columns: tuple[str, ...] = ()
    """Columns to use; if not given, all columns of numbers that look like readings. The output names those left out."""
    time: str = ""
    """Column with the time; if not given, the first column of dates or of seconds since 1970."""
    every: str = ""
    """Take means in windows: of time (10min, 1h) or of rows (100)."""
    keep_codes: Annotated[bool, Parameter(negative="")] = False
    """Take error codes such as -9999, 65535 or 85 as readings; otherwise they are missing where they are far from the
    readings before them, and a note says so."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the files go."""

    out: Path = Path("icvi-out")
    """Folder for readings, plot and report."""
    readings: str = "readings.csv"
    """Name of the table of readings in that folder; its extension chooses .csv, .tsv or .parquet."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class Config:
    """Options from a file."""

    config: Path | None = None
    """TOML file with options, such as `index = ["xb", "ch"]`, for all commands or under `[run]` for one. Options on the
    command line take precedence."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Job:
    """What the commands for recordings share."""

    data: Data = Data()
    model: Model = Model()
    alarms: Alarms = Alarms()
    output: Output = Output()
    config: Config = Config()


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class Feed:
    """Where live samples come from."""

    mqtt: Annotated[tuple[str, str] | None, Parameter(metavar="HOST TOPIC")] = None
    """Subscribe to an MQTT broker instead of standard input; needs the extra `mqtt`."""
    kafka: Annotated[str, Parameter(metavar="HOST:PORT")] = ""
    """Read from Kafka, as one worker of a group; needs the extra `kafka` and --checkpoint, a folder shared by all
    workers."""
    topic: str = ""
    """Kafka topic to read; all messages of a node should have the same key, so that they are in one partition."""
    group: str = "icvi"
    """Group of workers that share the topic."""
    columns: tuple[str, ...] = ()
    """Keys to use; if not given, all numbers of the first sample except labels and identifiers."""
    time: str = ""
    """Key of the time; if not given, it is found by its name."""
    node: str = "node"
    """Key that names the node, or one of the usual names (`station_id`, `device`, …) where there is none of that name;
    samples without it belong to one node. With --mqtt also a pattern of topics: of `site/roof/3/state`,
    `site/+/+/state` takes roof/3."""
    nodes: int | None = None
    """How many nodes there will be: they share the false alarms per hour or day."""
    keep_old: bool = False
    """Also count a sample whose time is not later than the last one of its node. By default it is skipped, so that a
    file can be sent twice. Times are numbers or ISO dates, UTC where no zone is given."""
    keep_codes: Annotated[bool, Parameter(negative="")] = False
    """Take error codes such as -9999, 65535 or 85 as readings."""
    most_nodes: int = 0
    """Most nodes to watch; samples of further ones are refused and counted, with a message. If not given, as many as
    fit into a quarter of the memory, at most 1 GB."""
    late: float = 0.0
    """How many seconds, by the times in the samples, to wait for late samples and put them in order."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """What a watch keeps, shows and sends."""

    checkpoint: Path | None = None
    """Folder for the state: after a restart the watch continues from there and loses nothing."""
    serve: Annotated[str, Parameter(metavar="HOST:PORT")] = ""
    """Serve a live page, health and metrics; needs the extra `serve`. Other machines need a token: that of
    ICVI_SERVE_TOKEN, or one that is printed at the start."""
    history: int = 240
    """How many samples of each node the page shows."""
    silent_after: float = 0.0
    """Raise an alarm when a node has sent nothing for so many seconds; 0: never."""
    webhook: tuple[str, ...] = ()
    """Addresses to which each alarm is posted; repeated until it has arrived."""
    cloudevents: Annotated[bool, Parameter(negative="")] = False
    """Put alarms for webhooks into envelopes of CloudEvents (structured JSON)."""
    webhook_text: Annotated[str, Parameter(metavar="FILE")] = ""
    """JSON file that says what webhooks get instead: `{"text": "{node}: {text}"}` for Slack; `{…}` are keys of an
    alarm."""
    alertmanager: Annotated[tuple[str, ...], Parameter(metavar="URL")] = ()
    """Alertmanagers to which alarms are sent, again while they stand, and resolved when they are over; silences there
    also stop what goes to other receivers."""
    resend: Annotated[float, Parameter(metavar="SECONDS")] = 60.0
    """Seconds between two times that a standing alarm is sent to an Alertmanager."""
    home_assistant: Annotated[bool, Parameter(negative="")] = False
    """Make each node a device of Home Assistant, at the broker of --mqtt or --alarms-mqtt (MQTT discovery)."""
    otlp: Annotated[str, Parameter(metavar="URL")] = ""
    """OpenTelemetry receiver, such as http://collector:4318, for metrics and alarms; needs the extra `otlp`."""
    alarms_mqtt: Annotated[tuple[str, str] | None, Parameter(metavar="HOST TOPIC")] = None
    """MQTT topic to which alarms are published."""
    alarms_kafka: Annotated[tuple[str, str] | None, Parameter(metavar="HOST:PORT TOPIC")] = None
    """Kafka topic to which alarms are sent."""
    prometheus: Annotated[int | None, Parameter(metavar="PORT")] = None
    """Serve metrics of the fleet and its worst nodes on a separate port; needs the extra `prometheus`."""
    prometheus_address: str = "127.0.0.1"
    """Address to serve the metrics on; by default only this machine can read them."""
    worst: int = 10
    """How many of the worst nodes have their own metric."""
