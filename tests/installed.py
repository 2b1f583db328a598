"""Array libraries for tests: skipped with a reason if one is not installed."""

import pytest

from icvi_jax.testing import Backend, backend


def installed(name: str) -> Backend:
    """The backend of that name, or a skip."""
    try:
        return backend(name)
    except ImportError as missing:
        pytest.skip(f"{missing.name} is not installed")
