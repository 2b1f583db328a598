"""The program of docs/howto/machines.md in two processes: the bits of one process, also after one was killed."""

import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import icvi_jax as icvi

PROGRAM = Path(__file__).resolve().parents[1] / "docs" / "howto" / "several_processes.py"


def start(folder, number):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, str(PROGRAM), address, str(number)]
    return [
        subprocess.Popen([*command, str(me), str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for me in range(number)
    ]


def finish(programs):
    said = [program.communicate(timeout=300)[0] for program in programs]
    assert [program.returncode for program in programs] == [0] * len(programs), "\n".join(said)
    return said


def values(folder, number):
    return np.stack([np.concatenate([np.load(folder / f"xb-{me}-{at}.npy") for me in range(number)]) for at in CHUNKS])


def checkpoints(folder, me):
    return [(int(file.stem.rpartition("-")[2]), file) for file in folder.glob(f"streams-{me}-of-2-*.icvi")]


PLAN = runpy.run_path(str(PROGRAM), run_name="plan")
CHUNKS = range(0, PLAN["ROWS"], PLAN["CHUNK"])


@pytest.fixture(scope="module")
def alone():
    """XB of every node after each chunk, in this process."""
    pipe = icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=3, memory=50),
        panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9),
    )
    state, found = pipe.init(2, (PLAN["NODES"],), dtype=np.float32), []
    for at in CHUNKS:
        X = PLAN["rows"](range(PLAN["NODES"]), at).astype(np.float32)
        state, readings = jax.jit(icvi.scan)(pipe, state, X)
        found.append(np.asarray(readings.values["xb"][-1]))
    return np.stack(found)


def test_two_processes_give_the_bits_of_one_and_agree_on_the_worst_node(tmp_path, alone):
    said = finish(start(tmp_path, 2))
    np.testing.assert_array_equal(values(tmp_path, 2), alone)
    for text in said:
        assert f"rows 300–400, worst node {alone[-1].argmax()}" in text


def test_a_killed_process_is_resumed_from_the_checkpoints(tmp_path, alone):
    programs = start(tmp_path, 2)
    end = time.monotonic() + 300
    while not any(tmp_path.glob("streams-1-of-2-[1-4]00.icvi")) and time.monotonic() < end:
        time.sleep(0.02)
    for program in programs:  # one dies, and the other one, which would wait for it, is stopped
        program.send_signal(signal.SIGKILL)
        program.communicate(timeout=60)
    (tmp_path / "xb-1-300.npy").unlink(missing_ok=True)
    (at, last), (other, _) = (max(checkpoints(tmp_path, me), default=(0, None)) for me in range(2))
    if at and at >= other:
        last.unlink()  # the processes were killed a chunk apart, and never more than one
    finish(start(tmp_path, 2))
    np.testing.assert_array_equal(values(tmp_path, 2), alone)


def test_the_old_launcher_says_where_to_go():
    said = subprocess.run([sys.executable, "-m", "icvi_jax.distributed"], capture_output=True, text=True, timeout=120)
    assert said.returncode == 1 and "several_processes.py" in said.stderr
