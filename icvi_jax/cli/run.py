"""`icvi run`: read one stream, validate it, write a report."""

from __future__ import annotations

from icvi_jax import calibrate
from icvi_jax.cli.alarms import budget_of, in_season, settings_of
from icvi_jax.cli.clusterers import choosing_k, clusterer_in
from icvi_jax.cli.compute import compute
from icvi_jax.cli.model import about_model, pipeline_of, spreads_of
from icvi_jax.cli.options import Alarms, Data, Model, Output
from icvi_jax.cli.outputs import check_output, write_all
from icvi_jax.cli.source import check_length, table_of
from icvi_jax.cli.summary import summarize
from icvi_jax.report.result import judged_by_truth


def run_command(
    source: str, seed: int, label: str, format: str, data: Data, model: Model, alarms: Alarms, output: Output
) -> int:
    """Read, compute, write, and print what happened."""
    check_output(output)
    table, stream_k = table_of(source, seed, label, format, data)
    model = choosing_k(model, len(table.x)) if stream_k is None else model
    spreads = spreads_of(table)
    alarms, season = in_season(alarms, table)
    table = table._replace(notes=(*table.notes, *about_model(model, table.features, spreads), *season))
    budget = budget_of(alarms, table)
    pipe = pipeline_of(model, stream_k, alarms=alarms, budget=budget)
    check_length(table, clusterer_in(pipe).least(table.x.shape[1]) + 1)
    result = compute(pipe, table, budget, settings_of(alarms, budget, pipe))
    result = result._replace(settings=(*result.settings, *judged_by_truth(result)))
    written = write_all(result, output)
    summarize(result, written)
    return 0


def calibrate_command(source: str, replicas: int, data: Data, model: Model, alarms: Alarms) -> int:
    """Print the false-alarm rate that was really there, and the rate to ask for."""
    table, stream_k = table_of(source, 0, "", "auto", data)
    model = choosing_k(model, len(table.x)) if stream_k is None else model
    alarms, _ = in_season(alarms, table)
    pipe = pipeline_of(model, stream_k, alarms=alarms, budget=budget_of(alarms, table))
    found = calibrate(pipe, table.x, replicas=replicas)
    print(f"{found}\n--false-alarms {1e4 * found.ask:.3g}/10000")
    return 0
