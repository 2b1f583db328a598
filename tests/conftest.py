"""Shared fixtures: the reference data beside the project, and JAX set up as the tests want it."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
SHARED = TESTS.parents[1] / "shared" / "data"


@pytest.fixture(scope="session")
def shared():
    """The folder of reference recordings, which are not part of the project."""
    if not SHARED.is_dir():
        pytest.skip("the reference recordings (../shared/data) are not here")
    return SHARED


@pytest.fixture
def write(tmp_path):
    """Write a text to a file and give its path."""

    def writer(text, name="file.txt", encoding="utf-8"):
        (tmp_path / name).write_text(text, encoding=encoding)
        return tmp_path / name

    return writer
