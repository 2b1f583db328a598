"""Fields: a state as arrays by name, and whether such arrays are a state of a given pipeline."""

from __future__ import annotations

import jax
import numpy as np

from icvi_jax.pipeline import Pipeline, PipelineState


def fields_of(state: object) -> dict[str, np.ndarray]:
    """The arrays of a state by the path of their field, such as `.statistics['count'].samples`."""
    found, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(a) for path, a in found}


def template(pipe: Pipeline, anchor: np.ndarray) -> PipelineState:
    """A fresh state of as many features and streams as `anchor` (p, *streams) has, in NumPy."""
    p, *streams = anchor.shape
    return pipe.init(p, tuple(streams), xp=np, dtype=anchor.dtype)


def misfit(pipe: Pipeline, fields: dict[str, np.ndarray]) -> str | None:
    """How the arrays differ from a state of `pipe` for as many features and streams, in words, or None."""
    if ".anchor" not in fields or fields[".anchor"].ndim == 0:
        return ".anchor is missing"
    wanted = fields_of(template(pipe, fields[".anchor"]))
    for name in [*wanted, *fields]:
        if name not in fields or name not in wanted:
            return f"{name} is {'missing' if name in wanted else 'not of this pipeline'}"
        a, b = fields[name], wanted[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype} {a.shape}, the pipeline has {b.dtype} {b.shape}"
    return None if list(fields) == list(wanted) else "its fields are in another order"
