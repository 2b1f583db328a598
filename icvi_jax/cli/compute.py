"""A pipeline run over a table or a fleet in pieces, so that there is progress to show and centres to sample."""

from __future__ import annotations

import re
import sys

import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.cli.model import named
from icvi_jax.indices.catalogue import catalogue
from icvi_jax.report.result import About, Result
from icvi_jax.tables.table import Fleet, Table

PIECES = 64  # also how many times the centres are noted
LEAST, MOST_CELLS = 64, 20_000_000
FIELDS = ("label", "k", "seen", "outlier", "overflow")


def about(index: icvi.indices.Index) -> About:
    """Describe an index as the catalogue does."""
    entry = next(entry for entry in catalogue() if isinstance(index, entry.index))
    title = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", " ", entry.index.__name__)
    return About(title, index.goal, index.positive, entry.meaning.rstrip("."))


def compute(pipe: icvi.Pipeline, data: Table | Fleet) -> Result:
    """Run the pipeline over all samples.

    The last piece is filled up with missing samples, which change nothing, so that all pieces have one shape and
    compile once.
    """
    x = data.x[None] if isinstance(data, Table) else data.x
    nodes, steps, features = x.shape
    slots = pipe.clusterer.slots
    size = min(max(LEAST, -(-steps // PIECES)), max(1, MOST_CELLS // (nodes * slots * features)))
    size = max(size, pipe.clusterer.least(features))
    pieces = -(-steps // size)
    origin = _origin(x)
    padded = np.full((nodes, pieces * size, features), np.nan, np.float32)
    padded[:, :steps] = x - origin
    state, parts, snapshots, centers = None, [], [], []
    for piece in _progress(range(pieces), pieces):
        block = padded[:, piece * size : (piece + 1) * size]
        keep = ("values", "alarms", "centers", *FIELDS)
        if isinstance(data, Table):
            done = icvi.run(pipe, block[0], state=state, keep=keep)
            readings = _lead(done.readings)
        else:
            done = icvi.run_fleet(pipe, block, state=state, keep=keep)
            readings = done.readings
        state = done.state
        centers.append(np.asarray(readings.centers[:, -1]) + origin)
        snapshots.append(min((piece + 1) * size, steps) - 1)
        parts.append(readings._replace(centers=None))
    return _assemble(pipe, data, x, parts, np.array(snapshots), np.stack(centers, axis=1), steps)


def _origin(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first reading of each node and feature, (N, 1, p).

    Everything is computed in float32 about it: all indices are translation invariant, and at an offset of 1e6 float32
    would lose what matters.
    """
    first = np.argmax(np.isfinite(x), axis=1)[:, None]
    return np.nan_to_num(np.take_along_axis(x, first, axis=1))


def _lead(reading: icvi.Reading) -> icvi.Reading:
    """Give a single stream's readings the axis of a fleet of one."""
    import jax

    return jax.tree.map(lambda a: np.asarray(a)[None], reading)


def _progress(pieces: range, count: int):
    """Show a bar where there is a terminal and something to wait for."""
    if not sys.stderr.isatty() or count < 2:
        return pieces
    from rich.console import Console
    from rich.progress import track

    return track(pieces, "validating", console=Console(stderr=True), transient=True)


def _assemble(pipe, data, x, parts, snapshots, centers, steps) -> Result:
    """Put the pieces together, without what was filled up."""
    def joined(pick) -> NDArray[np.generic]:
        return np.concatenate([np.asarray(pick(part)) for part in parts], axis=1)[:, :steps]

    monitors = [monitor.name for monitor in pipe.monitors]
    single = isinstance(data, Table)
    return Result(
        name=data.name,
        nodes=(data.name,) if single else data.nodes,
        features=data.features,
        times=data.times,
        time_name=data.time_name,
        x=x,
        values={index.name: joined(lambda part: part.values[index.name]) for index in pipe.panel.indices},
        about={index.name: about(index) for index in pipe.panel.indices},
        codes={name: joined(lambda part: part.alarms[name].code).astype(np.int8) for name in monitors},
        standing={name: joined(lambda part: part.alarms[name].standing) for name in monitors},
        score={name: joined(lambda part: part.alarms[name].score) for name in monitors},
        snapshots=snapshots,
        centers=centers,
        truth=data.truth if single else None,
        settings=(("clusterer", named(pipe.clusterer)), ("forgetting", f"{float(pipe.panel.forgetting):g}"),
                  ("standardized", "running mean and spread" if pipe.standardize else "no")),
        notes=data.notes,
        **{field: joined(lambda part: getattr(part, field)) for field in FIELDS},
    )
