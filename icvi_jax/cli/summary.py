"""What the command prints: lines, tables, lists of what is built in, a progress bar, and the summary of results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from icvi_jax.indices.health import trust_of
from icvi_jax.report.alarm_text import alarm_sentences, at, became_distress, clock, count_alarms, indices_add
from icvi_jax.report.health_text import HEALTH, Trust, trust_before, trust_counts
from icvi_jax.report.result import (
    CHANGE,
    COLUMN_ALARMS,
    GOOD,
    ONE_CLUSTER,
    STUCK,
    Result,
    distress_score,
    in_short,
    listeners,
    missing_share,
    present,
)
from icvi_jax.terminal_text import counted, one_line

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 160  # where the output is not a terminal: a table in a file or a pipe need not wrap
T = TypeVar("T")
Arrays: TypeAlias = dict[str, np.ndarray]
When: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], np.ndarray]


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
        rows.append((entry.name, GOOD[entry.goal], f"{low} … {high}", entry.meaning))
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


MOST_SENTENCES, MOST_COLUMNS, MOST_TIMES, WORST, COLUMNS = 20, 30, 5, 10, 3
WHOSE = {CHANGE: "alarms of columns", STUCK: "stuck columns"}


def tell_source(result: Result, unit: str = "nodes") -> None:
    """Print what was read and how it was treated."""
    steps, several = result.label.shape[1], len(result.nodes) > 1
    readings = int(np.isfinite(result.x).any(axis=2).sum()) if several and unit == "nodes" else steps
    span = "" if result.times is None else f" from {at(result.times, 0)} to {at(result.times, steps - 1)}"
    tell_head(result.name, f"{len(result.nodes):,} {unit}, " if several else "", readings, span, result.features)
    tell_treatment(result.settings, result.notes, bool(result.overflow.any()))


def tell_head(name: str, many: str, samples: int, span: str, features: Sequence[str]) -> None:
    """Print what was read."""
    more = f" and {len(features) - MOST_COLUMNS:,} more" if len(features) > MOST_COLUMNS else ""
    say(f"{name}: {many}{samples:,} samples{span}, {', '.join(features[:MOST_COLUMNS])}{more}")


def tell_treatment(settings: Sequence[tuple[str, str]], notes: Sequence[str], overflow: bool) -> None:
    """Print the settings and the notes."""
    full = ["more clusters were needed than there is room for: raise --capacity or --slots"] if overflow else []
    for line in (*(f"{word}: {value}" for word, value in settings), *(f"note: {note}" for note in (*notes, *full))):
        say(f"  {line}")


def tell_trust(result: Result) -> None:
    """Print how far the clusters of one stream can be trusted at the end, and when they could not before."""
    for trust in result.trust if len(result.trust) == 1 else ():
        say(f"trust: {trust.word}; {trust.text}")
        before = trust_before(result.values[HEALTH][0], lambda t: at(result.times, t))
        for sentence in before[-MOST_TIMES:]:
            say(f"  {sentence}")


class Found(NamedTuple):
    """What is known of each node, in their order, and of each alarm, in time order."""

    nodes: Arrays
    alarms: Arrays


def collect(result: Result, monitors: Sequence[str], numbers: NDArray[np.int64], when: When) -> Arrays:
    """What a summary needs of a result: of each node, by its number, and of each alarm under names "alarm …"; `when`
    gives the times of samples."""
    there = present(result)
    made: Arrays = {
        "node": numbers,
        "score": distress_score(result),
        "samples": there.sum(axis=1),
        "complete": result.seen.sum(axis=1),
        "missing": missing_share(result),
        "overflow": np.asarray(result.overflow.any(axis=1)),
    }
    if result.trust:
        made["trust"] = np.array([one.value for one in result.trust])
    for name in listeners(result)[:1]:
        standing = result.standing[name]
        made |= {"distress": (standing & there).sum(axis=1), "still": standing[:, -1]}
    for name, values in result.values.items():
        worse = np.fmax if result.about[name].goal == "min" else np.fmin
        made[f"worst {name}"] = worse.reduce(np.where(result.seen, values, np.nan), axis=1)
        made[f"last {name}"] = values[:, -1]
    counts = np.zeros((2, len(numbers)), np.int64)
    found = [np.nonzero(codes) for codes in result.codes.values()]
    for n in np.unique(np.concatenate([rows for rows, _ in found])):
        counts[:, n] = count_alarms({name: codes[n : n + 1] for name, codes in result.codes.items()})
    made |= {"raised": counts[0], "again": counts[1]}
    n, t = (np.concatenate(some) for some in zip(*found))

    def picked(field: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([field[name][where] for name, where in zip(result.codes, found)])

    made |= {"alarm node": numbers[n], "alarm sample": t, "alarm code": picked(result.codes), "alarm time": when(n, t)}
    made["alarm monitor"] = np.repeat([monitors.index(name) for name in result.codes], [len(rows) for rows, _ in found])
    for word, field in (("cause", result.causes), ("score", result.score), ("p", result.chances)):
        made[f"alarm {word}"] = picked(field)
    return made


def join(parts: Sequence[Arrays]) -> Found:
    """The results of several calls of `collect` as one."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "notes"}
    alarms = {name[6:]: values for name, values in joined.items() if name.startswith("alarm ")}
    nodes = {name: values for name, values in joined.items() if not name.startswith("alarm ")}
    order = np.argsort(nodes["node"], kind="stable")
    by_time = np.lexsort((alarms["monitor"], alarms["sample"], alarms["node"], alarms["time"]))
    return Found(
        {name: values[order] for name, values in nodes.items()},
        {name: values[by_time] for name, values in alarms.items()},
    )


def tell_alarms(found: Found, monitors: list[str]) -> None:
    """Print how many nodes had which alarms, and how far their clusters can be trusted."""
    nodes, alarms = found
    for name in [name for name in monitors if name not in COLUMN_ALARMS][:1]:
        once, still = counted(int((nodes["distress"] > 0).sum()), "node"), int(nodes["still"].sum())
        spikes = int(((alarms["monitor"] == monitors.index(name)) & (alarms["code"] == 1)).sum())
        say(f"in distress at some time (by {name}): {once}; still: {still:,}; {counted(spikes, 'spike')}")
    if len(nodes.get("trust", ())) > 1:
        trusts = (Trust(value, trust_of(value) or "unknown", "") for value in nodes["trust"].tolist())
        say(f"trust at the end: {trust_counts(tuple(trusts))}")
    for name in (name for name in COLUMN_ALARMS if name in monitors):
        mine = alarms["node"][alarms["monitor"] == monitors.index(name)]
        if len(mine) or name == CHANGE:
            what = "changes of columns" if name == CHANGE else "stuck columns"
            say(f"{what}: {len(mine):,}, in {counted(len(np.unique(mine)), 'node')}")


def tell_worst(
    found: Found, names: Sequence[str], features: Sequence[str], monitors: list[str], timed: bool = True
) -> None:
    """Print the worst nodes."""
    nodes, alarms = found
    listening = [name for name in monitors if name not in COLUMN_ALARMS][:1]
    columns = [name for name in COLUMN_ALARMS if name in monitors][:1]
    heads = ["worst nodes", "score", *(["trust"] if "trust" in nodes else [])]
    heads += [head for _ in listening for head in ("spikes", "in distress")]
    rows = []
    for n in np.argsort(-nodes["score"], kind="stable")[:WORST]:
        mine = {key: values[alarms["node"] == n] for key, values in alarms.items()}
        cells = [names[n], f"{nodes['score'][n]:.3g}"]
        for value in nodes["trust"][n : n + 1].tolist() if "trust" in nodes else ():
            cells.append(f"{trust_of(value) or 'unknown'} {value:.2f}".replace(" nan", ""))
        for name in listening:
            cells.append(str(int(((mine["monitor"] == monitors.index(name)) & (mine["code"] == 1)).sum())))
            cells.append(f"{100 * nodes['distress'][n] / max(1, nodes['samples'][n]):.3g} %")
        for name in columns:
            causes = mine["cause"][(mine["monitor"] == monitors.index(name)) & (mine["cause"] >= 0)]
            often = Counter(causes.tolist()).most_common()
            some = [f"{features[j]} {many}×" for j, many in sorted(often, key=lambda one: (-one[1], one[0]))]
            cells.append(", ".join(some[:COLUMNS]) + (" …" if len(some) > COLUMNS else "") or "–")
        first = mine["time"][:1]
        rows.append([*cells, (clock(first[0]) if timed else f"sample {mine['sample'][0]}") if len(first) else "–"])
    tell_table((*heads, *("columns that changed" for _ in columns), "first alarm"), rows)


def summarize(result: Result, written: list[Path]) -> None:
    """Print the summary of one stream, and its alarms with their times."""
    tell_source(result)
    rows = []
    for name, values in result.values.items():
        goal = result.about[name].goal
        cells = [f"{value:.3g}" for value in in_short(values[0], goal)] or ["–"] * 4
        rows.append((name, GOOD[goal], *cells))
    tell_table(("index", "good is", "first", "median", "worst", "last"), rows)
    say(ONE_CLUSTER if result.k.max() <= 1 else f"clusters at the end: {int(result.k[0, -1])}")
    tell_trust(result)
    for name in result.codes:
        sentences = alarm_sentences(result, 0, [name])
        alarms, later = count_alarms({name: result.codes[name]})
        follows = f" ({became_distress(later)})" if later else ""
        say(f"{WHOSE.get(name, f'alarms of {name}')}: {alarms or 'none'}{follows}")
        for _, _, sentence in sentences[:MOST_SENTENCES]:
            say(f"  {sentence}")
        if len(sentences) > MOST_SENTENCES:
            say(f"  … and {len(sentences) - MOST_SENTENCES} more, in the report")
    add = indices_add(result, 0)
    if add:
        say(add)
    tell_written(written)
