"""The recipes for production: what they name exists, and the programs that read them accept them."""

import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from test_broker import MOSQUITTO, Broker

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "howto" / "recipes"


def test_the_unit_is_valid_and_its_command_understood(tmp_path):
    text = (RECIPES / "icvi-watch.service").read_text()
    command = next(line for line in text.splitlines() if line.startswith("ExecStart=")).partition("=")[2]
    program, *arguments = shlex.split(command, comments=False)
    assert program == "/opt/icvi/bin/icvi"
    # parsed as it is, then refused for what is not there: a checkpoint folder that is a file
    (tmp_path / "state").write_text("")
    given = [str(tmp_path / "state") if one == "/var/lib/icvi" else one for one in arguments]
    done = subprocess.run([sys.executable, "-m", "icvi_jax.cli", *given], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "is a file, expected a folder" in done.stderr
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    unit = tmp_path / "icvi-watch.service"
    unit.write_text(text.replace(program, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "icvi-watch" not in done.stderr, done.stderr


def test_the_container_installs_extras_that_exist():
    text = (RECIPES / "Containerfile").read_text()
    extras = text.partition("/src[")[2].partition("]")[0].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"cli", "serve", "mqtt"} <= set(extras) <= set(known)
    assert text.rstrip().endswith('ENTRYPOINT ["icvi", "watch"]')


def test_mosquitto_starts_with_the_settings(tmp_path, require):
    require("mosquitto")
    broker = Broker(tmp_path)
    text = (RECIPES / "mosquitto.conf").read_text()
    text = text.replace("1883", str(broker.port)).replace("/var/lib/mosquitto", str(tmp_path)) + "user root\n"
    (tmp_path / "m.conf").write_text(text)
    assert MOSQUITTO
    broker.start()
    try:
        assert broker.answers()
    finally:
        broker.stop()
