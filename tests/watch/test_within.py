"""Calls that may never return."""

import threading

import pytest

from icvi_jax.watch.kafka import within


def test_what_returns_is_waited_for_and_its_error_is_raised_here():
    seen = []
    assert within(10, lambda: seen.append(1)) and seen == [1]
    with pytest.raises(OSError, match="full"):
        within(10, lambda: (_ for _ in ()).throw(OSError("full")))


def test_what_does_not_return_is_left():
    never = threading.Event()
    assert not within(0.05, never.wait)
    never.set()
