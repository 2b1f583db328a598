"""Checkpoints: the state of a pipeline in a file that is either complete or refused."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.array_api import Stored
from icvi_jax.checkpoint import container, shards
from icvi_jax.checkpoint.migrations import (
    SCHEMA,
    added,
    first_changes,
    migrated,
    with_reserves,
    without_old_vitals,
)
from icvi_jax.checkpoint.schema import describe, difference, fields_of, misfit, template
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Namespace

F = TypeVar("F")

NUMBERED = re.compile(r"(\d{12})\.icvi")


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, from a newer version, or of another configuration.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> try:
    ...     icvi.load("nowhere.icvi", pipe)
    ... except icvi.CheckpointError as error:
    ...     print(error)
    nowhere.icvi: No such file or directory
    """


class DamagedCheckpoint(CheckpointError):
    """A checkpoint whose content is not what was written; in a folder the previous one is used."""


class Checkpoint(NamedTuple):
    """The content of a checkpoint.

    Attributes
    ----------
    state : the state.
    position : how many samples the streams have had: an integer or (N,), or None.
    names : names of the streams, or None.
    extra : as given to `save`, or None.
    room : slots of the live fleet that wrote it, or None.
    path : the file it came from.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> run = icvi.run(pipe, icvi.streams.s1(seed=0).x)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = icvi.save(folder + "/one.icvi", pipe, run.state, position=len(run.readings.k))
    ...     icvi.load_checkpoint(file, pipe).position == len(run.readings.k)
    True
    """

    state: PipelineState
    position: int | np.ndarray | None
    names: tuple[str, ...] | None
    extra: dict[str, Stored] | None
    room: int | None
    path: Path


def save(
    path: str | os.PathLike[str],
    pipe: Pipeline,
    state: PipelineState,
    position: int | Array | None = None,
    names: Sequence[str] | None = None,
    extra: Mapping[str, object] | None = None,
    keep: int = 3,
    room: int | None = None,
) -> Path:
    """Write the state of a pipeline to disk.

    The file is written under another name, synced and renamed, so that after a crash there is the old file or the new
    one. A state that is sharded over several processes is written in several files: each process calls `save` with the
    same path, a folder, and writes the streams of its devices.

    Parameters
    ----------
    path : a file (with a suffix, such as "fleet.icvi"), or a folder (no suffix; made if it does not exist), which gets
        numbered files of which the last `keep` stay.
    pipe, state : the pipeline and its state.
    position : how many samples the streams have had, an integer or one per stream: where a replay must continue.
    names : names of the streams.
    extra : anything else that JSON can hold and a restart needs.
    keep : how many files stay in a folder.
    room : slots of a live fleet.

    Returns
    -------
    The file written.

    Examples
    --------
    >>> import tempfile, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> run = icvi.run(pipe, icvi.streams.s2(seed=0).x)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = icvi.save(folder + "/one.icvi", pipe, run.state, position=2500)
    ...     state = icvi.load(file, pipe)
    >>> bool((state.clusterer.centers == run.state.clusterer.centers).all())
    True
    """
    path = Path(path)
    state, part = shards.own(state)
    if part is not None:
        path = path / shards.folder(part.process, part.processes)
    fields = fields_of(state)
    problem = misfit(first_changes(describe(pipe), fields, pipe)[1], fields)
    if problem:
        raise ValueError(f"save(state=…): not a state of this pipeline: {problem}")
    p, *streams = fields[".anchor.high"].shape
    if names is not None and streams and (len(set(names)) < len(names) or len(names) != streams[-1]):
        raise ValueError(f"save(names=…): expected {streams[-1]} different names, got {_shown(names)}")
    header = {
        "schema": SCHEMA,
        "features": p,
        "streams": streams,
        "dtype": fields[".anchor.high"].dtype.name,
        "configuration": describe(pipe),
        "names": None if names is None else list(names),
        "extra": None if extra is None else dict(extra),
        "room": room,
        "part": None if part is None else part._asdict(),
    }
    arrays = {"state" + name: a for name, a in fields.items()}
    if position is not None:
        arrays["position"] = np.asarray(position, np.int64)
        if arrays["position"].shape not in ((), tuple(streams)):
            raise ValueError(f"save(position=…): expected a number or {tuple(streams)}, got {arrays['position'].shape}")
    content = container.encode(header, arrays)
    return _place(path, content, keep)


def load(path: str | os.PathLike[str], pipe: Pipeline, xp: Namespace = jnp) -> PipelineState:
    """The state in a checkpoint; `load_checkpoint` also returns the rest.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = icvi.save(folder + "/one.icvi", pipe, pipe.init(2))
    ...     int(icvi.load(file, pipe).missing)
    0
    """
    return load_checkpoint(path, pipe, xp).state


def load_checkpoint(path: str | os.PathLike[str], pipe: Pipeline, xp: Namespace = jnp) -> Checkpoint:
    """Read a checkpoint of the same configuration.

    Every number in the configuration counts: with another forgetting factor the state would mean something else.

    Parameters
    ----------
    path : a file, or a folder: then the newest good file in it. Damaged ones are skipped with a warning. Files of
        several processes are joined.
    pipe : the pipeline; its configuration must be that of the checkpoint.
    xp : library of the state's arrays, `jax.numpy` or `numpy`.

    Raises
    ------
    CheckpointError
        If there is none, or it is damaged, from a newer version, or of another configuration; the message names the
        field.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = icvi.save(folder + "/one.icvi", pipe, pipe.init(2), position=7)
    ...     icvi.load_checkpoint(file, pipe).position
    7
    """
    path = Path(path)
    if not path.is_dir():
        return _load_file(path, pipe, xp)
    if shards.folders(path):
        files = {process: numbered(folder) for process, folder in shards.complete(path, CheckpointError).items()}
        shared = set(files[0]).intersection(*files.values())
        whole = {number: tuple(files[process][number] for process in sorted(files)) for number in shared}
        return newest(path, whole, lambda many: shards.joined(path, [_load_file(file, pipe, np) for file in many], xp))
    return newest(path, numbered(path), lambda file: _load_file(file, pipe, xp))


def newest(path: Path, files: Mapping[int, F], read: Callable[[F], Checkpoint]) -> Checkpoint:
    """The result of `read` for the file with the highest number that is not damaged."""
    refused = []
    for number in sorted(files, reverse=True):
        try:
            found = read(files[number])
        except DamagedCheckpoint as problem:
            refused.append(str(problem))
            continue
        if refused:
            warnings.warn(f"{'; '.join(refused)}: using {found.path} instead", stacklevel=4)
        return found
    raise CheckpointError("; ".join(refused) or f"{path}: there is no checkpoint")


def numbered(path: Path) -> dict[int, Path]:
    """The checkpoints in a folder by number."""
    found = {NUMBERED.fullmatch(file.name): file for file in path.iterdir()}
    return {int(match[1]): file for match, file in found.items() if match}


def _place(path: Path, content: bytes, keep: int) -> Path:
    """Write a file, or the next one of a folder, and only then remove what is too old."""
    if path.suffix and not path.is_dir():
        container.write(path, content)
        return path
    container.make_folder(path)
    while True:
        old = numbered(path)
        file = path / f"{max(old, default=0) + 1:012d}.icvi"
        try:
            container.write(file, content, fresh=True)
            break
        except FileExistsError:
            continue  # another writer took this number
    for number in sorted(old)[: max(0, len(old) + 1 - max(keep, 1))]:
        old[number].unlink(missing_ok=True)
    container.remove_unfinished(path)
    return file


def _shown(names: Sequence[str]) -> str:
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    return f"{name!r} {count} times" if count > 1 else f"{len(names)}"


def _load_file(path: Path, pipe: Pipeline, xp: Namespace) -> Checkpoint:
    try:
        header, arrays = container.decode(path.read_bytes())
        return _understood(path, header, arrays, pipe, xp)
    except OSError as problem:
        raise CheckpointError(f"{path}: {problem.strerror}") from None
    except container.Damaged as problem:
        raise DamagedCheckpoint(f"{path}: {problem}") from None
    except (KeyError, TypeError, AttributeError) as problem:
        raise DamagedCheckpoint(f"{path}: the header is not valid: {problem!r}") from None


def _understood(
    path: Path, header: dict[str, Stored], arrays: dict[str, np.ndarray], pipe: Pipeline, xp: Namespace
) -> Checkpoint:
    schema = header["schema"]
    if schema not in range(1, SCHEMA + 1):
        age = "a newer" if schema > SCHEMA else "an unknown"
        raise CheckpointError(f"{path}: from {age} version (layout {schema}; this version reads up to {SCHEMA})")
    configuration = header["configuration"]
    fields = {name.removeprefix("state"): a for name, a in arrays.items() if name.startswith("state")}
    if schema < SCHEMA:
        configuration, fields = migrated(schema, configuration, fields, pipe)
    fields = without_old_vitals(with_reserves(fields))
    configuration, kind = first_changes(configuration, fields, pipe)
    other = difference(configuration, json.loads(json.dumps(describe(pipe))))
    if other:
        raise CheckpointError(f"{path}: of another configuration: {other}")
    anchor = fields[".anchor.high"]
    fresh = template(kind, anchor)
    every = fields_of(fresh)
    new = added(fields, every)
    recall = bool(fresh.kept) and any(name.startswith(".kept") for name in new)
    fields = {name: (fields | new)[name] for name in every if name in fields or name in new} | fields if new else fields
    named = header["names"] is None or len(header["names"]) == anchor.shape[-1]
    told = header["dtype"], [header["features"], *header["streams"]]
    problem = misfit(kind, fields)
    if problem or told != (anchor.dtype.name, list(anchor.shape)) or not named:
        raise CheckpointError(f"{path}: {problem or 'its header is of another state'}")
    if xp is not np and anchor.dtype == np.float64 and not jax.config.read("jax_enable_x64"):
        advice = "load it with xp=numpy, or call jax.config.update('jax_enable_x64', True) first"
        raise CheckpointError(f"{path}: has float64, which JAX would round to float32: {advice}")
    state: PipelineState = jax.tree.unflatten(jax.tree.structure(fresh), list(fields.values()))
    state = jax.tree.map(xp.asarray, kind.recalled(state) if recall else state)
    position, names = arrays.get("position"), header["names"]
    return Checkpoint(
        state,
        position.item() if position is not None and position.ndim == 0 else position,
        None if names is None else tuple(names),
        header["extra"],
        header["room"],
        path,
    )
