"""Files of users: what is read, and the messages about what cannot be read."""

from __future__ import annotations

import gzip
import io
import sys

import numpy as np
import pytest

from icvi_jax.tables import TableError, as_text, from_frame, read, read_fleet, resample, whole, write_table
from icvi_jax.tables.fleet import split_names
from icvi_jax.tables.text import connect


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_all_kinds_of_text_say_the_same(tmp_path, delimiter, end, mark):
    rows = [["when", "temp [°C]", "hum"], ["2024-01-01 00:00", "1.5", "2"], ["2024-01-01 00:10", "", "-3e2"]]
    table = read(put(tmp_path, "a.csv", mark + end.join(delimiter.join(row) for row in rows) + end))
    assert table.features == ("temp [°C]", "hum") and table.time_name == "when"
    np.testing.assert_array_equal(table.x, [[1.5, 2], [np.nan, -300]])
    assert table.times[1] - table.times[0] == np.timedelta64(600, "s")


def test_parquet_gzip_and_numpy_say_the_same_as_text(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    write_table(tmp_path / "a.csv", {"a": x[:, 0], "b": x[:, 1]})
    write_table(tmp_path / "a.parquet", {"a": x[:, 0], "b": x[:, 1]})
    put(tmp_path, "a.csv.gz", gzip.compress((tmp_path / "a.csv").read_bytes()))
    np.save(tmp_path / "a.npy", x)
    np.savez(tmp_path / "a.npz", X=x, features=["a", "b"])
    for name in ("a.csv", "a.parquet", "a.csv.gz", "a.npy", "a.npz"):
        np.testing.assert_array_equal(read(tmp_path / name).x, x, err_msg=name)
    # The content decides, not the name.
    assert read((tmp_path / "a.parquet").rename(tmp_path / "b.csv")).features == ("a", "b")


def test_decimal_commas_and_dates_of_other_countries(tmp_path):
    table = read(put(tmp_path, "a.csv", "Zeit;T\n31.01.2024 10:00;1,5\n01.02.2024 10:00;-2,25\n"))
    assert table.x[:, 0].tolist() == [1.5, -2.25] and str(table.times[0]).startswith("2024-01-31T10:00")
    american = read(put(tmp_path, "b.csv", "t,v\n01/31/2024 10:00,1\n02/01/2024 10:00,2\n"))
    assert str(american.times[0]).startswith("2024-01-31")
    zoned = read(put(tmp_path, "c.csv", "t,v\n2024-01-31T10:00+02:00,1\n2024-01-31T09:00Z,2\n"))
    assert [str(time)[11:16] for time in zoned.times] == ["08:00", "09:00"]


def test_text_is_left_out_with_a_note_and_the_label_is_no_feature(tmp_path):
    table = read(put(tmp_path, "a.csv", "site,v,label\nroof,1,x\nroof,2,y\nroof,3,x\n"))
    assert table.features == ("v",) and table.truth.tolist() == [0, 1, 0]
    assert table.notes == ("left out: 'site' (text)",)


def test_a_name_twice_and_a_header_twice_are_read(tmp_path):
    table = read(put(tmp_path, "a.csv", "time,flow,flow\n1,10,5\ntime,flow,flow\n2,20,7\n"))
    assert table.features == ("flow", "flow (2)") and table.x.tolist() == [[10, 5], [20, 7]]


@pytest.mark.parametrize("header", ["0,1,2", ",0,1"])
def test_numbers_as_names_are_names(tmp_path, header):
    table = read(put(tmp_path, "a.csv", f"{header}\n7,1.5,2.5\n8,3.5,4.5\n"))
    assert len(table.x) == 2 and table.features[1:] == tuple(header.split(","))[1:]
    assert read(put(tmp_path, "b.csv", "0,1,2\n3,4,5\n")).features == ("x1", "x2", "x3"), "whole numbers: a row"


def test_rows_are_sorted_by_time_and_the_note_says_so(tmp_path):
    table = read(put(tmp_path, "a.csv", "time,v\n3,30\n1,10\n2,20\n"))
    assert table.x[:, 0].tolist() == [10, 20, 30] and "sorted" in table.notes[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n\n3,x\n", "row 4, column 2 ('b'): 'x' is not a number"),
        ("# logger\na,b\n1,2\n3\n", "row 4, column 2 ('b'): 1 fields, but the first row has 2"),
        ("a,b\n1,2\na,b\n3,x\n", "row 4, column 2 ('b'): 'x' is not a number"),
        ("a,b\n1,2\n3,1e30\n", "row 3, column 2 ('b'): too large"),
        ("t,b\n2024-01-01,2\nsoon,4\n", "row 3, column 1 ('t'): 'soon' is not a time"),
        ("t,b\n2024-01-01,2\n,4\n", "row 3, column 1 ('t'): the time is missing"),
        (b"a,b\n1,2\n3,\xff\n", "row 3, column 2: not UTF-8"),
        ("", "the file is empty"),
        ("a,b\nx,y\n", "no column of numbers; 'a' begins with 'x'"),
        ("t,b\ns,m\n1,2\n", "row 2, column 1 ('t'): 's' is not a number (a row of units? remove it)"),
        ('{"a": 1}\n{"a": 2}\n', "JSON, not a table"),
        ("<html></html>", "HTML or XML, not a table"),
        ("a,b\r1,2\r3,4\r", "a carriage return only"),
        ("a,b\n" + "x" * 2_000_000 + ",1\n", "a line of more than 1,000,000 bytes"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, content, said):
    with pytest.raises(TableError) as problem:
        read(put(tmp_path, "a.csv", content))
    assert str(problem.value).startswith("a.csv: ") and said in str(problem.value)


def test_text_over_several_lines_does_not_hide_the_commas(tmp_path):
    """A note of two words in two lines has more lines with one space than there are rows with commas."""
    rows = [f'2024-01-01T00:{m:02d},{m % 7}.5,{m % 5},"line one\nline ""two"""\n' for m in range(60)]
    table = read(put(tmp_path, "a.csv", 'time,"temp\nin °C","flow, l/min",note\n' + "".join(rows)))
    assert table.features == ("temp\nin °C", "flow, l/min") and table.x[:2].tolist() == [[0.5, 0], [1.5, 1]]
    rows[40] = '2024-01-01T00:40,oops,20,"x\ny"\n'
    with pytest.raises(TableError, match=r"row 83, column 2 .*: 'oops' is not a number"):
        read(put(tmp_path, "b.csv", 'time,"temp\nin °C","flow, l/min",note\n' + "".join(rows)))


def test_lists_in_parquet_are_called_lists(tmp_path):
    path, rows = tmp_path / "a.parquet", "range(30) AS t(i)"
    columns = "sin(i) AS v, [i, i] AS two, {'a': i} AS nested, 'x' AS note"
    connect().execute(f"COPY (SELECT {columns} FROM {rows}) TO '{path}' (FORMAT parquet)")
    assert read(path).notes == ("left out: 'two' (lists), 'nested' (struct), 'note' (text)",)
    with pytest.raises(TableError, match=r"column 2 \('two'\): this column has lists, expected numbers"):
        read(path, columns=["two"])


def test_what_a_spreadsheet_writes_for_nothing_is_missing(tmp_path):
    assert np.isnan(read(put(tmp_path, "a.csv", "a,b\n#N/A,2\n3,4\n")).x[0, 0])


def test_columns_aligned_with_spaces_are_answered_with_what_to_do(tmp_path):
    text = "time    temp    flow\n" + "".join(f"{n}   {n}.5   {n % 7}.25\n" for n in range(30))
    with pytest.raises(
        TableError, match=r"7 fields, .* \(aligned with several spaces\? put commas between the fields\)"
    ):
        read(put(tmp_path, "a.txt", text))


def test_empty_lines_after_a_comment_are_no_header(tmp_path):
    table = read(put(tmp_path, "a.csv", "# logger\n\n\na,b\n1,2\n3,4\n"))
    assert table.features == ("a", "b") and table.x.tolist() == [[1, 2], [3, 4]]


def test_a_wrong_column_is_answered_with_those_there_are(tmp_path):
    path = put(tmp_path, "a.csv", "temp,hum\n1,2\n")
    with pytest.raises(TableError, match="column 'tmep': there is no such column; the file has 'temp', 'hum'"):
        read(path, columns=["tmep"])


def test_a_name_with_wildcards_is_a_name(tmp_path):
    put(tmp_path, "a1.csv", "v\n9\n9\n")
    assert read(put(tmp_path, "a[1]*.csv", "v\n1\n2\n")).x.tolist() == [[1], [2]]


def test_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n3,4\n")))
    table = read("-")
    assert table.name == "standard input" and table.x.tolist() == [[1, 2], [3, 4]]


def test_windows_of_time_and_of_rows(tmp_path):
    text = "t,v\n" + "".join(f"2024-01-01 00:{m:02d},{m}\n" for m in (0, 5, 9, 10, 31))
    table = read(put(tmp_path, "a.csv", text))
    mean = resample(table, "10min")
    np.testing.assert_allclose(mean.x[:, 0], [14 / 3, 10, np.nan, 31])
    assert str(mean.times[0])[11:16] == "00:00" and str(mean.times[3])[11:16] == "00:30"
    assert resample(table, "2").x[:, 0].tolist() == [2.5, 9.5, 31]
    for wrong in ("0min", "10 parsecs", "-5", "1.5"):
        with pytest.raises(ValueError, match="--every"):
            resample(table, wrong)


LONG = "time,node,temp,hum\n" + "".join(f"{t},{n},{t + i},{t * i}\n" for t in range(4) for i, n in enumerate("ab"))


def test_all_shapes_of_a_fleet_say_the_same(tmp_path):
    expected = read_fleet(put(tmp_path, "long.csv", LONG))
    assert expected.nodes == ("a", "b") and expected.features == ("temp", "hum") and expected.x.shape == (2, 4, 2)
    rows = [line.split(",") for line in LONG.splitlines()[1:]]
    tall = "time,node,variable,value\n" + "".join(f"{t},{n},temp,{a}\n{t},{n},hum,{b}\n" for t, n, a, b in rows)
    by_time = {t: [v for row in rows if row[0] == t for v in row[2:]] for t in "0123"}
    wide = "time,a_temp,a_hum,b_temp,b_hum\n" + "".join(f"{t},{','.join(v)}\n" for t, v in by_time.items())
    folder = tmp_path / "nodes"
    folder.mkdir()
    for n in "ab":
        put(folder, f"{n}.csv", "time,temp,hum\n" + "".join(f"{t},{a},{b}\n" for t, m, a, b in rows if m == n))
    np.savez(tmp_path / "f.npz", X=expected.x, nodes=["a", "b"], features=["temp", "hum"], times=expected.times)
    for source in (put(tmp_path, "tall.csv", tall), put(tmp_path, "wide.csv", wide), folder, tmp_path / "f.npz"):
        fleet = read_fleet(source)
        assert (fleet.nodes, fleet.features) == (expected.nodes, expected.features), source
        np.testing.assert_array_equal(fleet.x, expected.x, err_msg=str(source))


def test_ragged_and_gappy_fleets_are_normal(tmp_path):
    lines = [line for line in LONG.splitlines() if not line.startswith(("2,b", "3,b", "0,a"))]
    fleet = read_fleet(put(tmp_path, "a.csv", "\n".join(lines)))
    missing = dict(zip(fleet.nodes, np.isnan(fleet.x).all(axis=2).tolist()))
    assert missing == {"a": [True, False, False, False], "b": [False, False, True, True]}


def test_clocks_that_do_not_tick_together_get_windows(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{60 * t + rng.uniform(0, 30):.3f},{n},{t % 7}" for t in range(50) for n in "abc"]
    fleet = read_fleet(put(tmp_path, "a.csv", "time,node,v\n" + "\n".join(rows)))
    assert fleet.x.shape[1] < 60 and "times of the nodes differ" in fleet.notes[0]


def test_wide_names_split_where_every_node_has_every_variable():
    nodes, variables, _ = split_names("a", ["n1_surface_temp", "n1_hum_rel", "n2_surface_temp", "n2_hum_rel"], ())
    assert nodes == ("n1", "n2") and variables == ("surface_temp", "hum_rel")
    assert split_names("a", ["north", "south"], ())[:2] == (("north", "south"), ("value",))
    with pytest.raises(TableError, match="node_variable"):
        split_names("a", ["a_t", "a_h", "b_t"], ())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_in_memory(library):
    module = pytest.importorskip(library)
    columns = {"a": [1.0, None, 3.0], "b": [1, 2, 3], "when": [np.datetime64(f"2024-01-0{d}", "us") for d in (1, 2, 3)]}
    columns["when"] = [time.item() for time in columns["when"]]
    table = from_frame(module.table(columns) if library == "pyarrow" else module.DataFrame(columns))
    assert table.features == ("a", "b") and table.time_name == "when"
    np.testing.assert_array_equal(table.x, [[1, 1], [np.nan, 2], [3, 3]])


def test_text_stays_text_in_a_spreadsheet(tmp_path):
    path = tmp_path / "a.csv"
    write_table(path, {"=1+1": np.arange(3), "n": np.arange(3)}, {"n": ("=cmd()", "<b>", "-x")})
    assert path.read_text().splitlines() == ["'=1+1,n", "0,'=cmd()", "1,<b>", "2,'-x"]
    assert as_text("\t@") == "'\t@" and as_text("a=b") == "a=b"


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), whole(path) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_spaces_around_the_name_of_a_node_do_not_make_another_one(tmp_path):
    rows = "".join(f"{t},{name},{t % 7}.5\n" for t, name in enumerate(["a", " a", "a ", "b"] * 10))
    assert read_fleet(put(tmp_path, "spaces.csv", "time,node,temp\n" + rows)).nodes == ("a", "b")
    with pytest.raises(TableError, match="row 3, column 2.*the name of the node is missing"):
        read_fleet(put(tmp_path, "blank.csv", "time,node,temp\n1,a,2\n2,  ,3\n"))


@pytest.mark.parametrize("word", ["inf", "-Infinity", "+infinity", "1e400", "-1e400"])
def test_an_infinite_value_is_missing_however_it_is_written(tmp_path, word):
    table = read(put(tmp_path, "a.csv", f"a,b\n1,2.5\n2.5,{word}\n2,1\n"))
    np.testing.assert_array_equal(table.x, [[1, 2.5], [2.5, np.nan], [2, 1]])


def test_lists_and_structs_of_parquet_are_left_out(tmp_path):
    import duckdb

    path = tmp_path / "a.parquet"
    nested = "SELECT [range] AS list, {'x': range} AS struct, [DATE '2024-01-01'] AS dates, random() AS v FROM range(9)"
    duckdb.sql(f"COPY ({nested}) TO '{path}'")
    table = read(path)
    assert table.features == ("v",) and any("'list'" in note for note in table.notes)
    duckdb.sql(f"COPY (SELECT list FROM ({nested})) TO '{path}'")
    with pytest.raises(TableError, match="no column of numbers; 'list' begins with"):
        read(path)


@pytest.mark.parametrize("first", [b"", gzip.compress(b"a,b\n1,2\n", mtime=0)])  # a file may have several members
def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path, first):
    path = put(tmp_path, "a.csv.gz", first + gzip.compress(b"1,2\n" * 10_000_000))
    with pytest.raises(TableError, match="refused: .* bytes unpack to more than .*; unpack it first"):
        read(path)
