"""A pipeline run over a table or a fleet in pieces, so that there is progress to show and centres to sample."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.cli.clusterers import described
from icvi_jax.cli.programs import remember_programs
from icvi_jax.cli.terminal import with_bar
from icvi_jax.indices.catalogue import catalogue
from icvi_jax.report.result import CHANGE, About, Result
from icvi_jax.tables.table import Fleet, Table, some_names

PIECES = 64  # also how many times the centres are noted
LEAST, MOST_CELLS = 64, 20_000_000
FIELDS = ("k", "seen", "outlier", "overflow", "surprise")


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
) -> Result:
    """Run the pipeline over all samples; `settings` are said beside those of the pipeline.

    The last piece is filled up with missing samples, which change nothing, so that all pieces have one shape and
    compile once.
    """
    remember_programs()
    x = data.x[None] if isinstance(data, Table) else data.x
    nodes, steps, features = x.shape
    slots = pipe.clusterer.slots
    size = min(max(LEAST, -(-steps // PIECES)), max(1, MOST_CELLS // (nodes * slots * features)))
    size = max(size, pipe.clusterer.least(features))
    pieces = -(-steps // size)
    padded = np.full((nodes, pieces * size, features), np.nan)
    padded[:, :steps] = x
    state, parts, snapshots, centers = None, [], [], []
    for piece in with_bar(range(pieces), "validating"):
        block = padded[:, piece * size : (piece + 1) * size]
        keep = ("values", "alarms", "centers", "cluster", *FIELDS)
        if isinstance(data, Table):
            done = icvi.run(pipe, block[0], state=state, keep=keep)
            readings = _lead(done.readings)
        else:
            done = icvi.run_fleet(pipe, block, state=state, keep=keep)
            readings = done.readings
        state = done.state
        centers.append(np.asarray(readings.centers[:, -1]))
        snapshots.append(min((piece + 1) * size, steps) - 1)
        parts.append(readings._replace(centers=None))
    result = _assemble(pipe, data, x, parts, np.array(snapshots), np.stack(centers, axis=1), steps)
    raised = () if budget is None else (("raised", measured(result, budget)),)
    return result._replace(
        settings=(*result.settings, *settings, *raised), notes=(*result.notes, *unheard(pipe, state, data.features))
    )


def measured(result: Result, budget: icvi.Budget) -> str:
    """How many alarms were raised, counted as the budget counts them."""
    alarms = sum(int((codes == 1).sum()) for codes in result.codes.values())
    return f"{budget.measured(alarms, int(np.isfinite(result.x).any(axis=2).sum()))}, true ones among them"


def unheard(pipe: icvi.Pipeline, state: icvi.PipelineState, features: tuple[str, ...]) -> list[str]:
    """Which columns are not watched at the end since their values hardly ever move."""
    monitor = pipe.monitors.get(CHANGE)
    if not isinstance(monitor, icvi.Change):
        return []
    muted = np.asarray(monitor.muted(state.monitors[CHANGE])).reshape(len(features), -1)
    names = []
    for feature, nodes in zip(features, muted):
        if nodes.any():
            names.append(feature + ("" if nodes.all() else f" ({int(nodes.sum())} of {len(nodes)} nodes)"))
    some = some_names(names)
    return [f"mute, since most rows just repeat the one before; not watched for changes: {some}"] if names else []


def scores(score: dict[str, NDArray[np.float32]], codes: dict[str, NDArray[np.int8]]) -> dict[str, NDArray[np.float32]]:
    """Scores that are 0 where all is well: columns say how rare each sample is, and only alarms count here."""
    return {name: np.where(codes[name] > 0, one, 0) if name == CHANGE else one for name, one in score.items()}


def _lead(reading: icvi.Reading) -> icvi.Reading:
    """Give a single stream's readings the axis of a fleet of one."""
    import jax

    return jax.tree.map(lambda a: np.asarray(a)[None], reading)


def _assemble(pipe, data, x, parts, snapshots, centers, steps) -> Result:
    """Put the pieces together, without what was filled up."""

    def joined(pick: Callable[[icvi.Reading], NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([np.asarray(pick(part)) for part in parts], axis=1)[:, :steps]

    def alarms(field: str) -> dict[str, NDArray[np.generic]]:
        return {m.name: joined(lambda part, m=m: getattr(part.alarms[m.name], field)) for m in pipe.monitors.values()}

    single, indices = isinstance(data, Table), pipe.panel.indices
    seen = joined(lambda part: part.seen)
    missing = [] if seen.all() else [f"{100 * (~seen).mean():.3g} % of the samples are missing or incomplete"]
    codes = {name: code.astype(np.int8) for name, code in alarms("code").items()}
    settings = (
        ("clusterer", described(pipe.clusterer)),
        ("forgetting", f"{float(pipe.panel.forgetting):g}"),
        ("standardized", f"by the first {pipe.standardize.warmup} samples" if pipe.standardize else "no"),
    )
    return Result(
        name=data.name,
        nodes=(data.name,) if single else data.nodes,
        features=data.features,
        times=data.times,
        time_name=data.time_name,
        x=x,
        values={index.name: joined(lambda part, name=index.name: part.values[name]) for index in indices},
        about={index.name: about(index) for index in indices},
        codes=codes,
        standing=alarms("standing"),
        score=scores(alarms("score"), codes),
        causes=alarms("cause"),
        chances=alarms("p"),
        label=joined(lambda part: part.cluster),
        snapshots=snapshots,
        centers=centers,
        truth=data.truth if single else None,
        settings=settings,
        notes=(*data.notes, *missing),
        marks=single and data.marks,
        **{field: joined(lambda part, field=field: getattr(part, field)) for field in FIELDS},
    )
