"""Array libraries as tests ask for them: skipped with a reason where one is not installed."""

import pytest

from icvi_jax.testing import Backend, backend


def installed(name: str) -> Backend:
    """The backend of that name, or a skip."""
    try:
        return backend(name)
    except ImportError as missing:
        pytest.skip(f"{missing.name} is not installed")
