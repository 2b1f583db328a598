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
