"""The data of the live page: the fleet in pages, one node, and a summary."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from icvi_jax.indices import catalogue
from icvi_jax.indices.health import trust_of
from icvi_jax.report.alarm_text import clock
from icvi_jax.report.trust import HEALTH, WORDS, trust_now
from icvi_jax.watch.metrics import WatchStatus
from icvi_jax.watch.ring_buffers import Board

PAGE, STRIP, LATELY = 50, 120, 600.0
"""Nodes per page, samples in a row of the heat map, and for how many seconds an alarm is new."""
DATED = 3.2e8
"""Times above are seconds since 1970."""
FINE, NEWS, DISTRESS, SILENT, MUTED = range(5)


def states(board: Board) -> NDArray[np.uint8]:
    """The condition of each node, in the order of the rows of the board; 255 for nodes of another worker."""
    now = time.monotonic()
    with board.lock:
        n = len(board.names)
        found = np.where(now - board.alarmed[:n] < LATELY, np.uint8(NEWS), np.uint8(FINE))
        if board.silent_after:
            found[now - board.heard[:n] > board.silent_after] = SILENT
        found[board.standing[:n]] = DISTRESS
        found[[board.rows[name] for name in board.mutes.names if name in board.rows]] = MUTED
        found[~board.here[:n]] = 255
    return np.asarray(found)


def summary(fleet: WatchStatus, board: Board) -> dict[str, object]:
    """The condition of the fleet, in a few numbers."""
    counts = np.bincount(states(board), minlength=256)
    return {
        "samples": fleet.samples,
        "nodes": int(counts[:255].sum()),
        "distressed": int(counts[DISTRESS]),
        "lately": int(counts[NEWS]),
        "silent": int(counts[SILENT]) if board.silent_after else None,
        "muted": int(counts[MUTED]),
        "distrusted": trusts(board).count(str(WORDS.index("low"))) if HEALTH in board.indices else None,
        "alarms": fleet.alarms,
        "bad": fleet.bad,
        "old": fleet.old,
        "acknowledged": sorted(board.acknowledged.names),
    }


def trusts(board: Board) -> str:
    """The trust of each node of this worker, sorted by name, as places in `WORDS`; empty without health."""
    if HEALTH not in board.indices:
        return ""
    with board.lock:
        found = board.trust(np.arange(len(board.names)))
    words = [WORDS.index(trust_of(float(value)) or "unknown") for value in found]
    return "".join(str(words[row]) for row in _sorted_rows(board))


def names_view(board: Board) -> dict[str, object]:
    """Names of all nodes of this worker, sorted: the order of `states` in `fleet_view`."""
    return {"names": [board.names[row] for row in _sorted_rows(board)]}


def _sorted_rows(board: Board) -> list[int]:
    with board.lock:
        rows = np.flatnonzero(board.here[: len(board.names)]).tolist()
        return sorted(rows, key=lambda row: board.names[row])


def fleet_view(board: Board, page: int, search: str = "", index: str = "") -> dict[str, object]:
    """One page of the ranking, each node with the last values of one index; and the condition of all nodes in one
    text."""
    ranked = board.ranked(search)
    pages = max(1, -(-len(ranked) // PAGE))
    page = min(page, pages - 1)
    rows = ranked[page * PAGE : (page + 1) * PAGE]
    which = board.indices.index(index) if index in board.indices else 0
    silent, muted, now = board.silent(rows), board.mutes.names, time.monotonic()
    about = {entry.name: entry for entry in catalogue()}
    return {
        "page": page,
        "pages": pages,
        "found": len(ranked),
        "indices": [{"name": name, "goal": about[name].goal if name in about else "min"} for name in board.indices],
        "index": board.indices[which] if board.indices else "",
        "length": board.length,
        "strip": min(STRIP, board.length),
        "states": "".join(map(str, states(board)[_sorted_rows(board)].tolist())),
        "trusts": trusts(board),
        "nodes": [
            {
                "name": board.names[row],
                "trust": _number(board.trust(np.array([row]))[0], 2),
                "score": _number(board.score[row]),
                "standing": bool(board.standing[row]),
                "silent": bool(quiet),
                "muted": board.names[row] in muted,
                "heard": _number(now - board.heard[row], 3),
                "alarmed": _number(now - board.alarmed[row], 3),
                "last": board.last.get(row, "quiet"),
                "values": short(strip.values[:, which]) if board.indices else [],
                "codes": strip.code.tolist(),
            }
            for (row, strip), quiet in zip(board.strips(rows, STRIP), silent)
        ],
    }


def node_view(board: Board, name: str) -> dict[str, object] | None:
    """All data of one node; None if there is no such node."""
    history = board.history(name)
    if history is None:
        return None
    row = board.rows[name]
    with board.lock:
        events = [event for event in board.events if event["node"] == name]
        board.asked.add(name)
    trust = None
    if HEALTH in board.indices:
        values = history.values[:, board.indices.index(HEALTH)]
        trust = trust_now(
            values, board.reasons.get(name, (-1, -1)), lambda t: _when(history.time[t], len(values) - 1 - t)
        )
    return {
        "name": name,
        "muted": name in board.mutes.names,
        "silent": bool(board.silent(np.array([row]))[0]),
        "score": _number(board.score[row]),
        "standing": bool(board.standing[row]),
        "seen": int(board.head[row]),
        "heard": _number(time.monotonic() - board.heard[row], 3),
        "time_name": board.time_name,
        "units": board.units,
        "zone": board.zone.get(row, ""),
        "time": [_number(value) for value in history.time],
        "features": {
            name: [_number(value) for value in history.x[:, i]]
            for i, name in enumerate(board.features)
            if np.isfinite(history.x[:, i]).any()  # the others belong to other partitions
        },
        "indices": {f: [_number(v) for v in history.values[:, i]] for i, f in enumerate(board.indices)},
        "label": history.label.tolist(),
        "k": history.k.tolist(),
        "code": history.code.tolist(),
        "cause": [board.features[column] if column >= 0 else "" for column in history.cause.tolist()],
        "trust": None if trust is None else {"value": _number(trust.value, 2), "word": trust.word, "text": trust.text},
        "events": events,
    }


def _when(seconds: float, back: int) -> str:
    """The time of a sample of a node: a date, a number, or how many samples ago."""
    if not math.isfinite(seconds):
        return f"{back} samples ago"
    return clock(np.datetime64(round(seconds), "s")) if seconds > DATED else clock(float(seconds))


def short(values: NDArray[np.float32]) -> list[float | None]:
    """Numbers with four digits, enough for a colour; None for what is not finite.

    Examples
    --------
    >>> short(np.array([0.123456, 98765.4, 0, np.nan], np.float32))
    [0.1235, 98770.0, 0.0, None]
    """
    exact = values.astype(np.float64)
    size = np.where(np.isfinite(exact) & (exact != 0), np.abs(exact), 1.0)
    unit = 10.0 ** (3 - np.floor(np.log10(size)))
    return [value if math.isfinite(value) else None for value in (np.round(exact * unit) / unit).tolist()]


def _number(value: float, digits: int = 0) -> float | None:
    """A number that JSON has; None for what is not finite."""
    plain = float(value)
    if not math.isfinite(plain):
        return None
    return float(f"{plain:.{digits}g}") if digits else plain
