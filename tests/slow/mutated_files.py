"""Damage good files in a thousand ways and check that the command says what is wrong in one line.

A file that is still good must be read; a file that is not must end in exit code 2 and one line that names the file,
with row and column where the damage has a place, never in a traceback, and nothing may be left under the final names.

    python tests/slow/mutated_files.py [COUNT]
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROWS = 60


class Case(NamedTuple):
    """A damaged file: what was done, its name and bytes, whether it is still good, whether the damage has a place."""

    what: str
    name: str
    content: bytes
    good: bool = False
    place: bool = False


def healthy(rng: random.Random) -> list[list[str]]:
    """A usual table: a header, a time, three columns, some missing values."""
    names = rng.sample(["temp [°C]", "hum", "wind speed", "p", "rain", "lux"], 3)
    rows = [["time", *names]]
    for n in range(ROWS):
        cells = [f"{rng.gauss(20, 5):.3f}" if rng.random() > 0.02 else rng.choice(["", "NaN"]) for _ in names]
        rows.append([f"2024-03-{1 + n // 24:02d} {n % 24:02d}:00", *cells])
    return rows


def text(rows: list[list[str]], delimiter: str = ",", end: str = "\n") -> bytes:
    """The table as a file."""
    return (end.join(delimiter.join(row) for row in rows) + end).encode()


def somewhere(rng: random.Random, rows: list[list[str]]) -> tuple[int, int]:
    """A reading in the middle of the table."""
    return rng.randrange(3, len(rows)), rng.randrange(1, len(rows[0]))


def with_cell(rng: random.Random, value: str) -> bytes:
    """A table with one reading replaced."""
    rows = healthy(rng)
    row, column = somewhere(rng, rows)
    rows[row][column] = value
    return text(rows)


def ragged(rng: random.Random) -> bytes:
    rows = healthy(rng)
    row, _ = somewhere(rng, rows)
    rows[row] = rows[row][:-1] if rng.random() < 0.5 else [*rows[row], "1.5"]
    return text(rows)


def wrong_separator(rng: random.Random) -> bytes:
    rows = healthy(rng)
    row, _ = somewhere(rng, rows)
    lines = text(rows).decode().splitlines()
    lines[row] = lines[row].replace(",", rng.choice([";", "\t", "|"]))
    return "\n".join(lines).encode()


def bad_encoding(rng: random.Random) -> bytes:
    rows = healthy(rng)
    row, column = somewhere(rng, rows)
    lines = text(rows).splitlines()
    lines[row] = lines[row].replace(b"2024", b"20\xe924", 1) if column == 1 else lines[row] + b"\xff"
    return b"\n".join(lines)


def open_quote(rng: random.Random) -> bytes:
    rows = healthy(rng)
    row, column = somewhere(rng, rows)
    rows[row][column] = '"' + rows[row][column]
    return text(rows)


def duplicate_name(rng: random.Random) -> bytes:
    rows = healthy(rng)
    rows[0][3] = rows[0][1]
    return text(rows)


def bad_time(rng: random.Random) -> bytes:
    rows = healthy(rng)
    rows[somewhere(rng, rows)[0]][0] = rng.choice(["2024-13-45 00:00", "yesterday", ""])
    return text(rows)


def no_numbers(rng: random.Random) -> bytes:
    rows = healthy(rng)
    return text([rows[0], *([row[0], *(rng.choice(["NaN", "", "n/a"]) for _ in row[1:])] for row in rows[1:])])


def empty_column(rng: random.Random) -> bytes:
    rows = healthy(rng)
    return text([rows[0], *([*row[:-1], ""] for row in rows[1:])])


def truncated_npz(rng: random.Random) -> bytes:
    file = io.BytesIO()
    np.savez(file, X=np.random.default_rng(rng.randrange(99)).normal(size=(50, 2)))
    return file.getvalue()[: rng.randrange(20, 600)]


def npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def lying_npy(rng: random.Random) -> bytes:
    return npy(np.zeros((50, 2))).replace(b"(50, 2)", b"(5" + b"0" * rng.randrange(3, 9) + b", 2)")


def zip_bomb(rng: random.Random) -> bytes:
    file = io.BytesIO()
    packed = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
    with packed as archive, archive.open("X.npy", "w", force_zip64=True) as member:
        member.write(npy(np.zeros((1, 2)))[:128].replace(b"(1, 2)", b"(20000000, 2)"))
        for _ in range(280 + rng.randrange(20)):
            member.write(bytes(1 << 20))
    return file.getvalue()


def shuffled(rng: random.Random) -> bytes:
    rows = healthy(rng)
    body = rows[1:]
    rng.shuffle(body)
    return text([rows[0], *body])


def no_header(rng: random.Random) -> bytes:
    return text([row[1:] for row in healthy(rng)[1:]])


def noise(rng: random.Random) -> bytes:
    return b"\x00" + rng.randbytes(rng.randrange(10, 5000))


Maker = Callable[[random.Random], Case]
MAKERS: tuple[Maker, ...] = (
    lambda r: Case(
        "text in a number column", "a.csv", with_cell(r, r.choice(["abc", "12,5.3", "1.2.3", "#REF!"])), place=True
    ),
    lambda r: Case("a huge number", "a.csv", with_cell(r, r.choice(["1e300", "-9e99", "1" + "0" * 40])), place=True),
    lambda r: Case("a ragged row", "a.csv", ragged(r), place=True),
    lambda r: Case("a wrong separator", "a.csv", wrong_separator(r), place=True),
    lambda r: Case("a wrong encoding", "a.csv", bad_encoding(r), place=True),
    lambda r: Case("a quote left open", "a.csv", open_quote(r), place=True),
    lambda r: Case("a name twice", "a.csv", duplicate_name(r), good=True),
    lambda r: Case("a bad time", "a.csv", bad_time(r), place=True),
    lambda r: Case("UTF-16", "a.csv", text(healthy(r)).decode().encode("utf-16"), place=True),
    lambda r: Case("binary", r.choice(["a.csv", "a.parquet", "a.npz"]), noise(r)),
    lambda r: Case("an empty file", r.choice(["a.csv", "a.npy", "a.parquet"]), r.choice([b"", b"\n\n", b"  \n"])),
    lambda r: Case("a header alone", "a.csv", text(healthy(r)[:1])),
    lambda r: Case("one row", "a.csv", text(healthy(r)[:2])),
    lambda r: Case("no number at all", "a.csv", no_numbers(r)),
    lambda r: Case("a column without a reading", "a.csv", empty_column(r), good=True),
    lambda r: Case("a truncated NPZ", "a.npz", truncated_npz(r)),
    lambda r: Case("an NPY that lies about its size", "a.npy", lying_npy(r)),
    lambda r: Case("Python objects", "a.npy", npy(np.array([{}, "x"], object), allow_pickle=True)),
    lambda r: Case("truncated Parquet", "a.parquet", b"PAR1" + r.randbytes(r.randrange(1, 400))),
    lambda r: Case("a ZIP that is no NPZ", "a.npz", _zipped("notes.txt")),
    lambda r: Case("a workbook", "a.csv", _zipped("xl/workbook.xml")),
    lambda r: Case("a broken gzip file", "a.csv.gz", b"\x1f\x8b\x08\x00" + r.randbytes(80)),
    lambda r: Case("a byte order mark", "a.csv", b"\xef\xbb\xbf" + text(healthy(r)), good=True),
    lambda r: Case("CRLF", "a.csv", text(healthy(r), end="\r\n"), good=True),
    lambda r: Case("semicolons", "a.csv", text(healthy(r), delimiter=";"), good=True),
    lambda r: Case("tabs", "a.tsv", text(healthy(r), delimiter="\t"), good=True),
    lambda r: Case("no header", "a.csv", no_header(r), good=True),
    lambda r: Case("rows out of order", "a.csv", shuffled(r), good=True),
    lambda r: Case("a comment before the header", "a.csv", b"# made by a logger\n" + text(healthy(r)), good=True),
)


def _zipped(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, "x")
    return file.getvalue()


def cases(count: int, seed: int = 0) -> list[Case]:
    """`count` damaged files, every kind in turn; the zip bomb once, since making it takes long."""
    rng = random.Random(seed)
    return [MAKERS[n % len(MAKERS)](rng) for n in range(count - 1)] + [Case("a zip bomb", "a.npz", zip_bomb(rng))]


def complaint(case: Case, folder: Path, command: Callable[[list[str]], int]) -> str:
    """Run the command on one damaged file; returns what is wrong with the answer, or an empty text."""
    file, out = folder / case.name, folder / "out"
    file.write_bytes(case.content)
    shown, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(told):
        code = command(["run", str(file), "-k", "2", "--out", str(out)])
    said = told.getvalue()
    lines = [line for line in said.splitlines() if not line.startswith("icvi: note:")]
    left = [path.name for path in out.iterdir()] if out.exists() else []
    file.unlink()
    for path in left:
        (out / path).unlink()
    if "Traceback" in said + shown.getvalue():
        return "a traceback"
    if case.good:
        return "" if code == 0 and len(left) == 3 else f"a good file was refused: {said}"
    if code != 2 or len(lines) != 1 or not lines[0].startswith(f"icvi: {case.name}"):
        return f"exit code {code}, said {said!r}"
    if case.place and not re.search(r"row \d+, column \d+", lines[0]):
        return f"no row and column in {lines[0]!r}"
    return f"left {left}" if left else ""


def main() -> int:
    """Run them all and count."""
    from icvi_jax.cli import main as command

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    began, wrong, kinds = time.perf_counter(), 0, Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(count):
            kinds[case.what] += 1
            if problem := complaint(case, Path(folder), command):
                wrong += 1
                print(f"{case.what}: {problem}")
    print(f"{count} files of {len(kinds)} kinds, {wrong} wrong answers, {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
