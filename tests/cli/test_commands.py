"""The commands from end to end, in process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from icvi_jax.cli import main
from icvi_jax.tables import read


@pytest.fixture
def stream(tmp_path):
    """A small file with two modes, a time and an awkward name."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, 1, (90, 2)), rng.normal(9, 1, (60, 2))])
    rows = [f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00,{a:.4f},{b:.4f}" for n, (a, b) in enumerate(x)]
    path = tmp_path / "in.csv"
    path.write_text("when,=cmd(),<script>alert(1)</script>\n" + "\n".join(rows) + "\n")
    return path


def test_run_writes_three_files_and_says_what_happened(stream, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["run", str(stream), "-k", "2", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "150 samples from 2024-01-01 00:00 to 2024-01-07 05:00" in said and "sk-means, k = 2, memory = 50" in said
    assert sorted(path.name for path in out.iterdir()) == ["plot.png", "readings.csv", "report.html"]
    readings = read(out / "readings.csv")
    assert len(readings.x) == 150 and "xb" in readings.features and readings.time_name == "when"
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")
    report = (out / "report.html").read_text()
    assert "<script>alert" not in report and "\\u003cscript\\u003ealert(1)" in report
    assert len(re.findall(r"https?://", report)) == 0, "the report needs nothing from elsewhere"


def test_values_are_those_of_the_library(tmp_path):
    import icvi_jax as icvi

    out = tmp_path / "out"
    assert main(["run", "s3", "-k", "4", "--index", "xb", "--out", str(out), "--readings", "r.parquet"]) == 0
    table = read(out / "r.parquet", columns=["xb"])
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=4), panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
    )
    x = icvi.streams.s3(seed=0).x
    expected = np.asarray(icvi.run(pipe, (x - x[0]).astype(np.float32)).readings.values["xb"])
    np.testing.assert_allclose(table.x[:, 0], expected, rtol=1e-4)


def test_fleet_ranks_the_troubled_node_first(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 400, 2)).astype(np.float32)
    x[1, 250:] += 40
    x[2, ::3] = np.nan
    np.savez(tmp_path / "f.npz", X=x, nodes=["calm", "=bad()", "<i>gappy</i>"])
    assert main(["fleet", str(tmp_path / "f.npz"), "-k", "2", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said.index("=bad()") < said.index("calm")
    text = (tmp_path / "out" / "readings.csv").read_text()
    assert "\n'=bad()," in text and "\n=bad()" not in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<i>gappy" not in page and "\\u003ci\\u003egappy" in page


def test_catalogues(capsys):
    assert main(["indices"]) == 0 and main(["datasets"]) == 0 and main(["clusterers"]) == 0
    said = capsys.readouterr().out
    assert all(f"{name} " in said for name in ("xb", "db", "s1", "s2", "s3", "sensorscope", "merge-split"))


def test_options_from_a_file_and_the_command_line_wins(stream, tmp_path, capsys):
    config = tmp_path / "icvi.toml"
    config.write_text('k = 3\nindex = ["db"]\nnode = "unit"\n[run]\nforgetting = 1.0\n[fleet]\nforgetting = 0.5\n')
    command = ["run", str(stream), "--out", str(tmp_path / "o"), "--config", str(config)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "k = 3" in said and "forgetting: 1\n" in said and "alarms of db" in said
    assert main([*command, "-k", "2"]) == 0
    assert "k = 2" in capsys.readouterr().out
    config.write_text("forgeting = 1.0\n")
    assert main(command) == 2
    assert "did you mean 'forgetting'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--idnex", "xb"], "Did you mean --index?"),
        (["run", "s2", "--agree", "2"], "--agree 2: one stream has nobody to agree with"),
        (["rnu"], 'Did you mean "run"?'),
        (["run", "s2", "--index", "xxb"], "did you mean 'xb'?"),
        (["run", "--index", "xb", "file.csv"], "the source goes before --index"),
        (["run", "s4"], "built-in streams are s1, s2, s3"),
        (["run", "-k", "x"], "unable to convert"),
        (["run", "-k", "0"], "-k 0: needs at least one"),
        (["run", "--forgetting", "1.5"], "--forgetting 1.5"),
        (["run", "--clusterer", "oec", "-k", "3"], "--capacity"),
        (["run", "--clusterer", "fuzzy", "--slots", "3"], "--slots: fuzzy takes -k"),
        (["run", "--clusterer", "merge-splt"], "did you mean 'merge-split'?"),
        (["run", "--clusterer", "fuzzy", "--memory", "9"], "there is no option 'memory'; it has k, forgetting"),
        (["run", "--clusterer", "merge-split", "--set", "gian=2"], "did you mean 'gain'?"),
        (["run", "--clusterer", "merge-split", "--set", "gain"], "expected gain=VALUE"),
        (["run", "--clusterer", "merge-split", "--set", "gain=much"], "gain=much: expected a number"),
        (["run", "--clusterer", "merge-split", "--slots", "99"], "at most 31"),
        (["run", "--memory", "0.5"], "above 1"),
        (["run", "--index", "conn"], "--index conn: needs a clusterer with several prototypes per cluster"),
        (["compare", "--clusterer", "kmeans"], "did you mean 'sk-means'?"),
        (["run", "--readings", "a.xlsx"], ".parquet"),
        (["run", "--columns", "a"], "built-in stream"),
        (["fleet"], "SOURCE"),
        (["fleet", "no-such-folder"], "no such file"),
        (["watch", "--prometheus", "no"], "--prometheus"),
    ],
)
def test_mistakes_get_one_helpful_line(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and said in told and "Traceback" not in told
    assert not list(tmp_path.glob("icvi-out/*"))


def test_published_formats(tmp_path, capsys):
    line = "18 2007 10 {d} {h} {m} 00 {t} 3.2 {s} 0 {r} NaN NaN NaN 1.1 270\n"
    rng = np.random.default_rng(0)
    start = 1191967200 - 27 * 86400  # the Grand St Bernard in September
    minutes = range(0, 3 * 1440, 10)
    text = "".join(
        line.format(d=10 + m // 1440, h=m // 60 % 24, m=m % 60, t=start + 60 * m, s=rng.normal(), r=rng.normal(80, 5))
        for m in minutes
    )
    path = tmp_path / "stbernard-meteo-18.txt"
    path.write_text(text)
    assert main(["run", str(path), "--format", "sensorscope", "-k", "2", "--out", str(tmp_path / "o")]) == 0
    assert "surface_temperature, relative_humidity" in capsys.readouterr().out
    path = tmp_path / "ethylene_CO.txt"
    rows = rng.normal(size=(4000, 16)).cumsum(axis=0)
    lines = (f"{n / 100} 0 {n // 2000} {' '.join(map(str, row))}\n" for n, row in enumerate(rows.round(2).tolist()))
    path.write_text("".join(lines))
    gas = ["run", str(path), "--format", "gas", "-k", "2", "--out", str(tmp_path / "g"), "--columns", "tgs2600_1"]
    assert main([*gas, "tgs2610_4"]) == 0
    assert "tgs2600_1, tgs2610_4" in capsys.readouterr().out
    assert main([*gas, "tgs9"]) == 2 and "tgs2602_1, tgs2602_2" in capsys.readouterr().err


def test_help_is_quick_to_import_and_complete(capsys):
    code = (
        "import sys, icvi_jax.cli.app as a; from icvi_jax.cli import main; main(['run', '--help']);"
        "assert not {'duckdb', 'matplotlib', 'narwhals', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for option in ("--columns", "--every", "--forgetting", "--config", "-k", "--out"):
        assert option in done.stdout


def test_notes_are_text_on_one_line(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text('"a\x1b[31m\nb",c\n' + "\n".join(f"{n % 7},{n % 5}" for n in range(40)) + "\n")
    assert main(["run", str(path), "-k", "2", "--columns", "nope", "--out", str(tmp_path / "o")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "\x1b" not in told


def test_the_page_is_small_and_says_what_it_left_out(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "f.npz", X=rng.normal(size=(150, 70, 1)))
    assert main(["fleet", str(tmp_path / "f.npz"), "-k", "2", "--out", str(tmp_path / "o")]) == 0
    page = (tmp_path / "o" / "report.html").read_text()
    meta = json.loads(re.search(r'id="meta">(.*?)</script>', page, re.S)[1])
    assert meta["detail"]["rows"] == 100 and len(meta["nodes"]) == 150


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["calibrate", "few.csv"], "icvi: few.csv: 25 complete quiet rows in a run; at least 200 are needed"),
        (["calibrate", "few.csv", "--replicas", "0"], "icvi: --replicas 0: expected an integer of at least 2"),
        (
            ["calibrate", "few.csv", "--false-alarms", "none", "--monitor", "distress"],
            "icvi: --monitor distress: no monitor here takes false alarms",
        ),
        (["fleet", "few.csv", "--large"], "icvi: few.csv: --large takes Parquet files or a database"),
    ],
)
def test_what_cannot_be_done_is_said_in_words_of_the_command(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("a,b\n" + "".join(f"{n % 7}.5,{n % 5}\n" for n in range(30)))
    assert main([*arguments, "-k", "2"]) == 2
    assert said in capsys.readouterr().err
