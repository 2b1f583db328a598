"""What the tests of the watch share: a feed of two nodes, and patience."""

from __future__ import annotations

import io
import json
import sys
import time

import numpy as np

from icvi_jax.cli.feed import Form, Sample
from icvi_jax.cli.model import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.cli.watcher import Watcher

COMMAND = [sys.executable, "-m", "icvi_jax.cli", "watch", "-k", "2", "--index", "xb"]
PATIENCE = 300  # a machine may be busy
FORM = Form(("v",), ())


def samples(count=260, nodes=("a", "b")):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, len(nodes)))
    x[150:, 0] += 60
    return [(node, t, float(x[t, n])) for t in range(count) for n, node in enumerate(nodes)]


def lines(items):
    return "".join(json.dumps({"node": node, "time": t, "v": v}) + "\n" for node, t, v in items)


def alarms(text):
    return [json.loads(line) for line in text.splitlines()]


def watched(items, folder=None):
    out = io.StringIO()
    watcher = Watcher(pipeline_of(Model(k=2, index=("xb",))), folder, out)
    watcher.restore()
    watcher.take([Sample(node, t, (v,)) for node, t, v in items], FORM)
    return watcher, out


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)
