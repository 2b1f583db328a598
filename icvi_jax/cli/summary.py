"""What happened, in a few lines on the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from icvi_jax.cli import one_line
from icvi_jax.monitors.story import clock, story
from icvi_jax.report.result import Result

MOST_SENTENCES = 20


def span(result: Result) -> str:
    """From when to when, or how many samples."""
    steps = result.label.shape[1]
    if result.times is None:
        return f"{steps:,} samples"
    return f"{steps:,} samples from {clock(result.times[0])} to {clock(result.times[-1])}"


def summarize(result: Result, written: list[Path]) -> None:
    """Print the summary of one stream, and its alarms with their times."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(one_line(result.name))}[/]: {span(result)}, {escape(one_line(', '.join(result.features)))}")
    for word, value in result.settings:
        console.print(f"  {word}: {escape(value)}")
    missing = int((~result.seen).sum())
    for note in (*result.notes, *([f"{missing:,} samples are missing or incomplete"] if missing else [])):
        console.print(f"  note: {escape(one_line(note))}")
    table = Table("index", "good is", "first", "median", "worst", "last", box=None, pad_edge=False, padding=(0, 2))
    for name, values in result.values.items():
        known = values[0][np.isfinite(values[0])]
        worst = {"min": np.max, "max": np.min}[result.about[name].goal]
        cells = [f"{f(known):.3g}" for f in (lambda v: v[0], np.median, worst, lambda v: v[-1])] if known.size else ["–"] * 4
        table.add_row(name, {"min": "small", "max": "large"}[result.about[name].goal], *cells)
    console.print(table)
    console.print(f"clusters at the end: {int(result.k[0, -1])}")
    for name, codes in result.codes.items():
        sentences = story(codes[0], result.times, result.seen[0])
        console.print(f"alarms of {name}: {len(sentences) or 'none'}")
        for sentence in sentences[:MOST_SENTENCES]:
            console.print(f"  {escape(sentence)}")
        if len(sentences) > MOST_SENTENCES:
            console.print(f"  … and {len(sentences) - MOST_SENTENCES} more, in the report")
    if result.overflow.any():
        console.print("  note: more clusters were wanted than there is room for: raise --capacity")
    for path in written:
        console.print(f"wrote {escape(str(path))}")
