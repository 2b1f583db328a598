"""Ctrl-C and SIGTERM: a batch is finished, a wait ends, a second signal ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from watching import PATIENCE

from icvi_jax.watch.service import Interrupts


def taken(batches):
    """The batches that were finished before an interrupt ended the loop."""
    interrupts, whole = Interrupts(), []
    try:
        with pytest.raises(KeyboardInterrupt):
            for batch in interrupts.between(batches):
                if batch == "busy":
                    signal.raise_signal(signal.SIGINT)
                whole.append(batch)
    finally:
        interrupts.close()
    assert signal.getsignal(signal.SIGINT) != interrupts._ask
    return whole


def test_an_interrupt_lets_the_batch_be_whole():
    assert taken([1, "busy", 3]) == [1, "busy"]


def test_an_interrupt_ends_the_wait_for_a_batch():
    def batches():
        yield 1
        signal.raise_signal(signal.SIGTERM)
        yield 2

    assert taken(batches()) == [1]


def test_asked_twice_it_ends_at_once():
    code = """
import signal
from icvi_jax.watch.service import Interrupts
for batch in Interrupts().between([1]):
    signal.raise_signal(signal.SIGINT)
    print("heard", flush=True)
    signal.raise_signal(signal.SIGINT)
    print("never")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == -signal.SIGINT and ended.stdout == "heard\n"
