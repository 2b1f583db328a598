"""A type checker finds no error in the package and in a user's file, and finds all planted defects."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")


def test_a_users_file_is_clean_under_strict():
    command = [sys.executable, "-m", "mypy", "--strict", "tests/typing/user.py"]
    said = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


def test_planted_defects_are_found():
    said = subprocess.run([sys.executable, HERE / "typing" / "planted.py"], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


def test_no_error_code_is_switched_off():
    import tomllib

    mypy = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["tool"]["mypy"]
    assert mypy["strict"] and not {"disable_error_code", "ignore_errors", "ignore_missing_imports"} & set(mypy)
    for part in mypy["overrides"]:  # other packages may lack types; none of our files is skipped
        assert set(part) == {"module", "ignore_missing_imports"} and "icvi_jax" not in str(part["module"])
