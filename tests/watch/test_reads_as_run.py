"""A stream is read as `icvi run` reads a file: codes, clocks, counters, and the same sentences."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import jax
import numpy as np
import pytest
from watching import PIPE, begun, messages

from icvi_jax.cli import main
from icvi_jax.tables import read, read_fleet
from icvi_jax.tables.clock import believed_rows
from icvi_jax.watch.json_and_csv import LineFormat, Reader
from icvi_jax.watch.sample import order
from icvi_jax.watch.shard import Shard

START = np.datetime64("2024-03-01T00:00", "s")


def station(rows=900, step=600, seed=0):
    """Times and two columns, the second of which rises by six standard deviations in row 600."""
    x = np.random.default_rng(seed).normal((20.0, 5.0), (0.5, 0.2), (rows, 2))
    x[600:, 1] += 1.2
    return START + np.arange(rows) * np.timedelta64(step, "s"), x


def watched(text, *options):
    """Alarms as JSON, what was said, and the exit code of `icvi watch` on a text."""
    command = [sys.executable, "-m", "icvi_jax.cli", "watch", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, done.returncode


def told_by_run(path, capsys, *options):
    assert main(["run", str(path), "--out", str(path.parent / "out"), *options]) == 0
    return capsys.readouterr().out


def test_a_live_alarm_says_what_run_says(tmp_path, capsys):
    times, x = station()
    path = tmp_path / "in.csv"
    path.write_text(
        "time;temp;flow\n" + "".join(f"{t};{a:.4f};{b:.4f}\n".replace(".", ",") for t, (a, b) in zip(times, x))
    )
    said = told_by_run(path, capsys, "--monitor", "change", "--standardize")
    alarms, err, code = watched(path.read_text(), "--monitor", "change")
    assert code == 0 and "900 samples of 1 node, " in err
    assert alarms and all(alarm["alarm"] == "change" and alarm["text"] in said for alarm in alarms)
    (rise,) = [alarm for alarm in alarms if alarm["cause"] == "flow" and 600 < alarm["sample"] < 612]
    assert rise["text"].startswith("at 2024-03-05 ") and " flow rose from about 5" in rise["text"]
    assert rise["from"] == pytest.approx(5.0, abs=0.2) and rise["to"] == pytest.approx(6.2, abs=0.5)
    once = rise["once_in_rows"]
    assert f"once in about {once:,.0f} rows" in rise["text"] if once else "surely not by chance" in rise["text"]


def test_when_no_line_is_valid_the_end_is_an_error():
    alarms, err, code = watched("a b c\n" + "1 2 x\n" * 30)
    assert code == 2 and not alarms and "no line was a valid sample" in err and "of the first 20 lines" in err
    assert err.strip().splitlines()[-1].startswith("icvi: 0 samples of 0 nodes, ")


@pytest.mark.parametrize("code", [-9999, 65535, 85, 2147483647, -999])
def test_codes_are_missing_in_files_and_live(tmp_path, capsys, code):
    times, x = station()
    x[300::97, 0] = code
    path = tmp_path / "in.csv"
    path.write_text("time,temp,flow\n" + "".join(f"{t},{a},{b}\n" for t, (a, b) in zip(times, x)))
    said = told_by_run(path, capsys, "--monitor", "change")
    assert f"error codes in 'temp' are taken as missing: {code} (7×)" in said and "temp rose" not in said
    kept = told_by_run(path, capsys, "--monitor", "change", "--keep-codes")
    assert "error codes" not in kept
    watch = begun()
    watch.take(messages(path.read_bytes().splitlines()))
    found = [json.loads(line) for line in watch.out.getvalue().splitlines()]
    assert f"temp is {code}" in capsys.readouterr().err and "temp" not in {alarm["cause"] for alarm in found}


def test_codes_that_are_kept_reach_the_monitor(tmp_path, capsys):
    times, x = station()
    x[400:420, 0] = 85.0  # of a thermometer that reads 20
    path = tmp_path / "in.csv"
    path.write_text("time,temp,flow\n" + "".join(f"{t},{a},{b}\n" for t, (a, b) in zip(times, x)))
    said = told_by_run(path, capsys, "--monitor", "change", "--keep-codes")
    assert "temp rose from about 20" in said and "to 85" in said
    for keep in (True, False):
        shard = Shard(PIPE, ["temp", "flow"], keep_codes=keep)
        found = shard.take([("a", str(t), row) for t, row in zip(times, x)])
        assert any(alarm["cause"] == "temp" and alarm["to"] == 85 for alarm in found) == keep


@pytest.mark.parametrize(
    ("head", "line", "name"),
    [
        ("Date;Time;v", "{d:%d/%m/%Y};{d:%H.%M.%S};{v}", "Date\tTime"),
        ("day,clock,v", "{d:%Y-%m-%d},{d:%H:%M},{v}", "day\tclock"),
        ("Date,Time,v", "{d:%d/%m/%Y},{d:%I:%M %p},{v}", "Date\tTime"),
        ("year,month,day,hour,v", "{d.year},{d.month},{d.day},{d.hour},{v}", "year\tmonth\tday\thour"),
    ],
)
def test_times_in_several_columns_are_one_time_live(tmp_path, head, line, name):
    moments = [datetime(2004, 3, 1) + timedelta(hours=n) for n in range(60)]
    rows = [line.format(d=moment, v=n % 7 + 0.5) for n, moment in enumerate(moments)]
    reader = Reader()
    samples = [reader.read(row) for row in (head, *rows)][1:]
    assert reader.features == ("v",) and reader.form.time == name
    assert [order(sample.time) for sample in samples] == [
        int(d.replace(tzinfo=UTC).timestamp()) * 10**6 for d in moments
    ]
    again = Reader()
    again.go_on(reader.form)
    assert again.read(rows[5]) == samples[5]
    (tmp_path / "in.csv").write_text("\n".join([head, *rows]))
    assert [str(t)[:19] for t in read(tmp_path / "in.csv").times] == [d.isoformat() for d in moments]


@pytest.mark.parametrize(
    "form", ["%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d/%m/%Y %H:%M", "%d/%m/%Y %I:%M %p", "%d-%m-%Y %I:%M%p"]
)
@pytest.mark.parametrize("stops", [0, 60])
def test_the_first_of_a_month_is_not_old(form, stops):
    """After 03/30 or 30/03 it is known which is the month, also after a restart."""
    moments = [datetime(2024, 3, 30) + timedelta(hours=n) for n in range(144)]
    shard, reader = Shard(PIPE, ["v"]), Reader()
    for n, moment in enumerate(moments):
        if n == stops and n:
            again = Reader()
            again.go_on(LineFormat.of(json.loads(json.dumps(reader.form))))
            reader = again
        shard.take(reader.samples([(json.dumps({"when": moment.strftime(form), "v": n % 7 + 0.5}).encode(), "")]))
    assert (shard.samples, shard.old, reader.bad) == (144, 0, 0)
    line = json.dumps({"when": datetime(2024, 4, 5, 9, 30).strftime(form), "v": 1})
    assert order(reader.read(line).time) == int(datetime(2024, 4, 5, 9, 30, tzinfo=UTC).timestamp()) * 10**6


def test_one_wrong_clock_does_not_silence_a_node(capsys):
    """A time in 2099 waits for a second one that agrees; milliseconds among seconds are the same clock."""
    times, x = station()
    seconds = times.astype("datetime64[s]").astype(int)
    for wrong in ({500: 4070908800}, {500: int(seconds[500]) * 1000, 501: int(seconds[501]) * 1000}):
        shard = Shard(PIPE, ["temp", "flow"])
        shard.take([("a", wrong.get(n, int(t)), row) for n, (t, row) in enumerate(zip(seconds, x))])
        assert shard.samples == 900 - (len(wrong) == 1) and shard.old == (len(wrong) == 1)
    shard = Shard(PIPE, ["temp", "flow"])
    later = [*seconds[:500], *(seconds[500:] + 86_400 * 40)]  # an outage of forty days is believed
    shard.take([("a", int(t), row) for t, row in zip(later, x)])
    assert (shard.samples, shard.old) == (900, 0)
    first = [4070908800, *seconds[1:]]  # the very first time is the wrong one
    shard = Shard(PIPE, ["temp", "flow"])
    shard.take([("a", int(t), row) for t, row in zip(first, x)])
    assert shard.samples == 900


def test_what_waits_for_a_second_time_is_kept_over_a_restart(tmp_path):
    times, x = station(60)
    lines = [json.dumps({"time": str(t), "a": a, "b": b}).encode() for t, (a, b) in zip(times, x)]
    jump = [json.dumps({"time": str(t + np.timedelta64(90, "D")), "a": 1.0, "b": 2.0}).encode() for t in times[:2]]
    watch = begun(tmp_path)
    watch.take(messages([*lines, jump[0]]))
    watch.save()
    watch.close()
    again = begun(tmp_path)
    again.take(messages([jump[0], jump[1]]))
    assert (again.samples, again.old) == (62, 1)
    again.close()


def test_a_node_whose_samples_are_all_old_is_said_within_a_minute(monkeypatch):
    watch = begun()
    watch.take(messages([b'{"node": "a", "time": 1000, "v": 1}', b'{"node": "b", "time": 1, "v": 1}']))
    now = time.monotonic()
    for n in range(1, 56, 5):
        monkeypatch.setattr(time, "monotonic", lambda n=n: now + n)
        news = b'{"node": "b", "time": %d, "v": 1}' % (n + 1)
        watch.take(messages([b'{"node": "a", "time": %d, "v": 1}' % n, news]))
    found = [json.loads(line) for line in watch.out.getvalue().splitlines()]
    assert [(alarm["node"], alarm["alarm"]) for alarm in found] == [("a", "clock")] and "clock" in found[0]["text"]


def test_the_hour_that_comes_twice_is_kept(tmp_path, capsys):
    """Local times without a zone, in the night in which clocks are set back."""
    utc = np.datetime64("2024-10-25T00:00", "s") + np.arange(500) * np.timedelta64(600, "s")
    local = utc + np.where(utc < np.datetime64("2024-10-27T01:00"), 7200, 3600).astype("timedelta64[s]")
    x = np.random.default_rng(0).normal(size=(500, 1))
    shard = Shard(PIPE, ["v"])
    shard.take([("a", str(t), row) for t, row in zip(local, x)])
    assert (shard.samples, shard.old) == (500, 0)
    shard.take([("a", str(t), row) for t, row in zip(local[-30:], x)])  # sent again: not counted again
    assert (shard.samples, shard.old) == (500, 30)
    keep, fixed, notes = believed_rows(local.astype("datetime64[us]"))
    assert keep.all() and (np.diff(fixed) >= np.timedelta64(0, "us")).all() and "6 rows are in the hour" in notes[0]


@pytest.mark.parametrize("layout", ["file", "folder", "long"])
@pytest.mark.parametrize("what", ["repeats", "autumn"])
def test_a_time_that_comes_twice_has_one_rule_in_run_fleet_and_watch(tmp_path, what, layout):
    """The first row of a time counts; in the hour in which clocks are set back all rows do, in their order."""
    times, x = station(400)
    rows = [(str(t), *row) for t, row in zip(times, x.tolist())]
    rows[200:200] = [(rows[n][0], rows[n][1] + 50, rows[n][2]) for n in (195, 199, 199)] if what == "repeats" else []
    if what == "autumn":
        shift = np.datetime64("2024-10-25T00:00", "s") - START
        utc = times + shift
        local = utc + np.where(utc < np.datetime64("2024-10-27T01:00"), 7200, 3600).astype("timedelta64[s]")
        rows = [(str(t), *row) for t, row in zip(local, x.tolist())]
    shard = Shard(PIPE, ["temp", "flow"])
    shard.take([("a", t, (temp, flow)) for t, temp, flow in rows])
    assert (shard.samples, shard.old) == (400, len(rows) - 400)
    (tmp_path / "in").mkdir()
    lines = [f"{t},{a!r},{b!r}" for t, a, b in rows]
    for node in "ab":
        (tmp_path / "in" / f"{node}.csv").write_text("\n".join(["time,temp,flow", *lines]))
    (tmp_path / "long.csv").write_text("\n".join(["node,time,temp,flow", *(f"{n},{r}" for r in lines for n in "ab")]))
    if layout == "file":
        table = read(tmp_path / "in" / "a.csv")
        found, notes, clock = table.x, table.notes, table.times
    else:
        fleet = read_fleet(tmp_path / ("in" if layout == "folder" else "long.csv"))
        assert fleet.x.shape == (2, 400, 2) and np.array_equal(*fleet.x)
        found, notes, clock = fleet.x[0], fleet.notes, fleet.times
    np.testing.assert_array_equal(found, x)
    assert (np.diff(clock) > np.timedelta64(0, "us")).all()
    said = "rows are in the hour that came twice" if what == "autumn" else "have the time of one before"
    assert any(said in note for note in notes)


def test_times_too_coarse_to_tell_rows_apart_lose_no_row(tmp_path):
    lines = [f"2024-03-{1 + n // 10:02d},{n % 7 + 0.5},{n % 5 + 0.25}" for n in range(200)]
    (tmp_path / "in.csv").write_text("\n".join(["time,temp,flow", *lines]))
    assert len(read(tmp_path / "in.csv").x) == 200
    (tmp_path / "long.csv").write_text("\n".join(["node,time,temp,flow", *(f"{n},{r}" for r in lines for n in "ab")]))
    fleet = read_fleet(tmp_path / "long.csv")
    assert fleet.x.shape == (2, 20, 2) and any("means are taken" in note for note in fleet.notes)
    assert fleet.x[0, 0, 0] == pytest.approx(np.mean([n % 7 + 0.5 for n in range(10)]))


def with_quiet_columns(rows=400):
    """A counter, a pump that is on or off, and a gauge that has a third value in row 250; and what each is held at."""
    times, x = station(rows)
    n = np.arange(rows)
    gauge = np.where(n < 250, 0.2 * (n % 50 > 40), 0.1 * (n % 9))
    quiet = np.column_stack([n + 1e6, n // 30 % 2 * 1.0, gauge])
    quiet[5, 1] = np.nan
    held = np.column_stack([np.full(rows, 1e6 + 19), np.where(n == 5, np.nan, 0), np.where(n < 250, 0, gauge)])
    return times, np.column_stack([x, quiet]), np.column_stack([x, held])


def test_what_says_nothing_is_held_however_samples_come(tmp_path):
    """Counters for good, columns of two values until a third one comes: by the past only, in files as live."""
    times, x, held = with_quiet_columns()
    names = ["temp", "flow", "packets", "pump", "gauge"]
    rows = [("a", str(t), row) for t, row in zip(times, x)]
    shards = []
    for size in (1, 7, 400):
        shard = Shard(PIPE, names, judge=True)
        found = [alarm for n in range(0, 400, size) for alarm in shard.take(rows[n : n + size])]
        assert not {"packets", "pump"} & {alarm["cause"] for alarm in found}
        shards.append(shard)
    for cut in (10, 100, 300):
        shard = Shard(PIPE, names, judge=True)
        shard.take(rows[:cut])
        shard.save(tmp_path / str(cut))
        shards.append(Shard.load(tmp_path / str(cut), PIPE))
        shards[-1].take(rows[cut:])
    known = Shard(PIPE, names)  # as if that had been known from the beginning
    known.take([("a", str(t), row) for t, row in zip(times, held)])
    for shard in shards:
        for a, b in zip(jax.tree.leaves(shard.state), jax.tree.leaves(known.state)):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(shard.recent(0, 400), known.recent(0, 400))
    path = tmp_path / "in.csv"
    path.write_text(
        "time,temp,flow,packets,pump,gauge\n"
        + "".join(f"{t},{','.join(map(repr, row))}\n" for t, row in zip(times, x.tolist()))
    )
    table = read(path)
    assert table.features == ("temp", "flow", "gauge")
    np.testing.assert_array_equal(table.x, held[:, [0, 1, 4]])
    assert sum("'pump' (only two values" in note or "'packets' (counters" in note for note in table.notes) == 2


def test_a_watch_says_that_it_has_nothing_to_cluster(capsys):
    shard = Shard(PIPE, ["pump"], judge=True)
    shard.take([(node, str(t), (t % 2,)) for t in range(30) for node in "ab"])
    assert capsys.readouterr().err.count("each column is a counter or has two values so far") == 1


def test_later_rows_do_not_change_how_earlier_ones_are_read(tmp_path):
    """A column that has two values in the first half says nothing there, whether the second half is in the file or
    not."""
    times, x, _ = with_quiet_columns()
    lines = ["time,temp,flow,pump,gauge", *(f"{t},{a},{b},{c},{d}" for t, (a, b, _, c, d) in zip(times, x.tolist()))]
    tables = []
    for rows in (240, 400):
        (tmp_path / "in.csv").write_text("\n".join(lines[: rows + 1]))
        tables.append(read(tmp_path / "in.csv"))
    assert tables[0].features == ("temp", "flow") and tables[1].features == ("temp", "flow", "gauge")
    np.testing.assert_array_equal(tables[0].x, tables[1].x[:240, :2])
    assert not tables[1].x[:240, 2].any() and tables[1].x[250:, 2].any()


def test_run_and_watch_choose_k_alike(tmp_path, capsys):
    """With the default options: the same alarms of the index, so the same clusters."""
    times, x = station()
    path = tmp_path / "in.csv"
    path.write_text("time,temp,flow\n" + "".join(f"{t},{a:.4f},{b:.4f}\n" for t, (a, b) in zip(times, x)))
    said = told_by_run(path, capsys)
    alarms, err, code = watched(path.read_text())
    assert code == 0 and "k = 2 … 12, chosen live" in said
    told = [alarm["text"] for alarm in alarms if alarm["alarm"] != "recovered"]
    assert any(alarm["index"] == "xb" for alarm in alarms)
    for text in told:
        assert text.replace("has arrived", "arrived") in said, text
    assert f"{len(told)} alarms" in err or "distress" in said


def test_a_watch_with_very_many_nodes_or_an_older_folder_has_one_k(tmp_path, capsys):
    text = "".join(f'{{"node": "a", "time": {n}, "v": {n % 7}, "w": {n % 5}}}\n' for n in range(40))
    folder = ("--checkpoint", str(tmp_path / "state"))
    _, err, code = watched(text, "--nodes", "1001", *folder)
    assert code == 0 and "k = 3, since there are more than 1,000 nodes" in err
    more = text.replace('"time": ', '"time": 1')
    _, err, code = watched(more, *folder)  # the default is another one without --nodes, but the folder has its k
    assert code == 0 and "continuing after 40 samples" in err
    _, err, code = watched(text, "-k", "auto", *folder)
    assert code == 2 and "of another configuration" in err
    _, err, code = watched(text)  # it cannot know how many nodes will come
    assert code == 0 and "for more than 1,000 nodes give --nodes" in err
    assert "--nodes" not in watched(text, "--nodes", "1")[1]
