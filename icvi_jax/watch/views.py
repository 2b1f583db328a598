"""What the live page asks for, as plain data: the fleet in pages, one node, and how things are."""

from __future__ import annotations

import math
import time

import numpy as np

from icvi_jax.indices.catalogue import catalogue
from icvi_jax.watch.board import Board
from icvi_jax.watch.metrics import Fleet

PAGE, STRIP = 50, 120


def summary(fleet: Fleet, board: Board) -> dict[str, object]:
    """How things are, in a few numbers."""
    with board.lock:
        n = len(board.names)
        here, standing, heard = board.here[:n].copy(), board.standing[:n].copy(), board.heard[:n].copy()
    silent = (time.monotonic() - heard > board.silent_after) & here if board.silent_after else np.zeros(n, bool)
    return {
        "samples": fleet.samples,
        "nodes": int(here.sum()),
        "distressed": int((standing & here).sum()),
        "silent": int(silent.sum()),
        "alarms": fleet.alarms,
        "bad": fleet.bad,
        "old": fleet.old,
    }


def fleet_view(board: Board, page: int, search: str = "", index: str = "") -> dict[str, object]:
    """One page of the ranking, each node with the last values of one index."""
    ranked = board.ranked(search)
    pages = max(1, -(-len(ranked) // PAGE))
    page = min(page, pages - 1)
    rows = ranked[page * PAGE : (page + 1) * PAGE]
    which = board.indices.index(index) if index in board.indices else 0
    silent, muted = board.silent(rows), board.mutes.names
    about = {entry.name: entry for entry in catalogue()}
    return {
        "page": page,
        "pages": pages,
        "found": len(ranked),
        "indices": [{"name": name, "goal": about[name].goal if name in about else "min"} for name in board.indices],
        "index": board.indices[which] if board.indices else "",
        "length": board.length,
        "nodes": [
            {
                "name": board.names[row],
                "score": _number(board.score[row]),
                "standing": bool(board.standing[row]),
                "silent": bool(quiet),
                "muted": board.names[row] in muted,
                "values": [_number(value, 5) for value in strip.values[:, which]],
                "codes": strip.code.tolist(),
            }
            for (row, strip), quiet in zip(board.strips(rows, STRIP), silent)
        ],
    }


def node_view(board: Board, name: str) -> dict[str, object] | None:
    """All that is kept of one node; None where there is no such node."""
    history = board.history(name)
    if history is None:
        return None
    row = board.rows[name]
    with board.lock:
        events = [event for event in board.events if event["node"] == name]
    return {
        "name": name,
        "muted": name in board.mutes.names,
        "silent": bool(board.silent(np.array([row]))[0]),
        "score": _number(board.score[row]),
        "standing": bool(board.standing[row]),
        "seen": int(board.head[row]),
        "time_name": board.time_name,
        "zone": board.zone.get(row, ""),
        "time": [_number(value) for value in history.time],
        "features": {f: [_number(v) for v in history.x[:, i]] for i, f in enumerate(board.features)},
        "indices": {f: [_number(v) for v in history.values[:, i]] for i, f in enumerate(board.indices)},
        "label": history.label.tolist(),
        "k": history.k.tolist(),
        "code": history.code.tolist(),
        "events": events,
    }


def _number(value: float | np.generic, digits: int = 0) -> float | None:
    """A number that JSON has; None for what is not finite."""
    plain = float(value)
    if not math.isfinite(plain):
        return None
    return float(f"{plain:.{digits}g}") if digits else plain
