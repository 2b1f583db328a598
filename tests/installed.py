"""Array libraries for tests, skipped with a reason if one is not installed; and XLA without its optimizations."""

import functools

import jax
import pytest

from icvi_jax.testing import Backend, backend

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""XLA compiles a step four times as fast with these options."""


def installed(name: str) -> Backend:
    """The backend of that name, or a skip."""
    try:
        return backend(name)
    except ImportError as missing:
        pytest.skip(f"{missing.name} is not installed")


@functools.cache
def quick_options():
    """Options of a quick compilation; none where this XLA does not have them."""
    try:
        jax.jit(lambda a: a + 1, compiler_options=QUICK)(1)
    except Exception:
        return None
    return QUICK


def quick_jit(f, **settings):
    """`jax.jit` for a test in which only the result counts, not how XLA optimizes it."""
    return jax.jit(f, compiler_options=quick_options(), **settings)
