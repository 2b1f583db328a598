"""A tenth of the damaged files of `tests/slow/mutated_files.py`."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from icvi_jax.cli import main, outputs

path = Path(__file__).resolve().parents[1] / "slow" / "mutated_files.py"
spec = importlib.util.spec_from_file_location("mutated_files", path)
mutated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutated)


def test_a_hundred_damaged_files(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "figure", lambda result: Figure(figsize=(1, 1)))  # the picture is not what is tested
    cases = mutated.cases(100)
    problems = [f"{case.what}: {said}" for case in cases if (said := mutated.complaint(case, tmp_path, main))]
    assert not problems
    assert min(Counter(case.what for case in cases).values()) >= 1


def test_the_judge_notices_a_wrong_answer(tmp_path):
    bad = mutated.Case("text", "a.csv", b"a\nx\n1\n", place=True)
    assert mutated.complaint(bad, tmp_path, lambda arguments: 0)
    assert mutated.complaint(bad._replace(good=True), tmp_path, main)


@pytest.mark.parametrize("name", ["<script>.csv", "=cmd().csv", "a\nb.csv", "-k.csv", "ä ö.csv", "a[1].csv"])
def test_awkward_file_names(tmp_path, capsys, name, monkeypatch):
    monkeypatch.setattr(outputs, "figure", lambda result: Figure(figsize=(1, 1)))
    file = tmp_path / name
    file.write_text("a,b\n" + "\n".join(f"{n % 3},{n % 4}" for n in range(40)) + "\n")
    assert main(["run", str(file), "-k", "2", "--out", str(tmp_path / "out")]) == 0
    assert "<script>.csv" not in (tmp_path / "out" / "report.html").read_text()
