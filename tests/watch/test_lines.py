"""Lines good and bad: what a reader makes of them."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from icvi_jax.watch.json_and_csv import LONGEST_LINE, Reader
from icvi_jax.watch.sample import Sample, known_as
from icvi_jax.watch.source import lines_of


def test_lines_good_and_bad():
    reader = Reader()
    assert reader.read('{"node": "a", "time": "2024-01-01", "v": 1, "w": "2.5", "note": "x"}') == Sample(
        "a", "2024-01-01", (1, 2.5)
    )
    assert np.isnan(reader.read('{"v": null, "w": 1}').x[0]) and reader.read("") is None
    for bad in (
        '{"v": 1}',
        '{"v": "x", "w": 1}',
        '{"v": 1e99, "w": 1}',
        '{"v": ' + "9" * 5000 + ', "w": 1}',
        "[1]",
        "{",
        "[" * 100_000,
        "1,2",
        '{"v": true, "w": 1}',
        '{"v": [1], "w": {}}',
        '{"node": ["a"], "v": 1, "w": 1}',
        "\x00",
    ):
        with pytest.raises(ValueError):
            reader.read(bad)
    table = Reader(columns=["w"], node="unit")
    assert table.read("unit,v,w") is None and table.read("n1,1,2") == Sample("n1", None, (2.0,))
    with pytest.raises(ValueError, match="2 fields, but the header has 3"):
        table.read("n1,1")
    with pytest.raises(ValueError, match="header"):
        Reader().read("1,2,3")
    again = Reader(node="unit")
    again.go_on(table.form)
    assert again.read("n1,1,3") == Sample("n1", None, (3.0,)) and again.read("unit,v,w") is None
    after_garbage = Reader()
    assert after_garbage.read("garbage") is None and after_garbage.read('{"v": 1}') == Sample("", None, (1.0,))


def test_a_column_without_a_value_in_the_first_sample_is_said_to_be_left_out():
    reader = Reader()
    assert reader.read("time,rain,celsius") is None
    assert reader.read("2024-01-01T00:00,,20.5").x == reader.read("2024-01-01T00:01,3,20.5").x == (20.5,)
    assert reader.notes == [
        "left out: 'rain' (no value in the first sample, which decides what is read; --columns uses them anyway)"
    ]
    reader = Reader(columns=["rain", "celsius"])
    assert reader.read("time,rain,celsius") is None
    assert np.isnan(reader.read("2024-01-01T00:00,,20.5").x[0]) and not reader.notes


def test_labels_and_identifiers_are_left_out_by_name_and_columns_take_them():
    line = '{"node": "a", "Time [ms]": 17, "is_anomaly": 1, "id": 4, "celsius": 20.5}'
    reader = Reader()
    assert reader.read(line) == Sample("a", 17, (20.5,)) and reader.form.time == "Time [ms]"
    assert "'is_anomaly'" in reader.notes[0] and "'id'" in reader.notes[1]
    reader = Reader(columns=["id", "Time [ms]"])
    assert reader.read(line) == Sample("a", None, (4.0, 17.0)) and not reader.notes[1:]
    with pytest.raises(ValueError, match="with --columns"):
        Reader().read('{"label": 3}')


@pytest.mark.parametrize(
    "bad", [b"a,1\r2", b"a," + b"1" * 200_000, bytes(range(256)).replace(b"\n", b""), b"a,\x00", b"a,\xff", b'a,"1\rx"']
)
def test_a_bad_line_of_csv_is_refused_and_the_next_one_read(bad):
    reader = Reader()
    assert reader.read(b"node,v") is None and reader.read(b"a,1\r") == Sample("a", None, (1.0,))
    with pytest.raises(ValueError):
        reader.read(bad)
    assert reader.read(b"a,2") == Sample("a", None, (2.0,))


def test_names_that_begin_alike_or_are_no_text_stay_apart():
    reader = Reader()
    names = ["n" * 250 + "1", "n" * 250 + "2", "n" * 200, "\\ud800"]
    found = [reader.read(f'{{"node": "{name}", "v": 1}}').node for name in names]
    found += [reader.read(b'{"node": "' + raw + b'", "v": 1}').node for raw in (b"\xff", b"\xfe", b"\\\\ud800")]
    assert len(set(found)) == len(found) and all(len(name.encode()) <= 400 for name in found)
    assert found[2] == "n" * 200 == known_as("n" * 200)


def test_a_line_without_an_end_is_not_kept_in_memory():
    read, write = os.pipe()

    def feed():
        with open(write, "wb") as out:
            out.write(b"x" * (3 * LONGEST_LINE) + b'\n{"v": 1}\n')

    thread = threading.Thread(target=feed)
    thread.start()
    found = [line for lines in lines_of(read) for line in lines]
    thread.join()
    os.close(read)
    assert len(found) == 2 and len(found[0]) <= LONGEST_LINE + (1 << 16) + 1 and found[1] == b'{"v": 1}'
    with pytest.raises(ValueError, match="longer than"):
        Reader().read(found[0])


def test_a_header_in_another_order_counts_from_then_on():
    """The process that writes the lines was started again, in another version."""
    reader = Reader()
    assert reader.read("time,node,temp,hum") is None and reader.read("1,a,20,80") == Sample("a", "1", (20.0, 80.0))
    assert reader.read("node,time,hum,temp,door") is None
    assert reader.read("a,2,81,21,3") == Sample("a", "2", (21.0, 81.0))
    assert reader.form.header == ("node", "time", "hum", "temp", "door")
    with pytest.raises(ValueError, match="4 fields, but the header has 5"):
        reader.read("time,node,hum,door")  # a reading is not there: no header of this feed
    assert reader.read("a,3,82,22,3") == Sample("a", "3", (22.0, 82.0))


def test_a_line_before_the_header_does_no_harm():
    for banner in ("sensor box started", "Box 7, firmware x"):
        reader = Reader()
        assert reader.read(banner) is None and reader.read("time,node,temp") is None
        assert reader.read("1,a,20") == Sample("a", "1", (20.0,))


def test_names_that_are_numbers_are_a_header_and_the_same_line_later_a_sample():
    for header, line, x in (("0,1", "0,1", (0.0, 1.0)), (",0,1", "7,0.5,1.5", (0.5, 1.5))):
        reader = Reader()
        assert reader.read(header) is None
        assert reader.read(line).x == x
    with pytest.raises(ValueError, match="header"):
        Reader().read("1,2")


@pytest.mark.parametrize("first", ["2026-01-01,a,ERR", "2026-01-01,a,", "2026-01-01,a"])
def test_a_first_row_without_a_number_is_no_header(first):
    reader = Reader()
    assert reader.read("time,node,temp") is None
    with pytest.raises(ValueError):
        reader.read(first)
    assert reader.read("2026-01-02,a,20") == Sample("a", "2026-01-02", (20.0,))


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_separators_and_decimal_commas_are_read_as_in_a_file(mark):
    reader = Reader()
    assert reader.read(mark.join(("ts", "node", "temp", "flow"))) is None
    found = reader.read(mark.join(("1700000000", "a", "20,5", "1.234,5")))
    assert found == Sample("a", "1700000000", (20.5, 1234.5)) and reader.form.time == "ts"
    again = Reader()
    again.go_on(reader.form)
    assert again.read(mark.join(("1700000060", "a", "20,6", "3"))) == Sample("a", "1700000060", (20.6, 3.0))


def test_one_line_that_looks_like_a_header_spoils_no_other_line():
    """Of the same number of fields or not, with all names or in another order: later lines are read as before."""
    for spoiler in ("time,node,hum,temp", "temp,hum,time,node,extra", "time,node,temp,hum"):
        reader = Reader()
        assert reader.read("time,node,temp,hum") is None
        before = reader.read("2024-01-01T00:00,a,20,80")
        assert reader.read(spoiler) is None
        assert reader.read("2024-01-01T00:00,a,20,80") == before and reader.form.header[:2] == ("time", "node")


@pytest.mark.parametrize("name", ["ts", "timestamp", "unix", "t_utc"])
def test_the_time_is_found_by_its_name_and_value(name):
    reader = Reader()
    assert reader.read(f'{{"node": "a", "{name}": 1700000000000, "v": 1}}') == Sample("a", 1700000000000, (1.0,))
    other = Reader()
    assert other.read('{"ts_valve": 21.5, "v": 1, "station_id": "x"}') == Sample("x", None, (21.5, 1.0))
