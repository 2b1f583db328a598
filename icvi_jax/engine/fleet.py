"""Run a pipeline over many recorded streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from jax.sharding import Mesh

from icvi_jax.engine import inputs
from icvi_jax.engine.afar import Afar
from icvi_jax.engine.allowance import allowed
from icvi_jax.engine.devices import streams_mesh
from icvi_jax.engine.engine import Engine
from icvi_jax.engine.run import Run, started
from icvi_jax.monitors import Budget
from icvi_jax.numerics.arrays import namespace
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.spec import whole
from icvi_jax.types import Array, Reading, State


def run_fleet(
    pipe: Pipeline,
    X: Array | Iterator[Array],
    state: PipelineState | None = None,
    keep: tuple[str, ...] = ("values", "label", "alarms"),
    backend: str | None = None,
    elapsed: Array | None = None,
    every: int = 1,
    mesh: Mesh | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    false_alarms: str | Budget | None = None,
    interval: float | None = None,
) -> Run:
    """Scan many recorded streams together.

    Parameters
    ----------
    pipe : the pipeline.
    X : (N, T, p), the samples; rows that are not finite are missing, so streams that start late or end early are padded
        with NaN. Or an iterator of chunks (N, t, p), or of pairs (chunk, elapsed), one after the other in time: the
        next is read while one is computed, and no more than two are in memory.
    state : continue from this state; it is not consumed. None: from the first sample.
    keep : fields of the reading to stack; the others are None. `("final",)` stacks nothing: only the state is returned.
    backend : "jax", "numpy" or "torch", the library of the results; None: that of X, NumPy for lists and chunks.
    elapsed : (T,) or (N, T), time since the previous sample; the panel's forgetting is per unit of this time.
    every : keep each n-th reading, those of samples n, 2n, ….
    mesh : devices, on one axis named "streams", to run there; by default the devices of the samples.
    progress : function of the number of samples done, over all streams, and their total (None for an iterator).
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
    keep = inputs.wanted("run_fleet", keep)
    whole("run_fleet", "every", every)
    mesh = streams_mesh(mesh)
    chunks = isinstance(X, Iterator)
    if chunks and elapsed is not None:
        raise ValueError("run_fleet(elapsed=…): not with an iterator; let it yield pairs (chunk, elapsed)")
    X = inputs.together("run_fleet", X) if isinstance(X, (list, tuple)) else X
    engine: Engine | Afar | None = None
    parts: list[Reading] = []
    library, done, total = "numpy", 0, None

    def count(samples: int) -> None:
        nonlocal done
        done += samples
        if progress is not None:
            progress(done, total)

    for chunk, gaps in _ahead(X) if isinstance(X, Iterator) else [(X, elapsed)]:
        given = inputs.given("run_fleet", chunk, backend)
        if chunks and given.x.ndim == 3 and given.x.shape[1] == 0:
            continue  # a source that had nothing for a while
        inputs.fits("run_fleet", pipe, given.x, state, "N, T, p", chunks)
        N, T, _ = given.x.shape
        if engine is None:
            pipe, _ = allowed(pipe, false_alarms, N, interval)
        gaps = inputs.gaps("run_fleet", gaps, (T,), (N, T))
        here = given.host and not inputs.traced(pipe, state, gaps)
        if engine is None:
            library, total = given.library, None if chunks else N * T
            if here:
                engine = Engine(pipe, started(pipe, given, state, N), keep, mesh=mesh)
            else:
                engine = Afar(pipe, given, state, keep, mesh)
        if here != isinstance(engine, Engine):
            raise ValueError("run_fleet: some chunks are in the memory of the host, others are traced or on a device")
        if engine.streams != N:
            raise ValueError(f"run_fleet: the chunks before had {engine.streams} streams, this one has {N}")
        told = None if progress is None else count
        if isinstance(engine, Engine):
            times = None if gaps is None else np.asarray(gaps)
            parts.append(engine.advance(np.asarray(given.x), times, every, told))
        else:
            parts.append(engine.advance(given.x, gaps, every, told))
    if engine is None:
        raise ValueError("run_fleet: the iterator has no samples")
    readings = parts[0] if len(parts) == 1 else jax.tree.map(_joined, *parts)
    if isinstance(engine, Engine):
        return Run(*inputs.returned((engine.end(), readings), library))
    away = engine.state, readings
    return Run(*(inputs.on_host(away) if library == "numpy" and not inputs.traced(away) else away))


def _joined(*parts: Array) -> Array:
    """Readings (N, rows, …) one after the other in time."""
    return namespace(parts[0]).concat(parts, axis=1)


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
