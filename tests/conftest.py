"""Shared fixtures: the reference data beside the project, and settings of JAX for tests."""

import gc
import importlib.util
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # otherwise scikit-learn counts cores with tools that may be missing
TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
SHARED = TESTS.parents[1] / "shared" / "data"


def there_is(name):
    """Whether there is a command or a module with this name; servers are often in a folder for root."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin") or importlib.util.find_spec(name)


@pytest.fixture(scope="session", autouse=True)
def programs_elsewhere(tmp_path_factory):
    """Keep compiled programs in a folder of the tests, not in the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="module", autouse=True)
def programs_released():
    """Release XLA's programs before the process has as many mappings as Linux allows (65,530): XLA then crashes."""
    yield
    try:
        mappings = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # no Linux
        return
    if mappings > 20_000:
        import jax

        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def require():
    """Skip a test that needs commands or modules that are missing; with CI=true it fails."""

    def check(*needed):
        absent = [name for name in needed if not there_is(name)]
        if absent:
            give_up = pytest.fail if os.environ.get("CI", "").lower() == "true" else pytest.skip
            give_up(f"needs {', '.join(absent)}, which cannot be found here")

    return check


@pytest.fixture(scope="session")
def shared():
    """The folder of reference recordings, which are not part of the project."""
    if not SHARED.is_dir():
        pytest.skip("the reference recordings (../shared/data) are not here")
    return SHARED


@pytest.fixture
def write(tmp_path):
    """Write a text to a file and return its path."""

    def writer(text, name="file.txt", encoding="utf-8"):
        (tmp_path / name).write_text(text, encoding=encoding)
        return tmp_path / name

    return writer


def pytest_terminal_summary(terminalreporter):
    """Print how many tests were skipped, and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
