"""`icvi fleet` on tables larger than memory: peak memory, rows a second, killed and resumed, the report in a browser.

    python benchmarks/large.py                     # 100 million rows of 2,000, 10,000 and 100,000 nodes, two columns
    python benchmarks/large.py --rows 2e6 --nodes 1000 --kills 3
    python benchmarks/large.py --nodes 2000 --kills 2 --default 1e7 --write     # docs/results/large.csv

Rows are in time order, the nodes one after another, as a recorder writes them. Rates are by the clock and by processor
time: on a machine that does nothing else, rows a second are near `2 × rows / CPU` on two cores. Peak memory is that of
the process, DuckDB and XLA included.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import duckdb
import tables
from command import look

COLUMNS = ("rows", "nodes", "options", "seconds", "CPU s", "rows/s", "rows per CPU s", "peak MB", "kills", "report")
RESULTS = ("alarms.csv", "nodes.csv", "readings.csv")


def make(path: pathlib.Path, rows: int, nodes: int) -> None:
    """Three regimes in each node, changed every 50 rows; one node in 100 fails after two thirds."""
    steps, connection = rows // nodes, duckdb.connect()
    connection.execute("SET memory_limit = '2GB'; SET preserve_insertion_order = true; SELECT setseed(0.5)")
    regime = "6 * (hash(n, t // 50) % 3)::DOUBLE"
    fails = f"CASE WHEN n % 100 = 7 AND t > {2 * steps // 3} THEN 40 * random() ELSE 0 END"
    noise = "sqrt(-2 * ln(1 - random())) * cos(6.283185307179586 * random())"
    connection.execute(
        f"COPY (SELECT 'n' || n AS node, TIMESTAMP '2026-01-01' + t * INTERVAL 1 MINUTE AS time, "
        f"round({regime} + {noise} + {fails}, 3) AS temp, round(-{regime} + {noise}, 3) AS hum "
        f"FROM range({steps}) a(t), range({nodes}) b(n)) TO '{path}' (FORMAT parquet)"
    )


def run(
    source: pathlib.Path, out: pathlib.Path, options: list[str], kill_after: float = 0.0
) -> tuple[float, float, float]:
    """Seconds, processor seconds and the peak in MB of one call; it is killed after so many seconds, if any."""
    command = [sys.executable, "-m", "icvi_jax.cli", "fleet", str(source), "--large", "--out", str(out), *options]
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=None if os.environ.get("VERBOSE") else -3)
    peak = 0
    while True:
        done, status, used = os.wait4(child.pid, os.WNOHANG)
        if done:
            break
        try:
            with open(f"/proc/{child.pid}/status", encoding="utf-8") as file:
                peak = max([peak, *(int(line.split()[1]) for line in file if line.startswith("VmHWM"))])
        except OSError:
            pass
        if kill_after and time.perf_counter() - begun > kill_after:
            child.kill()
            kill_after = 0.0
        time.sleep(0.05)
    child.returncode = status
    if status and os.WIFEXITED(status):
        raise SystemExit(f"{' '.join(command)}: failed with {os.WEXITSTATUS(status)}")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, max(peak, used.ru_maxrss) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2_000, 10_000, 100_000])
    parser.add_argument("--kills", type=int, default=0, help="kill a second run so often, resume, compare")
    parser.add_argument("--default", type=float, default=0.0, help="also so many rows of 1,000 nodes without -k 3")
    parser.add_argument("--folder", type=pathlib.Path, help="keep tables and results here")
    parser.add_argument("--write", action="store_true", help="write docs/results/large.csv")
    given = parser.parse_args()
    found = []
    cases = [(int(given.rows), nodes, ["-k", "3"]) for nodes in given.nodes]
    cases += [(int(given.default), 1000, options) for options in (["-k", "3"], []) if given.default]
    with tempfile.TemporaryDirectory() as other:
        folder = given.folder or pathlib.Path(other)
        folder.mkdir(parents=True, exist_ok=True)
        for rows, nodes, options in cases:
            source = folder / f"{rows}-{nodes}.parquet"
            if not source.exists():
                make(source, rows, nodes)
            out = folder / f"out-{rows}-{nodes}-{len(options)}"
            seconds, cpu, peak = run(source, out, options)
            kills = 0
            if given.kills and options:
                broken = folder / f"killed-{rows}-{nodes}"
                for n in range(given.kills):
                    part = run(source, broken, options, seconds * (n + 1) / (given.kills + 1))
                    peak, kills = max(peak, part[2]), kills + (not (broken / "alarms.csv").exists())
                run(source, broken, options)
                for name in RESULTS:
                    if (broken / name).read_bytes() != (out / name).read_bytes():
                        raise SystemExit(f"{name} differs after {kills} kills")
            row = [f"{rows:,}", f"{nodes:,}", " ".join(options) or "default", f"{seconds:.0f}", f"{cpu:.0f}"]
            row += [
                f"{rows / seconds:,.0f}",
                f"{rows / cpu:,.0f}",
                f"{peak:,.0f}",
                str(kills),
                look(out / "report.html"),
            ]
            found.append(row)
            print("  ".join(f"{name} {value}" for name, value in zip(COLUMNS, row)), flush=True)
    if given.write:
        tables.write("large", COLUMNS, found)


if __name__ == "__main__":
    main()
