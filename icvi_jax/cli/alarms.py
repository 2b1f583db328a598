"""Monitors built from the options, and the false alarms they may raise."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from icvi_jax.cli.options import Alarms
from icvi_jax.monitors import Budget, Change, Distress, Monitor, SampleMonitor, catalogue
from icvi_jax.monitors.budget import SECONDS, amount
from icvi_jax.pipeline import Pipeline
from icvi_jax.spec import changed
from icvi_jax.tables import Fleet, Table
from icvi_jax.tables.season_length import cycle
from icvi_jax.terminal_text import did_you_mean

NONE = "none"
"""Written for --false-alarms: no rate is promised, and indices are judged by the constants of the paper."""

AUTO = "auto"
"""Written for --season: look for a cycle, in the recording or live."""

COLUMNS = 0.8
"""Share of the false alarms that monitors of columns may use: on labelled streams they find all that indices find,
and more."""

KINDS = {entry.name: entry.monitor for entry in catalogue()}
"""Monitors by their names on the command line."""


def monitors_of(alarms: Alarms, indices: list[str], budget: Budget | None) -> dict[str, Monitor | SampleMonitor]:
    """The monitors asked for: those of indices by the name of the index, then those of samples."""
    names = list(dict.fromkeys(alarms.monitor))
    for name in names:
        if name not in KINDS:
            hint = did_you_mean(name, KINDS) or "icvi monitors lists them"
            raise ValueError(f"--monitor: there is no monitor {name!r}; {hint}")
    if alarms.patience < 1:
        raise ValueError(f"--patience {alarms.patience}: expected 1 row or more")
    if alarms.settle is not None and alarms.settle < 0:
        raise ValueError(f"--settle {alarms.settle}: expected 0 rows or more")
    season = alarms.season.strip()
    if season != AUTO and not season.isdecimal():
        raise ValueError(f"--season {season}: expected the rows of a cycle, such as 144, or auto; 0 for none")
    if {"distress", "page-hinkley"} <= set(names):
        raise ValueError("--monitor: distress and page-hinkley listen to the same index; choose one of them")
    if budget is None and "change" in names:
        raise ValueError(f"--false-alarms {NONE}: change needs a rate, such as 10/10000; or use --monitor distress")
    monitors: dict[str, Monitor | SampleMonitor] = {}
    if "distress" in names:
        warm = Distress.warm if alarms.settle is None else max(1, alarms.settle)
        rate = None if budget is None else budget.rate
        monitors |= {i: Distress(patience=alarms.patience, warm=warm, false_alarms=rate) for i in indices}
    if "page-hinkley" in names:  # monitors of indices come first, as in folders that a watch goes on from
        monitors |= {i: changed(KINDS["page-hinkley"](), index=i) for i in indices}
    if "change" in names:
        silent = Change.silent if alarms.settle is None else alarms.settle
        monitors["change"] = Change(silent=silent, season=season if season == AUTO else int(season))
    for name in (name for name in names if name not in ("distress", "page-hinkley", "change")):
        kind = KINDS[name]
        if issubclass(kind, SampleMonitor):
            monitors[name] = kind()
        else:
            monitors |= {f"{name} {i}" if i in monitors else i: changed(kind(), index=i) for i in indices}
    if budget is None:
        return monitors
    listening = {name: one for name, one in monitors.items() if isinstance(one, Distress)}
    columns = {name: one for name, one in monitors.items() if isinstance(one, Change)}
    for some, share in ((columns, COLUMNS), (listening, 1 - COLUMNS)):
        alone = not (columns and listening)
        monitors |= budget._replace(rate=budget.rate * (1 if alone else share)).over(some) if some else {}
    return monitors


def in_season(alarms: Alarms, data: Table | Fleet) -> tuple[Alarms, tuple[str, ...]]:
    """The alarms with a cycle found in the data, where it is asked for, and what to say about it."""
    if alarms.season not in ("0", AUTO):
        return alarms, ()
    rows, share = cycle(data.x)
    explains = f"explains {share.max():.0%} of {data.features[int(share.argmax())]!r}"
    if alarms.season != AUTO:  # not asked for: say what it would do
        return alarms, (f"a cycle of {rows} rows {explains}: --season auto would use it",) if rows else ()
    found = replace(alarms, season=str(rows))
    if not rows:
        return found, ("no cycle was found: changes are looked for in the columns as they are",)
    seconds = alarms.interval or interval_of(data)
    long = "" if seconds is None else f" ({_long(rows * seconds)})"
    taken = "is taken out before changes are looked for"
    return found, (f"a cycle of {rows} rows{long} {taken}: it {explains}, where it is largest",)


def _long(seconds: float) -> str:
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {name}{'' if f'{seconds / size:.3g}' == '1' else 's'}"
    return f"{seconds:.3g} seconds"


def budget_of(alarms: Alarms, data: Table | Fleet | None = None, nodes: int | None = 1) -> Budget | None:
    """The number of false alarms asked for, over all streams together; None where no rate is promised."""
    text = alarms.false_alarms.strip().lower()
    if alarms.interval is not None and not 0 < alarms.interval < np.inf:
        raise ValueError(f"--interval {alarms.interval:g}: expected the seconds between two rows of a node")
    if text == NONE:
        return None
    if isinstance(data, Table) and alarms.agree != 1:
        raise ValueError(f"--agree {alarms.agree}: one stream has nobody to agree with; fleet and watch take it")
    nodes = len(data.nodes) if isinstance(data, Fleet) else nodes
    if nodes is not None and nodes < 1:
        raise ValueError(f"--nodes {nodes}: expected 1 or more")
    if nodes is None:
        if text.endswith(tuple(SECONDS)):
            raise ValueError(f"--false-alarms {text}: say how many nodes there will be, with --nodes")
        nodes = 1
    seconds = alarms.interval or (None if data is None else interval_of(data))
    try:
        return Budget.parse(text, nodes, seconds)
    except ValueError as error:
        message = str(error)
        if "seconds between" in message:
            hint = "" if data is None else "no column of dates here; "
            message = f"{hint}give the seconds between two rows of a node with --interval"
        message = re.sub(r"^(Budget\([^:]*|'.*'): ", "", message)  # the option names it here
        raise ValueError(f"--false-alarms {alarms.false_alarms}: {message}") from None


def with_any_rate(alarms: Alarms) -> Alarms:
    """The alarms with a rate that every table can have, to check the other options; what is no rate is refused."""
    if alarms.false_alarms.strip().lower() == NONE:
        return alarms
    try:
        amount(alarms.false_alarms)
    except ValueError as error:
        raise ValueError(f"--false-alarms {alarms.false_alarms}: {str(error).partition(': ')[2]}") from None
    return replace(alarms, false_alarms="10/10000")


def interval_of(data: Table | Fleet) -> float | None:
    """The usual time between two rows in seconds; None where times are not dates."""
    if data.times is None or data.times.dtype.kind != "M" or len(data.times) < 2:
        return None
    gaps = np.diff(data.times.astype("datetime64[us]").astype(np.int64)) / 1e6
    later = gaps[gaps > 0]
    return float(np.median(later)) if later.size else None


def settings_of(alarms: Alarms, budget: Budget | None, pipe: Pipeline) -> tuple[tuple[str, str], ...]:
    """The settings of the alarms, for the report."""
    if budget is None:
        return (("false alarms", "not promised: an index has to get 6 times worse"),)
    return (
        ("monitors", ", ".join(dict.fromkeys(alarms.monitor))),
        ("to expect", str(budget.leaving_out(pipe.monitors))),
    )
