"""Tables larger than memory: the alarms of the path in memory, whatever the buckets, the source, or the kill."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

duckdb = pytest.importorskip("duckdb")

from icvi_jax.cli import main  # noqa: E402
from icvi_jax.tables import large  # noqa: E402

NODES, STEPS = 12, 300


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table in time order, in which nodes have gaps, start late, and one changes; as files and as a
    database."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    step, node = (a.reshape(-1) for a in np.meshgrid(np.arange(STEPS), np.arange(NODES), indexing="ij"))
    x = rng.normal(size=(len(step), 2)) + 6 * rng.integers(0, 3, (STEPS // 10 + 1, NODES, 1))[step // 10, node]
    x[node >= 6] = rng.normal(size=x.shape)[node >= 6]
    x[((node == 3) | (node >= 8)) & (step > 20 * node)] += 60
    x[rng.random(len(x)) < 0.02, 0] = np.nan
    x[(node == 5) & (step == 120), 1] = -9999
    keep = (rng.random(len(step)) > 0.05) & ~((node % 4 == 1) & (step < 40))
    when = np.datetime64("2026-01-01", "us") + step * np.timedelta64(60, "s")
    connection = duckdb.connect(str(folder / "plant.db"))
    table = {"node": np.array([f"n{n}" for n in node], object)[keep], "time": when[keep]}
    table |= {"temp": x[keep, 0], "hum": x[keep, 1]}
    connection.register("made", table)
    connection.execute("CREATE TABLE readings AS SELECT * FROM made")
    connection.execute(f"COPY readings TO '{folder / 'a.parquet'}' (FORMAT parquet)")
    (folder / "parts").mkdir()
    for part in range(3):
        where = f"epoch(time)::BIGINT // 60 % 3 = {part}"
        to = folder / "parts" / f"p{part}.parquet"
        connection.execute(f"COPY (SELECT * FROM readings WHERE {where}) TO '{to}' (FORMAT parquet)")
    connection.close()
    return folder


def raised(path):
    """(node, time, monitor, word, column) of all alarms that a table of alarms has."""
    rows = duckdb.connect().execute(f"SELECT node, time, monitor, alarm, \"column\" FROM '{path}'").fetchall()
    return sorted((n, str(t), m, a, c or "") for n, t, m, a, c in rows)


@pytest.fixture(scope="module")
def expected(made):
    """The same, by the path in memory."""
    assert main(["fleet", str(made / "a.parquet"), "-k", "3", "--out", str(made / "memory"), "--no-large"]) == 0
    found = []
    for name in ("change", "stuck", "xb"):
        column = f"{name}_column" if name != "xb" else "''"
        query = f"SELECT node, time, {name}_alarm, {column} FROM '{made / 'memory' / 'readings.csv'}'"
        for n, t, word, c in duckdb.connect().execute(f"{query} WHERE {name}_alarm IS NOT NULL").fetchall():
            found.append((n, str(t), name, word, c or ""))
    assert {one[2] for one in found} >= {"change", "xb"} and ("n3" in {one[0] for one in found})
    return sorted(found)


@pytest.mark.parametrize("source", ["file", "folder", "database"])
def test_alarms_are_those_of_the_path_in_memory(made, expected, source, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(large.LargeTable.__init__, "__defaults__", (*large.LargeTable.__init__.__defaults__[:-1], 900))
    what = {
        "file": [str(made / "a.parquet"), "--large"],
        "folder": [str(made / "parts")],  # its node column is found
        "database": [f"duckdb://{made / 'plant.db'}", "--query", "SELECT * FROM readings ORDER BY hash(temp)"],
    }[source]
    assert main(["fleet", *what, "-k", "3", "--out", str(tmp_path)]) == 0
    assert raised(tmp_path / "alarms.csv") == expected
    said = capsys.readouterr()
    assert "rows, " in said.err and " left" in said.err and "worst 12 nodes of 12" in said.out
    assert "error codes in 'hum'" in said.out
    assert not (tmp_path / "unfinished").exists()
    assert "Scores of all 12 nodes" in (tmp_path / "report.html").read_text()


def test_a_killed_run_goes_on_with_the_same_result(made, tmp_path):
    script = (
        "import sys, time; from icvi_jax.tables import large; from icvi_jax.cli import main, large as c\n"
        "d = large.LargeTable.__init__; d.__defaults__ = (*d.__defaults__[:-1], 900)\n"
        "one = c._summary\n"
        "def slow(*a):\n    time.sleep(float(sys.argv[1])); return one(*a)\n"
        "c._summary = slow\n"
        "sys.exit(main(['fleet', sys.argv[2], '--large', '-k', '3', '--out', sys.argv[3]]))"
    )

    def start(pause, out):
        args = [sys.executable, "-c", script, str(pause), str(made / "a.parquet"), str(out)]
        return subprocess.Popen(args, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ)

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run = start(0, whole)
    assert run.communicate()[1].count("going on") == 0 and run.returncode == 0
    run = start(1.5, broken)
    limit = time.monotonic() + 120
    while len(list(broken.glob("unfinished/done-*.npz"))) < 2 and time.monotonic() < limit and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert (broken / "unfinished").exists() and not (broken / "alarms.csv").exists()
    run = start(0, broken)
    said = run.communicate()[1]
    assert run.returncode == 0 and "going on after" in said
    for name in ("alarms.csv", "nodes.csv", "readings.csv"):
        assert (broken / name).read_text() == (whole / name).read_text()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM nothing", "nothing"),
        ("SELECT temp, time FROM readings", "no column names the node"),
        ("SELECT node, temp FROM readings", "no column of times"),
        ("SELECT CASE WHEN temp > 0 THEN node END AS node, time, temp FROM readings", "('node'): the name of the node"),
        ("SELECT node, CASE WHEN hum > 0 THEN time END AS time, temp FROM readings", "('time'): the time is missing"),
        ("SELECT node, time, CASE WHEN hum > 1 THEN 1e30 ELSE temp END AS temp FROM readings", "('temp'): too large"),
    ],
)
def test_bad_tables_are_refused_in_one_line(made, tmp_path, capsys, query, expected):
    assert main(["fleet", f"duckdb://{made / 'plant.db'}", "--query", query, "--out", str(tmp_path)]) != 0
    said = capsys.readouterr().err.strip()
    assert expected in said and "\n" not in said and "plant.db" in said


def test_bad_sources_are_refused_in_one_line(made, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("node,time,x\n1,2,3\n")
    out = ["--out", str(tmp_path / "out")]
    for what, expected in (
        ([str(tmp_path / "a.csv"), "--large"], "Parquet"),
        ([str(made / "a.parquet"), "--query", "SELECT 1"], "no database"),
        (["duckdb:///nowhere.db", "--query", "SELECT 1"], "no such database"),
        (["postgres://me:secret@localhost:1/db", "--query", "SELECT 1"], "localhost"),
        ([str(made / "a.parquet"), "--large", "--agree", "2"], "--agree 2"),
    ):
        assert main(["fleet", *what, *out]) != 0
        said = capsys.readouterr().err.strip()
        assert expected in said and "\n" not in said and "secret" not in said
