"""Checkpoints: complete or refused, of this configuration or refused, and equal to what was saved, bit for bit."""

import dataclasses
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.checkpoint import container
from icvi_jax.checkpoint.schema import describe, difference

SLOW = Path(__file__).resolve().parent / "slow"


def pipeline(forgetting=0.9, k=2, **more):
    return icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=k),
        panel=icvi.Panel(indices=(icvi.XieBeni(),), forgetting=forgetting),
        monitors={"xb": icvi.Distress()},
        **more,
    )


def ran(pipe, n=5, ticks=30, seed=0, dtype=np.float32):
    X = np.random.default_rng(seed).normal(size=(n, ticks, 2)).astype(dtype)
    return icvi.run_fleet(pipe, X, backend="numpy").state


def bits(tree):
    return [(a.dtype.str, a.shape, a.tobytes()) for a in map(np.asarray, jax.tree.leaves(tree))]


@pytest.fixture
def pipe():
    return pipeline()


def test_what_is_loaded_is_what_was_saved(tmp_path, pipe):
    state = ran(pipe)
    file = icvi.save(tmp_path / "fleet.icvi", pipe, state, [30] * 5, "abcde", {"file": "log", "at": 3})
    found = icvi.load_checkpoint(file, pipe)
    assert bits(found.state) == bits(state) and isinstance(found.state, icvi.PipelineState)
    assert isinstance(found.state.anchor.high, jax.Array)
    assert isinstance(icvi.load(file, pipe, xp=np).anchor.high, np.ndarray)
    assert (found.position.tolist(), found.names, found.extra) == ([30] * 5, tuple("abcde"), {"file": "log", "at": 3})
    one = icvi.run(pipe, np.zeros((3, 2)), backend="numpy").state
    assert icvi.load_checkpoint(icvi.save(tmp_path / "one.icvi", pipe, one, 3), pipe, xp=np).position == 3


def test_numpy_reads_the_file_without_us(tmp_path, pipe):
    state = ran(pipe)
    file = icvi.save(tmp_path / "fleet.icvi", pipe, state)
    with np.load(file, allow_pickle=False) as content:
        assert np.array_equal(content["state.statistics['count'].samples"], state.statistics["count"].samples)
        header = json.loads(content["header.json"])
    assert header["configuration"]["panel"]["forgetting"] == 0.9 and header["schema"] == 2


def test_equal_content_gives_equal_bytes(tmp_path, pipe):
    a, b = (icvi.save(tmp_path / f"{name}.icvi", pipe, ran(pipe)) for name in "ab")
    assert a.read_bytes() == b.read_bytes()


def test_stop_save_load_go_on_is_bit_equal(tmp_path, pipe):
    X = np.random.default_rng(3).normal(size=(40, 5, 2)) * 2
    straight, stopped = icvi.Live(pipe, 2, 5), icvi.Live(pipe, 2, 5)
    want = [straight.tick(x) for x in X]
    for t, x in enumerate(X):
        assert bits(stopped.tick(x)) == bits(want[t])
        if t % 7 == 0:
            stopped.save(tmp_path / "states", extra={"t": t})
            stopped = icvi.Live.load(tmp_path / "states", pipe)
            assert stopped.positions.tolist() == [t + 1] * 5 and stopped.extra == {"t": t}
    assert bits(straight.state) == bits(stopped.state)


def test_a_save_beside_the_ticks_is_of_the_moment_it_was_asked_for(tmp_path, pipe):
    X = np.random.default_rng(5).normal(size=(20, 5, 2))
    live, straight = icvi.Live(pipe, 2, 5), icvi.Live(pipe, 2, 5)
    want = [straight.tick(x) for x in X]
    for t, x in enumerate(X):
        live.tick(x)
        if t == 9:
            asked = live.save_beside(tmp_path / "states")
    again = icvi.Live.load(asked.result(), pipe)
    assert again.positions.tolist() == [10] * 5
    for t in range(10, 20):
        assert bits(again.tick(X[t])) == bits(want[t])
    (tmp_path / "file").touch()
    live.save_beside(tmp_path / "file" / "states")
    with pytest.raises(OSError):
        live.save_beside(tmp_path / "states")


def test_a_fleet_that_grew_and_shrank_comes_back(tmp_path, pipe):
    live = icvi.Live(pipe, 2, ["a", "b", "c"], capacity=8)
    X = np.random.default_rng(4).normal(size=(9, 8, 2))
    live.tick(X[0, :3], offsets=[5, 6, 7])
    live.retire("b")
    live.add(["d", "e"])
    live.save(tmp_path / "states")
    again = icvi.Live.load(tmp_path / "states", pipe, keep=("values", "label"))
    assert (again.names, again.positions.tolist(), again.capacity) == (("a", "c", "d", "e"), [5, 7, 0, 0], 8)
    again = icvi.Live.load(tmp_path / "states", pipe)
    for x in X[1:, :4]:
        assert bits(live.tick(x)) == bits(again.tick(x))


def test_a_folder_keeps_the_last_and_counts_on(tmp_path, pipe):
    state = ran(pipe)
    for i in range(5):
        icvi.save(tmp_path / "states", pipe, state, position=i, keep=2)
    assert sorted(file.name for file in (tmp_path / "states").iterdir()) == ["000000000004.icvi", "000000000005.icvi"]
    assert icvi.load_checkpoint(tmp_path / "states", pipe).position == 4


def test_a_folder_falls_back_to_the_newest_good_one_and_says_so(tmp_path, pipe):
    state = ran(pipe)
    files = [icvi.save(tmp_path, pipe, state, position=i) for i in range(3)]
    files[2].write_bytes(files[2].read_bytes()[:-1000])
    flipped = bytearray(files[1].read_bytes())
    flipped[500] ^= 1
    files[1].write_bytes(flipped)
    with pytest.warns(UserWarning, match=r"003.icvi: .*002.icvi: .*using .*001.icvi"):
        assert icvi.load_checkpoint(tmp_path, pipe).position == 0
    files[0].write_bytes(b"")
    with pytest.raises(icvi.CheckpointError, match="not a checkpoint"):
        icvi.load(tmp_path, pipe)


@pytest.mark.parametrize("call", ("fsync", "replace"))
def test_a_write_that_fails_leaves_the_file_before(tmp_path, pipe, monkeypatch, call):
    file = icvi.save(tmp_path / "a.icvi", pipe, ran(pipe), position=1)

    def broken(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(container.os, call, broken)
        with pytest.raises(OSError, match="No space"):
            icvi.save(file, pipe, ran(pipe, seed=1), position=2)
    assert icvi.load_checkpoint(file, pipe).position == 1
    icvi.save(file, pipe, ran(pipe, seed=1), position=2)
    assert icvi.load_checkpoint(file, pipe).position == 2
    assert [p.name for p in tmp_path.iterdir()] == ["a.icvi"]


def test_a_sound_file_of_another_configuration_is_no_reason_to_fall_back(tmp_path, pipe):
    icvi.save(tmp_path, pipe, ran(pipe))
    icvi.save(tmp_path, pipeline(0.5), ran(pipeline(0.5)))
    with pytest.raises(icvi.CheckpointError, match="panel.forgetting is 0.5 in the checkpoint, 0.9 in the pipeline"):
        icvi.load(tmp_path, pipe)


@pytest.mark.parametrize(
    "other, message",
    [
        (pipeline(k=3), r"clusterer\.k is 2 in the checkpoint, 3 in the pipeline"),
        (pipeline(standardize=icvi.Standardize()), r"standardize is null in the checkpoint"),
        (dataclasses.replace(pipeline(), monitors={}), "monitors is"),
        (dataclasses.replace(pipeline(), monitors={"xb": icvi.Distress(patience=7)}), r"monitors\[0\]\.patience is"),
        (icvi.Pipeline(clusterer=icvi.OnlineEllipsoidal(capacity=2), panel=pipeline().panel), 'clusterer is "Seq'),
    ],
)
def test_another_configuration_is_refused_by_field(tmp_path, pipe, other, message):
    file = icvi.save(tmp_path / "a.icvi", pipe, ran(pipe))
    with pytest.raises(icvi.CheckpointError, match=message):
        icvi.load(file, other)


def test_a_newer_version_and_absent_files_are_refused(tmp_path, pipe):
    file = icvi.save(tmp_path / "a.icvi", pipe, ran(pipe))
    header, arrays = container.decode(file.read_bytes())
    header.pop("arrays")
    file.write_bytes(container.encode({**header, "schema": 3}, arrays))
    with pytest.raises(icvi.CheckpointError, match="newer version"):
        icvi.load(file, pipe)
    with pytest.raises(icvi.CheckpointError, match="No such file"):
        icvi.load(tmp_path / "b.icvi", pipe)
    with pytest.raises(icvi.CheckpointError, match="there is no checkpoint"):
        icvi.load(tmp_path, pipe)
    assert issubclass(icvi.CheckpointError, ValueError)


def test_double_precision_is_not_rounded_in_silence(tmp_path, pipe):
    file = icvi.save(tmp_path / "a.icvi", pipe, ran(pipe, dtype=np.float64))
    with pytest.raises(icvi.CheckpointError, match="has float64"):
        icvi.load(file, pipe)
    assert icvi.load(file, pipe, xp=np).anchor.high.dtype == np.float64


def test_a_state_of_another_pipeline_is_not_saved(tmp_path, pipe):
    with pytest.raises(ValueError, match=r"not a state of this pipeline: \.clusterer\.centers is"):
        icvi.save(tmp_path / "a.icvi", pipe, ran(pipeline(k=3)))
    with pytest.raises(ValueError, match="position"):
        icvi.save(tmp_path / "a.icvi", pipe, ran(pipe), position=[1, 2])
    assert not list(tmp_path.iterdir())


def test_descriptions_compare_numbers_by_value():
    assert difference({"a": 1}, {"a": 1.0}) is None
    assert difference({"a": float("nan")}, {"a": float("nan")}) is None
    assert "a is true" in difference({"a": True}, {"a": 1})
    assert describe(icvi.Panel(indices=(icvi.XieBeni(),), norm=np.eye(2)))["norm"] == [[1, 0], [0, 1]]


@pytest.mark.parametrize("script", ("mutated_checkpoints.py --files 50", "kill.py --kills 20"))
def test_a_tenth_of_the_slow_test(script):
    name, *options = script.split()
    command = [sys.executable, SLOW / name, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_many_writers_of_one_path_do_not_disturb_each_other(tmp_path):
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    state = pipe.init(1)

    def save_often(path):
        return [icvi.save(path, pipe, state, keep=1000) for _ in range(15)]

    with ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(save_often, [tmp_path / "one.icvi"] * 3))) == 3
        files = [file for found in pool.map(save_often, [tmp_path / "many"] * 3) for file in found]
    assert len(set(files)) == len(files) == 45 and all(file.exists() for file in files)  # none replaced another
    assert {path.name for path in tmp_path.iterdir()} == {"one.icvi", "many"}
    assert not list((tmp_path / "many").glob(".*"))


def test_a_planted_link_is_not_followed_and_what_a_killed_writer_left_is_removed(tmp_path, monkeypatch):
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    victim, name = tmp_path / "victim", "0" * 16
    victim.write_text("keep me")
    monkeypatch.setattr("secrets.token_hex", lambda _: name)
    (tmp_path / f".one.icvi.{name}.tmp").symlink_to(victim)
    with pytest.raises(OSError, match="exist"):
        icvi.save(tmp_path / "one.icvi", pipe, pipe.init(1))
    assert victim.read_text() == "keep me"
    monkeypatch.undo()
    folder = tmp_path / "many"
    folder.mkdir()
    left = folder / ".000000000001.icvi.abc.tmp"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    icvi.save(folder, pipe, pipe.init(1))
    assert not left.exists()


def test_names_that_load_would_refuse_are_refused(tmp_path):
    pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    for names, why in ((["same"] * 3, "'same' 3 times"), (["a"], "got 1")):
        with pytest.raises(ValueError, match=f"expected 3 different names.*{why}"):
            icvi.save(tmp_path / "x.icvi", pipe, pipe.init(1, (3,)), names=names)
