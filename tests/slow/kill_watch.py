"""Kill −9 a watch at random moments, in the middle of its writes too, and compare with an uninterrupted one.

    python tests/slow/kill_watch.py --kills 200

Every process reads the feed from its first line, as from a file on standard input; with a time in each line the watch
skips the samples it has. Half of the kills come from outside after a random time, half from inside a random write
of notes or checkpoint. In the end all samples must have counted once, the states must be equal bit for bit, and every
alarm must have been printed at least once.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import WatchLoop
from icvi_jax.watch.source import Message

NODES, TICKS = 4, 6_000


def feed():
    """Lines of a few nodes that jump now and then."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(TICKS, NODES)) + 30 * (np.arange(TICKS)[:, None] // 700 % 2)
    for t in range(TICKS):
        for node in range(NODES):
            yield json.dumps({"node": f"n{node}", "time": t, "v": float(x[t, node])}).encode()


def die_inside_a_write(step):
    """Let the process kill itself at its `step`-th statement to the database, sync or rename."""
    left = [step]

    def counted():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    class Connection(sqlite3.Connection):
        def execute(self, *args):
            counted()
            return super().execute(*args)

    def dying(call):
        def wrapped(*args):
            counted()
            return call(*args)

        return wrapped

    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=Connection)
    os.fsync, os.replace = dying(os.fsync), dying(os.replace)


def live_on(folder, seed, announce, step):
    """One process: the feed from its beginning, in batches of random sizes, with checkpoints from time to time."""
    jax.config.update("jax_compilation_cache_dir", str(folder / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    rng = random.Random(seed)
    if step:
        die_inside_a_write(step)
    with (folder / "alarms").open("a") as out:
        watch = WatchLoop(pipeline_of(Model(k=2, index=("xb",), standardize=False)), Reader, out=out)
        part = watch.open_journal(folder / "kept")
        lines = list(feed())
        start = 0
        while start < len(lines):
            size = rng.randrange(1, 40)
            watch.turn({"": [Message(lines[start : start + size])]})
            start += size
            if start >= watch.samples - 40:
                os.write(announce, b".")
                time.sleep(0.001)  # as live samples come
                if rng.random() < 0.2:
                    watch.save()
        watch.save()
        watch.close()
    state = b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in jax.tree.leaves(part.shard.state))
    return {"samples": watch.samples, "state": hashlib.sha256(state).hexdigest()}


def one_life(folder, rng, kind):
    """Fork a process; returns its result if it finished, and whether it was killed."""
    read, announce = os.pipe()
    step = rng.randrange(1, 40) if kind == "inside" else 0
    seed = rng.random()
    child = os.fork()
    if child == 0:
        try:
            (folder / "end").write_text(json.dumps(live_on(folder, seed, announce, step)))
        except BaseException as problem:
            print(f"a life ended by itself: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    os.close(announce)
    if kind == "outside":
        os.read(read, 1)
        time.sleep(rng.random() * 0.06)
        os.kill(child, signal.SIGKILL)
    else:
        while os.read(read, 4096):  # until it ends
            pass
    os.close(read)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "a life ended by itself"
    return os.WIFSIGNALED(status)


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args(argv)
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        ends = []
        for name in ("killed", "whole"):
            folder = Path(place, name)
            folder.mkdir()
            kills = 0
            while name == "killed" and kills < given.kills and not (folder / "end").exists():
                kills += one_life(folder, rng, "outside" if kills % 2 else "inside")
            if not (folder / "end").exists():
                one_life(folder, rng, "to the end")
            printed = [json.loads(line) for line in (folder / "alarms").read_text().splitlines() if line.endswith("}")]
            alarms = [alarm["id"].partition("-")[2] for alarm in printed]
            ends.append((json.loads((folder / "end").read_text()), alarms, kills))
    (killed, alarms, kills), (whole, expected, _) = ends
    lost, more = set(expected) - set(alarms), len(alarms) - len(set(alarms))
    print(f"{kills} kills, {killed['samples']:,} of {TICKS * NODES:,} samples counted, state", end=" ")
    print("equal bit for bit" if killed["state"] == whole["state"] else "DIFFERENT", end=", ")
    print(f"{len(set(alarms))} alarms, {len(lost)} lost, {more} printed more than once")
    fine = killed == whole and killed["samples"] == TICKS * NODES and not lost and kills >= given.kills
    return 0 if fine and set(alarms) == set(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
