"""Run a pipeline over a fleet of recorded streams at once."""

from __future__ import annotations

import jax

from icvi_jax.drive import engine
from icvi_jax.drive.run import Run
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array


def run_fleet(
    pipe: Pipeline,
    X: Array,
    state: PipelineState | None = None,
    keep: tuple[str, ...] = ("values", "label", "alarms"),
    backend: str = "jax",
) -> Run:
    """Scan many recorded streams together.

    Parameters
    ----------
    pipe : the pipeline.
    X : (N, T, p), the samples; rows that are not finite are missing, so ragged streams are padded with NaN.
    state : go on from this state. None: from the first sample.
    keep : fields of the reading to stack; the others are None.
    backend : "jax" (compiled), "numpy" or "torch" (a plain loop over time).
    """
    xp, X = engine.backend_arrays(backend, X)
    keep = engine.check_keep("run_fleet", keep)
    engine.check_samples("run_fleet", pipe, X, state, "N, T, p")
    lanes = xp.permute_dims(X, (1, 2, 0))
    if state is None:
        state = pipe.init(X.shape[2], streams=(X.shape[0],), xp=xp, dtype=X.dtype)
    step = engine.scan if backend == "jax" else lambda *a: engine.loop(*a, xp)
    state, readings = step(pipe, state, lanes, None, keep)
    return Run(state, jax.tree.map(lambda a: xp.moveaxis(a, -1, 0), readings))
