"""The examples in docstrings run, on the package as it is installed."""

import doctest
import importlib
import pkgutil

import pytest

import icvi_jax

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FOUND = pkgutil.walk_packages(icvi_jax.__path__, "icvi_jax.")
MODULES = sorted(module.name for module in FOUND if not module.name.endswith("__main__"))


@pytest.mark.parametrize("name", ["icvi_jax", *MODULES])
def test_examples(name):
    try:
        module = importlib.import_module(name)
    except ImportError as missing:
        pytest.skip(f"{missing.name} is not installed")
    failed, _ = doctest.testmod(module, optionflags=FLAGS, extraglobs={"icvi_jax": icvi_jax})
    assert not failed


def test_there_are_examples():
    folders = ("icvi_jax.drive.", "icvi_jax.validation.", "icvi_jax.checkpoint.")
    drivers = [importlib.import_module(name) for name in MODULES if name.startswith(folders)]
    found = [test for module in drivers for test in doctest.DocTestFinder().find(module)]
    assert sum(bool(test.examples) for test in found) >= 4
