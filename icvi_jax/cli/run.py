"""`icvi run` and `icvi calibrate`: read one stream, validate it, write a report."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

import icvi_jax as icvi
from icvi_jax.cli.build_pipeline import settle
from icvi_jax.cli.clusterers import clusterer_in
from icvi_jax.cli.compute import compute
from icvi_jax.cli.options import Alarms, Config, Data, InData, Job, Model, Source
from icvi_jax.cli.outputs import check_output, write_all
from icvi_jax.cli.summary import summarize
from icvi_jax.report.result import judged_by_truth
from icvi_jax.streams import catalogue, read_gas, read_sensorscope
from icvi_jax.streams.readers import SENSORS
from icvi_jax.tables import Table, TableError, read, resample
from icvi_jax.tables.window_means import seconds


def table_of(source: str, seed: int, label: str, format: str, data: Data) -> tuple[Table, int | None]:
    """Read the source; returns the table, and the k of a built-in stream."""
    if source in catalogue():
        entry = catalogue()[source]
        if data.columns or data.time or label:
            raise ValueError(f"--columns, --time and --label are for files; {source} is a built-in stream")
        stream = entry.function(seed=seed)
        table = Table(source, stream.features, stream.x, truth=np.asarray(stream.mode))
        return (resample(table, data.every) if data.every else table), entry.k
    if format != "auto":
        return _published(source, format, data), None
    if source != "-" and not Path(source).exists():
        raise TableError(source, f"there is no such file; built-in streams are {', '.join(catalogue())}")
    table = read(source, data.columns, data.time, label, data.keep_codes)
    return (resample(table, data.every) if data.every else table), None


def _published(source: str, format: str, data: Data) -> Table:
    """Read a SensorScope or gas sensor file with the readers that know it."""
    if not Path(source).is_file():
        raise TableError(source, "there is no such file")
    every = data.every
    if format == "sensorscope":
        minutes = (seconds(every) or 0) / 60 if every else 10
        if minutes != int(minutes) or minutes < 1:
            raise ValueError(f"--every {every}: expected whole minutes for this format, such as 10min")
        some = partial(read_sensorscope, source, None, None, None, minutes=int(minutes))
        found = some(features=data.columns) if data.columns else some()
    else:
        for name in data.columns:
            if name not in SENSORS:
                raise ValueError(f"--columns {name}: the sensors are {', '.join(SENSORS)}")
        length = seconds(every) if every else 1.0
        rows = int(float(every)) if length is None else round(100 * length)
        mean = partial(read_gas, source, rows=max(1, rows))
        found = mean(sensors=[1 + SENSORS.index(name) for name in data.columns]) if data.columns else mean()
    truth = found.mode if found.changes else None
    return Table(Path(source).name, found.features, found.x, found.times, "time", truth)


def check_length(table: Table, needed: int) -> None:
    """Refuse a stream that is too short for a first value."""
    complete = int(np.isfinite(table.x).all(axis=1).sum())
    if complete == 0:
        sparse = int(np.argmin(np.isfinite(table.x).sum(axis=0)))
        raise TableError(
            table.name,
            "no row has a reading in every column; this column has the fewest (choose others with --columns)",
            1,
            None,
            table.features[sparse],
        )
    if complete < needed:
        raise TableError(
            table.name,
            f"too few rows with a reading in every column: {complete}; the first value comes with row {needed}",
        )


def run(
    source: Source = "s2",
    /,
    *,
    seed: Annotated[int, InData] = 0,
    label: Annotated[str, InData] = "",
    format: Annotated[Literal["auto", "sensorscope", "gas"], InData] = "auto",
    job: Job = Job(),
) -> int:
    """Validate the clustering of one stream and write readings, a plot and a report.

    Parameters
    ----------
    source
        A file (CSV, TSV, Parquet, NPY, NPZ; `-` is standard input) or a built-in stream: `s1`, `s2`, `s3`.
    seed
        Seed of a built-in stream.
    label
        Column with the true class of each row, or 1 in events; if not given, a column called `label`. Terminal and
        report say how many true changes the alarms found, how late, how many were false, and what chance would get.
    format
        `sensorscope`: a meteo file of that project. `gas`: a file of the UCI gas sensor array. `auto`: a plain table.
    """
    check_output(job.output)
    table, stream_k = table_of(source, seed, label, format, job.data)
    pipe, budget, settings, notes = settle(table, job.model, job.alarms, stream_k)
    check_length(table, clusterer_in(pipe).least(table.x.shape[1]) + 1)
    result = compute(pipe, table._replace(notes=(*table.notes, *notes)), budget, settings)
    result = result._replace(settings=(*result.settings, *judged_by_truth(result)))
    summarize(result, write_all(result, job.output))
    return 0


def calibrate(
    source: Source,
    /,
    *,
    replicas: Annotated[int, InData] = 200,
    data: Data = Data(),
    model: Model = Model(),
    alarms: Alarms = Alarms(),
    config: Config = Config(),
) -> int:
    """Measure the false-alarm rate on quiet streams made like the rows of a file, and say which rate to ask for.

    Parameters
    ----------
    source
        A file (CSV, TSV, Parquet, NPY, NPZ; `-` is standard input) or a built-in stream: `s1`, `s2`, `s3`.
    replicas
        Number of quiet streams that are made.
    """
    table, stream_k = table_of(source, 0, "", "auto", data)
    pipe = settle(table, model, alarms, stream_k).pipe
    try:
        found = icvi.calibrate(pipe, table.x, replicas=replicas)
    except ValueError as error:
        monitors = f"--monitor {' '.join(alarms.monitor)}"
        options = {"pipe": monitors, "X": table.name, "replicas": f"--replicas {replicas}"}
        raise ValueError(re.sub(r"^calibrate\((\w+)=[^)]*\)", lambda one: options[one[1]], str(error))) from None
    print(found)
    if found.ask > 0:
        print(f"--false-alarms {1e4 * found.ask:.3g}/10000")
    return 0
