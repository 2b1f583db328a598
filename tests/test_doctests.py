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


@pytest.mark.parametrize("name", icvi_jax.__all__)
def test_every_public_name_has_an_example(name):
    assert ">>>" in (getattr(icvi_jax, name).__doc__ or "")
