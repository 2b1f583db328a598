"""Run a pipeline over a fleet of recorded streams at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from icvi_jax.drive import engine
from icvi_jax.drive.devices import streams_mesh
from icvi_jax.drive.run import Run
from icvi_jax.drive.slabs import Slabs
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.spec import whole
from icvi_jax.types import Array


def run_fleet(
    pipe: Pipeline,
    X: Array | Iterator[Array],
    state: PipelineState | None = None,
    keep: tuple[str, ...] = ("values", "label", "alarms"),
    backend: str = "jax",
    elapsed: Array | None = None,
    every: int = 1,
    mesh: Mesh | None = None,
    block: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Run:
    """Scan many recorded streams together.

    Parameters
    ----------
    pipe : the pipeline.
    X : (N, T, p), the samples; rows that are not finite are missing, so streams that start late or end early are padded
        with NaN. Or an iterator of chunks (N, t, p), or of pairs (chunk, elapsed), one after the other in time: the
        next is read while one is computed, and no more than two are in memory.
    state : go on from this state; it is not consumed. None: from the first sample.
    keep : fields of the reading to stack; the others are None. `("final",)` stacks nothing: the state is all there is.
    backend : "jax" (compiled), "numpy" or "torch" (a plain loop over time).
    elapsed : (T,) or (N, T), time since the previous sample, in units of which one fades by the panel's forgetting.
    every : keep each n-th reading, those of samples n, 2n, ….
    mesh : devices, on one axis named "streams". By default all local ones; see `use_all_cores`.
    block : streams that are scanned together on a device, instead of a number that suits the cache.
    progress : called with the number of samples done, of all streams together, and their total (None for an iterator).

    Returns
    -------
    The state, and the readings as NumPy arrays that lead with (N, T). Compiled with one kernel a block of streams where
    the devices are CPUs; other numbers in the pipeline, or streams of the same shape, do not compile again.

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
    keep = engine.check_keep("run_fleet", keep)
    whole("run_fleet", "every", every)
    if block is not None:
        whole("run_fleet", "block", block)
    chunks = isinstance(X, Iterator)
    if chunks and (backend != "jax" or elapsed is not None):
        raise ValueError("run_fleet: an iterator needs backend='jax' and gives elapsed times in pairs (chunk, elapsed)")
    if isinstance(X, (list, tuple)):
        X = engine.together(X)
    if backend != "jax":
        return _looped(pipe, X, state, keep, backend, elapsed, every)
    slabs, parts, done, total = None, [], 0, None

    def count(samples):
        nonlocal done
        done += samples
        if progress is not None:
            progress(done, total)

    for chunk, gaps in _ahead(X) if chunks else [(X, elapsed)]:
        chunk = engine.floats(chunk)
        engine.check_samples("run_fleet", pipe, chunk, state, "N, T, p", chunks)
        N, T, p = chunk.shape
        gaps = engine.check_elapsed("run_fleet", gaps, (T,), (N, T))
        if slabs is None:
            dtype = jnp.asarray(chunk[:0]).dtype
            slabs = Slabs(pipe, state, chunk.shape, dtype, keep, every, streams_mesh(mesh, N), block)
            total = None if chunks else N * T
        if slabs.streams != N:
            raise ValueError(f"run_fleet: the chunks before were of {slabs.streams} streams, this one is of {N}")
        parts.append(slabs.advance(chunk, gaps, count))
    if slabs is None:
        raise ValueError("run_fleet: the iterator is empty")
    readings = parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: np.concatenate(a, axis=1), *parts)
    return Run(slabs.state(), readings)


def _ahead(chunks: Iterator) -> Iterator[tuple[Array, Array | None]]:
    """Chunks with their elapsed times, each read in a thread while the last is in use."""
    end = object()
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, chunks, end)
        while (chunk := coming.result()) is not end:
            coming = reader.submit(next, chunks, end)
            yield chunk if isinstance(chunk, tuple) else (chunk, None)


def _looped(pipe, X, state, keep, backend, elapsed, every) -> Run:
    xp, X = engine.backend_arrays(backend, X)
    engine.check_samples("run_fleet", pipe, X, state, "N, T, p")
    N, T, p = X.shape
    elapsed = engine.check_elapsed("run_fleet", elapsed, (T,), (N, T))
    if elapsed is not None:
        elapsed = xp.asarray(elapsed.T, dtype=X.dtype)
    if state is None:
        state = pipe.init(p, streams=(N,), xp=xp, dtype=X.dtype)
    state, readings = engine.loop(pipe, state, xp.permute_dims(X, (1, 2, 0)), elapsed, keep, xp, every)
    return Run(state, jax.tree.map(lambda a: xp.moveaxis(a, -1, 0), readings))
