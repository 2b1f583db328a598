"""Run: a pipeline over one recorded stream."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax

from icvi_jax.drive import engine
from icvi_jax.drive.lanes import scan_one
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run(NamedTuple):
    """What a run leaves: the final state, and the readings stacked over time.

    Attributes
    ----------
    state : go on from it with `run(pipe, more, state=run.state)`.
    readings : a `Reading` of arrays that lead with (T,), or (N, T) for a fleet; None in fields that were not kept.
    """

    state: PipelineState
    readings: Reading

    def plot(self, times: Sequence[object] | None = None) -> Figure:
        """A figure of the index values over `times` (sample numbers by default); needs matplotlib."""
        return importlib.import_module("icvi_jax.report.notebook").plot_readings(self.readings, times)

    def _repr_html_(self) -> str:
        return importlib.import_module("icvi_jax.report.notebook").html_of(self.readings)


def run(
    pipe: Pipeline,
    X: Array,
    state: PipelineState | None = None,
    keep: tuple[str, ...] = engine.FIELDS,
    backend: str = "jax",
    elapsed: Array | None = None,
) -> Run:
    """Scan one recorded stream.

    Parameters
    ----------
    pipe : the pipeline.
    X : (T, p), the samples: an array, or a pandas, polars or Arrow table. Rows that are not finite are missing.
    state : go on from this state; it is not consumed. None: from the first sample, warm-up included.
    keep : fields of the reading to stack; the others are None.
    backend : "jax" (compiled), "numpy" or "torch" (a plain loop).
    elapsed : (T,), time since the previous sample, in units of which one fades by the panel's forgetting.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.DaviesBouldin(),)))
    >>> icvi.run(pipe, icvi.streams.s3(seed=0).x).readings.values["db"].shape
    (2000,)
    """
    xp, X = engine.backend_arrays(backend, X)
    keep = engine.check_keep("run", keep)
    engine.check_samples("run", pipe, X, state, "T, p")
    elapsed = engine.check_elapsed("run", elapsed, X.shape[:1])
    if elapsed is not None:
        elapsed = xp.asarray(elapsed, dtype=X.dtype)
    if backend == "jax":
        state = engine.start_one(pipe, X.shape[1], X.dtype) if state is None else state
        traced = any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves((pipe, state, X)))
        in_kernel = not traced and all(device.platform == "cpu" for device in X.devices())
        return Run(*scan_one(pipe, state, X, elapsed, keep, in_kernel))
    if state is None:
        state = pipe.init(X.shape[1], xp=xp, dtype=X.dtype)
    return Run(*engine.loop(pipe, state, X, elapsed, keep, xp))
