"""The options that commands share, written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

DATA = Group("Data", sort_key=1)
MODEL = Group("Clusters and indices", sort_key=2)
ALARMS = Group("Alarms", sort_key=3)
OUTPUT = Group("Output", sort_key=4)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class Panel:
    """What judges the clusters, and how clusterers are set; which one is not said."""

    memory: float | None = None
    """Samples of a cluster that its centre remembers; `inf` forgets nothing. 50 for sk-means on a file."""
    slots: int | None = None
    """Prototypes of `merge-split`, several to a cluster; 16 if not given."""
    capacity: int | None = None
    """Most clusters that `oec` may open; 16 if not given."""
    set: Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE")] = ()
    """Further options of the clusterer, such as `gain=10 far=2.5`; `icvi clusterers` lists them."""
    index: tuple[str, ...] = ("xb", "db")
    """Indices to compute, or `all`; `icvi indices` lists them. The first one named raises alarms."""
    forgetting: float = 0.9
    """How much of the past each sample keeps: 0.9 remembers about 10 samples, 1 forgets nothing."""
    standardize: Annotated[bool | None, Parameter(negative="--no-standardize")] = None
    """Scale each column by the mean and spread of its first 200 rows, so that units do not matter. Done without being
    asked where the spreads of columns differ more than 10 times; `watch` always does."""


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class Model(Panel):
    """The same with a clusterer and its k."""

    clusterer: Annotated[str | None, Parameter(metavar="NAME")] = None
    """sk-means (the default), rebirth, fuzzy, merge-split, oec, …; `icvi clusterers` says what each is for."""
    k: Annotated[int | None, Parameter(name="-k")] = None
    """Number of clusters of sk-means and fuzzy (3 if not given), and most clusters of rebirth (10)."""


@Parameter(name="*", group=ALARMS)
@dataclass(frozen=True, kw_only=True)
class Alarms:
    """What raises alarms, and how many of them may be false."""

    false_alarms: Annotated[str, Parameter(metavar="N/ROWS|N/day")] = "10/10000"
    """False alarms you can live with: in so many rows of a stream (10/10000), or in a time (1/day, 2/hour) for the
    whole stream or fleet; all monitors share them. `none` promises nothing: an index has to get 6 times worse."""
    monitor: tuple[str, ...] = ("change", "distress")
    """Monitors to use; `icvi monitors` lists them."""
    patience: int = 100
    """Rows that the clusters may take to learn what is new, before it counts as distress."""
    settle: Annotated[int | None, Parameter(metavar="ROWS")] = None
    """Rows at the start in which nothing is said: 200 for changes of a column, 50 for an index, if not given."""
    interval: float | None = None
    """Seconds between two rows of a node, for false alarms an hour or a day; found in the file if not given."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class Data:
    """Which part of a file is meant."""

    columns: tuple[str, ...] = ()
    """Columns to use; if not given, all of numbers that look like readings, and the output says which do not."""
    time: str = ""
    """Column with the time; if not given, the first column of dates or of times since 1970."""
    every: str = ""
    """Take the mean in windows: of time (10min, 1h) or of rows (100)."""


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
    """Options kept in a file."""

    config: Path | None = None
    """TOML file with options, such as `index = ["xb", "ch"]`, for all commands or under `[run]`; what you type wins."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class Feed:
    """Where live samples come from."""

    mqtt: Annotated[tuple[str, str] | None, Parameter(metavar="HOST TOPIC")] = None
    """Subscribe to an MQTT broker instead of standard input; needs the extra `mqtt`."""
    kafka: Annotated[str, Parameter(metavar="HOST:PORT")] = ""
    """Read from Kafka, as one worker of a group; needs the extra `kafka` and --checkpoint, a folder all workers see."""
    topic: str = ""
    """Topic to read from Kafka; messages of one node should have one key, so that they are in one partition."""
    group: str = "icvi"
    """Group of workers that share the topic."""
    columns: tuple[str, ...] = ()
    """Keys to use; all numbers of the first sample, but for labels and identifiers, if not given."""
    time: str = ""
    """Key of the time; found by its name if not given."""
    node: str = "node"
    """Key that names the node; samples without it are of one node."""
    nodes: int | None = None
    """How many nodes there will be, to share false alarms an hour or a day."""
    keep_old: bool = False
    """Count a sample although its time is not later than that of the last one of its node; otherwise it is passed over,
    so that a file can be sent twice. Times are numbers or ISO dates, UTC where no zone is given."""
    late: float = 0.0
    """Seconds, by the times in the samples, to wait for samples that come late and put them in order."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class Site:
    """What a watch keeps, shows and passes on."""

    checkpoint: Path | None = None
    """Folder in which to keep what was learned: a restart goes on from there and loses nothing."""
    serve: Annotated[str, Parameter(metavar="HOST:PORT")] = ""
    """Serve a live page, health and metrics; needs the extra `serve`. Beyond this machine it asks for a token, that of
    ICVI_SERVE_TOKEN or one that is printed."""
    history: int = 240
    """Samples of each node that the page shows."""
    silent_after: float = 0.0
    """Seconds after which a node that says nothing raises an alarm; 0: never."""
    webhook: tuple[str, ...] = ()
    """Addresses to which each alarm is posted, until it has arrived."""
    alarms_mqtt: Annotated[tuple[str, str] | None, Parameter(metavar="HOST TOPIC")] = None
    """MQTT topic to which alarms are published."""
    alarms_kafka: Annotated[tuple[str, str] | None, Parameter(metavar="HOST:PORT TOPIC")] = None
    """Kafka topic to which alarms are sent."""
    prometheus: Annotated[int | None, Parameter(metavar="PORT")] = None
    """Serve metrics of the fleet and its worst nodes on a port of their own; needs the extra `prometheus`."""
    prometheus_address: str = "127.0.0.1"
    """Address to serve them on; nobody but this machine sees them unless told otherwise."""
    worst: int = 10
    """How many of the worst nodes have a metric of their own."""
