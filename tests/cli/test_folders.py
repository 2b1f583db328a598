"""A folder with one file per node, as sensors leave it: dead columns, other columns, files of other kinds."""

import re

import numpy as np
import pytest

from icvi_jax.cli import main
from icvi_jax.tables import TableError, read_fleet


def rows(names=("temp", "hum"), n=60, seed=0, dead=()):
    """Lines of a CSV file with a date for each row; `dead` columns have no reading."""
    x = np.random.default_rng(seed).normal(20, 1, (n, len(names)))
    times = np.datetime64("2026-01-01T00:00:00") + 600 * np.arange(n)
    cells = [["" if name in dead else f"{v:.3f}" for name, v in zip(names, row)] for row in x]
    return [",".join(("time", *names)), *(",".join((str(t), *row)) for t, row in zip(times, cells))]


@pytest.fixture
def folder(tmp_path):
    """Returns a function that writes files, each given as lines or bytes, and gives their folder."""

    def write(**files):
        place = tmp_path / "nodes"
        place.mkdir(exist_ok=True)
        for name, lines in files.items():
            data = lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode()
            (place / name.replace("_", ".")).write_bytes(data)
        return place

    return write


@pytest.mark.parametrize("dead", ["a", "b"])
def test_a_column_that_is_dead_in_one_node_is_missing_there(folder, dead):
    """Whichever file comes first."""
    files = {f"{node}_csv": rows(seed=n, dead=("hum",) if node == dead else ()) for n, node in enumerate("abc")}
    fleet = read_fleet(folder(**files))
    assert fleet.features == ("temp", "hum")
    known = np.isfinite(fleet.x).all(axis=1)
    assert known[:, 0].all() and known[:, 1].tolist() == [node != dead for node in "abc"]


def test_the_command_says_which_nodes_have_no_clusters(folder, tmp_path, capsys):
    place = folder(a_csv=rows(), b_csv=rows(seed=1), c_csv=rows(seed=2, dead=("hum",)))
    assert main(["fleet", str(place), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "too few rows with a reading in every column for clusters: 'c'; most is missing in 'hum'" in out
    assert "only one cluster" not in out  # it has none


def test_a_column_that_is_dead_in_all_nodes_is_left_out(folder):
    place = folder(a_csv=rows(dead=("hum",)), b_csv=rows(seed=1, dead=("hum",)))
    fleet = read_fleet(place)
    assert fleet.features == ("temp",) and any("'hum' (no reading in any row)" in note for note in fleet.notes)
    with pytest.raises(TableError, match="'hum'.*no reading in any row"):
        read_fleet(place, columns=("temp", "hum"))


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_columns_that_only_some_files_have_are_left_out_and_named(folder, order):
    wider, other = order
    files = {f"{wider}_csv": rows(("temp", "hum", "wind")), f"{other}_csv": rows(("hum", "temp"), seed=1)}
    fleet = read_fleet(folder(**files))
    assert set(fleet.features) == {"temp", "hum"}
    (note,) = fleet.notes
    assert note == f"left out: 'wind' (no column of numbers in {other}.csv)"
    alone = read_fleet(folder(**files), columns=("temp",))
    np.testing.assert_array_equal(alone.x[:, :, 0], fleet.x[:, :, fleet.features.index("temp")])


def test_files_without_a_common_column_are_refused(folder):
    with pytest.raises(TableError, match=r"b\.csv: none of the columns of a\.csv \('temp', 'hum'\); it has 'T', 'RH'"):
        read_fleet(folder(a_csv=rows(), b_csv=rows(("T", "RH"))))


def test_a_column_that_was_asked_for_must_be_in_every_file(folder):
    with pytest.raises(TableError, match="b.csv.*'wind'.*no such column"):
        read_fleet(folder(a_csv=rows(("temp", "wind")), b_csv=rows(("temp",))), columns=("wind",))


def test_notes_name_their_file(folder):
    late = rows(seed=1)
    late[5], late[6] = late[6], late[5]
    fleet = read_fleet(folder(a_csv=rows(), b_csv=late, c_csv=rows(seed=2)))
    assert fleet.notes == ("b.csv: 1 row was not in time order and has been sorted",)


def test_many_notes_are_counted(folder):
    files = {}
    for n in range(20):
        lines = rows(seed=n)
        files[f"n{n:02}_csv"] = [lines[0], *reversed(lines[1 : n + 10]), *lines[n + 10 :]]
    notes = read_fleet(folder(**files)).notes
    assert len(notes) < 10 and notes[-1].endswith("more notes like these")


def test_two_files_of_one_node_name_have_different_names(folder):
    assert read_fleet(folder(a_csv=rows(), a_CSV=rows(seed=1))).nodes == ("a.CSV", "a.csv")


def test_other_files_are_named(folder):
    fleet = read_fleet(folder(a_csv=rows(), b_csv=rows(seed=1), readme_txt=b"hello"))
    assert fleet.nodes == ("a", "b") and fleet.notes == ("not read: 'readme.txt' (most files are .csv)",)


def test_a_file_without_rows_says_so(folder):
    with pytest.raises(TableError, match=r"b\.csv: the table has no rows"):
        read_fleet(folder(a_csv=rows(), b_csv=["time,temp,hum"]))


def test_dates_beside_numbers_are_refused(folder):
    numbers = [rows()[0], *(f"{i},{line.split(',', 1)[1]}" for i, line in enumerate(rows()[1:]))]
    with pytest.raises(TableError, match=r"b\.csv.*times are numbers, those of a\.csv are dates"):
        read_fleet(folder(a_csv=rows(), b_csv=numbers))


def test_rows_of_one_time_are_said_to_be_left_out(folder):
    lines = rows(seed=1)
    fleet = read_fleet(folder(a_csv=rows(), b_csv=[*lines[:20], *lines[10:]]))
    assert "b.csv: 10 rows have the time of one before: left out" in fleet.notes
    assert fleet.x.shape == (2, 60, 2)


def test_results_do_not_go_among_the_data(folder, capsys):
    place = folder(a_csv=rows(), b_csv=rows(seed=1))
    assert main(["fleet", str(place), "--out", str(place)]) == 2
    assert "is the folder of the data" in capsys.readouterr().err and len(list(place.iterdir())) == 2


def test_several_sources_are_answered(folder, capsys):
    place = folder(a_csv=rows(), b_csv=rows(seed=1))
    assert main(["fleet", str(place / "a.csv"), str(place / "b.csv")]) == 2
    told = capsys.readouterr().err
    assert "b.csv: expected one SOURCE, before all options; for several files give the folder" in told
    assert main(["watch", "a.csv"]) == 2 and "cat FILE | icvi watch" in capsys.readouterr().err


def test_a_change_in_a_node_without_clusters_counts_for_its_rank(folder, tmp_path, capsys):
    """Its rows are never complete, but one of its columns jumps."""
    jump = rows(n=500, seed=2, dead=("hum",))
    jump[300:] = [line.replace(",", ",1", 1) for line in jump[300:]]
    place = folder(a_csv=rows(n=500), b_csv=rows(n=500, seed=1), c_csv=jump)
    assert main(["fleet", str(place), "-k", "3", "--monitor", "change", "--out", str(tmp_path / "out")]) == 0
    table = capsys.readouterr().out.partition("worst nodes")[2].splitlines()
    name, score = table[1].split()[:2]
    assert name == "c" and float(score) > 0


def test_a_jump_in_the_second_hundred_rows_is_a_change_of_its_column(folder, tmp_path, capsys):
    jump = rows(n=400)
    jump[151:] = [line.replace(",", ",1", 1) for line in jump[151:]]
    path = folder(a_csv=jump) / "a.csv"
    assert main(["run", str(path), "-k", "3", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"at 2026-01-02 0\d:\d\d temp rose from about", out), out
    assert "not a level" not in out and "columns were not judged" not in out
