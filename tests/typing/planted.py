"""Eight defects, planted one by one into a copy of the package: the type checker must find each where it is.

    python tests/typing/planted.py

They are mistakes of the kind that was made while this was written: a wrong name, a wrong order, a forgotten case. What
a checker does not see: shapes, and an array that is taken apart like a tuple.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Defect(NamedTuple):
    """A text of a file, and the wrong one that takes its place."""

    what: str
    file: str
    right: str
    wrong: str


XU = "def compare(self, stats: Stats, forgetting: Array) -> Array:\n        p = stats.centers.shape[1]"

DEFECTS = (
    Defect(
        "a field that a view does not have",
        "indices/sums_of_squares.py",
        "stats[Dispersion].total",
        "stats[Dispersion].sum_of",
    ),
    Defect("a statistic by its name", "indices/separation.py", "stats[Separation]", 'stats["separation"]'),
    Defect(
        "two arguments in the wrong order",
        "statistics/dispersion.py",
        "absorb(old[cls], step.x,",
        "absorb(step.x, old[cls],",
    ),
    Defect(
        "a state of another statistic",
        "statistics/separation.py",
        "ReachState(by * state.reach) if",
        "by * state.reach if",
    ),
    Defect("an argument left out", "panel_ops.py", "part.remove(States(state.statistics), step)", "part.remove(step)"),
    Defect(
        "None not thought of",
        "pipeline.py",
        "self.standardize is not None and scaler is not None:\n            scaler, x",
        "True:\n            scaler, x",
    ),
    Defect("a setting misspelt", "../settings.py", "forgetting=", "forgeting="),
    Defect("a method forgotten", "indices/sums_of_squares.py", XU, XU.replace("compare", "compares")),
)


def main() -> int:
    """Plant, check and print; returns 1 if a defect is not found."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "icvi_jax"
        shutil.copytree(ROOT / "icvi_jax", copy, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(place) / "user.py").write_text("import icvi_jax\n\nicvi_jax.Panel(indices=(icvi_jax.Xu(),))\n")
        (Path(place) / "settings.py").write_text(
            "from icvi_jax import WB, Panel\n\nPanel(indices=(WB(),), forgetting=0.9)\n"
        )
        shutil.copy(ROOT / "pyproject.toml", place)
        if (ROOT / ".mypy_cache").is_dir():  # what was checked before is not checked again
            shutil.copytree(ROOT / ".mypy_cache", Path(place) / ".mypy_cache")
        for defect in DEFECTS:
            file = copy / defect.file
            text = file.read_text()
            if defect.right not in text:
                print(f"{defect.file} has no {defect.right!r} any more: plant this defect elsewhere")
                return 1
            file.write_text(text.replace(defect.right, defect.wrong, 1))
        command = [sys.executable, "-m", "mypy", "icvi_jax", "user.py", "settings.py"]
        said = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False).stdout
    errors = re.findall(r"^(?:icvi_jax/)?([\w/]+\.py):\d+: error: (.*)$", said, re.M)
    found = 0
    for defect in DEFECTS:
        where = "user.py" if defect.right == XU else defect.file.removeprefix("../")  # fails when it is made
        here = [message for file, message in errors if file == where]
        found += bool(here)
        print(f"{'found ' if here else 'MISSED'} {defect.what} ({defect.file}): {here[0] if here else ''}")
    print(f"{found} of {len(DEFECTS)} planted defects found")
    return 0 if found == len(DEFECTS) else 1


if __name__ == "__main__":
    sys.exit(main())
