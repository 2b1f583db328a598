"""Kill −9 a live fleet at random moments, during writes too, and compare every reading with an uninterrupted run.

    python tests/slow/kill.py --kills 200

Half of the kills come from outside after a random time, half from inside a random system call of a write. Every process
starts with the newest checkpoint and replays the stream from the positions in it; it logs a checksum of each reading. A
process that skipped a sample, used one twice, or rounded once in another way would log another checksum.
"""

import argparse
import hashlib
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import jax
import numpy as np

import icvi_jax as icvi

NODES, TICKS = 5, 100_000


def pipeline():

    return icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=2),
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9),
        monitors={"xb": icvi.Distress()},
    )


def sample(t):
    x = np.random.default_rng(t).normal(size=(NODES, 2)) + 5 * (t // 50 % 2)
    x[t % NODES if t % 7 == 0 else NODES :] = np.nan
    return x


def digest(reading):

    return hashlib.sha256(b"".join(a.tobytes() for a in jax.tree.leaves(reading))).hexdigest()[:16]


def die_inside_a_write(step):
    """Let the process kill itself at its `step`-th system call on behalf of a checkpoint."""
    left = [step]

    def dying(call):
        def wrapped(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return wrapped

    class Torn:
        """A file whose writes come in pieces, so that one can die between them."""

        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, content):
            for start in range(0, len(content), 4096):
                dying(self.file.write)(content[start : start + 4096])
                self.file.flush()

        flush, fileno = property(lambda self: self.file.flush), property(lambda self: self.file.fileno)

    from icvi_jax.checkpoint import container

    container.open = lambda *args: Torn(open(*args))
    os.fsync, os.replace, pathlib.Path.unlink = dying(os.fsync), dying(os.replace), dying(pathlib.Path.unlink)


def live_on(folder, log, announce, every, step):
    """One process: continue from the newest checkpoint until killed."""

    jax.config.update("jax_compilation_cache_dir", folder + "-programs")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if step:
        die_inside_a_write(step)
    pipe = pipeline()
    fresh = not os.path.isdir(folder) or not any(name.endswith(".icvi") for name in os.listdir(folder))
    live = icvi.Live(pipe, 2, NODES) if fresh else icvi.Live.load(folder, pipe)
    start = int(live.positions[0])
    assert live.positions.tolist() == [start] * NODES
    with open(log, "a", buffering=1) as out:
        for t in range(start, TICKS):
            line = digest(live.tick(sample(t)))
            out.write(f"{t} {line}\n")
            if t == start:
                os.write(announce, b".")
            if (t + 1) % every == 0:
                live.save(folder)


def one_life(folder, log, every, rng, inside):
    """Fork a process and wait until it is killed; returns whether it ticked at all."""
    read, announce = os.pipe()
    step = rng.randrange(1, 60) if inside else 0
    child = os.fork()
    if child == 0:
        try:
            live_on(folder, log, announce, every, step)
        except BaseException as problem:
            print(f"a life ended by itself: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    os.close(announce)
    ticked = os.read(read, 1) == b"."
    os.close(read)
    if not inside:
        time.sleep(rng.random() * 0.2)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"a life ended by itself: {status}"
    return ticked


def uninterrupted(ticks, queue):

    live = icvi.Live(pipeline(), 2, NODES)
    with open(queue, "w") as out:
        for t in range(ticks):
            out.write(digest(live.tick(sample(t))) + "\n")


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--every", type=int, default=3, help="ticks between checkpoints")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args(argv)
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        states, log = os.path.join(folder, "states"), os.path.join(folder, "log")
        # Nothing here touches a JAX device before the last fork: a fork of a running JAX may hang.
        lives = sum(one_life(states, log, given.every, rng, i % 2 == 1) for i in range(given.kills))
        lines = [line.split() for line in open(log).read().splitlines()]
        lines = [(int(line[0]), line[1]) for line in lines if len(line) == 2 and len(line[1]) == 16]
        last = max(t for t, _ in lines)
        child = os.fork()
        if child == 0:
            uninterrupted(last + 1, os.path.join(folder, "whole"))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        whole = open(os.path.join(folder, "whole")).read().split()
    wrong = [t for t, found in lines if whole[t] != found]
    missed = set(range(last + 1)) - {t for t, _ in lines}
    print(f"{given.kills} kills, {lives} lives that ticked, {len(lines)} readings of {last + 1} ticks", end=", ")
    print(f"{len(lines) - last - 1} replayed, {len(missed)} missing, {len(wrong)} different from the uninterrupted run")
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
