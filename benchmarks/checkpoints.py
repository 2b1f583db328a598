"""Our checkpoint file compared with orbax-checkpoint: size, time to save, load and import, and what each refuses.

python benchmarks/checkpoints.py [--streams 1 1000 100000]
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import jax
import numpy as np

import icvi_jax as icvi


def pipeline(forgetting=0.9):
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=forgetting)
    return icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=10), panel=panel)


def state_of(streams):
    rng = np.random.default_rng(0)
    state = pipeline().init(2, (streams,), xp=np, dtype=np.float32)

    def filled(a):
        draw = rng.normal(size=a.shape) if a.dtype.kind == "f" else rng.integers(0, 100, a.shape)
        return np.asarray(draw).astype(a.dtype)

    return jax.tree.map(filled, state)


def timed(work, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def size_of(path):
    path = pathlib.Path(path)
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files), len(files)


def import_time(code):
    """Seconds that an import adds to a process which has JAX already."""
    program = f"import time, jax, numpy; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(3)]
    return min(float(run.stdout.split()[-1]) for run in runs)


def ours(folder, state, rounds):
    path = os.path.join(folder, "ours.icvi")
    saving, _ = timed(lambda: icvi.save(path, pipeline(), state), rounds)
    loading, _ = timed(lambda: icvi.load(path, pipeline(), xp=np), rounds)
    return path, saving, loading


def orbax(folder, state, rounds):
    import orbax.checkpoint as ocp

    path = os.path.join(folder, "orbax")
    plain = jax.tree.map(np.asarray, state)
    with ocp.StandardCheckpointer() as saver:

        def save():
            shutil.rmtree(path, ignore_errors=True)
            saver.save(path, plain)
            saver.wait_until_finished()

        saving, _ = timed(save, rounds)
        loading, _ = timed(lambda: saver.restore(path, plain), rounds)
    return path, saving, loading


def flipped(path, target, rng):
    """A copy of a checkpoint with one bit of its largest file flipped."""
    target = pathlib.Path(target)
    shutil.rmtree(target, ignore_errors=True)
    copy = shutil.copytree if os.path.isdir(path) else shutil.copy
    copy(path, target)
    files = [target] if target.is_file() else [p for p in target.rglob("*") if p.is_file()]
    largest = max(files, key=lambda p: p.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[rng.integers(len(content) // 4, 3 * len(content) // 4)] ^= 1 << int(rng.integers(8))
    largest.write_bytes(content)
    return target


def silent(read, path, folder, state, tries):
    """How many of `tries` bit flips give other numbers without an error."""
    rng = np.random.default_rng(1)
    wrong = 0
    for i in range(tries):
        target = flipped(path, os.path.join(folder, f"flipped{i}{pathlib.Path(path).suffix}"), rng)
        try:
            got = read(str(target))
        except Exception:
            continue
        found, wanted = ([np.asarray(a).tobytes() for a in jax.tree.leaves(tree)] for tree in (got, state))
        wrong += found != wanted
    return wrong


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--streams", type=int, nargs="+", default=[1, 1000, 100_000])
    options.add_argument("--flips", type=int, default=40)
    given = options.parse_args(argv)
    warnings.simplefilter("ignore")
    import orbax.checkpoint as ocp

    container = import_time("import zipfile, hashlib, json, io")
    print(f"import: ours {container * 1e3:.0f} ms, orbax {import_time('import orbax.checkpoint') * 1e3:.0f} ms")
    for streams in given.streams:
        state = state_of(streams)
        with tempfile.TemporaryDirectory() as folder:
            for name, work in (("ours", ours), ("orbax", orbax)):
                path, saving, loading = work(folder, state, 3)
                size, files = size_of(path)
                print(f"{streams:7} streams, {name:5}: {size / 1e3:9.1f} kB in {files:2} files", end=", ")
                print(f"save {saving * 1e3:7.1f} ms, load {loading * 1e3:7.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        state = state_of(100)
        path, *_ = ours(folder, state, 1)
        wrong = silent(lambda p: icvi.load(p, pipeline(), xp=np), path, folder, state, given.flips)
        print(f"bit flips that gave other numbers without an error: ours {wrong} of {given.flips}", end=", ")
        path, *_ = orbax(folder, state, 1)
        with ocp.StandardCheckpointer() as saver:
            wrong = silent(lambda p: saver.restore(p, state), path, folder, state, given.flips)
        print(f"orbax {wrong} of {given.flips}")


if __name__ == "__main__":
    sys.exit(main())
