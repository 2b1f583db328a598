"""`icvi fleet`: read many nodes, validate and rank them, write a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from icvi_jax.cli.build_pipeline import settle
from icvi_jax.cli.compute import compute
from icvi_jax.cli.fleet_out_of_core import FEW_ROWS, goes_large, large_command, nodes_with_few
from icvi_jax.cli.options import DATA, InData, Job, Source
from icvi_jax.cli.outputs import check_output, write_all
from icvi_jax.cli.summary import collect, join, say, tell_alarms, tell_source, tell_trust, tell_worst, tell_written
from icvi_jax.monitors import Budget
from icvi_jax.report.alarm_text import at
from icvi_jax.report.incidents import WITHIN, Incidents
from icvi_jax.report.result import ONE_CLUSTER, Result
from icvi_jax.tables import read_fleet
from icvi_jax.tables.table import seconds_of, some_names
from icvi_jax.terminal_text import counted

SHOWN = 10


def fleet(
    source: Source,
    /,
    *,
    node: Annotated[str, InData] = "",
    query: Annotated[str, Parameter(group=DATA, metavar="SQL")] = "",
    large: Annotated[bool | None, Parameter(group=DATA, negative="--no-large")] = None,
    job: Job = Job(),
) -> int:
    """Validate many nodes at once, rank them by distress, and write readings and a report.

    Parameters
    ----------
    source
        A long table with a node column, a wide table (`node_variable` columns), a folder with one file per node, or
        an NPZ file with an array (nodes, steps, features). Or a database, with --query: `duckdb:///data/plant.db`,
        `postgres://host/db`.
    node
        Column that names the node; if not given, it is found by its name (`node`, `station_id`, …).
    query
        What to ask the database: `SELECT node, time, celsius FROM readings`.
    large
        Never have the whole table in memory: all alarms are written, and readings and curves of the worst thousand
        nodes. The default for databases, and for Parquet with a node column that would take a quarter of the memory or
        is in several files. A run that was stopped goes on where it was.
    """
    if goes_large(source, node, query, large):
        return large_command(source, query, node, job)
    data, output, agree = job.data, job.output, job.alarms.agree
    check_output(output)
    if agree < 1:
        raise ValueError(f"--agree {agree}: expected 1 node or more")
    if source != "-" and Path(source).is_dir() and Path(source).resolve() == output.out.resolve():
        raise ValueError(f"--out {output.out}: is the folder of the data; choose another one for the results")
    fleet = read_fleet(source, data.columns, data.time, node, data.every, data.keep_codes)
    pipe, budget, settings, notes = settle(fleet, job.model, job.alarms)
    few = nodes_with_few(fleet.name, fleet.nodes, pipe, np.isfinite(fleet.x).all(axis=2).sum(axis=1), fleet.features)
    if few.size:
        sparse = fleet.features[int(np.isfinite(fleet.x[few]).sum(axis=(0, 1)).argmin())]
        names = some_names([fleet.nodes[n] for n in few])
        notes.append(f"{FEW_ROWS}: {names}; most is missing in {sparse!r}")
    result = compute(pipe, fleet._replace(notes=(*fleet.notes, *notes)), budget, settings)
    _summarize(result, write_all(result, output), agree, budget)
    return 0


def incidents_of(result: Result, agree: int, budget: Budget | None = None) -> list[str]:
    """A sentence for each time at which at least `agree` nodes had an alarm close to each other, or, where the budget
    promises incidents, for each of those."""
    times = np.arange(result.label.shape[1], dtype=float) if result.times is None else seconds_of(result.times)
    step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    dated = result.times is not None and result.times.dtype.kind == "M"
    group, found = Incidents(agree, max(WITHIN, step) if dated else 5 * step), dict[tuple[str, float], str]()
    group.follow(budget, step)
    raised = [(int(t), int(n), name) for name, codes in result.codes.items() for n, t in np.argwhere(codes % 2)]
    for t, n, name in sorted(raised):
        cause = int(result.causes[name][n, t]) if name in result.causes else -1
        column = result.features[cause] if cause >= 0 else ""
        text = group.add(result.nodes[n], float(times[t]), at(result.times, t), column, len(result.nodes))
        if text:
            found[group.members[0].node, group.members[0].at] = text
    return list(found.values())


def _summarize(result: Result, written: list[Path], agree: int = 1, budget: Budget | None = None) -> None:
    tell_source(result)
    times = np.arange(result.label.shape[1], dtype=float) if result.times is None else result.times
    found = join([collect(result, list(result.codes), np.arange(len(result.nodes)), lambda _, t: times[t])])
    tell_trust(result)
    tell_alarms(found, list(result.codes))
    told = incidents_of(result, max(agree, 2), budget) if len(result.nodes) > 1 else []
    promised = budget is not None and budget.agree > 1
    which = "as promised" if promised else f"{max(agree, 2)} nodes or more within minutes"
    say(f"incidents, {which}: {len(told) or 'none'}")
    for sentence in told[:SHOWN]:
        say(f"  {sentence}")
    lone = int((result.k.max(axis=1) == 1).sum())
    if lone:
        say(f"in {lone:,} of {counted(len(result.nodes), 'node')}: {ONE_CLUSTER}")
    tell_worst(found, result.nodes, result.features, list(result.codes), result.times is not None)
    tell_written(written)
