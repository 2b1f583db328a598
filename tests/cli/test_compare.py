"""`icvi compare`: numbers where they exist, and no preference where nothing can be compared."""

from __future__ import annotations

import re

import numpy as np
import pytest

from icvi_jax.cli import main

RNG = np.random.default_rng(0)
A, B = np.concatenate([RNG.normal(0, 1, (60, 2)), RNG.normal(9, 1, (60, 2))]).round(3).T


def row(n):
    return f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00,{A[n]},{B[n]},{int(n >= 60)}\n"


@pytest.fixture
def compare(tmp_path, capsys):
    """The command on a source, and what it prints."""

    def run(*arguments):
        command = ["compare", *arguments, "--clusterer", "sk-means", "--out", str(tmp_path / "o")]
        assert main(command) == 0
        return capsys.readouterr().out

    return run


def test_compare_names_the_preferred(compare):
    said = compare("s3", "-k", "2", "5")
    assert re.search(r"xb \(small is good\) prefers k = [25]", said) and "first spike" in said
    assert "health (large is good) prefers k = " in said


def test_compare_has_numbers_everywhere_and_marks_are_stretches(tmp_path, compare):
    path = tmp_path / "in.csv"
    path.write_text("datetime,flow,pressure,anomaly\n" + "".join(map(row, range(120))))
    told = compare(str(path), "-k", "1", "2", "3", "--index", "xb", "db", "ch", "bh", "--label", "anomaly")
    assert "nan" not in told.lower()
    for k in (2, 3):
        cells = re.search(rf"^k = {k} +(.*)$", told, re.M)[1].split()
        assert all(re.match(r"-?\d", cell) for cell in cells[:4]), cells
    assert re.search(r"^k = 1 +\d\S* +\d\S* +– ", told, re.M)
    assert "k = 1: only one cluster all the time: the indices have nothing to compare" in told
    assert " of 1" in told and " of 2" not in told, "one stretch, not a change there and one back"


def test_a_change_that_nobody_notices_has_no_delay(tmp_path, compare):
    path = tmp_path / "in.csv"
    x = np.random.default_rng(1).normal(size=400) + 60 * (np.arange(400) >= 300)
    path.write_text("flow,anomaly\n" + "".join(f"{a:.3f},{int(100 <= n < 105)}\n" for n, a in enumerate(x)))
    told = compare(str(path), "-k", "2", "3", "--label", "anomaly")
    assert re.search(r": 0 of 1, 1 false *$", told, re.M), told


def test_what_cannot_be_compared_is_not_praised(tmp_path, compare):
    np.save(tmp_path / "x.npy", np.column_stack([A, B]))
    told = compare(str(tmp_path / "x.npy"), "-k", "1", "2", "--index", "xb", "pc")
    assert "xb (small is good) prefers k = 2" in told, "one cluster is no rival"
    told = compare(str(tmp_path / "x.npy"), "-k", "2", "3", "--index", "pc")
    assert "pc (large is good) has no preference" in told and "*" not in told, "crisp clusters: 1 for all"


def test_many_indices_have_a_row_each(tmp_path, compare):
    np.save(tmp_path / "x.npy", np.column_stack([A, B]))
    names = ["xb", "db", "ch", "wb", "pbm", "csil", "ps"]
    told = compare(str(tmp_path / "x.npy"), "-k", "2", "3", "--index", *names)
    for name in names:
        assert re.search(rf"^median {name} +-?\d\S* +-?\d", told, re.M), name
    assert max(map(len, told.splitlines())) < 120 and "…" not in told


def test_one_cluster_throughout_is_said(tmp_path, capsys):
    np.save(tmp_path / "x.npy", A[:60, None])
    assert main(["run", str(tmp_path / "x.npy"), "-k", "1", "--out", str(tmp_path / "o")]) == 0
    assert "only one cluster all the time: the indices have nothing to compare" in capsys.readouterr().out


def test_alarms_are_counted_for_every_candidate(tmp_path, compare):
    """Not only for the first one, whose single cluster has nothing to say beside the change of a column."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(600, 2)) + 9 * (np.arange(600) >= 150)[:, None])
    told = compare(str(tmp_path / "x.npy"), "-k", "1", "2", "--clusterer", "sk-means")
    spikes = re.search(r"^k = 2 .*(xb|db) \(sample 15\d\)", told, re.M)
    assert spikes and re.search(r"raised: k = 1: 1, k = 2: [23] alarms, true ones among them", told), told
