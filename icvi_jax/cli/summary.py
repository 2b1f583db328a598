"""What the command prints: lines, tables, lists of what is built in, a progress bar, and the summary of results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from icvi_jax.report.alarm_text import alarm_sentences, at, count_alarms, indices_add
from icvi_jax.report.result import CHANGE, ONE_CLUSTER, STUCK, Result
from icvi_jax.report.trust import HEALTH, trust_before, trust_counts
from icvi_jax.text import one_line

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 160  # where the output is not a terminal: a table in a file or a pipe need not wrap
T = TypeVar("T")


def console() -> Console:
    """A console that prints text unchanged."""
    from rich.console import Console

    class Plain(Console):
        """Raises an error when the pipe is closed; rich's own console ends the process."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Plain(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)


def say(text: str) -> None:
    """Print a line, whatever is in it."""
    console().print(one_line(text) if not text.startswith(" ") else "  " + one_line(text))


def tell_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without lines."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*heads, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console().print(table, soft_wrap=False)


def tell_written(paths: Sequence[Path]) -> None:
    """Say where the files are."""
    for path in paths:
        say(f"wrote {path}")


def with_bar(items: Sequence[T], what: str) -> Iterable[T]:
    """Iterate over items with a progress bar, if the output is a terminal."""
    if not sys.stderr.isatty() or len(items) < 2:
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True), transient=True)


def indices() -> int:
    """List the indices, which direction is good, and what each one says."""
    from icvi_jax.indices import catalogue

    rows = []
    for entry in catalogue():
        low, high = (f"{end:g}".replace("inf", "∞") for end in entry.range)
        rows.append((entry.name, {"min": "small", "max": "large"}[entry.goal], f"{low} … {high}", entry.meaning))
    tell_table(("name", "good is", "range", "what it says"), rows)
    say("Use them with --index, such as: icvi run file.csv --index xb db ch")
    return 0


def monitors() -> int:
    """List the monitors, what each one listens to, and what it says."""
    from icvi_jax.cli.alarms import KINDS
    from icvi_jax.monitors import SampleMonitor

    rows = []
    for name, kind in KINDS.items():
        hears = "the columns" if issubclass(kind, SampleMonitor) else "an index"
        rows.append((name, hears, (kind.__doc__ or "").strip().splitlines()[0]))
    tell_table(("name", "listens to", "what it does"), rows)
    say("Use them with --monitor, such as: icvi run file.csv --monitor change --false-alarms 1/day")
    return 0


def datasets() -> int:
    """List the built-in streams."""
    from icvi_jax.streams import catalogue

    rows = [
        (name, str(entry.k), str(entry.p), str(len(entry.function(seed=0).x)), entry.meaning)
        for name, entry in catalogue().items()
    ]
    rows += [
        ("sensorscope", "", "", "", "a meteo file of the SensorScope project, with --format sensorscope"),
        ("gas", "", "", "", "a file of the UCI gas sensor array under dynamic mixtures, with --format gas"),
    ]
    tell_table(("name", "k", "columns", "samples", "what it is"), rows)
    say("Use them as: icvi run s3 --seed 1")
    return 0


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
        sentences = alarm_sentences(result, 0, [name])
        alarms, later = count_alarms({name: result.codes[name]})
        follows = f" ({later:,} distress after a spike {'counts' if later == 1 else 'count'} with it)" if later else ""
        say(f"{WHOSE.get(name, f'alarms of {name}')}: {alarms or 'none'}{follows}")
        for _, _, sentence in sentences[:MOST_SENTENCES]:
            say(f"  {sentence}")
        if len(sentences) > MOST_SENTENCES:
            say(f"  … and {len(sentences) - MOST_SENTENCES} more, in the report")
    add = indices_add(result, 0)
    if add:
        say(add)
    tell_written(written)
