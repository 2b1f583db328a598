"""Twelve awkward stations, read by `run`, `fleet` and `watch`: do all three say the same alarms for the same reasons?

    python benchmarks/field.py [--keep FOLDER] [--only NAME ...]

Each station has two sensors, a step of the flow that everybody should see, and one thing that real stations do: error
codes, a stuck sensor, a daily cycle, a wrong clock, other units, semicolons with decimal commas, milliseconds since
1970, the header twice, a counter, a gap, the hour that comes twice in autumn, two columns of one name. `run` reads each
file, `fleet` the folder with all of them (those with further columns have one of their own), `watch` the lines of each
file from its standard input. An alarm is the same if node, monitor, column and direction are, and its row is at most
five rows away. The exit code is 1 if one differs. All three run with their default options.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from icvi_jax.cli import fleet, main, run
from icvi_jax.report.alarm_text import alarm_of, changes
from icvi_jax.report.result import COLUMN_ALARMS, Result, present
from icvi_jax.watch.sample import seconds

ROWS, STEP, AT, NEAR = 1200, 600, 800, 5
START = np.datetime64("2024-10-21T00:00", "s")
OWN_COLUMNS = ("counter", "twice")


class Alarm(NamedTuple):
    """What a person is told: which monitor, which column, up or down, and when, in rows since the start."""

    monitor: str
    column: str
    direction: str
    row: float


def station(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times every ten minutes, and two columns: a temperature, and a flow that rises by six deviations in row 800."""
    x = np.random.default_rng(seed).normal((20.0, 5.0), (0.5, 0.2), (ROWS, 2))
    x[AT:, 1] += 1.2
    return START + np.arange(ROWS) * np.timedelta64(STEP, "s"), x


def csv(times: np.ndarray, x: np.ndarray, head: str = "time,temp,flow") -> list[str]:
    """The lines of a file; NaN is an empty field."""
    cells = ([str(t), *("" if np.isnan(v) else f"{v:.5g}" for v in row)] for t, row in zip(times, x))
    return [head, *(",".join(row) for row in cells)]


def stations() -> dict[str, list[str]]:
    """The lines of each station's file."""
    made = {}
    names = "codes stuck cycle clock units semicolon epoch header counter gap autumn twice".split()
    for seed, name in enumerate(names):
        times, x = station(seed)
        head = "time,temp,flow"
        if name == "codes":
            x[300::97, 0] = -9999
            x[350::113, 1] = 65535
        if name == "stuck":
            x[500:700, 0] = x[500, 0]
        if name == "cycle":
            x[:, 0] += 4 * np.sin(2 * np.pi * np.arange(ROWS) / 144)
        if name == "units":
            x *= (1000.0, 1e6)
        if name == "gap":
            times, x = np.delete(times, slice(400, 600)), np.delete(x, slice(400, 600), axis=0)
            x[100:110, 0], x[300:305] = np.nan, np.nan
        if name == "autumn":
            times += np.where(times < np.datetime64("2024-10-27T01:00"), 7200, 3600).astype("timedelta64[s]")
        if name == "epoch":
            head, times = "ts,temp,flow", times.astype("datetime64[ms]").astype(np.int64)
        if name == "counter":
            head, x = "time,packets,temp,flow", np.column_stack([4000 + 3 * np.arange(ROWS), x])
        if name == "twice":
            head, x = "time,temp,flow,flow", np.column_stack([x, 3 + np.random.default_rng(99).normal(size=ROWS)])
        if name == "clock":
            times[450] = np.datetime64("2099-01-01")
        lines = csv(times, x, head)
        if name == "header":
            lines.insert(500, lines[0])
        if name == "semicolon":
            lines = [line.replace(",", ";").replace(".", ",") for line in lines]
        made[name] = lines
    return made


def row_of(when: object) -> float:
    """A time in rows since the start of the stations."""
    return (seconds(str(when)) - START.astype(np.int64)) / STEP


def direction(before: float, now: float) -> str:
    return "" if not abs(now - before) > 0 else "rose" if now > before else "fell"


def in_result(result: Result) -> dict[str, list[Alarm]]:
    """The alarms of every node of a run or a fleet."""
    found = {}
    for n, node in enumerate(result.nodes):
        mine = found[Path(node).stem] = []
        for name, codes in result.codes.items():
            if name in COLUMN_ALARMS:
                for t, one in changes(name, alarm_of(result, n, name), result.x[n], result.features):
                    cause = int(result.causes[name][n, t])
                    column = result.features[cause] if cause >= 0 else ""
                    mine.append(Alarm(name, column, direction(one.before, one.now), row_of(result.times[t])))
            else:
                alarms = np.flatnonzero((codes[n] % 2 == 1) & present(result)[n])
                mine += [Alarm(name, "", "", row_of(result.times[t])) for t in alarms.tolist()]
    return found


def commanded(module: object, arguments: list[str]) -> tuple[dict[str, list[Alarm]], str]:
    """The alarms of a command, and what it printed."""
    results: list[Result] = []
    write, module.write_all = module.write_all, lambda result, output: results.append(result) or []
    said = StringIO()
    try:
        with redirect_stdout(said):
            code = main(arguments)
    finally:
        module.write_all = write
    if code:
        raise SystemExit(f"icvi {' '.join(arguments)}: exit code {code}")
    return in_result(results[0]), said.getvalue()


def watched(text: str) -> tuple[list[Alarm], str]:
    """The alarms of `icvi watch` on the text of a file, and what it said."""
    command = [sys.executable, "-m", "icvi_jax.cli", "watch"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=600)
    found = []
    for line in done.stdout.splitlines():
        alarm = json.loads(line)
        if alarm["alarm"] not in ("recovered", "clock"):
            way = direction(alarm["from"] or 0.0, alarm["to"] or 0.0)
            found.append(Alarm(alarm["index"], alarm["cause"] or "", way, row_of(alarm["time"])))
    return found, done.stderr


def only_in(some: list[Alarm], others: list[Alarm]) -> list[Alarm]:
    """Alarms that the others do not have."""
    rest, alone = list(others), []
    for alarm in some:
        same = [one for one in rest if one[:3] == alarm[:3] and abs(one.row - alarm.row) <= NEAR]
        if same:
            rest.remove(min(same, key=lambda one: abs(one.row - alarm.row)))
        else:
            alone.append(alarm)
    return alone


def compare(folder: Path, made: dict[str, list[str]], words: bool = False) -> int:
    """Run all three on the stations in a folder; returns how many alarms are not the same."""
    together = {}
    for own, others in itertools.groupby(sorted(made, key=OWN_COLUMNS.__contains__), OWN_COLUMNS.__contains__):
        for part in (
            [[name] for name in others] if own else [list(others)]
        ):  # a fleet has the columns that all files have
            site = folder / (part[0] if own else "site")
            site.mkdir(exist_ok=True)
            for name in part:
                (site / f"{name}.csv").write_text("\n".join(made[name]) + "\n")
            found, said = commanded(fleet, ["fleet", str(site)])
            together |= found
            if words:
                print(said)
    differ = 0
    print(f"{'station':12}{'run':>6}{'fleet':>7}{'watch':>7}   the step is seen   not the same")
    for name in made:
        path = next(folder.glob(f"*/{name}.csv"))
        alone, said = commanded(run, ["run", str(path)])
        ways = {"run": next(iter(alone.values())), "fleet": together[name]}
        ways["watch"], heard = watched(path.read_text())
        if words:
            print(said, heard)
        seen = ["yes" if any(a.column == "flow" and -1 <= a.row - AT <= 20 for a in w) else "no" for w in ways.values()]
        apart = [
            f"{one} only, not {other}: {alarm.monitor} {alarm.column} {alarm.direction} in row {alarm.row:.0f}"
            for one, first in ways.items()
            for other, second in ways.items()
            for alarm in only_in(first, second)
        ]
        differ += len(apart)
        counts = "".join(f"{len(found):7}" for found in ways.values())
        print(f"{name:11}{counts}   {'/'.join(seen):18} {'; '.join(apart) or '–'}", flush=True)
    return differ


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="folder for the files of the stations")
    parser.add_argument("--only", nargs="*", help="stations to compare")
    parser.add_argument("--words", action="store_true", help="print what the commands say")
    return parser.parse_args()


if __name__ == "__main__":
    options = parse()
    chosen = {name: lines for name, lines in stations().items() if not options.only or name in options.only}
    with tempfile.TemporaryDirectory() as scratch:
        where = options.keep or Path(scratch)
        where.mkdir(parents=True, exist_ok=True)
        apart = compare(where, chosen, options.words)
    print(f"{apart} alarms differ")
    sys.exit(apart > 0)
