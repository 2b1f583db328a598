"""How large a machine a watch needs: processor, memory and disk for some numbers of nodes that send once a minute.

    python benchmarks/sizing.py [--nodes 100 10000 33334 100000] [--write docs/howto/sizing.csv]

`icvi watch --checkpoint` reads minutes of readings (four columns a node) as fast as it can; processor time is that of
the process without its start, the share of a core is what one minute of readings costs over sixty seconds. Memory is
the largest resident size, disk the largest size of the folder. 33,334 nodes are what each of three machines has of
100,000.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

COLUMNS = ("celsius", "bar", "flow", "volt")
MOST_LINES, MOST_MINUTES = 600_000, 1000


def size_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # a file that is written anew
            continue
    return total


def minutes_of(nodes: int, minutes: int) -> list[bytes]:
    """The lines of each minute."""
    rng, start = np.random.default_rng(0), np.datetime64("2026-01-01T00:00", "s")
    made = []
    for minute in range(minutes):
        x = rng.normal((20, 3, 40, 230), (1, 0.1, 2, 1), (nodes, 4))
        when = start + np.timedelta64(60 * minute, "s")
        rows = (f"{when},n{n},{a:.3f},{b:.3f},{c:.3f},{d:.3f}\n" for n, (a, b, c, d) in enumerate(x.tolist()))
        made.append("".join(rows).encode())
    return made


def measure(nodes: int, minutes: int) -> tuple[float, float, float]:
    """Processor time in seconds, memory and disk in MB of one watch."""
    made = minutes_of(nodes, minutes)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "state"
        command = [sys.executable, "-m", "icvi_jax.cli", "watch", "--checkpoint", str(folder), "--nodes", str(nodes)]
        command += ["--most-nodes", str(nodes), "--columns", *COLUMNS]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as watch:
            assert watch.stdin is not None and watch.stderr is not None
            largest, done = [0], threading.Event()

            def look() -> None:
                while not done.wait(0.2):
                    largest[0] = max(largest[0], size_of(folder))

            looking = threading.Thread(target=look)
            looking.start()
            watch.stdin.write(f"time,node,{','.join(COLUMNS)}\n".encode())
            for minute in made:
                watch.stdin.write(minute)
            watch.stdin.close()
            said = watch.stderr.read().decode()
            _, status, used = os.wait4(watch.pid, 0)
            watch.returncode = os.waitstatus_to_exitcode(status)
            done.set()
            looking.join()
        counted = f"{nodes * minutes:,} samples of {nodes:,} node"
        if counted not in said:
            raise SystemExit(f"expected {counted}: {said}")
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, max(largest[0], size_of(folder)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 10_000, 33_334, 100_000])
    parser.add_argument("--write", type=Path, help="file for the table")
    options = parser.parse_args()
    rows = []
    for nodes in options.nodes:
        minutes = max(3, min(MOST_MINUTES, MOST_LINES // nodes))
        began = time.perf_counter()
        start, _, _ = measure(nodes, 1)
        used, memory, disk = measure(nodes, minutes)
        share = (used - start) / (minutes - 1) / 60
        rows.append((nodes, f"{share:.2%}", f"{memory:,.0f}", f"{disk:,.1f}", f"{start:.1f}"))
        print(f"{nodes:,} nodes: {rows[-1][1:]}, {minutes} minutes in {time.perf_counter() - began:.0f} s", flush=True)
    if options.write:
        with options.write.open("w", newline="") as file:
            csv.writer(file).writerows(
                [
                    ("nodes that send each minute", "of one core", "memory [MB]", "disk [MB]", "start [s of one core]"),
                    *rows,
                ]
            )


if __name__ == "__main__":
    main()
