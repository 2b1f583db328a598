"""Run a pipeline over a table or a fleet in pieces: there is progress to show, and centres are noted after each."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.cli.clusterers import clusterer_in, described
from icvi_jax.cli.summary import with_bar
from icvi_jax.indices import catalogue
from icvi_jax.report.alarm_text import at, became_distress, count_alarms
from icvi_jax.report.health_text import HEALTH, reasons_of, trust_now
from icvi_jax.report.result import CHANGE, COLUMN_ALARMS, About, Result, missing_share, present
from icvi_jax.run import scan_chunks
from icvi_jax.tables.table import Fleet, Table, some_names
from icvi_jax.types import Array, State

PIECES = 64  # the centres are noted once per piece
LEAST, MOST_CELLS = 64, 20_000_000
RAISED = "raised"
"""The setting that says how many alarms there were."""
KEEP = ("values", "alarms", "centers", "cluster", "k", "seen", "outlier", "overflow", "surprise")
Kind = TypeVar("Kind", bound=np.generic)


def about(index: icvi.indices.Index) -> About:
    """Describe an index as the catalogue does."""
    entry = next(entry for entry in catalogue() if isinstance(index, entry.index))
    title = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", " ", entry.index.__name__)
    return About(title, index.goal, index.positive, entry.meaning.rstrip("."))


def compute(
    pipe: icvi.Pipeline,
    data: Table | Fleet,
    budget: icvi.Budget | None = None,
    settings: tuple[tuple[str, str], ...] = (),
    bar: bool = True,
) -> Result:
    """Run the pipeline over all samples; `settings` are added to those of the pipeline.

    The last chunk is filled up with missing samples, which change nothing. So all have one shape, and the pipeline is
    compiled once.
    """
    remember_programs()
    x = data.x[None] if isinstance(data, Table) else data.x
    nodes, steps, features = x.shape
    clusterer = clusterer_in(pipe)
    size = min(max(LEAST, -(-steps // PIECES)), max(1, MOST_CELLS // (nodes * clusterer.slots * features)))
    size = max(size, clusterer.least(features))
    starts = range(0, steps, size)
    ticks = iter(with_bar(starts, "validating") if bar else starts)
    centers: list[NDArray[np.float64]] = []

    def chunks() -> Iterator[Array]:
        for lo in starts:
            part = x[:, lo : lo + size]
            yield np.pad(part, ((0, 0), (0, size - part.shape[1]), (0, 0)), constant_values=np.nan)

    def noted(readings: icvi.Reading) -> icvi.Reading:
        next(ticks)
        centers.append(np.asarray(readings.centers[:, -1]))
        gone: dict[str, State] = {"centers": None}
        return readings._replace(**gone)

    state, readings = scan_chunks("run_fleet", "N, T, p", pipe, chunks(), keep=KEEP, each=noted)
    next(ticks, None)  # the bar goes

    def rows(a: Array, kind: type[Kind]) -> NDArray[Kind]:
        """Without the samples that were filled up."""
        return np.asarray(a)[:, :steps].astype(kind, copy=False)

    def alarms(field: str, kind: type[Kind]) -> dict[str, NDArray[Kind]]:
        return {name: rows(getattr(alarm, field), kind) for name, alarm in readings.alarms.items()}

    panel, codes = pipe.panel or icvi.Panel(indices=()), alarms("code", np.int8)
    scores = alarms("score", np.float32)  # monitors of columns give one to every sample
    scores |= {name: np.where(codes[name] > 0, scores[name], 0) for name in codes if name in COLUMN_ALARMS}
    result = Result(
        name=data.name,
        nodes=(data.name,) if isinstance(data, Table) else data.nodes,
        features=data.features,
        times=data.times,
        time_name=data.time_name,
        x=x,
        values={index.name: rows(readings.values[index.name], np.float32) for index in panel.indices},
        about={index.name: about(index) for index in panel.indices},
        codes=codes,
        standing=alarms("standing", np.bool_),
        score=scores,
        causes=alarms("cause", np.int32),
        chances=alarms("p", np.float32),
        label=rows(readings.cluster, np.int32),
        snapshots=np.minimum(np.array(starts) + size, steps) - 1,
        centers=np.stack(centers, axis=1),
        truth=data.truth if isinstance(data, Table) else None,
        marks=isinstance(data, Table) and data.marks,
        k=rows(readings.k, np.int32),
        seen=rows(readings.seen, np.bool_),
        outlier=rows(readings.outlier, np.bool_),
        overflow=rows(readings.overflow, np.bool_),
        surprise=rows(readings.surprise, np.float32),
    )
    rows_read = int(present(result).sum())
    raised = [] if budget is None else [(RAISED, measured(budget, *count_alarms(codes), rows_read))]
    reasons = reasons_of(pipe, state) if HEALTH in result.values and state is not None else []
    return result._replace(
        settings=(
            ("clusterer", described(clusterer)),
            ("forgetting", f"{float(panel.forgetting):g}"),
            ("standardized", f"by the first {pipe.standardize.warmup} samples" if pipe.standardize else "no"),
            *settings,
            *raised,
        ),
        trust=tuple(
            trust_now(row, why, lambda t: at(data.times, t)) for row, why in zip(result.values.get(HEALTH, ()), reasons)
        ),
        notes=(*data.notes, *about_missing(float(missing_share(result).mean())), *unheard(pipe, state, data.features)),
    )


def measured(budget: icvi.Budget, alarms: int, more: int, rows: int) -> str:
    """How many alarms were raised in so many rows, in the unit of the budget, and how many spikes became distress."""
    among = ", true ones among them" if alarms else ""
    return "; ".join(filter(None, (f"{budget.measured(alarms, rows)}{among}", became_distress(more))))


def about_missing(share: float) -> list[str]:
    """What to say of the share of samples that are missing."""
    return [f"{100 * share:.3g} % of the samples are missing or incomplete"] if share else []


def unheard(pipe: icvi.Pipeline, state: icvi.PipelineState | None, features: tuple[str, ...]) -> list[str]:
    """Columns that are not watched at the end, because their values hardly ever change."""
    monitor = pipe.monitors.get(CHANGE)
    if state is None or not isinstance(monitor, icvi.Change):
        return []
    muted = np.asarray(monitor.muted(state.monitors[CHANGE])).reshape(len(features), -1)
    names = []
    for feature, nodes in zip(features, muted):
        if nodes.any():
            names.append(feature + ("" if nodes.all() else f" ({int(nodes.sum())} of {len(nodes)} nodes)"))
    some = some_names(names)
    return [f"mute: most rows repeat the one before; not watched for changes: {some}"] if names else []


def remember_programs() -> None:
    """Keep compiled programs in the user's cache folder: compiling takes longer than computing most files.

    There is one folder per machine, since a program fits the processor it was compiled on. A cache that the user has
    set is left as it is; an empty `ICVI_CACHE` means no cache for native code.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    here = Path(home) / "icvi-jax" / platform.node()
    os.environ.setdefault("ICVI_CACHE", str(here / "native"))
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(here))
