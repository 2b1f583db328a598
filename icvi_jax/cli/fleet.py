"""`icvi fleet`: many nodes from source to a ranked report."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from icvi_jax.cli.compute import compute
from icvi_jax.cli.model import about_model, pipeline_of, spreads_of
from icvi_jax.cli.options import Data, Model, Output
from icvi_jax.cli.outputs import check_output, write_all
from icvi_jax.cli.summary import at, tell_source
from icvi_jax.cli.terminal import say, tell_table, tell_written
from icvi_jax.report.result import ONE_CLUSTER, Result, distress_score, worst_first
from icvi_jax.tables import Fleet, TableError, read_fleet

SHOWN = 10


def fleet_command(source: str, node: str, data: Data, model: Model, output: Output) -> int:
    """Read, compute on all cores, rank, write."""
    check_output(output)
    fleet = read_fleet(source, data.columns, data.time, node, data.every)
    spreads = spreads_of(fleet)
    fleet = fleet._replace(notes=(*fleet.notes, *about_model(model, fleet.features, spreads)))
    pipe = pipeline_of(model, spreads=spreads)
    _check(fleet, pipe.clusterer.least(len(fleet.features)) + 1)
    result = compute(pipe, fleet)
    _summarize(result, write_all(result, output))
    return 0


def _check(fleet: Fleet, needed: int) -> None:
    """Refuse a fleet in which no node has enough readings; one in which some have is normal."""
    complete = np.isfinite(fleet.x).all(axis=2).sum(axis=1)
    if complete.max() < needed:
        best = int(np.argmax(complete))
        raise TableError(
            fleet.name,
            f"no node has the {needed} complete rows that are needed; {fleet.nodes[best]!r} has most, "
            f"{complete[best]} (choose columns with --columns, or windows with --every)",
            1,
            1,
        )


def _summarize(result: Result, written: list[Path]) -> None:
    """Print the worst nodes."""
    tell_source(result)
    name, score = next(iter(result.codes)), distress_score(result)
    codes, standing = result.codes[name], result.standing[name]
    say(
        f"{int(standing.any(axis=1).sum())} nodes were in distress at some time, "
        f"{int(standing[:, -1].sum())} still are; {int((codes == 1).sum()):,} spikes (by {name})"
    )
    rows = []
    for n in worst_first(result)[:SHOWN]:
        first = at(result, int(np.argmax(codes[n] > 0))) if codes[n].any() else "–"
        rows.append(
            (
                result.nodes[n],
                f"{score[n]:.3g}",
                str(int((codes[n] == 1).sum())),
                f"{100 * standing[n].mean():.3g} %",
                first,
            )
        )
    lone = int((result.k.max(axis=1) <= 1).sum())
    if lone:
        say(f"{lone} of {len(result.nodes)} nodes have {ONE_CLUSTER}")
    tell_table(("worst nodes", "score", "spikes", "in distress", "first alarm"), rows)
    tell_written(written)
