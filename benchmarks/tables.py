"""Small tables that a benchmark writes and a page of the documentation reads."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Iterable, Sequence

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "results"


def write(name: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> pathlib.Path:
    """Write docs/results/NAME.csv."""
    FOLDER.mkdir(exist_ok=True)
    rows = list(rows)
    path = FOLDER / f"{name}.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([header, *rows])
    print(f"wrote {path.relative_to(FOLDER.parents[1])}")
    return path


def known(name: str) -> list[list[str]]:
    """The rows that an earlier run has written."""
    path = FOLDER / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]
