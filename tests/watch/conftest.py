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


@pytest.fixture(scope="session", autouse=True)
def abandoned_stores_are_closed():
    """Tests leave watches as a kill leaves them, or just let go of them: from Python 3.13 on, that is a warning."""

    def close(store):
        if "_lock" in vars(store):
            store.close()

    patch = pytest.MonkeyPatch()
    patch.setattr(Store, "__del__", close, raising=False)
    yield
    patch.undo()
