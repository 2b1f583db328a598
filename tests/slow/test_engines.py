"""Recorded fleets on Ray and on Spark: the example of the how-to, against one process, bit for bit."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("spark", "pyspark")])
def test_an_engine_has_the_results_of_one_process(engine, package, tmp_path):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    rng, lengths = np.random.default_rng(0), [60 - n for n in range(20)]
    rows = [(f"n{n}", t, *rng.normal(size=2)) for n, length in enumerate(lengths) for t in range(length)]
    table = pd.DataFrame(rows, columns=["node", "time", "x", "y"]).sample(frac=1, random_state=0)
    table.to_parquet(tmp_path / "in.parquet", index=False)
    script = HOWTO / "engine_fleet.py"
    command = [sys.executable, "-W", "ignore", str(script), engine, str(tmp_path / "in.parquet"), str(tmp_path / "out")]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "RAY_USAGE_STATS_ENABLED": "0", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    want = module.validated(table)
    found = pd.read_parquet(tmp_path / "out").sort_values(["node", "time"], ignore_index=True)
    assert len(found) == len(table)
    for name in ("node", "time", "xb", "db"):
        np.testing.assert_array_equal(found[name].to_numpy(), want[name].to_numpy())
