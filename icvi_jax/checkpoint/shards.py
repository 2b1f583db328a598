"""Shards: a state that is divided over several processes; each one saves and loads its own streams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jax
import numpy as np

from icvi_jax.types import Namespace

if TYPE_CHECKING:
    from icvi_jax.checkpoint.save_load import Checkpoint

FOLDER = re.compile(r"process-(\d+)-of-(\d+)")


T = TypeVar("T")


class StreamPart(NamedTuple):
    """Which process of how many, and which streams `start` to `stop` of how many in all."""

    process: int
    processes: int
    start: int
    stop: int
    streams: int


def folder(process: int, processes: int) -> str:
    """The name of the folder in which a process keeps its shard."""
    return f"process-{process}-of-{processes}"


def folders(path: Path) -> dict[int, Path]:
    """The shards below `path` by process; empty if there are none."""
    found = {FOLDER.fullmatch(item.name): item for item in path.iterdir()}
    return {int(match[1]): item for match, item in found.items() if match}


def own(state: T) -> tuple[T, StreamPart | None]:
    """The streams of a state in this process, and which shard that is; None if it has all streams."""
    leaves = jax.tree.leaves(state)
    if all(not isinstance(a, jax.Array) or a.is_fully_addressable for a in leaves):
        return state, None
    bounds = {_bounds(a) for a in leaves}
    if len(bounds) != 1:
        raise ValueError("save(state=…): the arrays of a sharded state must all be sharded alike, over their last axis")
    ((start, stop, streams),) = bounds
    return jax.tree.map(_local, state), StreamPart(jax.process_index(), jax.process_count(), start, stop, streams)


def complete(path: Path, error: type[Exception]) -> dict[int, Path]:
    """The shards below `path` by process; raises `error` if one is missing."""
    found = folders(path)
    counts = {int(match[2]) for item in found.values() if (match := FOLDER.fullmatch(item.name))}
    if len(counts) != 1 or sorted(found) != list(range(max(counts))):
        have = ", ".join(sorted(item.name for item in path.iterdir() if FOLDER.fullmatch(item.name)))
        raise error(f"{path}: expected the shards of all processes of one run, found {have}")
    return found


def joined(path: Path, pieces: list[Checkpoint], xp: Namespace) -> Checkpoint:
    """Join the checkpoints of shards to one, in order of processes."""
    states = [piece.state for piece in pieces]
    state = jax.tree.map(lambda *leaves: xp.asarray(np.concatenate(leaves, axis=-1)), *states)
    first = pieces[0]
    names = [piece.names for piece in pieces if piece.names is not None]
    placed = all(piece.position is not None and np.ndim(piece.position) == 1 for piece in pieces)
    return first._replace(
        state=state,
        names=tuple(name for some in names for name in some) if len(names) == len(pieces) else None,
        position=np.concatenate([np.asarray(piece.position) for piece in pieces]) if placed else first.position,
        room=None,
        path=path,
    )


def _shards(a: jax.Array) -> list[tuple[int, jax.Array]]:
    """The pieces of `a` in this process, each once, in order of streams."""
    pieces = {(piece.index[-1].start or 0): piece.data for piece in a.addressable_shards}
    return sorted(pieces.items())


def _bounds(a: jax.Array) -> tuple[int, int, int]:
    pieces = _shards(a)
    last, data = pieces[-1]
    return pieces[0][0], last + data.shape[-1], a.shape[-1]


def _local(a: jax.Array) -> np.ndarray:
    return np.concatenate([np.asarray(data) for _, data in _shards(a)], axis=-1)
