"""Faults for hours: kills, freezes, damaged files, memory. Not part of `pytest`: `pytest tests/slow`, every night.

Each script here is one experiment with a `main` that ends with 0 if all is within bounds; this is the harness of all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = {
    "kill": ["--kills", "200"],
    "kill_watch": ["--kills", "200"],
    "kafka": ["--samples", "3e5", "--kills", "20"],
    "mqtt": ["--kills", "30"],
    "many_nodes": [],
    "soak": ["--samples", "2e7"],
    "watch_memory": ["--samples", "2e6"],
    "mutated_checkpoints": [],
    "mutated_files": [],
    "../simulation/seeds": ["--seeds", "10000"],
    "../../benchmarks/field": [],
}


def test_every_script_is_run():
    found = {path.stem for path in HERE.glob("*.py") if not path.stem.startswith("test_")}
    assert found == {name for name in SCRIPTS if "/" not in name}


@pytest.mark.parametrize("script", SCRIPTS)
def test_within_bounds(script):
    path = os.pathsep.join([str(HERE), str(HERE.parents[1] / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / f"{script}.py"), *SCRIPTS[script]]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    print(ended.stdout)
