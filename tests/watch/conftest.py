"""Fixtures for tests of the watch; compiled programs go to a separate folder, not to the user's cache."""

import pytest
from watching import alarms, samples, watched


@pytest.fixture(scope="session", autouse=True)
def programs_elsewhere(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def expected():
    """The alarms of the whole feed, taken in at once."""
    found = alarms(watched(samples()).out.getvalue())
    assert found and {alarm["node"] for alarm in found} == {"a"} and found[0]["alarm"] == "spike"
    return found
