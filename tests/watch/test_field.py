"""An awkward station, of those of `benchmarks/field.py`, has the same alarms in `run`, `fleet` and `watch`."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "field.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="there are no benchmarks beside these tests")
def test_the_hour_that_comes_twice_gives_the_same_alarms_everywhere(tmp_path, capsys):
    made = importlib.util.spec_from_file_location("field", SCRIPT)
    field = importlib.util.module_from_spec(made)
    made.loader.exec_module(field)
    assert field.compare(tmp_path, {"autumn": field.stations()["autumn"]}) == 0, capsys.readouterr().out
    assert "yes/yes/yes" in capsys.readouterr().out
