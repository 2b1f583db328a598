"""The data of the live page: the fleet in pages, one node, and a summary."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from icvi_jax.indices import catalogue
from icvi_jax.indices.health import trust_of
from icvi_jax.report.alarm_text import clock
from icvi_jax.report.health_text import HEALTH, WORDS, trust_now
from icvi_jax.watch.alarms import plain
from icvi_jax.watch.ring_buffers import AWAY, CONDITIONS, DISTRESS, MUTED, NEWS, SILENT, RingBuffers

if TYPE_CHECKING:
    from icvi_jax.watch.loop import WatchLoop

PAGE, STRIP = 50, 120
"""Nodes per page, and samples in a row of the heat map."""
ALL, DATED = 17, 3.2e8
"""All digits of a number; times above are seconds since 1970."""


def summary(fleet: WatchLoop, buffers: RingBuffers) -> dict[str, object]:
    """The condition of the fleet, in a few numbers."""
    counts = np.bincount(buffers.conditions(), minlength=len(CONDITIONS))
    return {
        "samples": fleet.samples,
        "nodes": int(counts[:AWAY].sum()),
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
        rows = _sorted_rows(buffers)
        found = buffers.trust(np.array(rows, np.intp))
    return "".join(str(WORDS.index(trust_of(float(value)) or "unknown")) for value in found)


def names_view(buffers: RingBuffers) -> dict[str, object]:
    """Names of all nodes of this worker, sorted: the order of the states in `fleet_view`."""
    return {"names": [buffers.names[row] for row in _sorted_rows(buffers)]}


def _sorted_rows(buffers: RingBuffers) -> list[int]:
    with buffers.lock:
        rows = np.flatnonzero(buffers.here[: len(buffers.names)]).tolist()
        return sorted(rows, key=lambda row: buffers.names[row])


def fleet_view(buffers: RingBuffers, page: int, search: str = "", index: str = "") -> dict[str, object]:
    """One page of the ranking, each node with the last values of one index; and the condition of all nodes in one
    text."""
    with buffers.lock:
        ranked, conditions, in_order = buffers.ranked(search), buffers.conditions(), _sorted_rows(buffers)
    pages = max(1, -(-len(ranked) // PAGE))
    page = min(page, pages - 1)
    rows = ranked[page * PAGE : (page + 1) * PAGE]
    which, now = buffers.indices.index(index) if index in buffers.indices else 0, time.monotonic()
    strips = [buffers.history(buffers.names[row], STRIP) for row in rows]
    about = {entry.name: entry for entry in catalogue()}
    return {
        "page": page,
        "pages": pages,
        "found": len(ranked),
        "indices": [{"name": name, "goal": about[name].goal if name in about else "min"} for name in buffers.indices],
        "index": buffers.indices[which] if buffers.indices else "",
        "strip": min(STRIP, buffers.length),
        "states": "".join(map(str, conditions[in_order].tolist())),
        "trusts": trusts(buffers),
        "nodes": [
            {
                "name": buffers.names[row],
                "trust": plain(trust, 2),
                "score": plain(buffers.score[row], ALL),
                "state": CONDITIONS[conditions[row]],
                "heard": plain(now - buffers.heard[row], 3),
                "alarmed": plain(now - buffers.alarmed[row], 3),
                "last": buffers.last.get(row, "quiet"),
                "values": [plain(value, 4) for value in strip.values[:, which]] if buffers.indices else [],
                "codes": strip.code.tolist(),
            }
            for row, strip, trust in zip(rows.tolist(), strips, buffers.trust(rows))
            if strip is not None
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
        "state": CONDITIONS[buffers.conditions()[row]],
        "score": plain(buffers.score[row], ALL),
        "seen": int(buffers.head[row]),
        "heard": plain(time.monotonic() - buffers.heard[row], 3),
        "time_name": buffers.form.time,
        "units": dict(buffers.form.units),
        "zone": buffers.zone.get(row, ""),
        "time": [plain(value, ALL) for value in history.time],
        "features": {
            name: [plain(value, ALL) for value in history.x[:, i]]
            for i, name in enumerate(buffers.features)
            if np.isfinite(history.x[:, i]).any()  # the others belong to other partitions
        },
        "indices": {f: [plain(v, ALL) for v in history.values[:, i]] for i, f in enumerate(buffers.indices)},
        "label": history.label.tolist(),
        "k": int(buffers.k[row]),
        "code": history.code.tolist(),
        "cause": [buffers.features[column] if column >= 0 else "" for column in history.cause.tolist()],
        "trust": None if trust is None else {"value": plain(trust.value, 2), "word": trust.word, "text": trust.text},
        "events": events,
    }


def _when(seconds: float, back: int) -> str:
    if not math.isfinite(seconds):
        return f"{back} samples ago"
    return clock(np.datetime64(round(seconds), "s")) if seconds > DATED else clock(float(seconds))
