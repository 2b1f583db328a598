"""`icvi fleet` on a table larger than memory: bucket by bucket; what is done is on disk, so that a run that was killed
goes on. All alarms are written, and a report of the worst nodes."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
import time as clock
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.cli.alarms import with_any_rate
from icvi_jax.cli.clusterers import clusterer_in
from icvi_jax.cli.compute import RAISED, compute, measured_text
from icvi_jax.cli.model import settle
from icvi_jax.cli.options import Job, Output
from icvi_jax.cli.outputs import check_output, write_all
from icvi_jax.cli.summary import say, tell_table, tell_written
from icvi_jax.indices.health import trust_of
from icvi_jax.report.alarm_text import alarm_word, count_alarms
from icvi_jax.report.alarm_text import clock as in_words
from icvi_jax.report.result import (
    CHANGE,
    COLUMN_ALARMS,
    Result,
    distress_score,
    listeners,
    missing_share,
    present,
)
from icvi_jax.report.trust import WORDS
from icvi_jax.tables import Fleet, TableError, whole, write_table
from icvi_jax.tables.fleet import align, first_notes
from icvi_jax.tables.large import Bucket, LargeTable, is_large, is_url, parquet_files
from icvi_jax.text import counted
from icvi_jax.text import say as note
from icvi_jax.watch.locking import locked

UNFINISHED, SOURCE, LOCK = "unfinished", "source.json", "unfinished.lock"
SHOWN_NODES, SHOWN_ROWS, WORST = 1000, 2_000_000, 10
"""Nodes and rows in the report; nodes in the terminal."""
Arrays = dict[str, np.ndarray]


class Found(NamedTuple):
    """What is known of each node, of each alarm, and the notes of each bucket."""

    nodes: Arrays
    alarms: Arrays
    notes: list[list[str]]


def goes_large(source: str, node: str, query: str, large: bool | None) -> bool:
    """Whether a table is read bucket by bucket: as the options say, otherwise by its kind and size."""
    if is_url(source) != bool(query):
        expected = "needs --query 'SELECT node, time, … FROM …'" if is_url(source) else "is no database, so no --query"
        raise ValueError(f"{source.split('@')[-1]}: {expected}")
    return bool(query) or (is_large(source, node) if large is None else large)


def large_command(source: str, query: str, node: str, job: Job) -> int:
    """Divide, compute, rank, write, never with the table in memory; no second run may write there."""
    output = job.output
    check_output(output)
    output.out.mkdir(parents=True, exist_ok=True)
    lock = locked(output.out / LOCK, f"--out {output.out}: another run is writing there")
    try:
        return _large(source, query, node, job)
    finally:
        lock.close()
        (output.out / LOCK).unlink(missing_ok=True)


def _large(source: str, query: str, node: str, job: Job) -> int:
    data, model, alarms, output = job.data, job.model, job.alarms, job.output
    if alarms.agree != 1:
        raise ValueError(f"--agree {alarms.agree}: not for a table of this size; alarms.csv has all alarms")
    hours = np.datetime64("2026-01-01", "us") + np.arange(300) * np.timedelta64(60, "s")
    # Bad options are refused before the table is divided; whether so few false alarms can be promised, it says itself.
    one = Fleet("", ("",), ("x",), np.sin(np.arange(300.0))[None, :, None], hours, "t")
    settle(one, model, with_any_rate(alarms))
    folder = output.out / UNFINISHED
    there = [Path(urlsplit(source).path)] if source.startswith("duckdb:") else parquet_files(source)
    files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in there if path.exists()]
    options = [dataclasses.asdict(one) for one in (data, model, alarms)]
    _claim(folder, json.dumps([icvi.__version__, source.split("@")[-1], query, node, files, options], default=str))
    table = LargeTable(source, query, folder, data.columns, data.time, node, data.every, data.keep_codes)
    first = table.bucket(0)
    axis = None if first.times is None else np.unique(first.times)
    known = Fleet(table.shown, table.nodes, table.features, first.x, axis, table.time_name)
    pipe, budget, settings, more = settle(known, model, alarms)
    if budget is not None and budget.agree > 1:
        least = f"{1.005 * budget._replace(agree=1).expected:.3g}"  # rounded, it must not be refused again
        raise ValueError(
            f"--false-alarms {alarms.false_alarms}: so few are promised for incidents only, which are not told for a "
            f"table of this size; ask for at least {least} per {budget.per}"
        )
    found = _compute_all(pipe, table, folder)
    notes = [*table.notes, *more]
    said = [re.sub(r"(error codes in .* as missing): [^;]*", r"\1", one) for some in found.notes for one in some]
    notes += first_notes(list(dict.fromkeys(said)))
    notes += _few(table, found, clusterer_in(pipe).least(len(table.features)) + 1)
    if budget is not None:
        raised = (int(found.nodes[name].sum()) for name in ("raised", "again", "samples"))
        settings += ((RAISED, measured_text(budget, *raised)),)
    paths = _write_tables(pipe, table, found, output)
    notes.append(_write_report(pipe, table, found, settings, notes, output))
    paths += [output.out / name for name in (output.readings, "plot.png", "report.html")]
    _summarize(pipe, table, found, settings, notes, paths)
    shutil.rmtree(folder)
    return 0


def _claim(folder: Path, mine: str) -> None:
    """Make the folder of this run, or empty it if it is of another source or other options."""
    there = folder / SOURCE
    if folder.exists():
        if not there.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder}: expected an empty folder, or that of an unfinished run")
        if there.exists() and there.read_text(encoding="utf-8") == mine:
            return
        shutil.rmtree(folder)
    with whole(there) as draft:
        draft.write_text(mine, encoding="utf-8")


def _compute_all(pipe: icvi.Pipeline, table: LargeTable, folder: Path) -> Found:
    """Compute the buckets that are not done; each one is written when it is."""
    paths = [folder / f"done-{b}.npz" for b in range(table.buckets)]
    todo = [b for b, path in enumerate(paths) if not path.exists()]
    rows = np.bincount(table.bucket_of, weights=table.lengths, minlength=table.buckets).astype(np.int64)
    done = int(rows.sum() - rows[todo].sum())
    if done:
        note(f"going on after {done:,} of {int(rows.sum()):,} rows")
    shown = Progress(int(rows.sum()), done)
    for b, bucket in zip(todo, _ahead(table, todo)):
        names = tuple(table.nodes[n] for n in bucket.nodes)
        result = compute(pipe, Fleet(table.shown, names, table.features, bucket.x), bar=False)
        with whole(paths[b]) as draft, draft.open("wb") as file:
            np.savez(file, **_summary(result, bucket, list(pipe.monitors)))  # type: ignore[arg-type]
        done += int(rows[b])
        shown.tell(done)
    shown.end()
    parts = [dict(np.load(path)) for path in paths]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "notes"}
    alarms = {name[6:]: values for name, values in joined.items() if name.startswith("alarm ")}
    nodes = {name: values for name, values in joined.items() if not name.startswith("alarm ")}
    order = np.argsort(nodes["node"], kind="stable")
    by_time = np.lexsort((alarms["monitor"], alarms["sample"], alarms["node"], alarms["time"]))
    return Found(
        {name: values[order] for name, values in nodes.items()},
        {name: values[by_time] for name, values in alarms.items()},
        [json.loads(str(part["notes"])) for part in parts],
    )


def _summary(result: Result, bucket: Bucket, monitors: list[str]) -> Arrays:
    """What stays of a bucket."""
    there = present(result)
    made: Arrays = {
        "node": bucket.nodes,
        "score": distress_score(result),
        "samples": there.sum(axis=1),
        "complete": result.seen.sum(axis=1),
        "missing": missing_share(result),
        "overflow": np.asarray(result.overflow.any(axis=1)),
        "notes": np.array(json.dumps(bucket.notes)),
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
    counts = np.zeros((2, len(bucket.nodes)), np.int64)
    found = [np.nonzero(codes) for codes in result.codes.values()]
    for n in np.unique(np.concatenate([rows for rows, _ in found])):
        counts[:, n] = count_alarms({name: codes[n : n + 1] for name, codes in result.codes.items()})
    made |= {"raised": counts[0], "again": counts[1]}
    n, t = (np.concatenate(some) for some in zip(*found))

    def picked(field: dict[str, NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([field[name][where] for name, where in zip(result.codes, found)])

    made |= {"alarm node": bucket.nodes[n], "alarm sample": t, "alarm code": picked({**result.codes})}
    made["alarm time"] = t.astype(float) if bucket.times is None else bucket.times[bucket.starts[n] + t]
    made["alarm monitor"] = np.repeat([monitors.index(name) for name in result.codes], [len(rows) for rows, _ in found])
    for word, field in (("cause", result.causes), ("score", result.score), ("p", result.chances)):
        made[f"alarm {word}"] = picked({**field})
    return made


def _ahead(table: LargeTable, todo: Sequence[int]) -> Iterator[Bucket]:
    """Buckets, each read in a thread while the one before is computed."""
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(table.bucket, b) for b in todo[:1]]
        for b in (*todo[1:], None):
            if not coming:
                return
            bucket = coming.pop().result()
            if b is not None:
                coming.append(reader.submit(table.bucket, b))
            yield bucket


class Progress:
    """Rows done, rows a second and the time left: a line that is written again on a terminal, else one in 30 s."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.first, self.begun, self.told = total, done, clock.monotonic(), -np.inf
        self.live = sys.stderr.isatty()

    def tell(self, done: int) -> None:
        """Tell it, if it is time."""
        now = clock.monotonic()
        if now - self.told < (0.5 if self.live else 30) or done == self.first:
            return
        self.told = now
        rate = (done - self.first) / (now - self.begun)
        left = round((self.total - done) / rate)
        text = f"{done:,} of {self.total:,} rows, {rate:,.0f} a second, {left // 60}:{left % 60:02d} left"
        if self.live:
            print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)
        else:
            note(text)

    def end(self) -> None:
        """Clear the line."""
        if self.live:
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)


def _few(table: LargeTable, found: Found, needed: int) -> list[str]:
    """Refuse a table in which no node has enough complete rows; a note counts those that do not."""
    complete = found.nodes["complete"]
    best = int(np.argmax(complete))
    if complete[best] < needed:
        what = f"no node has the {needed} complete rows that are needed; {table.nodes[best]!r} has the most, "
        raise TableError(table.shown, f"{what}{complete[best]} (choose columns with --columns)")
    few, share = int((complete < needed).sum()), float(found.nodes["missing"].mean())
    notes = [f"too few rows with a reading in every column for clusters in {counted(few, 'node')}"] if few else []
    return notes + ([f"{100 * share:.3g} % of the samples are missing or incomplete"] if share else [])


def _write_tables(pipe: icvi.Pipeline, table: LargeTable, found: Found, output: Output) -> list[Path]:
    """All alarms in time order, and a row for each node."""
    paths, monitors = [output.out / "alarms.csv", output.out / "nodes.csv"], list(pipe.monitors)
    alarms = found.alarms
    columns = {name: alarms[name] for name in ("node", "sample", "time", "monitor")}
    if not table.time_name:
        del columns["time"]
    columns |= {"alarm": 4 * alarms["monitor"] + alarms["code"], "column": alarms["cause"] + 1}
    columns |= {"score": alarms["score"], "p": alarms["p"]}
    words = tuple(alarm_word(name, code) if code else "" for name in monitors for code in range(4))
    texts = {"node": table.nodes, "monitor": tuple(monitors), "alarm": words, "column": ("", *table.features)}
    write_table(paths[0], columns, texts)
    write_table(paths[1], found.nodes, {"node": table.nodes})
    return paths


def _write_report(
    pipe: icvi.Pipeline,
    table: LargeTable,
    found: Found,
    settings: tuple[tuple[str, str], ...],
    notes: list[str],
    output: Output,
) -> str:
    """Compute the worst nodes again, with all their readings; returns what the report has."""
    order = found.nodes["node"][np.argsort(-found.nodes["score"], kind="stable")]
    longest = np.maximum.accumulate(table.lengths[order])
    few = int((np.arange(1, len(order) + 1) * longest <= SHOWN_ROWS).sum())
    who, rows = table.rows_of(np.sort(order[: max(1, min(SHOWN_NODES, few))]))
    x, axis, more = align(table.shown, rows, len(who))
    said = f"report and readings show the worst {counted(len(who), 'node')} of {len(order):,}; "
    said += "alarms.csv and nodes.csv have all of them"
    names = tuple(table.nodes[n] for n in who)
    fleet = Fleet(table.shown, names, table.features, x, axis, table.time_name, (*notes, *more, said))
    result = compute(pipe, fleet, None, settings, bar=False)
    write_all(result._replace(everyone=found.nodes["score"].astype(np.float64)), output)
    return said


def _summarize(
    pipe: icvi.Pipeline,
    table: LargeTable,
    found: Found,
    settings: tuple[tuple[str, str], ...],
    notes: list[str],
    paths: list[Path],
) -> None:
    """Print the worst nodes."""
    nodes, alarms, monitors = found.nodes, found.alarms, list(pipe.monitors)
    samples = int(nodes["samples"].sum())
    say(f"{table.shown}: {len(table.nodes):,} nodes, {samples:,} samples, {', '.join(table.features)}")
    for word, value in settings:
        say(f"  {word}: {value}")
    for sentence in notes:
        say(f"  note: {sentence}")
    if nodes["overflow"].any():
        say("  note: more clusters were needed than there is room for: raise --capacity or --slots")
    worst = np.argsort(-nodes["score"], kind="stable")[:WORST]
    heads, cells = ["worst nodes", "score"], [[table.nodes[n] for n in nodes["node"][worst]]]
    cells.append([f"{score:.3g}" for score in nodes["score"][worst]])
    for name in [name for name in monitors if name not in COLUMN_ALARMS][:1]:
        once, still = counted(int((nodes["distress"] > 0).sum()), "node"), int(nodes["still"].sum())
        spikes = int(((alarms["monitor"] == monitors.index(name)) & (alarms["code"] == 1)).sum())
        say(f"in distress at some time (by {name}): {once}; still: {still:,}; {counted(spikes, 'spike')}")
        heads.append("in distress")
        share = 100 * nodes["distress"][worst] / np.maximum(nodes["samples"][worst], 1)
        cells.append([f"{one:.3g} %" for one in share])
    if "trust" in nodes:
        words = [trust_of(float(one)) or "unknown" for one in nodes["trust"]]
        some = ", ".join(f"{word} in {counted(words.count(word), 'node')}" for word in WORDS if word in words)
        say(f"trust at the end: {some}")
        heads.append("trust")
        cells.append([words[n] for n in worst])
    for name in (name for name in COLUMN_ALARMS if name in monitors):
        mine = alarms["node"][alarms["monitor"] == monitors.index(name)]
        if len(mine) or name == CHANGE:
            what = "changes of columns" if name == CHANGE else "stuck columns"
            say(f"{what}: {len(mine):,}, in {counted(len(np.unique(mine)), 'node')}")
    first = [alarms["time" if table.time_name else "sample"][alarms["node"] == n][:1] for n in nodes["node"][worst]]
    cells.append([in_words(some[0]) if len(some) else "–" for some in first])
    tell_table((*heads, "first alarm"), list(zip(*cells)))
    tell_written(paths)
