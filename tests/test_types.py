"""The type checker has no way round. `.ci/run lint` runs it on the package, a user's file and planted defects."""

import tomllib
from pathlib import Path


def test_no_error_code_is_switched_off():
    mypy = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["tool"]["mypy"]
    assert {"icvi_jax", "tests/typing/user.py", "docs/howto/skeleton"} == set(mypy["files"])
    assert mypy["strict"] and not {"disable_error_code", "ignore_errors", "ignore_missing_imports"} & set(mypy)
    for part in mypy["overrides"]:  # other packages may lack types; none of our files is skipped
        if set(part) == {"module", "disallow_subclassing_any"}:  # what river and scikit-learn ask to be subclassed
            assert all(module.startswith("icvi_jax.adapters.") for module in part["module"])
            continue
        assert set(part) == {"module", "ignore_missing_imports"} and "icvi_jax" not in str(part["module"])
