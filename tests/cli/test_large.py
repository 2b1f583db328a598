"""Tables larger than memory: the alarms of the path in memory, whatever the buckets, the source, or the kill."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

duckdb = pytest.importorskip("duckdb")

from icvi_jax.cli import main  # noqa: E402
from icvi_jax.tables import out_of_core as large  # noqa: E402
from icvi_jax.watch.journal import locked  # noqa: E402

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


@pytest.fixture
def small_buckets(monkeypatch):
    monkeypatch.setattr(large.LargeTable.__init__, "__defaults__", (*large.LargeTable.__init__.__defaults__[:-1], 900))


@pytest.mark.parametrize("source", ["file", "folder", "database"])
def test_alarms_are_those_of_the_path_in_memory(made, expected, source, tmp_path, small_buckets, capsys):
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


ODD = {
    "as it is": "SELECT * FROM readings",
    "not in order": "SELECT * FROM readings ORDER BY hash(temp)",
    "codes, not in order": "SELECT node, time, CASE hash(temp) % 40 WHEN 0 THEN 999 ELSE temp END AS temp, hum "
    "FROM readings ORDER BY hash(hum)",
    "three at one time": "SELECT node, time_bucket(INTERVAL 3 MINUTE, time) AS time, temp, hum FROM readings "
    "ORDER BY hash(temp)",
    "clocks that differ": "SELECT node, time + (hash(temp) % 50_000_000)::BIGINT * INTERVAL 1 MICROSECOND AS time, "
    "temp, hum FROM readings",
    "seconds since 1970": "SELECT node, epoch(time) AS t, temp, hum FROM readings",
    "no time": "SELECT node, temp, hum FROM readings",
    "numbers as text, other columns": "SELECT '' || node AS site, node, time, '' || temp AS temp, hum, "
    "time < '2026-01-01 02:00' AS fan, NULL::DOUBLE AS dead, row_number() OVER () + 4000 AS total FROM readings",
    "a time in 2099": "SELECT node, CASE WHEN node = 'n2' AND hour(time) = 3 AND minute(time) = 5 THEN "
    "TIMESTAMP '2099-01-01' ELSE time END AS time, temp, hum FROM readings",
}


@pytest.mark.parametrize("odd", ODD)
def test_readings_and_ranks_are_those_of_the_path_in_memory_byte_for_byte(made, odd, tmp_path, small_buckets):
    connection = duckdb.connect(str(made / "plant.db"), read_only=True)
    connection.execute(f"COPY ({ODD[odd]}) TO '{tmp_path / 'a.parquet'}' (FORMAT parquet)")
    connection.close()
    for how in ("--no-large", "--large"):
        assert main(["fleet", str(tmp_path / "a.parquet"), "-k", "3", how, "--out", str(tmp_path / how)]) == 0
    first, second = ((tmp_path / how / "readings.csv").read_text() for how in ("--no-large", "--large"))
    assert first == second
    meta = [
        (tmp_path / how / "report.html").read_text().partition('id="meta">')[2] for how in ("--no-large", "--large")
    ]
    first, second = (json.JSONDecoder().raw_decode(text)[0] for text in meta)
    assert first["nodes"] == second["nodes"] and first["score"] == second["score"] and first["trust"] == second["trust"]


def test_the_order_of_files_and_rows_changes_nothing(made, tmp_path, small_buckets):
    connection = duckdb.connect(str(made / "plant.db"), read_only=True)
    for way in ("a", "b"):
        (tmp_path / way).mkdir()
        for part in range(3):  # three readings at each time, in different files
            rows = "SELECT node, time_bucket(INTERVAL 3 MINUTE, time) AS time, temp, hum FROM readings WHERE "
            rows += f"epoch(time)::BIGINT // 60 % 3 = {part} ORDER BY {'time' if way == 'a' else 'hash(temp)'}"
            to = tmp_path / way / f"{part if way == 'a' else 2 - part}.parquet"
            connection.execute(f"COPY ({rows}) TO '{to}' (FORMAT parquet)")
        assert main(["fleet", str(tmp_path / way), "-k", "3", "--out", str(tmp_path / f"out {way}")]) == 0
    connection.close()
    for name in ("alarms.csv", "nodes.csv", "readings.csv"):
        assert (tmp_path / "out a" / name).read_bytes() == (tmp_path / "out b" / name).read_bytes()


def test_a_killed_run_goes_on_with_the_same_result(made, tmp_path):
    script = (
        "import sys, time; from icvi_jax.tables import out_of_core as large\n"
        "from icvi_jax.cli import main, fleet_out_of_core as c\n"
        "d = large.LargeTable.__init__; d.__defaults__ = (*d.__defaults__[:-1], 900)\n"
        "one = c.collect\n"
        "def slow(*a):\n    time.sleep(float(sys.argv[1])); return one(*a)\n"
        "c.collect = slow\n"
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
    assert run.returncode == 0 and "going on after" in said and not list(broken.glob("unfinished*"))
    for name in ("alarms.csv", "nodes.csv", "readings.csv"):
        assert (broken / name).read_text() == (whole / name).read_text()


def test_two_runs_at_once_do_not_write_into_one_folder(made, tmp_path, capsys):
    (tmp_path / "unfinished").mkdir()
    held = locked(tmp_path / "unfinished.lock", "")
    assert main(["fleet", str(made / "a.parquet"), "--large", "-k", "2", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"icvi: --out {tmp_path}: another run is writing there\n" and (tmp_path / "unfinished.lock").exists()
    held.close()
    assert main(["fleet", str(made / "a.parquet"), "--large", "-k", "2", "--out", str(tmp_path)]) == 0
    assert not list(tmp_path.glob("unfinished*"))  # the lock of one that was killed is no obstacle


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
        (["postgres://me:secret@localhost:1/db"], "needs --query"),
        ([str(made / "a.parquet"), "--large", "--agree", "2"], "--agree 2"),
    ):
        assert main(["fleet", *what, *out]) != 0
        said = capsys.readouterr().err.strip()
        assert expected in said and "\n" not in said and "secret" not in said


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("postgresql://h/db?user=me&password=secret", 'at "{}": no such role'),
        ("postgresql://me:a/secret@h/db", 'at "{}": invalid integer value "a"'),
        ("postgresql://me:my secret@h/db", 'at "{}": unexpected spaces found in "my secret", use %20'),
        ("postgresql://me:my@secret@h/db", 'at "{}": could not translate host name "secret@h" to address'),
    ],
)
def test_no_password_is_said_or_written_however_it_is_given(source, said, tmp_path, capsys, monkeypatch):
    """As PostgreSQL 15 says it."""

    def refused(connection, address):
        raise duckdb.IOException(said.format(address))

    monkeypatch.setattr(large, "attach", refused)
    assert main(["fleet", source, "--query", "SELECT 1", "--out", str(tmp_path)]) != 0
    heard = capsys.readouterr().err.strip()
    assert "h/db" in heard and "\n" not in heard and "secret" not in heard
    assert "secret" not in (tmp_path / "unfinished" / "source.json").read_text()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--every", "fish"], "--every 'fish'"),
        (["--every", "10"], "give a time, such as 10min"),
        (["--columns", "nix"], "no such column"),
        (["--node", "nix"], "no such column"),
        (["--forgetting", "3"], "--forgetting 3"),
        (["--monitor", "nix"], "no monitor 'nix'"),
        (["--false-alarms", "fish"], "--false-alarms fish"),
    ],
)
def test_bad_options_are_refused_before_the_table_is_divided(made, tmp_path, capsys, options, expected):
    assert main(["fleet", str(made / "a.parquet"), "--large", *options, "--out", str(tmp_path)]) != 0
    said = capsys.readouterr().err.strip()
    assert expected in said and "\n" not in said
    assert not list(tmp_path.glob("unfinished/*.parquet"))


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("30/hour", ""),  # too many for one node, not for twelve
        ("1/day", "ask for at least"),  # too few for one node; for twelve, incidents are promised
        ("300/hour", "at most one in 15"),  # too many for twelve
        ("none", "change needs a rate"),
    ],
)
def test_a_budget_is_judged_by_the_nodes_of_the_table(made, tmp_path, capsys, rate, expected):
    options = ["--large", "-k", "2", "--false-alarms", rate, "--out", str(tmp_path)]
    assert (main(["fleet", str(made / "a.parquet"), *options]) == 0) == (not expected)
    said = capsys.readouterr()
    assert expected in said.err and (expected or "over 12 nodes" in said.out)


def test_text_after_the_rows_that_show_the_kinds_is_refused(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(large, "HEAD", 1000)
    connection = duckdb.connect(str(made / "plant.db"), read_only=True)
    late = "time > (SELECT max(time) - INTERVAL 1 MINUTE FROM readings)"
    rows = f"SELECT node, time, CASE WHEN {late} THEN 'broken' ELSE '' || temp END AS temp, hum FROM readings"
    connection.execute(f"COPY ({rows} ORDER BY time) TO '{tmp_path / 'a.parquet'}' (FORMAT parquet)")
    connection.close()
    assert main(["fleet", str(tmp_path / "a.parquet"), "--large", "--out", str(tmp_path / "out")]) != 0
    said = capsys.readouterr().err.strip()
    assert "('temp'): 'broken' is not a number" in said and "\n" not in said


@pytest.mark.skipif(
    "ICVI_POSTGRES" not in os.environ, reason="ICVI_POSTGRES is not the address of a Postgres to write to"
)
def test_postgres_has_the_alarms_of_the_path_in_memory(made, expected, tmp_path, small_buckets):
    connection = duckdb.connect()
    try:
        connection.execute("LOAD postgres")
    except duckdb.Error:
        pytest.skip("this DuckDB has no extension for Postgres")
    connection.execute(f"ATTACH '{os.environ['ICVI_POSTGRES']}' AS there (TYPE postgres)")
    rows = f"SELECT * FROM '{made / 'a.parquet'}'"
    connection.execute(f"DROP TABLE IF EXISTS there.icvi_test; CREATE TABLE there.icvi_test AS {rows}")
    connection.close()
    query = ["--query", "SELECT * FROM icvi_test WHERE hum IS NOT NULL"]
    assert main(["fleet", os.environ["ICVI_POSTGRES"], *query, "-k", "3", "--out", str(tmp_path)]) == 0
    assert raised(tmp_path / "alarms.csv") == expected
