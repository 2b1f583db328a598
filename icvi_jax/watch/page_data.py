"""The data of the live page: the fleet in pages, one node, and a summary."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icvi_jax.indices import catalogue
from icvi_jax.indices.health import trust_of
from icvi_jax.report.alarm_text import clock
from icvi_jax.report.health_text import HEALTH, WORDS, trust_now
from icvi_jax.watch.ring_buffers import RingBuffers

if TYPE_CHECKING:
    from icvi_jax.watch.loop import WatchLoop

PAGE, STRIP, LATELY = 50, 120, 600.0
"""Nodes per page, samples in a row of the heat map, and for how many seconds an alarm is new."""
DATED = 3.2e8
"""Times above are seconds since 1970."""
FINE, NEWS, DISTRESS, SILENT, MUTED = range(5)


def states(buffers: RingBuffers) -> NDArray[np.uint8]:
    """The condition of each node, in the order of the rows of the buffers; 255 for nodes of another worker."""
    now = time.monotonic()
    with buffers.lock:
        n = len(buffers.names)
        found = np.where(now - buffers.alarmed[:n] < LATELY, np.uint8(NEWS), np.uint8(FINE))
        if buffers.silent_after:
            found[now - buffers.heard[:n] > buffers.silent_after] = SILENT
        found[buffers.standing[:n]] = DISTRESS
        found[[buffers.rows[name] for name in buffers.silences.names if name in buffers.rows]] = MUTED
        found[~buffers.here[:n]] = 255
    return np.asarray(found)


def summary(fleet: WatchLoop, buffers: RingBuffers) -> dict[str, object]:
    """The condition of the fleet, in a few numbers."""
    counts = np.bincount(states(buffers), minlength=256)
    return {
        "samples": fleet.samples,
        "nodes": int(counts[:255].sum()),
        "distressed": int(counts[DISTRESS]),
        "lately": int(counts[NEWS]),
        "silent": int(counts[SILENT]) if buffers.silent_after else None,
        "muted": int(counts[MUTED]),
        "distrusted": trusts(buffers).count(str(WORDS.index("low"))) if HEALTH in buffers.indices else None,
        "alarms": fleet.alarms,
        "bad": fleet.bad,
        "old": fleet.old,
        "acknowledged": sorted(buffers.acknowledged.names),
    }


def trusts(buffers: RingBuffers) -> str:
    """The trust of each node of this worker, sorted by name, as places in `WORDS`; empty without health."""
    if HEALTH not in buffers.indices:
        return ""
    with buffers.lock:
        found = buffers.trust(np.arange(len(buffers.names)))
    words = [WORDS.index(trust_of(float(value)) or "unknown") for value in found]
    return "".join(str(words[row]) for row in _sorted_rows(buffers))


def names_view(buffers: RingBuffers) -> dict[str, object]:
    """Names of all nodes of this worker, sorted: the order of `states` in `fleet_view`."""
    return {"names": [buffers.names[row] for row in _sorted_rows(buffers)]}


def _sorted_rows(buffers: RingBuffers) -> list[int]:
    with buffers.lock:
        rows = np.flatnonzero(buffers.here[: len(buffers.names)]).tolist()
        return sorted(rows, key=lambda row: buffers.names[row])


def fleet_view(buffers: RingBuffers, page: int, search: str = "", index: str = "") -> dict[str, object]:
    """One page of the ranking, each node with the last values of one index; and the condition of all nodes in one
    text."""
    ranked = buffers.ranked(search)
    pages = max(1, -(-len(ranked) // PAGE))
    page = min(page, pages - 1)
    rows = ranked[page * PAGE : (page + 1) * PAGE]
    which = buffers.indices.index(index) if index in buffers.indices else 0
    silent, muted, now = buffers.silent(rows), buffers.silences.names, time.monotonic()
    about = {entry.name: entry for entry in catalogue()}
    return {
        "page": page,
        "pages": pages,
        "found": len(ranked),
        "indices": [{"name": name, "goal": about[name].goal if name in about else "min"} for name in buffers.indices],
        "index": buffers.indices[which] if buffers.indices else "",
        "length": buffers.length,
        "strip": min(STRIP, buffers.length),
        "states": "".join(map(str, states(buffers)[_sorted_rows(buffers)].tolist())),
        "trusts": trusts(buffers),
        "nodes": [
            {
                "name": buffers.names[row],
                "trust": _number(buffers.trust(np.array([row]))[0], 2),
                "score": _number(buffers.score[row]),
                "standing": bool(buffers.standing[row]),
                "silent": bool(quiet),
                "muted": buffers.names[row] in muted,
                "heard": _number(now - buffers.heard[row], 3),
                "alarmed": _number(now - buffers.alarmed[row], 3),
                "last": buffers.last.get(row, "quiet"),
                "values": short(strip.values[:, which]) if buffers.indices else [],
                "codes": strip.code.tolist(),
            }
            for (row, strip), quiet in zip(buffers.strips(rows, STRIP), silent)
        ],
    }


def node_view(buffers: RingBuffers, name: str) -> dict[str, object] | None:
    """All data of one node; None if there is no such node."""
    history = buffers.history(name)
    if history is None:
        return None
    row = buffers.rows[name]
    with buffers.lock:
        events = [event for event in buffers.events if event["node"] == name]
        buffers.asked.add(name)
    trust = None
    if HEALTH in buffers.indices:
        values = history.values[:, buffers.indices.index(HEALTH)]
        trust = trust_now(
            values, buffers.reasons.get(name, (-1, -1)), lambda t: _when(history.time[t], len(values) - 1 - t)
        )
    return {
        "name": name,
        "muted": name in buffers.silences.names,
        "silent": bool(buffers.silent(np.array([row]))[0]),
        "score": _number(buffers.score[row]),
        "standing": bool(buffers.standing[row]),
        "seen": int(buffers.head[row]),
        "heard": _number(time.monotonic() - buffers.heard[row], 3),
        "time_name": buffers.time_name,
        "units": buffers.units,
        "zone": buffers.zone.get(row, ""),
        "time": [_number(value) for value in history.time],
        "features": {
            name: [_number(value) for value in history.x[:, i]]
            for i, name in enumerate(buffers.features)
            if np.isfinite(history.x[:, i]).any()  # the others belong to other partitions
        },
        "indices": {f: [_number(v) for v in history.values[:, i]] for i, f in enumerate(buffers.indices)},
        "label": history.label.tolist(),
        "k": history.k.tolist(),
        "code": history.code.tolist(),
        "cause": [buffers.features[column] if column >= 0 else "" for column in history.cause.tolist()],
        "trust": None if trust is None else {"value": _number(trust.value, 2), "word": trust.word, "text": trust.text},
        "events": events,
    }


def _when(seconds: float, back: int) -> str:
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
    plain = float(value)
    if not math.isfinite(plain):
        return None
    return float(f"{plain:.{digits}g}") if digits else plain
