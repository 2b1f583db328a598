"""Machine code of the kernels for NVIDIA cards, made without one: needs `pip install '.[gpu-code]'`."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


def compilers():
    if importlib.util.find_spec("jax_plugins") is None or importlib.util.find_spec("jax_plugins.xla_cuda12") is None:
        return False
    nvidia = importlib.util.find_spec("nvidia")
    folders = [] if nvidia is None else nvidia.submodule_search_locations
    return all(any(Path(f).glob(f"*/bin/{tool}") for f in folders) for tool in ("ptxas", "nvdisasm"))


pytestmark = pytest.mark.skipif(not compilers(), reason="needs pip install '.[gpu-code]'")


def code(name, folder):
    """What the script finds; in a process of its own, since the plugin looks for a card unless JAX is told not to."""
    file = folder / "gpu.json"
    command = [sys.executable, str(SCRIPT), "code", "--only", name, "--results", str(file)]
    done = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(file.read_text())["code"][name]
    return found, (found["sm_80"], found["sm_90"])


def test_instructions_are_counted(tmp_path):
    found, cards = code("k-means 2, p 1, XB", tmp_path)
    for made in cards:
        assert made["spilled"] == 0 and made["registers"] <= 48
        assert made["classes"]["memory"] == made["pipes"]["memory"] == 1 + 2  # a sample in, a value and a label out
        assert found["operations"] < made["instructions"] < 2 * found["operations"] < 2 * made["stalls"]
        assert sum(made["pipes"].values()) == made["instructions"]


@pytest.mark.parametrize("name, most", [("k-means 10, p 2, XB DB, Distress", 208), ("OEC 8, p 2, XB DB", 255)])
def test_a_large_step_stays_in_registers(name, most, tmp_path):
    for made in code(name, tmp_path)[1]:
        assert made["spilled"] == 0 and made["registers"] <= most
