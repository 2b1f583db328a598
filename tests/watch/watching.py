"""Helpers for tests of the watch: a feed of two nodes, and waiting."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
import time
from contextlib import closing

import numpy as np

from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Rules, WatchLoop
from icvi_jax.watch.source import ONLY, Message

COMMAND = [sys.executable, "-m", "icvi_jax.cli", "watch", "-k", "2", "--index", "xb", "--no-standardize"]
PATIENCE = 300  # a machine may be busy
PIPE = pipeline_of(Model(k=2, index=("xb",), standardize=False))


def samples(count=260, nodes=("a", "b")):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, len(nodes)))
    x[150:, 0] += 60
    return [(node, t, float(x[t, n])) for t in range(count) for n, node in enumerate(nodes)]


def lines(items):
    return "".join(json.dumps({"node": node, "time": t, "v": v}) + "\n" for node, t, v in items)


def taken(items):
    """Items in the form that a watch takes."""
    return messages(line.encode() for line in lines(items).splitlines())


def messages(found):
    return [Message([line]) for line in found]


def alarms(text):
    """Alarms without what differs from one watch to the next: the beginning of their ids."""
    found = [json.loads(line) for line in text.splitlines()]
    return [alarm | {"id": alarm["id"].partition("-")[2]} for alarm in found]


class One(WatchLoop):
    """A watch of one part, whose batches come from the test."""

    part = property(lambda self: self.parts[ONLY])
    shard = property(lambda self: self.part.shard)
    store = property(lambda self: self.part.store)
    out = property(lambda self: self.printer.out)

    def take(self, messages):
        self.turn({ONLY: messages})

    def idle(self):
        self.turn({})


def begun(folder=None, out=None, pipe=PIPE, sinks=(), buffers=None, **rules):
    watch = One(pipe, Reader, Rules(**rules), out or io.StringIO(), sinks, buffers)
    watch.open_journal(folder)
    return watch


def watched(items, folder=None, **options):
    watch = begun(folder, **options)
    watch.take(taken(items))
    return watch


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


def noted(folder):
    """Samples that the notes of a running watch hold, and how many alarms it marked as printed."""
    try:
        with closing(sqlite3.connect(f"file:{folder / 'watch.db'}?mode=ro", uri=True)) as db:
            held = [tuple(s[:2]) for (text,) in db.execute("SELECT samples FROM journal") for s in json.loads(text)]
            return held, db.execute("SELECT number FROM marks WHERE sink = 'print'").fetchone()[0]
    except sqlite3.Error:
        return [], 0
