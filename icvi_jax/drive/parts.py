"""Parts: a state that several processes hold together, of which each saves and reads what is its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

FOLDER = re.compile(r"process-(\d+)-of-(\d+)")


class Part(NamedTuple):
    """Which process of how many, and which streams `start` to `stop` of how many in all."""

    process: int
    processes: int
    start: int
    stop: int
    streams: int


def folder(process: int, processes: int) -> str:
    """The name of the folder in which a process keeps its part."""
    return f"process-{process}-of-{processes}"


def folders(path: Path) -> dict[int, Path]:
    """The parts below `path` by process; empty where there are none."""
    found = {FOLDER.fullmatch(item.name): item for item in path.iterdir()}
    return {int(match[1]): item for match, item in found.items() if match}


def own(state: object) -> tuple[object, Part | None]:
    """What this process holds of a state, and which part that is: None where it is the whole."""
    leaves = jax.tree.leaves(state)
    if all(not isinstance(a, jax.Array) or a.is_fully_addressable for a in leaves):
        return state, None
    bounds = {_bounds(a) for a in leaves}
    if len(bounds) != 1:
        raise ValueError("save: the arrays of a state in parts must all be sharded alike, over their last axis")
    ((start, stop, streams),) = bounds
    return jax.tree.map(_local, state), Part(jax.process_index(), jax.process_count(), start, stop, streams)


def together(path: Path, read, numbered, error, xp):
    """Put together what several processes saved, at the newest number that all of them have undamaged."""
    found = folders(path)
    count = {int(FOLDER.fullmatch(item.name)[2]) for item in found.values()}
    if count != {len(found)} or sorted(found) != list(range(len(found))):
        raise error(f"{path}: needs the parts of all processes, has {', '.join(sorted(p.name for p in found.values()))}")
    files = [numbered(found[process]) for process in sorted(found)]
    refused = []
    for number in sorted(set(files[0]).intersection(*files[1:]), reverse=True):
        try:
            pieces = [read(of[number]) for of in files]
        except error as problem:
            refused.append(str(problem))
            continue
        return _joined(path, pieces, xp)
    raise error("; ".join(refused) or f"{path}: no number that all processes have saved")


def _joined(path, pieces, xp):
    states = [piece.state for piece in pieces]
    state = jax.tree.map(lambda *leaves: xp.asarray(np.concatenate(leaves, axis=-1)), *states)
    first = pieces[0]
    named = all(piece.names is not None for piece in pieces)
    placed = all(np.ndim(piece.position) == 1 for piece in pieces)
    return first._replace(
        state=state,
        names=tuple(name for piece in pieces for name in piece.names) if named else None,
        position=np.concatenate([piece.position for piece in pieces]) if placed else first.position,
        room=None,
        path=path,
    )


def _shards(a):
    """The pieces of `a` in this process, each once, in order of streams."""
    pieces = {(piece.index[-1].start or 0): piece.data for piece in a.addressable_shards}
    return sorted(pieces.items())


def _bounds(a):
    pieces = _shards(a)
    last, data = pieces[-1]
    return pieces[0][0], last + data.shape[-1], a.shape[-1]


def _local(a):
    return np.concatenate([np.asarray(data) for _, data in _shards(a)], axis=-1)
