"""`icvi fleet` on a table larger than memory: bucket by bucket; what is done is on disk, so that a run that was killed
goes on. All alarms are written, and a report of the worst nodes."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
import time as clock
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import icvi_jax as icvi
from icvi_jax.cli.alarms import with_any_rate
from icvi_jax.cli.build_pipeline import settle
from icvi_jax.cli.clusterers import clusterer_in
from icvi_jax.cli.compute import RAISED, about_missing, compute, measured
from icvi_jax.cli.options import Job, Output
from icvi_jax.cli.outputs import check_output, write_all
from icvi_jax.cli.summary import Found, collect, join, tell_alarms, tell_head, tell_treatment, tell_worst, tell_written
from icvi_jax.report.alarm_text import alarm_word
from icvi_jax.tables import Fleet, TableError, whole, write_table
from icvi_jax.tables.fleet import align, first_notes
from icvi_jax.tables.out_of_core import Bucket, LargeTable, is_large, is_url, parquet_files, without_password
from icvi_jax.terminal_text import counted
from icvi_jax.terminal_text import say as note
from icvi_jax.watch.journal import locked

UNFINISHED, SOURCE, LOCK = "unfinished", "source.json", "unfinished.lock"
SHOWN_NODES, SHOWN_ROWS = 1000, 2_000_000
"""Nodes and rows in the report."""


def goes_large(source: str, node: str, query: str, large: bool | None) -> bool:
    """Whether a table is read bucket by bucket: as the options say, otherwise by its kind and size."""
    if is_url(source) != bool(query):
        expected = "needs --query 'SELECT node, time, … FROM …'" if is_url(source) else "is no database, so no --query"
        raise ValueError(f"{without_password(source, source)}: {expected}")
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
    mine = [icvi.__version__, without_password(source, source), query, node, files, options]
    _claim(folder, json.dumps(mine, default=str))
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
    found, said = _compute_all(pipe, table, folder)
    notes = [*table.notes, *more]
    told = [re.sub(r"(error codes in .* as missing): [^;]*", r"\1", one) for some in said for one in some]
    notes += first_notes(list(dict.fromkeys(told)))
    few = len(nodes_with_few(table.shown, table.nodes, pipe, found.nodes["complete"], table.features))
    notes += [f"{FEW_ROWS} in {counted(few, 'node')}"] if few else []
    notes += about_missing(float(found.nodes["missing"].mean()))
    if budget is not None:
        raised = (int(found.nodes[name].sum()) for name in ("raised", "again", "samples"))
        settings += ((RAISED, measured(budget, *raised)),)
    paths = _write_tables(pipe, table, found, output)
    notes.append(_write_report(pipe, table, found, settings, notes, output))
    paths += [output.out / name for name in (output.readings, "plot.png", "report.html")]
    shutil.rmtree(folder)  # before a word is said: who reads the output may have gone
    samples = int(found.nodes["samples"].sum())
    tell_head(table.shown, f"{len(table.nodes):,} nodes, ", samples, "", table.features)
    tell_treatment(settings, notes, bool(found.nodes["overflow"].any()))
    tell_alarms(found, list(pipe.monitors))
    tell_worst(found, table.nodes, table.features, list(pipe.monitors), bool(table.time_name))
    tell_written(paths)
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


def _compute_all(pipe: icvi.Pipeline, table: LargeTable, folder: Path) -> tuple[Found, list[list[str]]]:
    """Compute the buckets that are not done, each one written when it is; returns also the notes of each."""
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
        kept = collect(result, list(pipe.monitors), bucket.nodes, bucket.when)
        with whole(paths[b]) as draft, draft.open("wb") as file:
            np.savez(file, notes=np.array(json.dumps(bucket.notes)), **kept)  # type: ignore[arg-type]
        done += int(rows[b])
        shown.tell(done)
    parts = [dict(np.load(path)) for path in paths]
    return join(parts), [json.loads(str(part["notes"])) for part in parts]


def _ahead(table: LargeTable, todo: Sequence[int]) -> Iterator[Bucket]:
    """Buckets, each read in a thread while the one before is computed."""
    with ThreadPoolExecutor(1) as reader:
        coming = deque[Future[Bucket]]()
        for b in todo:
            coming.append(reader.submit(table.bucket, b))
            if len(coming) == 2:
                yield coming.popleft().result()
        if coming:
            yield coming.pop().result()


class Progress:
    """Rows done, rows a second and the time left: a line that is written again on a terminal, else one in 30 s."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.first, self.begun, self.told = total, done, clock.monotonic(), -np.inf

    def tell(self, done: int) -> None:
        """Print the progress, if it is time; a line that is written again is cleared at the end."""
        now, live = clock.monotonic(), sys.stderr.isatty()
        if now - self.told < (0.5 if live else 30) and done < self.total:
            return
        self.told = now
        rate = (done - self.first) / (now - self.begun)
        left = round((self.total - done) / rate)
        text = f"{done:,} of {self.total:,} rows, {rate:,.0f} a second, {left // 60}:{left % 60:02d} left"
        if live:
            print(f"\r{text if left else '':<78}\r", end="", file=sys.stderr, flush=True)
        else:
            note(text)


FEW_ROWS = "too few rows with a reading in every column for clusters"


def nodes_with_few(
    shown: str, nodes: Sequence[str], pipe: icvi.Pipeline, complete: np.ndarray, features: Sequence[str]
) -> np.ndarray:
    """The nodes with too few complete rows for clusters, given how many each has; an error if all have too few."""
    needed, best = clusterer_in(pipe).least(len(features)) + 1, int(np.argmax(complete))
    if complete[best] < needed:
        raise TableError(
            shown,
            f"no node has the {needed} complete rows that are needed; {nodes[best]!r} has the most, {complete[best]} "
            "(choose columns with --columns, or take means in windows with --every)",
        )
    return np.flatnonzero(complete < needed)


def _write_tables(pipe: icvi.Pipeline, table: LargeTable, found: Found, output: Output) -> list[Path]:
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
