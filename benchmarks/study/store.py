"""Results as small CSV files: written once by the scripts, read by the pages."""

from __future__ import annotations

import csv
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("ICVI_SHARED", ROOT.parent / "shared")) / "data"
RESULTS = ROOT / "docs" / "study" / "results"


def recordings(name):
    """The path of a recording, or an error that says where it was looked for."""
    path = SHARED / name
    if not path.exists():
        raise SystemExit(f"{name} is not in {SHARED}; set ICVI_SHARED to the folder that has data/{name}")
    return path


def write(rows, path):
    """Write rows (dictionaries with the same keys) with five significant digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(rows[0])
        out.writerows([_short(row[key]) for key in rows[0]] for row in rows)


def read(path):
    """Rows of a file; what looks like a number is one."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: _number(text) for key, text in row.items()} for row in csv.DictReader(file)]


def made(script, full, more):
    """The line that says how a page came about; where the run was small, what `--full` would have been."""
    run = f"python benchmarks/study/{script}.py --full" if full else f"python benchmarks/study/{script}.py --out …"
    rest = "" if full else f" This was the small run: `--full` takes {more}."
    return f"Made by `{run}`, then `python benchmarks/study/pages.py`.{rest}"


def _short(value):
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _number(text):
    try:
        return float(text) if any(c in text for c in ".en") else int(text)
    except ValueError:
        return text
