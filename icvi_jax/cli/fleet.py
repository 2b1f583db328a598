"""`icvi fleet`: many nodes from source to a ranked report."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from icvi_jax.cli import one_line
from icvi_jax.cli.options import Data, Model, Output
from icvi_jax.tables import Fleet, TableError, read_fleet

SHOWN = 10


def fleet_command(source: str, node: str, data: Data, model: Model, output: Output) -> int:
    """Read, compute on all cores, rank, write."""
    fleet = read_fleet(source, data.columns, data.time, node, data.every)
    import icvi_jax as icvi

    icvi.use_all_cores()
    from icvi_jax.cli.compute import compute
    from icvi_jax.cli.model import pipeline_of
    from icvi_jax.cli.outputs import write_all

    pipe = pipeline_of(model)
    _check(fleet, pipe.clusterer.least(len(fleet.features)) + 1)
    result = compute(pipe, fleet)
    _summarize(result, write_all(result, output))
    return 0


def _check(fleet: Fleet, needed: int) -> None:
    """Refuse a fleet in which no node has enough readings; one in which some have is normal."""
    complete = np.isfinite(fleet.x).all(axis=2).sum(axis=1)
    if complete.max() < needed:
        best = int(np.argmax(complete))
        raise TableError(fleet.name, f"no node has the {needed} complete rows that are needed; {fleet.nodes[best]!r} has most, "
                                     f"{complete[best]} (choose columns with --columns, or windows with --every)", 1, 1)


def _summarize(result, written: list[Path]) -> None:
    """Print the worst nodes."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from icvi_jax.cli.summary import span
    from icvi_jax.monitors.story import clock
    from icvi_jax.report.result import distress_score, worst_first

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(one_line(result.name))}[/]: {len(result.nodes):,} nodes, {span(result)}, "
                  f"{escape(one_line(', '.join(result.features)))}")
    for word, value in result.settings:
        console.print(f"  {word}: {escape(value)}")
    for note in (*result.notes, f"{100 * float((~result.seen).mean()):.3g} % of the samples are missing or incomplete"):
        console.print(f"  note: {escape(one_line(note))}")
    name, order, score = next(iter(result.codes)), worst_first(result), distress_score(result)
    codes, standing = result.codes[name], result.standing[name]
    console.print(f"{int(standing.any(axis=1).sum())} nodes were in distress at some time, {int(standing[:, -1].sum())} still are; "
                  f"{int((codes == 1).sum()):,} spikes (by {name})")
    table = Table("worst nodes", "score", "spikes", "in distress", "first alarm", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n in order[:SHOWN]:
        first = int(np.argmax(codes[n] > 0)) if codes[n].any() else None
        at = "–" if first is None else clock(result.times[first]) if result.times is not None else f"sample {first}"
        table.add_row(escape(one_line(result.nodes[n])), f"{score[n]:.3g}", str(int((codes[n] == 1).sum())),
                      f"{100 * standing[n].mean():.3g} %", at)
    console.print(table)
    for path in written:
        console.print(f"wrote {escape(str(path))}")
