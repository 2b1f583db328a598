"""Which columns of a table are used, and the sentence that says so."""

from __future__ import annotations

import re

import numpy as np
import pytest

from icvi_jax.cli import main
from icvi_jax.cli.build_pipeline import about_model, apart, spreads_of
from icvi_jax.cli.options import Model
from icvi_jax.tables import TableError, from_frame, read, read_fleet, write_table
from icvi_jax.tables.column_kinds import by_name
from icvi_jax.tables.window_means import means
from icvi_jax.watch.sample import order

ROWS = 120
RNG = np.random.default_rng(0)
A, B = np.concatenate([RNG.normal(0, 1, (60, 2)), RNG.normal(9, 1, (60, 2))]).round(3).T


def clock(n):
    return f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00"


LABELS = "datetime,flow,pressure,anomaly,changepoint\n" + "".join(
    f"{clock(n)},{A[n]},{B[n]},{int(n >= 60)},{int(n == 60)}\n" for n in range(ROWS)
)
IDS = "id,sample,temp,hum,fan,altitude\n" + "".join(
    f"{7919 * n % 1000},{100 + 2 * n},{A[n]},{B[n]},{'TRUE' if n % 3 else 'FALSE'},431\n" for n in range(ROWS)
)
EPOCH = "recorded_at,temp,hum\n" + "".join(f"{1_700_000_000_000 + 600_000 * n},{A[n]},{B[n]}\n" for n in range(ROWS))
SCALES = "pressure,flow\n" + "".join(f"{101_325 + 1000 * A[n]},{B[n]}\n" for n in range(ROWS))
COMMAS = "Zeit;T;Menge\n" + "".join(
    f"{clock(n)};{A[n]:.2f};{1000 * B[n]:,.1f}\n".replace(",", "_").replace(".", ",").replace("_", ".")
    for n in range(ROWS)
)


@pytest.mark.parametrize(
    ("text", "features", "time", "said"),
    [
        (LABELS, "flow, pressure", "datetime", ["left out: 'anomaly', 'changepoint' (labels by their names"]),
        (
            IDS,
            "temp, hum",
            "",
            [
                "left out: 'id' (identifiers by their names",
                "left out: 'sample' (counters",
                "left out: 'fan' (only two values",
                "left out: 'altitude' (the same value in all rows",
            ],
        ),
        (EPOCH, "temp, hum", "recorded_at", ["'recorded_at' is the time, in milliseconds since 1970"]),
        (
            SCALES,
            "pressure, flow",
            "",
            ["the spread of 'pressure' is", "; columns are standardized (--no-standardize leaves them as they are)"],
        ),
        (
            COMMAS,
            "T, Menge",
            "Zeit",
            ["decimal commas in 'T': '", "thousands separators and decimal commas in 'Menge': '"],
        ),
    ],
    ids=["labels", "ids", "epoch", "scales", "commas"],
)
def test_what_is_used_and_the_sentence_that_says_so(tmp_path, capsys, text, features, time, said):
    path = tmp_path / "in.csv"
    path.write_text(text)
    table = read(path)
    assert ", ".join(table.features) == features and table.time_name == time and len(table.x) == ROWS
    assert main(["run", str(path), "-k", "2", "--out", str(tmp_path / "o")]) == 0
    told = capsys.readouterr().out
    assert re.search(rf"120 samples.*, {features}\n", told)
    for sentence in said:
        assert sum(sentence in line for line in told.splitlines()) == 1, sentence


def test_columns_undo_every_rule(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(IDS)
    names = ["id", "sample", "fan", "altitude"]
    table = read(path, columns=names)
    assert table.features == tuple(names) and table.notes == ()
    assert table.x[:4, 2].tolist() == [0, 1, 1, 0]


def test_the_scale_is_that_of_the_first_rows_unless_refused(tmp_path, capsys):
    path = tmp_path / "in.csv"
    path.write_text(SCALES)
    assert main(["run", str(path), "-k", "2", "--no-standardize", "--out", str(tmp_path / "o")]) == 0
    told = capsys.readouterr().out
    assert "standardized: no" in told and "so it counts for more (--standardize" in told
    config = tmp_path / "icvi.toml"
    config.write_text("standardize = false\n")
    assert main(["run", str(path), "-k", "2", "--config", str(config), "--out", str(tmp_path / "o")]) == 0
    assert "standardized: no" in capsys.readouterr().out
    assert apart(spreads_of(read(path))) == pytest.approx(1000, rel=0.2)


def test_numbers_read_back_as_they_were_meant(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(COMMAS)
    np.testing.assert_allclose(read(path).x, np.column_stack([A, 1000 * B]), atol=0.051)


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        ('a,b\n"1,234.5",1\n999,2\n', [1234.5, 999], "thousands separators in 'a': '1,234.5' is 1234.5"),
        ("a;b\n1 234,5;1\n999;2\n", [1234.5, 999], "thousands separators in 'a': '1 234,5' is 1234.5"),
        ("a;b\n1'234.5;1\n999;2\n", [1234.5, 999], "thousands separators in 'a': \"1'234.5\" is 1234.5"),
        (
            "a;b\n1,234;1\n2,345;2\n",
            [1.234, 2.345],
            "decimal commas in 'a': '1,234' is 1.234 (it could also mean another number)",
        ),
        ('a,b\n"1,234",1\n"2,345",2\n', [1234, 2345], "in 'a': '1,234' is 1234 (it could also mean another number)"),
        ("a;b\n1,234,567;1\n1,5;2\n", None, "'1,234,567' is not a number"),
    ],
)
def test_thousands_and_decimal_commas(tmp_path, text, expected, note):
    path = tmp_path / "in.csv"
    path.write_text(text)
    if expected is None:
        with pytest.raises(TableError, match=re.escape(note)):
            read(path)
        return
    table = read(path)
    assert table.x[:, 0].tolist() == expected and note in table.notes[0]


@pytest.mark.parametrize(
    ("dates", "first", "way"),
    [
        (("03/04/2024", "04/04/2024", "05/04/2024"), "2024-04-03", "day first"),
        (("03/30/2024", "03/31/2024", "04/01/2024"), "2024-03-30", ""),
        (("11/03/2024", "11/04/2024", "12/01/2024"), "2024-11-03", "month first"),  # else time would run backwards
    ],
)
def test_dates_that_can_be_read_two_ways(tmp_path, dates, first, way):
    path = tmp_path / "in.csv"
    path.write_text("when,v\n" + "".join(f"{date},{n}\n" for n, date in enumerate(dates)))
    table = read(path)
    assert str(table.times[0]).startswith(first)
    assert (f"dates with the {way} in 'when': " in "".join(table.notes)) == bool(way)


@pytest.mark.parametrize(
    ("dates", "first", "way"),
    [
        (("03/04/2024 11:59 AM", "03/04/2024 12:00 PM", "03/04/2024 1:05 PM"), "2024-03-04T11:59", "month first"),
        (("30/03/2024 11:59 PM", "31/03/2024 12:00 am", "31/03/2024 1:05 am"), "2024-03-30T23:59", ""),
        (
            ("2024-03-04 12:30:01 a.m.", "2024-03-04 01:00:00 a.m.", "2024-03-04 1:05:00 P.M."),
            "2024-03-04T00:30:01",
            "",
        ),
        (("3/4/2024 11:59\u202fAM", "3/4/2024 12:00PM", "3/4/2024 13:05"), "2024-03-04T11:59", "month first"),
    ],
)
def test_times_with_am_and_pm(tmp_path, dates, first, way):
    """Where day and month could be either the month is first in files, and live such a time has no order."""
    path = tmp_path / "in.csv"
    path.write_text("when,v\n" + "".join(f"{date},{n}\n" for n, date in enumerate(dates)))
    table = read(path)
    assert table.features == ("v",) and str(table.times[0]).startswith(first)
    assert np.all(np.diff(table.times.astype("datetime64[s]").astype(int)) > 0)
    assert (f"dates with the {way} in 'when': " in "".join(table.notes)) == bool(way)
    live = table.times.astype("datetime64[us]").astype(int).tolist()
    assert [order(date) for date in dates if date[-1] in "mM."] == (
        [None] * sum(d[-1] in "mM." for d in dates) if way else live
    )


def test_words_that_end_like_pm_are_text(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("when,note,v\n" + "".join(f"2024-03-0{n + 1},spam {n} pm,{n}\n" for n in range(5)))
    table = read(path)
    assert table.features == ("v",) and str(table.times[0]).startswith("2024-03-01")
    assert order("13:05 PM") is None and order("3/4/2024 13:05 PM") is None and order("spam") is None


@pytest.mark.parametrize("unit", [1, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("name", ["ts", "Timestamp [UTC]", "event_time", "createdAt", "Zeit"])
def test_epoch_times_under_any_usual_name(tmp_path, unit, name):
    path = tmp_path / "in.csv"
    path.write_text(f"{name},v\n" + "".join(f"{int((1_700_000_000 + n) * unit)},{n % 7}\n" for n in range(30)))
    table = read(path)
    assert table.features == ("v",) and table.time_name == name
    assert str(table.times[1]).startswith("2023-11-14T22:13:21.000")


def test_booleans_are_alike_in_text_and_parquet(tmp_path):
    columns = {"v": A, "fan": np.arange(ROWS) % 3 == 0}
    tables = []
    for name in ("a.csv", "a.parquet"):
        write_table(tmp_path / name, columns)
        assert read(tmp_path / name).notes == ("left out: 'fan' (only two values; --columns uses them anyway)",)
        tables.append(read(tmp_path / name, columns=["v", "fan"]))
    np.testing.assert_array_equal(tables[0].x, tables[1].x)
    assert set(tables[0].x[:, 1]) == {0.0, 1.0}


def test_fleets_and_frames_follow_the_same_rules(tmp_path):
    path = tmp_path / "in.csv"
    rows = [f"{n},{node},{n},{A[n]},{i + 400},{n % 2}\n" for n in range(60) for i, node in enumerate("ab")]
    path.write_text("time,node,packet,temp,altitude,lamp\n" + "".join(rows))
    fleet = read_fleet(path)
    assert fleet.features == ("temp",), "altitude differs between nodes and is constant in each"
    assert "'packet' (counters" in " ".join(fleet.notes) and "'altitude' (the same value" in " ".join(fleet.notes)
    assert read_fleet(path, columns=["temp", "lamp"]).features == ("temp", "lamp")
    wide = tmp_path / "wide.csv"
    wide.write_text(
        "a_temp,a_up,b_temp,b_up,label\n" + "".join(f"{a},1,{b},{n % 2},x\n" for n, (a, b) in enumerate(zip(A, B)))
    )
    assert read_fleet(wide).features == ("temp",)
    polars = pytest.importorskip("polars")
    table = from_frame(polars.DataFrame({"temp": A, "id": np.arange(ROWS), "flag": np.arange(ROWS) % 2 == 0}))
    assert table.features == ("temp",) and len(table.notes) == 2


def test_names_that_are_readings_stay():
    for name in ("heat index", "UV_index", "target_temp", "event_rate", "classroom", "idle", "NO", "CO2", "temp_1"):
        assert by_name(name) == "", name
    for name in ("ID", "row_id", "sensorId", "is_anomaly", "Class", "change_point", "Unnamed: 0", "true label"):
        assert by_name(name), name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n", "the table has no rows"),
        (
            "a,b\n" + "".join(f"{n},{n % 2}\n" for n in range(30)),
            "no column is left to cluster: left out: 'b' (only two",
        ),
        ("a,b\n1,5,2\n1,5,3\n", "(decimal commas? then put semicolons between the fields)"),
        (",".join(f"c{n}" for n in range(10_000)) + "\n" + ",".join(["1"] * 10_000), "10,000 columns, at most"),
        ("x" * 200_000 + ",b\n1,2\n", "a field of more than 131,072 characters: is this a table"),
    ],
    ids=["empty", "nothing left", "commas", "wide", "long field"],
)
def test_what_cannot_be_read_is_said_in_plain_words(tmp_path, text, said):
    path = tmp_path / "in.csv"
    path.write_text(text)
    with pytest.raises(TableError) as problem:
        read(path)
    told = str(problem.value)
    assert said in told and not re.search(r"duckdb|csv\.|field limit|Error:|sniff", told.removeprefix("in.csv"), re.I)


def test_a_damaged_parquet_file_says_what_to_do(tmp_path):
    path = tmp_path / "a.parquet"
    write_table(path, {"v": A})
    path.write_bytes(path.read_bytes()[:-60] + b"x" * 56 + b"PAR1")
    with pytest.raises(TableError) as problem:
        read(path)
    assert "write it again" in str(problem.value) and len(str(problem.value)) < 120


@pytest.mark.parametrize(
    ("name", "step", "time", "said"),
    [
        ("t", 0.1, "t", "'t' is the time"),
        ("Zeit [s]", 0.25, "Zeit [s]", "'Zeit [s]' is the time"),
        ("chainage", 0.1, "", "left out: 'chainage' (counters"),
    ],
)
def test_clocks_are_no_readings(tmp_path, name, step, time, said):
    path = tmp_path / "in.csv"
    path.write_text(f"{name},flow\n" + "".join(f"{step * n},{A[n]}\n" for n in range(ROWS)))
    table = read(path)
    assert table.features == ("flow",) and table.time_name == time and said in table.notes[0]


def test_a_temperature_called_t_is_a_reading(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("t,flow\n" + "".join(f"{A[n]},{B[n]}\n" for n in range(ROWS)))
    assert read(path).features == ("t", "flow")


def test_means_do_not_depend_on_the_order_of_rows_to_the_last_bit():
    rng = np.random.default_rng(0)
    x, slot = rng.normal(size=(3000, 2)) * 10.0 ** rng.integers(-8, 8, (3000, 2)), rng.integers(0, 100, 3000)
    order = rng.permutation(3000)
    np.testing.assert_array_equal(means(x, slot, 100), means(x[order], slot[order], 100))


def test_spreads_are_compared_in_numbers_that_people_write():
    (note,) = about_model(Model(), ("a", "b"), np.array([1512.3, 1.0]))
    assert note.startswith("the spread of 'a' is 1,510 times that of 'b'; columns are standardized")
