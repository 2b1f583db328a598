"""The files that a command writes: readings, plot and report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from icvi_jax.cli.options import Output
from icvi_jax.report.alarm_text import alarm_word
from icvi_jax.report.page import page
from icvi_jax.report.plot import figure
from icvi_jax.report.result import COLUMN_ALARMS, Result
from icvi_jax.tables import whole, write_table
from icvi_jax.tables.write import check_extension


def readings_columns(result: Result) -> tuple[dict[str, NDArray[np.generic]], dict[str, tuple[str, ...]]]:
    """Columns of the table of readings, and the words that the numbers in some of them stand for."""
    nodes, steps = result.label.shape
    columns: dict[str, NDArray[np.generic]] = {}
    words: dict[str, tuple[str, ...]] = {}
    if nodes > 1:
        columns["node"] = np.repeat(np.arange(nodes), steps)
        words["node"] = result.nodes
    columns["sample"] = np.tile(np.arange(steps), nodes)
    if result.times is not None:
        columns[result.time_name if result.time_name not in ("", "sample", "node") else "time"] = np.tile(
            result.times, nodes
        )
    for name, values in result.values.items():
        columns[name] = values.reshape(-1)
    columns |= {"cluster": result.label.reshape(-1), "clusters": result.k.reshape(-1)}
    if result.surprise is not None:
        columns["surprise"] = result.surprise.reshape(-1)
    columns |= {"seen": result.seen.reshape(-1), "outlier": result.outlier.reshape(-1)}
    for name, codes in result.codes.items():
        columns[f"{name}_alarm"] = codes.reshape(-1)
        words[f"{name}_alarm"] = ("", *(alarm_word(name, code) for code in (1, 2, 3)))
        if name not in COLUMN_ALARMS:
            columns[f"{name}_distress"] = result.standing[name].reshape(-1)
        else:
            columns[f"{name}_column"] = np.where(codes > 0, result.causes[name], -1).reshape(-1) + 1
            words[f"{name}_column"] = ("", *result.features)
            columns[f"{name}_p"] = result.chances[name].reshape(-1)
    if nodes > 1:  # on a common grid most rows of a node may be empty
        there = np.isfinite(result.x).any(axis=2).reshape(-1)
        columns = {name: values[there] for name, values in columns.items()}
    return columns, words


def check_output(output: Output) -> None:
    """Refuse output that cannot be written, before anything is computed."""
    if output.out.exists() and not output.out.is_dir():
        raise ValueError(f"--out {output.out}: is a file, expected a folder")
    if Path(output.readings).name != output.readings:
        raise ValueError(f"--readings {output.readings}: expected a name without a folder (--out is the folder)")
    check_extension(Path(output.readings))


def write_all(result: Result, output: Output) -> list[Path]:
    """Write all files and return their paths."""
    paths = [output.out / name for name in (output.readings, "plot.png", "report.html")]
    write_table(paths[0], *readings_columns(result))
    with whole(paths[1]) as draft:
        figure(result).savefig(draft, format="png", dpi=140)
    with whole(paths[2]) as draft:
        draft.write_text(page(result), encoding="utf-8")
    return paths
