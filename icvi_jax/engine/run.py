"""Run: a pipeline over one recorded stream."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.engine import inputs
from icvi_jax.engine.engine import Engine, Walk, fresh
from icvi_jax.engine.loop import loop
from icvi_jax.engine.scan import scan_step
from icvi_jax.numerics.arrays import namespace
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Reading, State

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run(NamedTuple):
    """The result of a run: the final state, and the readings stacked over time.

    Attributes
    ----------
    state : `run(pipe, more, state=run.state)` continues from it.
    readings : a `Reading` of arrays whose first axes are (T,), or (N, T) for a fleet; None in fields that were not
    kept.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> run = icvi.run(pipe, icvi.streams.s1(seed=0).x)
    >>> run.readings.values["xb"].shape == run.readings.k.shape
    True
    """

    state: PipelineState
    readings: Reading

    def plot(self, times: Sequence[object] | None = None) -> Figure:
        """A figure of the index values over `times` (sample numbers by default); needs matplotlib."""
        figure: Figure = importlib.import_module("icvi_jax.report.notebook").plot_readings(self.readings, times)
        return figure

    def _repr_html_(self) -> str:
        return str(importlib.import_module("icvi_jax.report.notebook").html_of(self.readings))


def run(
    pipe: Pipeline,
    X: Array,
    state: PipelineState | None = None,
    keep: tuple[str, ...] = inputs.FIELDS,
    backend: str | None = None,
    elapsed: Array | None = None,
) -> Run:
    """Scan one recorded stream.

    Parameters
    ----------
    pipe : the pipeline.
    X : (T, p), the samples: an array, or a pandas, polars or Arrow table. Rows that are not finite are missing.
    state : continue from this state; it is not consumed. None: from the first sample, with warm-up.
    keep : fields of the reading to stack; the others are None.
    backend : "jax", "numpy" or "torch", the library of the results; None: that of X, NumPy for lists and tables.
    elapsed : (T,), time since the previous sample; the panel's forgetting is per unit of this time.

    Returns
    -------
    The state, and the readings, arrays whose first axis is (T,). The state is float32, or float64 if the samples are
    and `jax_enable_x64` is on; for torch tensors, and with "numpy" or "torch", it has the precision of X. In all cases
    samples lose no digits: the origin of each column, its first value, is subtracted in the precision of the samples.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.DaviesBouldin(),)))
    >>> icvi.run(pipe, icvi.streams.s3(seed=0).x).readings.values["db"].shape
    (2000,)
    """
    keep = inputs.wanted("run", keep)
    given = inputs.given("run", X, backend)
    inputs.fits("run", pipe, given.x, state, "T, p")
    elapsed = inputs.gaps("run", elapsed, given.x.shape[:1])
    if not given.host or inputs.traced(pipe, state, elapsed):
        return Run(*elsewhere(pipe, given, state, given.x, elapsed, keep))
    engine = Engine(pipe, started(pipe, given, state, 1), keep)
    gaps = None if elapsed is None else np.asarray(elapsed)
    readings = engine.advance(np.asarray(given.x)[None], gaps)
    one = jax.tree.map(lambda a: a[..., 0], engine.end()), jax.tree.map(lambda a: a[0], readings)
    return Run(*inputs.returned(one, given.library))


def started(pipe: Pipeline, given: inputs.Given, state: PipelineState | None, streams: int) -> PipelineState:
    """A state (…, N) of NumPy arrays to continue from."""
    if state is None:
        return fresh(pipe, given.x.shape[-1], streams, given.dtype)
    found: PipelineState = inputs.on_host(state)
    return found if found.anchor.high.ndim == 2 else jax.tree.map(lambda a: a[..., None], found)


def elsewhere(
    pipe: Pipeline,
    given: inputs.Given,
    state: PipelineState | None,
    X: Array,
    elapsed: Array | None,
    keep: tuple[str, ...],
) -> tuple[PipelineState, Reading]:
    """Scan X (T, p) where it is: traced, on another device, or with gradients of torch."""
    xp = namespace(X) if given.library == "torch" else jnp
    scan: Callable[..., State] = loop if given.library == "torch" else scan_step
    X = X if given.library == "torch" else jnp.asarray(X)
    if state is None:
        state = pipe.init(X.shape[1], tuple(X.shape[2:]), xp=xp, dtype=X.dtype)
    elif given.library != "torch":
        state = jax.tree.map(jnp.asarray, state)
    gaps = None if elapsed is None else xp.asarray(elapsed, dtype=X.dtype)
    made = scan(Walk(keep), pipe, state, X, gaps)
    state, readings = inputs.on_host(made) if given.library == "numpy" and not inputs.traced(made) else made
    return state, readings
