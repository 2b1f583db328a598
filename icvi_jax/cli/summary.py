"""A summary of the results in a few lines on the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from icvi_jax.cli.terminal import say, tell_table, tell_written
from icvi_jax.report.alarm_text import at, count_alarms, indices_add, told
from icvi_jax.report.result import CHANGE, ONE_CLUSTER, STUCK, Result
from icvi_jax.report.trust import HEALTH, trust_before, trust_counts

MOST_SENTENCES, MOST_COLUMNS, MOST_TIMES = 20, 30, 5
WHOSE = {CHANGE: "alarms of columns", STUCK: "stuck columns"}
GOOD = {"min": "small", "max": "large"}


def tell_source(result: Result, unit: str = "nodes") -> None:
    """Print what was read and how it was treated."""
    steps = result.label.shape[1]
    readings = int(np.isfinite(result.x).any(axis=2).sum()) if len(result.nodes) > 1 and unit == "nodes" else steps
    span = f"{readings:,} samples" + (
        "" if result.times is None else f" from {at(result, 0)} to {at(result, steps - 1)}"
    )
    many = f"{len(result.nodes):,} {unit}, " if len(result.nodes) > 1 else ""
    more = f" and {len(result.features) - MOST_COLUMNS:,} more" if len(result.features) > MOST_COLUMNS else ""
    say(f"{result.name}: {many}{span}, {', '.join(result.features[:MOST_COLUMNS])}{more}")
    for word, value in result.settings:
        say(f"  {word}: {value}")
    for note in result.notes:
        say(f"  note: {note}")
    if result.overflow.any():
        say("  note: more clusters were needed than there is room for: raise --capacity or --slots")


def tell_trust(result: Result) -> None:
    """Print how far the clusters can be trusted at the end, and when they could not before."""
    if len(result.trust) > 1:
        say(f"trust at the end: {trust_counts(result.trust)}")
    for trust in result.trust[:1] if len(result.trust) == 1 else ():
        say(f"trust: {trust.word}; {trust.text}")
        before = trust_before(result.values[HEALTH][0], lambda t: at(result, t))
        for sentence in before[-MOST_TIMES:]:
            say(f"  {sentence}")


def summarize(result: Result, written: list[Path]) -> None:
    """Print the summary of one stream, and its alarms with their times."""
    tell_source(result)
    rows = []
    for name, values in result.values.items():
        known = values[0][np.isfinite(values[0])]
        worst = {"min": np.max, "max": np.min}[result.about[name].goal]
        cells = (
            [f"{f(known):.3g}" for f in (lambda v: v[0], np.median, worst, lambda v: v[-1])]
            if known.size
            else ["–"] * 4
        )
        rows.append((name, GOOD[result.about[name].goal], *cells))
    tell_table(("index", "good is", "first", "median", "worst", "last"), rows)
    say(ONE_CLUSTER if result.k.max() <= 1 else f"clusters at the end: {int(result.k[0, -1])}")
    tell_trust(result)
    for name in result.codes:
        sentences = told(result, 0, name)
        alarms, later = count_alarms({name: result.codes[name]})
        follows = f" ({later:,} distress after a spike {'counts' if later == 1 else 'count'} with it)" if later else ""
        say(f"{WHOSE.get(name, f'alarms of {name}')}: {alarms or 'none'}{follows}")
        for sentence in sentences[:MOST_SENTENCES]:
            say(f"  {sentence}")
        if len(sentences) > MOST_SENTENCES:
            say(f"  … and {len(sentences) - MOST_SENTENCES} more, in the report")
    add = indices_add(result, 0)
    if add:
        say(add)
    tell_written(written)
