"""Machine code of the kernels for NVIDIA cards, made without one: needs `pip install '.[gpu-code]'`."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))


def compilers():
    if importlib.util.find_spec("jax_plugins") is None or importlib.util.find_spec("jax_plugins.xla_cuda12") is None:
        return False
    nvidia = importlib.util.find_spec("nvidia")
    folders = [] if nvidia is None else nvidia.submodule_search_locations
    return all(any(Path(f).glob(f"*/bin/{tool}") for f in folders) for tool in ("ptxas", "nvdisasm"))


pytestmark = pytest.mark.skipif(not compilers(), reason="needs pip install '.[gpu-code]'")


def code(name):
    import gpu

    return gpu.code(name)


def test_instructions_are_counted():
    found = code("k-means 4, p 2, XB")
    for made in (found["sm_80"], found["sm_90"]):
        assert made["spilled"] == 0 and made["registers"] <= 96
        assert made["classes"]["memory"] == made["pipes"]["memory"] == 2 + 2  # a sample in, a value and a label out
        assert found["operations"] < made["instructions"] < 2 * found["operations"] < 2 * made["stalls"]
        assert sum(made["pipes"].values()) == made["instructions"]


def test_ten_slots_and_a_monitor_stay_in_registers():
    found = code("k-means 10, p 2, XB DB, Distress")
    for made in (found["sm_80"], found["sm_90"]):
        assert made["spilled"] == 0 and made["registers"] <= 208
