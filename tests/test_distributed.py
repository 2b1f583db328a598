"""Several processes on loopback: the same bits as one process, equal summaries, and no hang when one dies."""

import json
import os
import shutil
import subprocess
import sys
from unittest import mock

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.distributed import __main__ as launcher
from icvi_jax.distributed import collectives, start

PROGRAM = """
import json, os, sys
from pathlib import Path
import numpy as np
from icvi_jax import distributed

task, folder, nodes, ticks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
group = distributed.start()

import jax
import icvi_jax as icvi
from icvi_jax.distributed import collectives

pipe = icvi.Pipeline(
    clusterer=icvi.SequentialKMeans(k=2),
    panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.CalinskiHarabasz()), forgetting=0.9),
    monitors={"xb": icvi.PageHinkley()},
)
names = [f"node {i}" for i in range(nodes)]
own = group.share(names)
first = names.index(own[0])
live = group.live(folder / "states", pipe, 2, own)
start = int(live.positions[0])
out = open(folder / f"readings-{group.process}-of-{group.processes}-from-{start}", "wb")
for t in range(start, ticks):
    x = np.random.default_rng(t).normal(size=(nodes, 2))
    x[t % 5 :: 5] = np.nan
    reading = live.tick(x[first : first + len(own)])
    np.save(out, np.stack([reading.values["xb"], reading.values["ch"], reading.label]).astype(np.float32))
    out.flush()
    if (t + 1) % 5 == 0:
        group.save(live, folder / "states")
        summary = group.summary(live, reading, worst=4)
        told = json.dumps([summary._asdict(), t])
        (folder / f"summary-{group.process}-of-{group.processes}").write_text(told)
    if task == "die" and group.process == 1 and t == 12 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), 9)
if task == "shard":
    state = jax.tree.map(lambda a: collectives.spread_out(np.asarray(a)), live.state)
    assert not state.anchor.high.is_fully_addressable and state.anchor.high.shape == (2, nodes)
    icvi.save(folder / "sharded", pipe, state, position=t)
    again = group.load_state(folder / "sharded", pipe)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
        assert a.sharding.is_equivalent_to(b.sharding, a.ndim)
        for u, v in zip(a.addressable_shards, b.addressable_shards, strict=True):
            assert np.asarray(u.data).tobytes() == np.asarray(v.data).tobytes()
    np.save(folder / f"centers-{group.process}.npy", live.state.clusterer.centers)
"""


PIPE = icvi.Pipeline(
    clusterer=icvi.SequentialKMeans(k=2),
    panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.CalinskiHarabasz()), forgetting=0.9),
    monitors={"xb": icvi.PageHinkley()},
)


def launch(folder, task, nodes, ticks, *options, processes=2):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "icvi_jax.distributed", "--processes", str(processes), "--timeout", "40"]
    command += [*options, str(program), task, str(folder), str(nodes), str(ticks)]
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    environment |= {"JAX_COMPILATION_CACHE_DIR": str(folder / "programs")}
    environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)


def readings(folder, process, processes, start=0):
    """(ticks, 3, nodes of that process)."""
    found, path = [], folder / f"readings-{process}-of-{processes}-from-{start}"
    with open(path, "rb") as file:
        while file.tell() < path.stat().st_size:
            found.append(np.load(file))
    return np.stack(found)


def summaries(folder, processes):
    return [json.loads((folder / f"summary-{i}-of-{processes}").read_text()) for i in range(processes)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    done = launch(folder, "shard", 512, 10)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    done = launch(folder, "run", 512, 10, "--devices", "2", processes=1)
    assert done.returncode == 0, done.stderr
    return folder


def test_two_processes_give_the_bits_of_one_with_two_devices(two, one):
    whole = readings(one, 0, 1)
    halves = np.concatenate([readings(two, i, 2) for i in range(2)], axis=2)
    assert whole.shape == (10, 3, 512) and np.isfinite(whole[-1]).mean() > 0.5
    assert whole.tobytes() == halves.tobytes()


def test_summaries_are_of_the_whole_fleet_and_the_same_everywhere(two, one):
    told = summaries(two, 2)
    assert told[0] == told[1]
    summary, t = told[0]
    values = readings(one, 0, 1)[t]
    assert (summary["nodes"], summary["seen"]) == (512, int((values[2] >= 0).sum()))
    for row, (name, order) in enumerate({"xb": -1, "ch": 1}.items()):
        fine = values[row][np.isfinite(values[row])].astype(float)
        nodes, mean, deviation, least, most = summary["values"][name]
        assert (nodes, least, most) == (len(fine), fine.min(), fine.max())
        np.testing.assert_allclose([mean, deviation], [fine.mean(), fine.std()], rtol=1e-4)
        worst = sorted((order * v, i) for i, v in enumerate(values[row]) if not np.isnan(v))[:4]
        assert [(f"node {i}", order * v) for v, i in worst] == [tuple(pair) for pair in summary["worst"][name]]
    assert set(summary["alarms"]["xb"]) == {"1", "2", "3"} and summary["standing"]["xb"] >= 0
    assert summaries(one, 1)[0][0]["worst"] == summary["worst"]


def test_a_state_sharded_over_processes_is_saved_in_parts_and_read_as_a_whole(two):
    assert sorted(p.name for p in (two / "sharded").iterdir()) == ["process-0-of-2", "process-1-of-2"]
    found = icvi.load_checkpoint(two / "sharded", PIPE, xp=np)
    parts = [np.load(two / f"centers-{i}.npy") for i in range(2)]
    assert found.state.clusterer.centers.tobytes() == np.concatenate(parts, axis=-1).tobytes()
    whole = icvi.load_checkpoint(two / "states", PIPE, xp=np)
    assert whole.names == tuple(f"node {i}" for i in range(512)) and whole.position.tolist() == [10] * 512
    (two / "sharded" / "process-1-of-2").rename(two / "sharded" / "elsewhere")
    with pytest.raises(icvi.CheckpointError, match="shards of all processes"):
        icvi.load(two / "sharded", PIPE)


def test_another_number_of_processes_deals_the_nodes_out_again(two, tmp_path):
    shutil.copytree(two / "states", tmp_path / "states")
    group = start()
    names = [f"node {i}" for i in range(1, 513)]  # one has gone, one is new
    live = group.live(tmp_path / "states", PIPE, 2, names)
    assert live.names == tuple(names) and live.positions.tolist() == [10] * 511 + [0]
    group.save(live, tmp_path / "states")
    assert {p.name for p in (tmp_path / "states").iterdir()} == {
        "process-0-of-1",
        "was-process-0-of-2",
        "was-process-1-of-2",
    }
    again = group.live(tmp_path / "states", PIPE, 2, names)
    assert [a.tobytes() for a in jax.tree.leaves(again.state)] == [a.tobytes() for a in jax.tree.leaves(live.state)]


def test_a_checkpoint_that_not_all_have_is_not_used(tmp_path):
    group = start()
    live = group.live(tmp_path / "states", PIPE, 2, ["a"])
    # As if a second process had none.
    with mock.patch.object(collectives, "everywhere", lambda n: np.array([n, [0, 0, *n[2:]][: len(n)]])):
        group.save(live, tmp_path / "states")
        group.live(tmp_path / "states", PIPE, 2, ["a"])
        assert not list((tmp_path / "states" / "process-0-of-1").iterdir())
        for _ in range(2):
            group.save(live, tmp_path / "states")
        with pytest.raises(icvi.CheckpointError, match="too far apart: process 0 2, process 1 0"):
            group.live(tmp_path / "states", PIPE, 2, ["a"])


def test_different_features_are_said(tmp_path):
    group = start()
    with (
        mock.patch.object(collectives, "everywhere", lambda n: np.array([n, [*n[:2], 3]])),
        pytest.raises(
            ValueError, match="process 0 has 2, process 1 has 3 features; give all processes the same columns"
        ),
    ):
        group.live(tmp_path / "states", PIPE, 2, ["a"])


def test_a_wrong_port_is_one_line_and_no_trace(tmp_path):
    (tmp_path / "program.py").write_text("from icvi_jax import distributed\ndistributed.start()\n")
    command = [sys.executable, "-m", "icvi_jax.distributed", "--processes", "2", "--timeout", "1"]
    where = f"127.0.0.1:{launcher._free_port()}"
    for process, said in (
        (1, f"process 0 does not answer at {where} within 1 s"),
        (0, "process 1 did not come within 1 s"),
    ):
        mine = [*command, "--id", str(process), "--coordinator", where, str(tmp_path / "program.py")]
        done = subprocess.run(mine, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr


def test_a_dead_process_ends_the_others_and_all_go_on_from_the_checkpoint(tmp_path):
    done = launch(tmp_path, "die", 8, 20, "--restarts", "1", processes=4)
    assert done.returncode == 0, done.stderr
    assert "process 1 was killed by SIGKILL" in done.stderr
    assert "another process has died" in done.stderr or "no answer from the others" in done.stderr
    assert "starting all again from the checkpoint" in done.stderr
    death, again = ((tmp_path / name).stat().st_mtime for name in ("died", "readings-0-of-4-from-10"))
    assert again - death < 150  # forty seconds and a start, on a busy machine
    for process in range(4):
        before, after = readings(tmp_path, process, 4), readings(tmp_path, process, 4, start=10)
        straight = straight_on(process)
        assert len(before) >= 10 and before.tobytes() == straight[: len(before)].tobytes()
        assert after.tobytes() == straight[10:].tobytes()
    assert [t for _, t in summaries(tmp_path, 4)] == [19] * 4


def straight_on(process, nodes=2):
    """What the two nodes of a process of four would read without any death."""
    live, found = icvi.Live(PIPE, 2, nodes), []
    for t in range(20):
        x = np.random.default_rng(t).normal(size=(8, 2))
        x[t % 5 :: 5] = np.nan
        r = live.tick(x[process * nodes : (process + 1) * nodes])
        found.append(np.stack([r.values["xb"], r.values["ch"], r.label]).astype(np.float32))
    return np.stack(found)


def test_messages():
    with pytest.raises(ValueError, match="coordinator"):
        start(processes=2, process=0)
    for arguments in (["--processes", "2", "--id", "2", "p.py"], ["--processes", "2", "--id", "1", "p.py"]):
        with pytest.raises(SystemExit):
            launcher.main(arguments)
    assert start().share(list("abc")) == list("abc")
    assert jax.process_count() == 1
