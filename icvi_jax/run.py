"""Run a pipeline over one recorded stream, or over many: arrays, tables or chunks go in, a `Run` comes out."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import array_api_compat
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from icvi_jax.engine import inputs
from icvi_jax.engine.executor import Engine, begin, numbers_each
from icvi_jax.engine.scan import PipelineStep
from icvi_jax.engine.xla import scan_fleet
from icvi_jax.monitors import Budget
from icvi_jax.numerics.arrays import namespace
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.spec import made, whole
from icvi_jax.types import Array, Reading, State

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int | None], None]
"""Progress callback: samples done, over all streams, and how many there are (None for an iterator)."""


class _Made(NamedTuple):
    """State and readings; `Run` adds what it knows of the samples, which is no part of the pair."""

    state: PipelineState
    readings: Reading


class Run(_Made):
    """The result of a run: the final state, and the readings stacked over time.

    It also has `samples` and `features`, the samples (T, p) or (N, T, p) and the names of their columns, for sentences;
    they are None and empty where samples came in chunks.

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
    >>> print(run)
    Run: 1,973 samples
    xb (small is good): first 0.135, median 0.0621, worst 0.497, last 0.0634
    clusters at the end: 2
    """

    samples: Array | None = None
    features: tuple[str, ...] = ()

    def summary(self) -> str:
        """What the command `icvi run` says: sizes, index values, and each alarm in a sentence."""
        return str(_report().summary_of(self))

    def to_frame(self, library: str | None = None) -> object:
        """The readings as a table, a row for each sample: "pandas", "polars" or "pyarrow"; None: the first of them
        that is installed. Needs narwhals."""
        frame: object = _report().frame_of(self, library)
        return frame

    def __repr__(self) -> str:
        return self.summary()

    def plot(self, times: Sequence[object] | None = None) -> Figure:
        """A figure of the index values over `times` (sample numbers by default); needs matplotlib."""
        figure: Figure = _report().plot_readings(self.readings, times)
        return figure

    def _repr_html_(self) -> str:
        return str(_report().html_of(self))


def _report() -> State:
    return importlib.import_module("icvi_jax.report.notebook")


def run(
    pipe: Pipeline,
    X: Array | Iterator[Array],
    state: PipelineState | None = None,
    keep: tuple[str, ...] = inputs.FIELDS,
    backend: str | None = None,
    elapsed: Array | None = None,
    every: int = 1,
    progress: Progress | None = None,
) -> Run:
    """Scan one recorded stream.

    Parameters
    ----------
    pipe : the pipeline.
    X : (T, p), the samples: an array, or a pandas, polars or Arrow table. Rows that are not finite are missing. Or an
        iterator of chunks (t, p), or of pairs (chunk, elapsed), one after the other in time.
    state : continue from this state; it is not consumed. None: from the first sample, with warm-up.
    keep : fields of the reading to stack; the others are None.
    backend : "jax", "numpy" or "torch", the library of the results; None: that of X, NumPy for lists and tables.
    elapsed : (T,), time since the previous sample; the panel's forgetting is per unit of this time.
    every : keep each n-th reading, those of samples n, 2n, ….
    progress : function of the number of samples done and their total (None for an iterator).

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
    made("run", "pipe", pipe, Pipeline, "icvi.Pipeline(clusterer=…, panel=…)")
    return scan_chunks("run", "T, p", pipe, X, state, keep, backend, elapsed, every, None, progress)


def run_fleet(
    pipe: Pipeline,
    X: Array | Iterator[Array],
    state: PipelineState | None = None,
    keep: tuple[str, ...] = ("values", "label", "alarms"),
    backend: str | None = None,
    elapsed: Array | None = None,
    every: int = 1,
    mesh: Mesh | None = None,
    progress: Progress | None = None,
    false_alarms: str | Budget | None = None,
    interval: float | None = None,
) -> Run:
    """Scan many recorded streams together.

    Parameters
    ----------
    pipe : the pipeline. A number such as `forgetting` may be an array (N,): one for each stream.
    X : (N, T, p), the samples; rows that are not finite are missing, so streams that start late or end early are padded
        with NaN. Or an iterator of chunks (N, t, p), as for `run`: the next is read while one is computed, and no more
        than two are in memory.
    state, backend, every, progress : as for `run`; samples of all streams are counted.
    keep : fields of the reading to stack; the others are None. `("final",)` stacks nothing: only the state is returned.
    elapsed : (T,) or (N, T), time since the previous sample.
    mesh : devices, on one axis named "streams", to run there; by default the devices of the samples.
    false_alarms : how many there may be over all streams together, such as "20/day", "2/hour" or "10/10000" samples, or
        a `Budget`; the monitors that take a rate share it. None: each has its own.
    interval : seconds between two samples of a stream, for false alarms per hour or day.

    Returns
    -------
    The state, and the readings, arrays whose first axes are (N, T). Other numbers in the pipeline, or other streams,
    do not compile again. For precision see `run`.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> X = np.random.default_rng(0).normal(size=(5, 40, 2))
    >>> icvi.run_fleet(pipe, X).readings.values["xb"].shape
    (5, 40)
    >>> chunks = (X[:, t : t + 10] for t in range(0, 40, 10))
    >>> icvi.run_fleet(pipe, chunks, every=10).readings.values["xb"].shape
    (5, 4)
    """
    X = inputs.together("run_fleet", X) if isinstance(X, (list, tuple)) else X
    if mesh is not None and mesh.axis_names != ("streams",):
        raise ValueError(f"run_fleet(mesh=…): expected one axis named 'streams', got {mesh.axis_names}")

    def share(streams: int) -> Pipeline:
        return share_budget(pipe, false_alarms, streams, interval)[0]

    made("run_fleet", "pipe", pipe, Pipeline, "icvi.Pipeline(clusterer=…, panel=…)")
    return scan_chunks("run_fleet", "N, T, p", share, X, state, keep, backend, elapsed, every, mesh, progress)


def share_budget(
    pipe: Pipeline, false_alarms: str | Budget | None, streams: int, interval: float | None
) -> tuple[Pipeline, Budget | None]:
    """The pipeline whose monitors share the budget of false alarms, and that budget; unchanged if none is given."""
    if false_alarms is None:
        return pipe, None
    if not isinstance(false_alarms, Budget):
        false_alarms = Budget.parse(false_alarms, max(streams, 1), interval)
    return pipe.within(false_alarms), false_alarms.leaving_out(pipe.monitors)


def use_all_cores(cores: int | None = None) -> int:
    """How many cores a fleet uses. Deprecated: calling this has no effect, native code uses all cores by itself.

    Examples
    --------
    >>> import warnings, icvi_jax as icvi
    >>> with warnings.catch_warnings(action="ignore"):
    ...     icvi.use_all_cores(2)
    2
    """
    warnings.warn("use_all_cores() has no effect and will be removed", DeprecationWarning, stacklevel=2)
    return (os.cpu_count() or 1) if cores is None else cores


def scan_chunks(
    caller: str,
    axes: str,
    pipe: Pipeline | Callable[[int], Pipeline],
    X: Array | Iterator[Array],
    state: PipelineState | None = None,
    keep: tuple[str, ...] = inputs.FIELDS,
    backend: str | None = None,
    elapsed: Array | None = None,
    every: int = 1,
    mesh: Mesh | None = None,
    progress: Progress | None = None,
    each: Callable[[Reading], Reading] | None = None,
) -> Run:
    """Scan all chunks, of many streams, or of one as a fleet of one.

    `pipe` may depend on the number of streams. `each` is given the readings (N, t, …) of every chunk, and what it
    returns of them is kept.
    """
    keep = inputs.wanted(caller, keep)
    whole(caller, "every", every)
    chunks, one = isinstance(X, Iterator), axes == "T, p"
    if chunks and elapsed is not None:
        raise ValueError(f"{caller}(elapsed=…): not with an iterator; let it yield pairs (chunk, elapsed)")
    engine: Engine | None = None  # for samples of the host; elsewhere `now` is the state
    now: PipelineState | None = None
    parts: list[Reading] = []
    streams, library, done, total = -1, "numpy", 0, None

    def count(samples: int) -> None:
        nonlocal done
        done += samples
        if progress is not None:
            progress(done, total)

    for chunk, gaps in _ahead(X) if isinstance(X, Iterator) else [(X, elapsed)]:
        given = inputs.given(caller, chunk, backend)
        if chunks and given.x.ndim == len(axes.split(",")) and given.x.shape[-2] == 0:
            continue  # a source that had nothing for a while
        model = pipe if isinstance(pipe, Pipeline) else pipe(given.x.shape[0] if streams < 0 else streams)
        inputs.fits(caller, model, given.x, state, axes, chunks)
        T = given.x.shape[-2]
        x = given.x[None, ...] if one else given.x
        gaps = inputs.gaps(caller, gaps, (T,), *([] if one else [x.shape[:2]]))
        host = given.host and not inputs.traced(model, state, gaps)
        x = x if host or array_api_compat.is_torch_array(x) else jnp.asarray(x)
        own = () if one else numbers_each(caller, model, x.shape[0])
        if streams < 0:
            streams, library, total = x.shape[0], given.library, None if chunks else x.shape[0] * T
            start = state if state is None or not one else jax.tree.map(lambda a: a[..., None], state)
            if host and start is None:
                engine = begin(model, x.shape[-1], streams, given.dtype, keep, mesh)
            elif host:
                engine = Engine(model, inputs.on_host(start), keep, mesh=mesh)
            else:
                xp = jnp if isinstance(x, jax.Array) else namespace(x)
                now = model.init(x.shape[-1], (streams,), xp=xp, dtype=x.dtype) if start is None else start
                now = jax.tree.map(jnp.asarray, now) if xp is jnp else now
        if host != (engine is not None):
            raise ValueError(f"{caller}: some chunks are in the memory of the host, others are traced or on a device")
        if streams != x.shape[0]:
            raise ValueError(f"{caller}: the chunks before had {streams} streams, this one has {x.shape[0]}")
        if engine is not None:
            told = None if progress is None else count
            readings = engine.advance(np.asarray(x), None if gaps is None else np.asarray(gaps), every, told)
        elif now is not None:
            phase = done // streams % every
            now, readings = scan_fleet(PipelineStep(keep), model, now, x, gaps, every, phase, mesh, own)
            count(streams * T)
        parts.append(readings if each is None else each(readings))
    if engine is None and now is None:
        raise ValueError(f"{caller}: the iterator has no samples")
    joined = parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: namespace(a[0]).concat(a, axis=1), *parts)
    made: State = now if engine is None else engine.end(), joined
    if engine is not None:
        made = inputs.returned(made, library)
    elif library == "numpy" and not inputs.traced(made):
        made = inputs.on_host(made)
    if one:
        made = jax.tree.map(lambda a: a[..., 0], made[0]), jax.tree.map(lambda a: a[0, ...], made[1])
    run = Run(*made)
    if not chunks and not inputs.traced(X):
        run.samples, run.features = given.x, given.columns
    return run


def _ahead(chunks: Iterator[State]) -> Iterator[tuple[Array, Array | None]]:
    """Chunks with their elapsed times, each loaded in a thread while the last one is in use.

    They are copied there: the iterator may use the memory of one for the next.
    """
    end = object()

    def load() -> State:
        chunk = next(chunks, end)
        pair = chunk if isinstance(chunk, tuple) else (chunk, None)
        return end if chunk is end else tuple(a.copy() if isinstance(a, np.ndarray) else a for a in pair)

    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(load)
        while (pair := coming.result()) is not end:
            coming = reader.submit(load)
            yield pair
