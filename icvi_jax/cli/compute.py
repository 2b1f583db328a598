"""Run a pipeline over a table or a fleet in pieces: there is progress to show, and centres are noted after each."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.cli.clusterers import clusterer_in, described
from icvi_jax.cli.summary import with_bar
from icvi_jax.indices import catalogue
from icvi_jax.pipeline import PipelineState
from icvi_jax.report.alarm_text import at, count_alarms
from icvi_jax.report.result import CHANGE, COLUMN_ALARMS, About, Result, missing_share
from icvi_jax.report.trust import HEALTH, Trust, reasons_of, trust_now
from icvi_jax.tables.table import Fleet, Table, some_names
from icvi_jax.types import Array

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

    The last piece is filled up with missing samples, which change nothing. So all pieces have one shape, and the
    pipeline is compiled once.
    """
    remember_programs()
    x = data.x[None] if isinstance(data, Table) else data.x
    nodes, steps, features = x.shape
    clusterer = clusterer_in(pipe)
    size = min(max(LEAST, -(-steps // PIECES)), max(1, MOST_CELLS // (nodes * clusterer.slots * features)))
    size = max(size, clusterer.least(features))
    pieces = -(-steps // size)
    padded = np.full((nodes, pieces * size, features), np.nan)
    padded[:, :steps] = x
    state: PipelineState | None = None
    parts: list[icvi.Reading] = []
    snapshots: list[int] = []
    centers: list[NDArray[np.float64]] = []
    for piece in with_bar(range(pieces), "validating") if bar else range(pieces):
        block = padded[:, piece * size : (piece + 1) * size]
        if isinstance(data, Table):
            done = icvi.run(pipe, block[0], state=state, keep=KEEP)
            readings = _lead(done.readings)
        else:
            done = icvi.run_fleet(pipe, block, state=state, keep=KEEP)
            readings = done.readings
        state = done.state
        centers.append(np.asarray(readings.centers[:, -1]))
        snapshots.append(min((piece + 1) * size, steps) - 1)
        parts.append(readings._replace(centers=np.zeros(0)))  # centres were noted above, once per piece
    result = _assemble(pipe, data, x, parts, np.array(snapshots), np.stack(centers, axis=1), steps)
    raised = () if budget is None else ((RAISED, measured(result, budget)),)
    return result._replace(
        settings=(*result.settings, *settings, *raised),
        trust=trusted(pipe, result, state),
        notes=(*result.notes, *unheard(pipe, state, data.features)),
    )


def measured(result: Result, budget: icvi.Budget) -> str:
    """How many alarms were raised, in the unit of the budget."""
    return measured_text(budget, *count_alarms(result.codes), int(np.isfinite(result.x).any(axis=2).sum()))


def measured_text(budget: icvi.Budget, alarms: int, more: int, rows: int) -> str:
    """The same, from the number of alarms, of distresses after a spike, and of rows."""
    among = ", true ones among them" if alarms else ""
    also = f"; {more:,} distress after a spike {'counts' if more == 1 else 'count'} with it" if more else ""
    return f"{budget.measured(alarms, rows)}{among}{also}"


def trusted(pipe: icvi.Pipeline, result: Result, state: PipelineState | None) -> tuple[Trust, ...]:
    """How far the clusters of each node can be trusted at the end, since when and why; empty without health."""
    values = result.values.get(HEALTH)
    if values is None or state is None:
        return ()
    return tuple(trust_now(row, why, lambda t: at(result, t)) for row, why in zip(values, reasons_of(pipe, state)))


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


def scores(score: dict[str, NDArray[np.float32]], codes: dict[str, NDArray[np.int8]]) -> dict[str, NDArray[np.float32]]:
    """Scores that are 0 where there is no alarm: monitors of columns give a score to every sample."""
    return {name: np.where(codes[name] > 0, one, 0) if name in COLUMN_ALARMS else one for name, one in score.items()}


def _lead(reading: icvi.Reading) -> icvi.Reading:
    """Add the stream axis of a fleet of one to the readings of a single stream."""
    import jax

    led: icvi.Reading = jax.tree.map(lambda a: np.asarray(a)[None], reading)
    return led


def _assemble(
    pipe: icvi.Pipeline,
    data: Table | Fleet,
    x: NDArray[np.float64],
    parts: list[icvi.Reading],
    snapshots: NDArray[np.int64],
    centers: NDArray[np.float64],
    steps: int,
) -> Result:
    """Join the pieces, without the samples that were filled up."""

    def joined(pick: Callable[[icvi.Reading], Array], kind: type[Kind]) -> NDArray[Kind]:
        pieces = [np.asarray(pick(part)) for part in parts]
        return np.concatenate(pieces, axis=1)[:, :steps].astype(kind, copy=False)

    def alarms(field: str, kind: type[Kind]) -> dict[str, NDArray[Kind]]:
        def of(name: str) -> NDArray[Kind]:
            return joined(lambda part: getattr(part.alarms[name], field), kind)

        return {name: of(name) for name in parts[0].alarms}

    def values(name: str) -> NDArray[np.float32]:
        return joined(lambda part: part.values[name], np.float32)

    panel = pipe.panel or icvi.Panel(indices=())
    seen = joined(lambda part: part.seen, np.bool_)
    codes = alarms("code", np.int8)
    settings = (
        ("clusterer", described(clusterer_in(pipe))),
        ("forgetting", f"{float(panel.forgetting):g}"),
        ("standardized", f"by the first {pipe.standardize.warmup} samples" if pipe.standardize else "no"),
    )
    result = Result(
        name=data.name,
        nodes=(data.name,) if isinstance(data, Table) else data.nodes,
        features=data.features,
        times=data.times,
        time_name=data.time_name,
        x=x,
        values={index.name: values(index.name) for index in panel.indices},
        about={index.name: about(index) for index in panel.indices},
        codes=codes,
        standing=alarms("standing", np.bool_),
        score=scores(alarms("score", np.float32), codes),
        causes=alarms("cause", np.int32),
        chances=alarms("p", np.float32),
        label=joined(lambda part: part.cluster, np.int32),
        snapshots=snapshots,
        centers=centers,
        truth=data.truth if isinstance(data, Table) else None,
        settings=settings,
        notes=data.notes,
        marks=isinstance(data, Table) and data.marks,
        k=joined(lambda part: part.k, np.int32),
        seen=seen,
        outlier=joined(lambda part: part.outlier, np.bool_),
        overflow=joined(lambda part: part.overflow, np.bool_),
        surprise=joined(lambda part: part.surprise, np.float32),
    )
    share = float(missing_share(result).mean())
    missing = [f"{100 * share:.3g} % of the samples are missing or incomplete"] if share else []
    return result._replace(notes=(*data.notes, *missing))


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
