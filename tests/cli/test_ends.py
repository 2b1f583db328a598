"""Input and output of the command: closed pipes and full disks."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from icvi_jax.cli import main
from icvi_jax.tables import read

COMMAND = [sys.executable, "-m", "icvi_jax.cli"]
TEXT = "a,b\n" + "".join(f"{n % 7}.5,{n % 5}\n" for n in range(60))


def called(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, timeout=300, **options)


def closed(words, end, **options):
    """The command with one end closed, by the shell: a fork of this process, which has threads, may hang."""
    line = f"exec {shlex.join(COMMAND)} {words} {end}"
    return subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True, timeout=300, check=False, **options)


def test_a_reader_who_has_enough_is_no_error():
    read, write = os.pipe()
    os.close(read)
    ended = called("indices", stdout=write)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_said():
    with open("/dev/full", "w") as full:
        ended = called("indices", stdout=full)
    assert (ended.returncode, ended.stderr) == (2, "icvi: standard output: No space left on device\n")


def test_closed_ends(tmp_path):
    ended = closed("datasets", ">&-")
    assert (ended.returncode, ended.stderr) == (0, "")
    ended = closed("run -", "<&-", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (
        2,
        "icvi: standard input: it is closed; give a file, or pipe one into the command\n",
    )


def test_a_pipe_is_a_source(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(TEXT,))
    writer.start()
    assert read(pipe).x.shape == (60, 2)
    writer.join()


@pytest.mark.parametrize("name", ["readings.csv", "r.parquet"])
def test_a_full_disk_names_the_file_and_leaves_no_half_of_it(tmp_path, name):
    (tmp_path / "in.csv").write_text(TEXT)
    code = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))\n"
    code += "from icvi_jax.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "run", "in.csv", "-k", "2", "--out", "o", "--readings", name]
    kept = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=kept)
    lines = [line for line in ended.stderr.splitlines() if "cannot be written" in line]
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert len(lines) == 1 and lines[0].startswith(f"icvi: o/{name}: cannot be written (")
    assert not list((tmp_path / "o").iterdir())


def test_a_place_that_cannot_be_is_named(tmp_path, capsys):
    (tmp_path / "in.csv").write_text(TEXT)
    assert main(["run", str(tmp_path / "in.csv"), "-k", "2", "--out", "/proc/nowhere"]) == 2
    assert capsys.readouterr().err.startswith("icvi: /proc/nowhere/readings.csv: cannot be written (")


def test_an_interrupt_while_a_file_is_read_is_no_error(monkeypatch, capsys):
    """DuckDB makes an error of Ctrl-C."""

    def interrupted(*_):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("icvi_jax.cli.fleet.read_fleet", interrupted)
    assert main(["fleet", "x.csv"]) == 130
    assert not capsys.readouterr().err
