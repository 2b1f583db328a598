"""Migrations: turn what an earlier version wrote into what this version would have written.

A file has the version of its layout. Each step below leads from one layout to the next, so that a file of any age
loads. Two kinds of changes need no step:

- a setting that the file does not have and that has its default: defaults do what was done before the setting existed;
- an array that the file does not have: it is taken from a fresh state, and a new statistic must work with that.

Where this is not enough, the step must do more.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping

import numpy as np

from icvi_jax.checkpoint.schema import Plain, describe, fields_of, template
from icvi_jax.error_code_filter import FIRST
from icvi_jax.monitors import Change
from icvi_jax.pipeline import Pipeline
from icvi_jax.spec import FrozenDict, changed

SCHEMA = 2
"""Version of the layout that is written; files with a higher version are refused."""

Fields = dict[str, np.ndarray]


def migrated(schema: int, configuration: Plain, fields: Fields, pipe: Pipeline) -> tuple[Plain, Fields]:
    """Convert configuration and arrays of a file of an earlier layout, for `pipe`, to the present layout."""
    for step in range(schema, SCHEMA):
        fields = STEPS[step](fields)
    anchor = fields.get(".anchor.high")
    if anchor is None or anchor.ndim == 0:
        return configuration, fields
    fresh = fields_of(template(pipe, anchor))
    known = {name: fields.get(name, a) for name, a in fresh.items()}
    return _completed(configuration, pipe), known | {name: a for name, a in fields.items() if name not in known}


def _two_words(fields: Fields) -> Fields:
    """0.1 → 0.2: the origin has two words, and each column starts on its own."""
    high = fields[".anchor"]
    begun = np.broadcast_to(fields[".statistics['count'].samples"] > 0, high.shape)
    rest = {name: a for name, a in fields.items() if name != ".anchor"}
    return {".anchor.high": high, ".anchor.low": np.zeros_like(high), ".anchor.set": begun, **rest}


STEPS: dict[int, Callable[[Fields], Fields]] = {1: _two_words}
"""Steps by the layout they start from."""


def _completed(saved: Plain, part: object) -> Plain:
    """The configuration of a file, completed with settings it does not have, if they have their defaults in `part`."""
    if dataclasses.is_dataclass(part) and isinstance(saved, dict):
        out = {}
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if field.name in saved:
                out[field.name] = _completed(saved[field.name], value)
            elif field.init and field.name != "gate" and _is_default(field, value):  # see `describe`
                out[field.name] = describe(value)
        return {name: out.get(name, saved.get(name)) for name in [*saved, *(n for n in out if n not in saved)]}
    if isinstance(part, FrozenDict):
        part = tuple(part.values())
    if isinstance(part, (tuple, list)) and isinstance(saved, list) and len(saved) == len(part):
        return [_completed(a, b) for a, b in zip(saved, part)]
    return saved


def _is_default(field: dataclasses.Field[object], value: object) -> bool:
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return default is not dataclasses.MISSING and describe(default) == describe(value)


def with_reserves(fields: Fields) -> Fields:
    """The fields with the reserve and the last value of learned thresholds, which older files do not have: nothing is
    in the one, and no value can agree with the other."""
    found: Fields = {}
    for name, a in fields.items():  # in the order of the state: ready, reserve, last
        found[name] = a
        one, _, field = name.rpartition(".")
        if not one.endswith(".threshold") or field not in ("ready", "reserve"):
            continue
        if f"{one}.reserve" not in fields:
            found[f"{one}.reserve"] = np.zeros_like(fields[f"{one}.tail.level"])
        if f"{one}.last" not in fields and f"{one}.reserve" in found:
            found[f"{one}.last"] = np.full_like(fields[f"{one}.tail.level"], np.inf)
    return found


def added(fields: Fields, fresh: Fields) -> Fields:
    """What files of 0.2 do not have and `fresh` has: what indices keep, to be computed anew, and gates, which judge
    from now on and begin nothing anew."""
    parts = [part for part in (".kept", ".gate") if not any(name.startswith(part) for name in fields)]
    found = {name: a for name, a in fresh.items() if name.startswith(tuple(parts))} if parts else {}
    if ".gate.rows" in found:
        found[".gate.rows"] = np.full_like(found[".gate.rows"], FIRST)
    return found


FIRST_CHANGE: Mapping[str, Plain] = {
    "lag": 20, "fast": 0.9, "slow": 0.99, "steady": 0.999, "block": 15, "warm": 6, "memory": 40, "floor": 0.1,
    "mute": 0.8,
}  # fmt: skip
"""Settings that `Change` had in 0.2, at their defaults; now they are constants of its version 1."""


def first_changes(configuration: Plain, fields: Fields, pipe: Pipeline) -> tuple[Plain, Pipeline]:
    """The configuration as this version writes it, and the pipeline whose state the fields are.

    A `Change` that 0.2 began goes on as version 1, whatever version the pipeline asks for: its state is another.
    """
    monitors = dict(pipe.monitors)
    old = [name for name in monitors if f".monitors['{name}'].contrast.age" in fields]
    saved = configuration.get("monitors") if isinstance(configuration, Mapping) else None
    if not old or not isinstance(configuration, Mapping) or not isinstance(saved, list) or len(saved) != len(monitors):
        return configuration, pipe
    found = []
    for (name, monitor), one in zip(pipe.monitors.items(), saved):
        if name in old and isinstance(monitor, Change) and isinstance(one, Mapping):
            first = changed(monitor, version=1)
            monitors[name] = first
            if one.get("version", 1) == 1:  # written by 0.2, or by a fleet that went on from it
                told = "version" not in one and monitor.version != 1
                one = {key: value for key, value in one.items() if FIRST_CHANGE.get(key, ...) != value}
                silent = monitor.silent if one.get("silent") == first.silent else one.get("silent")
                one |= {"version": monitor.version, "silent": silent, "season": one.get("season") or None}
                if told:
                    warnings.warn(
                        f"{name!r} was begun by 0.2 and goes on with that definition, Change(version=1); begin anew "
                        f"for version 2",
                        stacklevel=5,
                    )
        found.append(one)
    return {**configuration, "monitors": found}, changed(pipe, monitors=monitors)
