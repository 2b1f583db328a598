"""Fixtures for tests of the watch."""

import pytest
from watching import alarms, samples, watched

from icvi_jax.watch.journal import Store


@pytest.fixture(scope="session")
def expected():
    """The alarms of all samples of the feed, in one batch."""
    found = alarms(watched(samples()).out.getvalue())
    assert found and {alarm["node"] for alarm in found} == {"a"} and found[0]["alarm"] == "spike"
    return found


def close_abandoned(store):
    """Tests leave watches as a kill leaves them, or just let go of them: from Python 3.13 on, that is a warning."""
    if "_lock" in vars(store):
        store.close()


Store.__del__ = close_abandoned  # until the process ends: some are let go of after the last test
