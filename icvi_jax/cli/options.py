"""The options that commands share, written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

DATA = Group("Data", sort_key=1)
MODEL = Group("Clusters and indices", sort_key=2)
OUTPUT = Group("Output", sort_key=3)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class Panel:
    """What clusters the stream and what judges the clusters, but for k."""

    clusterer: Literal["sk-means", "oec"] | None = None
    """Sequential k-means, or online ellipsoidal clustering."""
    capacity: int = 16
    """Most clusters that `oec` may open."""
    index: tuple[str, ...] = ("xb", "db")
    """Indices to compute, or `all`; `icvi indices` lists them. The first one named raises the alarms."""
    forgetting: float = 0.9
    """How much of the past each sample keeps: 0.9 remembers about 10 samples, 1 forgets nothing."""
    standardize: Annotated[bool | None, Parameter(negative="--no-standardize")] = None
    """Scale each column by the mean and spread of its first 200 rows, so that units do not matter. Done without being
    asked where the spreads of columns differ more than 10 times; `watch` always does."""


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class Model(Panel):
    """The same with a k."""

    k: Annotated[int | None, Parameter(name="-k")] = None
    """Number of clusters, found by sequential k-means. Without it the ellipsoidal clusterer finds the number itself."""


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
