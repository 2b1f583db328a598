"""Ctrl-C and SIGTERM: a batch is finished, a wait ends, a second signal ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys

from watching import PATIENCE

from icvi_jax.watch.loop import Interrupts


def taken(batches):
    """The batches that were finished before an interrupt ended the loop."""
    interrupts, whole = Interrupts(), []
    try:
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


def test_an_interrupt_ends_the_wait_and_what_was_read_during_it_counts():
    def batches():
        yield 1
        signal.raise_signal(signal.SIGTERM)
        yield 2
        yield 3

    assert taken(batches()) == [1, 2]


def test_an_interrupt_raises_nothing_inside_the_code_of_others():
    """It may come inside a callback of the garbage collector, where an error is printed and forgotten."""
    ended = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[1, 2]\n", "")


COLLECTED = """
import gc, signal
from icvi_jax.watch.loop import Interrupts

def callback(phase, info):
    signal.raise_signal(signal.SIGTERM)
    gc.callbacks.remove(callback)

def batches():
    yield 1
    gc.callbacks.append(callback)
    gc.collect()
    yield 2
    yield 3

print(list(Interrupts().between(batches())))
"""


def test_asked_twice_it_ends_at_once():
    code = """
import signal
from icvi_jax.watch.loop import Interrupts
for batch in Interrupts().between([1]):
    signal.raise_signal(signal.SIGINT)
    print("heard", flush=True)
    signal.raise_signal(signal.SIGINT)
    print("never")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == -signal.SIGINT and ended.stdout == "heard\n"
