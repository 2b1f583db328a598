"""Fixtures for tests of the watch."""

import pytest
from watching import alarms, samples, watched


@pytest.fixture(scope="session")
def expected():
    """The alarms of all samples of the feed, in one batch."""
    found = alarms(watched(samples()).out.getvalue())
    assert found and {alarm["node"] for alarm in found} == {"a"} and found[0]["alarm"] == "spike"
    return found
