"""Time the command as a user sees it: files of usual sizes, and the report in a browser.

    python benchmarks/command.py

Wall clock and processor time of each command, from start to exit, with nothing compiled beforehand and again with the
programs of the first time kept; then size, first paint and click of the fleet's report in headless Chromium.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


def make_table(path: Path) -> None:
    """10⁵ rows by 8 columns with a time."""
    from icvi_jax.tables import write_table

    rng = np.random.default_rng(0)
    x = 0.02 * rng.normal(size=(100_000, 8)).cumsum(axis=0) + rng.normal(size=(100_000, 8))
    times = np.datetime64("2024-01-01", "s") + np.arange(len(x)) * 60
    write_table(path, {"time": times, **{f"s{i}": x[:, i] for i in range(8)}})


def make_fleet(path: Path) -> None:
    """1000 nodes by 2000 steps by 2, with changes and gaps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2000, 2)).astype(np.float32)
    for node in x:
        for change in rng.integers(100, 2000, size=rng.integers(0, 4)):
            node[change:] += rng.normal(scale=8, size=2)
    x[rng.random(x.shape[:2]) < 0.02] = np.nan
    np.savez(path, X=x)


def timed(arguments: list[str], cache: Path) -> str:
    """Run the command in a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-m", "icvi_jax.cli", *arguments], env=environment, capture_output=True, text=True
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return f"failed: {done.stderr.strip()}"
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{wall:6.1f} s, processor {spent:6.1f} s"


def look(report: Path) -> str:
    """Open a report in the browser."""
    import browser

    absent = [name for name in browser.NEEDED[1:] if not shutil.which(name)]
    if absent:
        return f"there is no {', no '.join(absent)}"
    with browser.chromium() as driver:
        browser.open_report(driver, report)
        paint = driver.execute_script("return performance.getEntriesByType('paint')[0].startTime")
        ready = driver.execute_script("return icvi.ready")
        clicks = [driver.execute_script("icvi.select(arguments[0]); return icvi.click", row) for row in (5, 50, 500)]
    return f"first paint {paint / 1e3:.2f} s, all drawn {ready / 1e3:.2f} s, a click {max(clicks) / 1e3:.3f} s"


def main() -> None:
    """Measure and print."""
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_table(folder / "run.csv")
        make_fleet(folder / "fleet.npz")
        for what, arguments in (
            ("icvi --help", ["--help"]),
            ("icvi run", ["run"]),
            ("icvi run, 10⁵ × 8", ["run", str(folder / "run.csv")]),
            ("icvi run -k 4, 10⁵ × 8", ["run", str(folder / "run.csv"), "-k", "4"]),
            ("icvi fleet, 1000 × 2000 × 2", ["fleet", str(folder / "fleet.npz")]),
        ):
            arguments = arguments if arguments == ["--help"] else [*arguments, "--out", str(folder / "out")]
            for state in ("first", "again"):
                print(f"{what:30} {state}: {timed(arguments, folder / 'cache')}", flush=True)
        report = folder / "out" / "report.html"
        print(f"fleet report: {report.stat().st_size / 1e6:.1f} MB, {look(report)}")


if __name__ == "__main__":
    main()
