"""The command promises a rate of false alarms, names the column that changed, and says what it cannot watch."""

import csv
import json
import re
import sys

import numpy as np
import pytest

from icvi_jax import Change
from icvi_jax.cli import main
from icvi_jax.cli.alarms import budget_of, monitors_of
from icvi_jax.cli.options import Alarms
from icvi_jax.report.alarm_text import count_alarms as raised


@pytest.fixture(scope="module")
def pump(tmp_path_factory):
    """Two days of minutes: `flow` falls at row 1500, `valve` is nearly always shut."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("pump") / "pump.csv"
    times = np.datetime64("2026-03-01T00:00") + np.arange(2880).astype("timedelta64[m]")
    flow, heat = rng.normal(30, 1, 2880), rng.normal(60, 2, 2880)
    flow[1500:] -= 6
    valve = np.where(rng.random(2880) < 0.05, rng.normal(5, 1, 2880), 0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "flow", "heat", "valve"])
        writer.writerows(zip(np.datetime_as_string(times), flow, heat, valve))
    return path


def test_the_column_that_changed_is_named_with_its_time(pump, tmp_path, capsys):
    assert main(["run", str(pump), "-k", "3", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if "flow fell" in line)
    assert "at 2026-03-02 01:0" in line and "from about 30" in line and "to 23" in line and "by chance" in line
    assert "at most about 10 false alarms in 10,000 samples" in said
    assert "not watched for changes: 'valve'" in said
    with open(tmp_path / "readings.csv") as file:
        marked = [row for row in csv.DictReader(file) if row["change_column"] == "flow"]
    assert any(1500 <= int(row["sample"]) <= 1510 for row in marked)
    assert all(float(row["change_p"]) < 0.015 for row in marked)


def test_a_rate_by_time_is_shared_and_counted(pump, tmp_path, capsys):
    assert (
        main(["run", str(pump), "-k", "3", "--monitor", "change", "--false-alarms", "1/day", "--out", str(tmp_path)])
        == 0
    )
    said = capsys.readouterr().out
    assert "at most about 1 false alarm a day" in said and "flow fell" in said and "a day, true ones among them" in said


def test_a_change_that_is_soon_over_is_told_as_it_was(tmp_path, capsys):
    flow = np.random.default_rng(1).normal(30, 1, 1200)
    flow[800:808] -= 15
    path = tmp_path / "burst.csv"
    path.write_text("flow\n" + "\n".join(map(str, flow)))
    assert main(["run", str(path), "-k", "3", "--monitor", "change", "--out", str(tmp_path / "out")]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "at sample 80" in line)
    assert re.search(r"flow fell from about (29|30)\.?\d* to 1[3-7]\.?\d* \(.*\), soon over$", line)


def test_two_rows_far_away_are_told_with_their_own_value(tmp_path, capsys):
    value = np.random.default_rng(3).normal(33.44, 0.02, 900)
    value[700:702] = 9.09  # one alone is a spike, and no change
    path = tmp_path / "outlier.csv"
    path.write_text("value\n" + "\n".join(map(str, value)))
    assert main(["run", str(path), "-k", "3", "--monitor", "change", "--out", str(tmp_path / "out")]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "at sample 70" in line)
    assert re.search(r"value fell from about 33\.4\d* to 9\.09 ", line)


def test_what_comes_again_and_again_is_not_called_rare():
    from icvi_jax.report.alarm_text import describe

    recent = np.array([3.0] * 60 + [9.0])
    first, fifth = describe("change", "job", recent, 0.0055), describe("change", "job", recent, 0.0055, 4, 1440)
    assert "once in about 2,700 rows" in first.text and first.once_in_rows == 2700
    assert "alarm 5 of this column: about one in 290 rows" in fifth.text and fifth.once_in_rows == 290


def test_settle_keeps_still(pump, tmp_path, capsys):
    assert main(["run", str(pump), "-k", "3", "--settle", "2000", "--out", str(tmp_path)]) == 0
    assert "flow fell" not in capsys.readouterr().out


def test_options_of_change_are_handed_on():
    jumps, season = (
        monitors_of(options, [], budget_of(options))["change"] for options in (Alarms(jumps=True), Alarms(season="24"))
    )
    assert jumps == Change(false_alarms=1e-3), "--jumps is accepted and does nothing"
    assert (season.version, season.season) == (2, 24)
    assert monitors_of(Alarms(), [], budget_of(Alarms()))["change"] == Change(false_alarms=1e-3)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--false-alarms", "1e-7"], "fewer than can be learned"),
        (["--false-alarms", "many"], "such as 10/10000"),
        (["--false-alarms", "none"], "change needs a rate"),
        (["--monitor", "chnge"], "did you mean 'change'?"),
        (["--monitor", "distress", "page-hinkley"], "choose one of them"),
        (["--patience", "0"], "expected 1 row or more"),
        (["--settle", "-1"], "expected 0 rows or more"),
        (["--season", "-1"], "expected the rows of a cycle"),
        (["--season", "daily"], "--season daily: expected the rows of a cycle, such as 144, or auto"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(pump, tmp_path, capsys, options, words):
    assert main(["run", str(pump), "-k", "3", "--out", str(tmp_path), *options]) != 0
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error


def test_nodes_are_counted_from_one(capsys):
    assert main(["watch", "--false-alarms", "20/day", "--interval", "600", "--nodes", "0"]) == 2
    assert "--nodes 0: expected 1 or more" in capsys.readouterr().err


@pytest.fixture
def daily(tmp_path):
    """Hourly means of 60 days with a daily cycle; a step that it hides, in column b on day 50."""
    rng, hours = np.random.default_rng(3), np.arange(60 * 24)
    x = 8 * np.sin(2 * np.pi * hours / 24)[:, None] + rng.normal(size=(len(hours), 2))
    x[50 * 24 :, 1] += 1.5
    times = np.datetime64("2026-01-01T00", "h") + hours
    rows = (f"{t} ,{a:.3f},{b:.3f}".replace("T", " ") for t, (a, b) in zip(times, x))
    (tmp_path / "daily.csv").write_text("time,a,b\n" + "\n".join(rows).replace(" ,", ":00,"))
    return tmp_path / "daily.csv"


def test_a_cycle_is_found_and_steps_against_it(daily, tmp_path, capsys):
    assert main(["run", str(daily), "-k", "3", "--season", "auto", "--out", str(tmp_path / "auto")]) == 0
    found = capsys.readouterr()
    assert "a cycle of 24 rows (1 day) is taken out" in found.out + found.err
    assert "2026-02-20" in found.out and "b rose" in found.out
    assert main(["run", str(daily), "-k", "3", "--out", str(tmp_path / "plain")]) == 0
    assert "2026-02-20" not in capsys.readouterr().out.split("alarms:")[-1], "the cycle hides the step"


def test_no_cycle_is_said(pump, tmp_path, capsys):
    assert main(["run", str(pump), "-k", "3", "--season", "auto", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "no cycle was found" in said.out + said.err


def test_a_cycle_is_found_live_too(daily, tmp_path, capsys, monkeypatch):
    head, *rows = daily.read_text().splitlines()
    lines = [head.replace("time,", "time,node,"), *(row.replace(",", ",n,", 1) for row in rows)]
    (tmp_path / "live.csv").write_text("\n".join(lines))
    with (tmp_path / "live.csv").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(["watch", "--season", "auto"]) == 0
    alarms = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any(alarm["time"].startswith("2026-02-20") for alarm in alarms)


def test_days_need_dates(tmp_path, capsys):
    assert main(["run", "s2", "--false-alarms", "1/day", "--out", str(tmp_path)]) != 0
    assert "--interval" in capsys.readouterr().err


def test_without_a_promise_it_is_as_in_the_paper(tmp_path, capsys):
    assert main(["run", "s2", "--monitor", "distress", "--false-alarms", "none", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "not promised" in said and "distress: the index stayed far" in said


def test_monitors_are_listed(capsys):
    assert main(["monitors"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("change", "distress", "page-hinkley"))


def test_a_fleet_says_what_to_expect_and_which_columns(tmp_path, capsys):
    x = np.random.default_rng(1).normal(size=(20, 800, 2))
    x[3, 500:, 1] += 6
    np.savez(tmp_path / "fleet.npz", X=x)
    options = ["--false-alarms", "20/day", "--interval", "60", "--out", str(tmp_path / "out")]
    assert main(["fleet", str(tmp_path / "fleet.npz"), "-k", "3", *options]) == 0
    said = capsys.readouterr().out
    assert "over 20 nodes" in said and "columns that changed" in said and "a day, true ones among them" in said


def test_what_was_raised_is_counted_once_and_entirely():
    """A distress that follows a spike is the same alarm, one that crept up is another one; recovered is none."""
    codes = np.array([[0, 1, 0, 3, 0, 2, 0, 3, 0, 2], [0, 1, 0, 0, 2, 0, 1, 0, 0, 0], [0] * 10])
    assert raised({"xb": codes}) == (4, 1)


def test_a_distress_that_counts_with_its_spike_is_said(tmp_path, capsys):
    assert main(["run", "s2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    columns, index = (
        re.search(r"alarms of columns: (\d+)", out),
        re.search(r"alarms of xb: (\d+) \((\d+) spikes? became distress", out),
    )
    assert columns and index and int(index[2]) >= 1
    total = re.search(r"raised: (\d+) alarms.*; (\d+) spikes? became distress", out)
    assert total and int(total[1]) == int(columns[1]) + int(index[1]) and total[2] == index[2]


def test_a_cycle_that_nobody_asked_for_is_said(tmp_path, capsys):
    t = np.arange(1500)
    x = np.random.default_rng(0).normal(size=1500) + 3 * np.sin(2 * np.pi * t / 48)
    (tmp_path / "day.csv").write_text("temp_C\n" + "\n".join(map(str, x)))
    assert main(["run", str(tmp_path / "day.csv"), "-k", "3", "--out", str(tmp_path / "o")]) == 0
    assert re.search(r"a cycle of 48 rows explains \d\d% of 'temp_C': --season auto would", capsys.readouterr().out)


def test_nothing_is_promised_for_monitors_without_a_rate(pump, tmp_path, capsys):
    assert main(["run", str(pump), "-k", "3", "--monitor", "change", "page-hinkley", "--out", str(tmp_path)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "to expect" in line)
    assert line.endswith("in 10,000 samples; nothing is promised for alarms of xb")
    assert main(["run", str(pump), "-k", "3", "--out", str(tmp_path)]) == 0
    assert "nothing is promised" not in capsys.readouterr().out


def test_a_label_says_hits_delays_false_alarms_and_what_chance_gets(pump, tmp_path, capsys):
    head, *rows = pump.read_text().splitlines()
    path = tmp_path / "marked.csv"
    path.write_text("\n".join([f"{head},fault", *(f"{row},{int(n >= 1500)}" for n, row in enumerate(rows))]))
    assert main(["run", str(path), "--label", "fault", "--out", str(tmp_path / "o")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "truth, change: " in line]
    said = re.search(
        r"(\d) of 1 true change found within 50 rows, (\d+) rows after .median \2.; (\d+) false alarm", line
    )
    assert said and said[1] == "1" and int(said[2]) <= 10, line
    control = re.search(r"as many alarms at random: ([\d.e-]+) found, ([\d.]+) false$", line)
    assert control and float(control[1]) < 0.2, line
    assert "truth, change" in (tmp_path / "o" / "report.html").read_text()
