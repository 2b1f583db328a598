"""Every single write, print, rename and sync of a watch fails in turn; a restart neither loses nor counts twice."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from faults import Broker, Faults
from watching import COMMAND, PATIENCE, alarms, begun, lines, samples, taken, watched

from icvi_jax.watch.mqtt import message_of

PREFIX, END, BATCH = 292, 322, 6  # the change of node a, and its alarms, lie between


def life(folder, feed, out):
    """One run of a watch: two batches, a checkpoint, and so on; after an error nothing is cleaned up."""
    watch = None
    try:
        watch = begun(folder, out)
        feed(watch)
        watch.save()
    finally:
        if watch is not None:
            watch.close()
    return watch


def from_stdin(_broker, _faults):
    """The lines, from the first one in every run."""

    def feed(watch):
        items = taken(samples()[PREFIX - 6 : END])
        for number, start in enumerate(range(0, len(items), BATCH), 1):
            watch.take(items[start : start + BATCH])
            if number % 2 == 0:
                watch.save()

    return feed


def from_broker(broker, faults):
    """What the broker still has; answers get lost as well."""

    def feed(watch):
        for number in itertools.count(1):
            messages = broker.send(BATCH)
            if not messages:
                return
            watch.take([message_of(message) for message in messages])
            for half in (messages[::2], messages[1::2]):
                faults.call("acknowledge", broker.acknowledge, half)
            if number % 2 == 0:
                watch.save()

    return feed


def payloads(items):
    """Without times: only the ticket shows that a message came before."""
    return [json.dumps({"node": node, "v": v}).encode() for node, _, v in items]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A folder that has seen the first samples, and what there is in the end."""
    folder = tmp_path_factory.mktemp("start")
    first = watched(samples()[:PREFIX], folder)
    first.save()
    first.close()
    whole = watched(samples()[:END])
    found = {alarm["id"] for alarm in alarms(whole.out.getvalue())}
    assert found - {alarm["id"] for alarm in alarms(first.out.getvalue())}
    return folder, found - {alarm["id"] for alarm in alarms(first.out.getvalue())}, whole.shard.state


@pytest.mark.parametrize("source", [from_stdin, from_broker])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_every_write_fails_in_turn(tmp_path, start, source, done):
    folder, expected, state = start
    seen = set()
    for which in itertools.count(1):
        here, out = tmp_path / str(which), io.StringIO()
        shutil.copytree(folder, here)
        faults = Faults(which, done)
        broker = Broker(payloads(samples()[PREFIX:END]))
        with faults.everywhere():
            try:
                life(here, source(broker, faults), out)
            except OSError:
                pass
        seen.add(faults.failed.partition(" ")[0])
        watch = life(here, source(broker, Faults()), out)
        assert watch.samples == END, f"{faults.failed}: {watch.samples} samples"
        for a, b in zip(jax.tree.leaves(watch.shard.state), jax.tree.leaves(state)):
            np.testing.assert_array_equal(a, b, err_msg=faults.failed)
        assert {alarm["id"] for alarm in alarms(out.getvalue())} == expected, faults.failed
        shutil.rmtree(here)
        if not faults.failed:
            break
    assert {"INSERT", "COMMIT", "DELETE", "first", "second", "fsync", "link", "unlink", "print"} <= seen
    assert which > 50


def test_a_full_disk_is_noticed_and_a_restart_goes_on(tmp_path):
    items = lines(samples(4000))
    expected = alarms(watched(samples(4000)).out.getvalue())
    command = [*COMMAND, "--checkpoint", str(tmp_path)]
    code = "import resource, sys, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))"
    code += "; sys.argv = sys.argv[1:]; runpy.run_module('icvi_jax.cli', run_name='__main__')"
    full = [sys.executable, "-c", code, "icvi", *command[3:]]
    first = subprocess.run(full, input=items, capture_output=True, text=True, timeout=PATIENCE)
    assert first.returncode == 2 and "cannot write (disk I/O error)" in first.stderr and "Traceback" not in first.stderr
    second = subprocess.run(command, input=items, capture_output=True, text=True, timeout=PATIENCE)
    assert second.returncode == 0 and "8,000 samples of 2 nodes" in second.stderr
    assert {alarm["id"] for alarm in alarms(first.stdout + second.stdout)} == {alarm["id"] for alarm in expected}
