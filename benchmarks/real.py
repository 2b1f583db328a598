"""Alarms on labelled sensor streams: ours and rivals, at defaults and picked on a tuning half, beside blind controls.

    python benchmarks/real.py [--shared ../shared/data] [--only ADWIN --only Change] [--sets SKAB]

Tuned on half, reported on the other: SKAB valve 1 by files, the others by rows or motes (see labelled.py). An alarm
before a change is false; alarms close together count as one. Beside each F1 (with its 90 % interval over files) stand
the mean F1 of random alarms and that of a metronome, both raising as many alarms in each stream. With `--write` the
rows go to docs/results, beside those of earlier runs: the benchmark can be run in pieces.

On SKAB read the clock first. All its experiments were run by one timetable: a clock that is told when changes came in
the even files, and looks at no sensor, gets on the odd ones what the row "a clock" says. No score on SKAB shows that
anything was detected unless it is held against that row and against random alarms.
"""

from __future__ import annotations

import argparse
import pathlib
import time

import numpy as np
from detectors import OURS, RIVALS, Detector, Setting
from labelled import SETS, Labelled
from tables import known, write

from icvi_jax.evaluation import Row, Trial, judge, outcome, tally

HEAD = "   F1        90 %  random metron.  recall  delay  false/10⁴    NAB  cover"

COLUMNS = (
    "set", "detector", "F1", "90 %", "random", "metronome", "recall", "covering", "delay", "false per 10,000", "NAB",
)  # fmt: skip

MEANS = ("F1", "random", "false per 10,000")


def clock(trials: list[Trial]) -> list[int]:
    """The samples at which a clock that sees no data should raise alarms, given trials with known changes.

    It takes the earliest sample that hits a change of most trials, leaves those changes out, and continues as long as
    a sample hits at least half of the trials.
    """
    left = [list(t.windows) for t in trials]
    strikes: list[int] = []
    while True:
        votes = np.zeros(max(t.samples for t in trials), int)
        for windows in left:
            hit = np.zeros(len(votes), int)
            for first, last in windows:
                hit[first : last + 1] = 1
            votes += hit
        for s in strikes:  # alarms too close together would count as one
            gap = max(t.merge for t in trials)
            votes[max(0, s - gap) : s + gap + 1] = 0
        best = int(np.argmax(votes))
        if votes[best] < max(1, len(trials) / 2):
            return sorted(strikes)
        strikes.append(best)
        for windows in left:
            hit_window = next((w for w in windows if w[0] <= best <= w[1]), None)
            if hit_window is not None:
                windows.remove(hit_window)


def strike(strikes: list[int], trials: list[Trial]) -> list[list[int]]:
    """The alarms of such a clock on each trial."""
    return [[s for s in strikes if s < t.samples] for t in trials]


def of_trials(trials: list[tuple[int, Trial]], alarms: list[list[int]]) -> list[list[int]]:
    """The alarms of each trial: those of its stream that lie within it."""
    return [[a for a in alarms[stream] if a < trial.samples] for stream, trial in trials]


def pick(detector: Detector, data: Labelled) -> tuple[list[list[int]], list[list[int]], Setting, list[float]]:
    """Alarms at the default setting and at the best on the tuning half, that setting, and what both got there."""
    everything = [detector.alarms(data.streams, setting) for setting in detector.settings]
    trials = [t for _, t in data.tune]

    def tuned(alarms: list[list[int]]) -> float:
        return outcome([tally(a, t) for a, t in zip(of_trials(data.tune, alarms), trials)]).f1

    scores = [tuned(alarms) for alarms in everything]
    best = int(np.nanargmax(scores))
    return everything[0], everything[best], detector.settings[best], [scores[0], scores[best]]


def line(name: str, row: Row, files: bool, note: str = "") -> str:
    """One row of the table."""
    got, interval = row.outcome, f"{row.low:.2f}–{row.high:.2f}" if files and row.low == row.low else "one file"
    return (
        f"{name:34}{got.f1:5.2f} {interval:>11} {row.random:7.2f} {row.metronome.f1:7.2f} {got.recall:7.2f} "
        f"{got.delay:6.0f} {got.false_per_10000:10.1f} {got.nab:6.1f} {got.covering:6.2f}  {note}"
    )


def cells(label: str, name: str, row: Row, files: bool) -> tuple[str, ...]:
    """The same as text for a file."""
    got, interval = row.outcome, f"{row.low:.2f}–{row.high:.2f}" if files and row.low == row.low else ""
    numbers = row.random, row.metronome.f1, got.recall, got.covering
    delay = "" if got.delay != got.delay else f"{got.delay:.0f}"
    rates = delay, f"{got.false_per_10000:.1f}", f"{got.nab:.1f}"
    return (label, name, f"{got.f1:.2f}", interval, *(f"{value:.2f}" for value in numbers), *rates)


def publish(table: list[tuple[str, ...]]) -> None:
    """Write the rows beside those of earlier runs, which may have been of other sets and detectors, and the means."""
    rows = {(row[0], row[1]): tuple(row) for row in (*known("real"), *table)}
    names = ["no alarm", "a clock", *(f"{name}, {kind}" for name in OURS | RIVALS for kind in ("default", "picked"))]
    ordered = [rows[label, name] for label in SETS for name in names if (label, name) in rows]
    write("real", COLUMNS, ordered)
    means = []
    for name in names:
        mine = [[float(row[COLUMNS.index(head)]) for head in MEANS] for row in ordered if row[1] == name]
        if len(mine) == len(SETS):
            f1, random, false = np.mean(mine, axis=0)
            means.append((name, f"{f1:.2f}", f"{random:.2f}", f"{false:.1f}"))
    write("real_means", ("detector", *MEANS), means)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--only", action="append", choices=[*OURS, *RIVALS])
    parser.add_argument("--sets", action="append", choices=list(SETS))
    parser.add_argument("--write", action="store_true", help="write docs/results/real*.csv")
    given = parser.parse_args(argv)
    table: list[tuple[str, ...]] = []
    scores: dict[str, list[tuple[float, ...]]] = {}
    for label in given.sets or SETS:
        data = SETS[label](given.shared)
        trials = [t for _, t in data.report]
        print(f"\n{label}: {len(trials)} trials, {sum(len(t.windows) for t in trials)} changes to find\n{'':34}{HEAD}")
        silent = judge(trials, [[] for _ in trials])
        print(line("no alarm", silent, data.files))
        table.append(cells(label, "no alarm", silent, data.files))
        if data.repeats:
            strikes = clock([t for _, t in data.tune])
            blind = judge(trials, strike(strikes, trials))
            print(line("a clock", blind, data.files, f"strikes at rows {strikes}"))
            table.append(cells(label, "a clock", blind, data.files))
        for name, detector in (OURS | RIVALS).items():
            if given.only and name not in given.only:
                continue
            began = time.perf_counter()
            usual, best, setting, tuned = pick(detector, data)
            took = f"{time.perf_counter() - began:.0f} s"
            for kind, alarms, note, half in zip(("default", "picked"), (usual, best), (took, str(setting)), tuned):
                row = judge(trials, of_trials(data.report, alarms))
                print(line(f"{name}, {kind}", row, data.files, f"tuning half {half:.2f}, {note}"), flush=True)
                table.append(cells(label, f"{name}, {kind}", row, data.files))
                got = row.outcome
                scores.setdefault(f"{name}, {kind}", []).append((got.f1, row.random, got.false_per_10000, half))
    print(f"\n{'mean over sets':34}{'F1':>5} {'random':>7} {'false/10⁴':>10} {'F1 on tuning halves':>20}")
    for name, rows in scores.items():
        f1, random, false, half = np.nanmean(np.array(rows), 0)
        print(f"{name:34}{f1:5.2f} {random:7.2f} {false:10.1f} {half:20.3f}")
    if given.write:
        publish(table)


if __name__ == "__main__":
    main()
