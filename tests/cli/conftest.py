"""Fixtures for tests of the command; compiled programs go to a separate folder, not to the user's cache."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def programs_elsewhere(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()
