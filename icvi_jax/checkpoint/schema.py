"""Schema: a state as arrays by name, a configuration as plain names and numbers, and how two of them differ."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TypeAlias

import jax
import numpy as np

from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.spec import FrozenDict

Plain: TypeAlias = "Mapping[str, Plain] | list[Plain] | str | float | int | bool | None"
"""Values that JSON has."""


def describe(part: object) -> Plain:
    """A configuration as JSON: classes by name, every field that a user may set, arrays as nested lists."""
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    if isinstance(part, FrozenDict):  # parts know their names, and files of version 0.1 have a list
        return [describe(item) for item in part.values()]
    if dataclasses.is_dataclass(part):
        fields = [f.name for f in dataclasses.fields(part) if f.init]
        if isinstance(part, Pipeline) and part.gate is None:  # 0.2 did not have it
            fields.remove("gate")
        return {"is": type(part).__qualname__, **{name: describe(getattr(part, name)) for name in fields}}
    if isinstance(part, (tuple, list)):
        return [describe(item) for item in part]
    if isinstance(part, Mapping):
        return {str(key): describe(value) for key, value in part.items()}
    if callable(part):
        return f"{part.__module__}.{part.__qualname__}"  # type: ignore[attr-defined]  # functions and classes have one
    plain: Plain = np.asarray(part).tolist()
    return plain


def difference(saved: Plain, wanted: Plain, field: str = "") -> str | None:
    """The first difference between two configurations, in words, or None."""
    if isinstance(saved, Mapping) and isinstance(wanted, Mapping):
        for name in [*saved, *(name for name in wanted if name not in saved)]:
            inner = f"{field}.{name}" if field and name != "is" else field if name == "is" else name
            if name not in saved or name not in wanted:
                return f"{inner} is only in {'the pipeline' if name in wanted else 'the checkpoint'}"
            found = difference(saved[name], wanted[name], inner)
            if found:
                return found
        return None
    if isinstance(saved, list) and isinstance(wanted, list) and len(saved) == len(wanted):
        for i, (a, b) in enumerate(zip(saved, wanted)):
            found = difference(a, b, f"{field}[{i}]")
            if found:
                return found
        return None
    a, b = json.dumps(saved), json.dumps(wanted)  # as text: NaN equals itself, 1 and 1.0 and true differ
    return None if a == b or _same_number(saved, wanted) else f"{field} is {a} in the checkpoint, {b} in the pipeline"


def _same_number(a: Plain, b: Plain) -> bool:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (a, b))
    return numbers and a == b


def fields_of(state: PipelineState) -> dict[str, np.ndarray]:
    """What must be remembered of a state, by the path of its field, such as `.statistics['count'].samples`."""
    found, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(a) for path, a in found}


def template(pipe: Pipeline, anchor: np.ndarray) -> PipelineState:
    """A fresh state in NumPy, with the features and streams of `anchor` (p, *streams)."""
    p, *streams = anchor.shape
    return pipe.init(p, tuple(streams), xp=np, dtype=anchor.dtype)


def misfit(pipe: Pipeline, fields: dict[str, np.ndarray]) -> str | None:
    """How the arrays differ from a state of `pipe` with the same features and streams, in words, or None."""
    if ".anchor.high" not in fields or fields[".anchor.high"].ndim == 0:
        return ".anchor.high is missing"
    wanted = fields_of(template(pipe, fields[".anchor.high"]))
    for name in [*wanted, *fields]:
        if name not in fields or name not in wanted:
            return f"{name} is {'missing' if name in wanted else 'not of this pipeline'}"
        a, b = fields[name], wanted[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype} {a.shape}, the pipeline has {b.dtype} {b.shape}"
    return None if list(fields) == list(wanted) else "its fields are in another order"
