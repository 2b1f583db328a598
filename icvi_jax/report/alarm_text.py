"""The alarms of one node in sentences: which column changed, when, and how sure that is; what indices add."""

from __future__ import annotations

import numpy as np

from icvi_jax.monitors.story import clock, story
from icvi_jax.monitors.tail import BLOCK
from icvi_jax.report.result import CHANGE, Result, columns_of, listeners

BEFORE, AFTER = (60, 20), 20
"""The level of a column before an alarm is the median from 60 to 20 rows before it, after it that of 20 rows. An alarm
comes some rows after the change, so the last rows before it may be from either side."""

AT = 5
"""Rows up to the alarm whose median stands for the column at the alarm: a change may be over soon."""

NEAR = 50
"""An alarm of a column and one of an index that are at most so many rows apart are taken as one event."""


def at(result: Result, sample: int) -> str:
    """The time of a sample."""
    return f"sample {sample}" if result.times is None else clock(result.times[sample])


def told(result: Result, node: int, name: str) -> list[str]:
    """One sentence for each alarm of one monitor, in time order."""
    codes = result.codes[name][node]
    if name != CHANGE:
        return story(codes, result.times, result.seen[node])
    return [_change(result, node, name, int(t)) for t in np.flatnonzero(codes)]


def _change(result: Result, node: int, name: str, t: int) -> str:
    """Which column changed, from what to what, and how sure that is."""
    cause, p = int(result.causes[name][node, t]), float(result.chances[name][node, t])
    rows = BLOCK / p if p > 0 else float("inf")  # p is the probability that a block of rows gets so high by chance
    sure = f" (by chance once in about {float(f'{rows:.2g}'):,.0f} rows)" if rows < 1e9 else " (surely not by chance)"
    if cause < 0:
        return f"at {at(result, t)} something changed{sure}"
    column = result.x[node, :, cause]
    before, after = _middle(column[max(0, t - BEFORE[0]) : max(1, t - BEFORE[1])]), _middle(column[t : t + AFTER])
    now = _middle(column[max(0, t - AT + 1) : t + 1])
    brief = abs(after - before) < abs(now - before) / 2
    new, back = (now, ", soon over") if brief else (after, "")
    moved = "changed" if before == new else "rose" if new > before else "fell" if new < before else "changed"
    levels = f" from about {before:.4g} to {new:.4g}{back}" if np.isfinite(before) and np.isfinite(new) else ""
    return f"at {at(result, t)} {result.features[cause]} {moved}{levels if before != new else ''}{sure}"


def _middle(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def indices_add(result: Result, node: int) -> str:
    """What the alarms of indices add to those of columns, in one sentence; empty where they add nothing."""
    listening, columns = listeners(result), columns_of(result)
    if not listening or not columns or result.k[node].max() <= 1:
        return ""
    name = listening[0]
    changes = np.flatnonzero(result.codes[columns[0]][node])
    spikes, standing = np.flatnonzero(result.codes[name][node] == 1), result.standing[name][node]
    both = sum(bool(standing[t] or (np.abs(spikes - t) <= NEAR).any()) for t in changes)
    own = sum(not (np.abs(changes - t) <= NEAR).any() for t in spikes)
    parts = []
    if both:
        parts.append(f"{_of(both, changes.size)} found the clusters in trouble too: the structure is new")
    if changes.size > both:
        kept = _of(changes.size - both, changes.size)
        parts.append(f"{kept} left the clusters as good as before: levels moved, not structure")
    if own:
        times = "once" if own == 1 else f"{own} times"
        parts.append(
            f"{times} {name} raised an alarm where no column did: the shape of the clusters changed, or columns were "
            f"not judged there (at the start, soon after an alarm)"
        )
    if result.standing[name][node, -1]:
        parts.append("at the end the clusters still do not fit")
    if not parts:
        parts.append("nothing: neither columns nor clusters changed")
    return f"what {name} adds: {'; '.join(parts)}"


def _of(some: int, all_: int) -> str:
    if some == all_:
        return "the change of a column" if some == 1 else f"all {some} changes of columns"
    return f"{some} of {all_} changes of columns"
