"""The live watch: batches, restarts, old samples, metrics."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest
from watching import COMMAND, PATIENCE, alarms, begun, lines, messages, noted, samples, taken, until, watched

from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.watch.journal import Store


def test_batches_of_any_size_give_the_same_alarms(expected):
    for size in (1, 7, 1000):
        watch, items = begun(), taken(samples())
        for start in range(0, len(items), size):
            watch.take(items[start : start + size])
        assert alarms(watch.out.getvalue()) == expected


def test_going_on_from_checkpoint_and_notes_prints_nothing_twice(tmp_path, expected):
    items = samples()
    first = watched(items[:280], tmp_path)
    first.save()
    first.take(taken(items[280:400]))  # an alarm among them; noted alone, as after a kill
    first.close()
    again = watched(items[400:], tmp_path)
    assert alarms(first.out.getvalue()) + alarms(again.out.getvalue()) == expected
    assert again.samples == len(items)
    ids = [json.loads(line)["id"] for watch in (first, again) for line in watch.out.getvalue().splitlines()]
    assert len(set(ids)) == len(ids) and all(id.startswith(again.store.id + "-") for id in ids)


def test_a_damaged_checkpoint_costs_no_sample(tmp_path, expected):
    items = samples()
    first = watched(items[:200], tmp_path)
    first.save()
    first.take(taken(items[200:300]))
    first.save()
    first.take(taken(items[300:]))
    first.close()
    newest = max(tmp_path.glob("*.icvi"))
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="using"):
        again = begun(tmp_path)
    assert again.samples == len(items) and alarms(again.out.getvalue()) == []
    again.close()
    for path in tmp_path.glob("*.icvi"):
        path.unlink()
    with pytest.raises(ValueError, match="200 samples are in no checkpoint"):
        begun(tmp_path)


def test_old_news_is_counted_apart_and_passed_over(tmp_path, expected):
    items = samples()
    first = watched(items[:300] + items[10:20], tmp_path)
    assert (first.samples, first.old) == (300, 10)
    first.close()  # the same lines again, from the first on, as after a restart with a file on standard input
    again = watched(items, tmp_path)
    assert (again.samples, again.old) == (len(items), 300)
    assert alarms(first.out.getvalue()) + alarms(again.out.getvalue()) == expected
    assert watched(items[:300] + items[10:20], keep_old=True).samples == 310


def test_old_news_by_dates_with_zones():
    watch = begun()
    times = ["2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00.001"]
    watch.take(messages(json.dumps({"t": 1, "time": time}).encode() for time in times))
    assert (watch.samples, watch.old) == (2, 1)


def test_times_without_an_order_count_once_among_others_that_have_one():
    feed = messages(json.dumps({"t": 1, "time": time}).encode() for time in ("1", "nan", "2", "noon", None, "1e400"))
    watch = begun()
    watch.take(feed)
    assert (watch.samples, watch.old) == (3, 3)  # without any time: counted, since nothing says that it is old
    watch = begun()
    watch.take(messages(json.dumps({"t": 1, "time": time}).encode() for time in ("noon", "night", "noon")))
    assert (watch.samples, watch.old) == (3, 0)  # no time can be read: as if there were none


def test_a_second_watch_on_a_folder_is_refused(tmp_path):
    first = begun(tmp_path)
    with pytest.raises(ValueError, match="another watch is using this folder"):
        begun(tmp_path)
    code = f"from pathlib import Path\nfrom icvi_jax.watch.journal import Store\nStore(Path({str(tmp_path)!r}))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode and "another watch is using this folder" in ended.stderr
    first.close()
    begun(tmp_path).close()


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
def test_a_folder_that_vanishes_is_noticed_at_the_next_write(tmp_path, again):
    folder = tmp_path / "kept"
    watch = watched(samples(5), folder)
    shutil.rmtree(folder)
    if again:
        Store(folder).close()
    with pytest.raises(OSError, match="removed or replaced"):
        watch.take(taken([("a", 99, 1.0)]))
    with pytest.raises(OSError, match="removed or replaced"):
        watch.save()
    assert folder.exists() == again
    watch.close()


def test_bad_lines_are_named_once_a_minute_at_most(capsys):
    watch = begun()
    watch.take(messages([b"node,v", *[b"a,x"] * 50, b"a,1"]))
    assert (watch.bad, watch.samples) == (50, 1)
    assert capsys.readouterr().err.count("skipped") == 1


def test_killed_and_restarted_loses_nothing(tmp_path, expected):
    items, folder = samples(), tmp_path / "kept"
    command = [*COMMAND, "--checkpoint", str(folder)]
    first = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    first.stdin.write(lines(items[:340]))
    first.stdin.flush()
    until(lambda: ("b", items[339][1]) in noted(folder)[0] and noted(folder)[1], "the notes")
    first.send_signal(signal.SIGKILL)
    before = first.communicate()[0]
    second = subprocess.run(
        command, input="garbage\n" + lines(items[340:]), capture_output=True, text=True, timeout=PATIENCE
    )
    assert second.returncode == 0 and "line 1: " in second.stderr and "Traceback" not in second.stderr
    assert f"{len(items)} samples of 2 nodes" in second.stderr
    assert alarms(before) + alarms(second.stdout) == expected


def test_whoever_reads_the_alarms_may_go_away(tmp_path, expected):
    items = lines(samples())
    command = [*COMMAND, "--checkpoint", str(tmp_path)]
    read, write = os.pipe()
    os.close(read)
    first = subprocess.run(command, input=items, stdout=write, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    os.close(write)
    assert first.returncode == 0 and "standard output was closed" in first.stderr and "Traceback" not in first.stderr
    second = subprocess.run(command, input=items, capture_output=True, text=True, timeout=PATIENCE)
    assert alarms(second.stdout) == expected and "520 samples of 2 nodes" in second.stderr


def test_ctrl_c_ends_cleanly(tmp_path):
    started = subprocess.Popen(
        [*COMMAND, "--checkpoint", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started.stdin.write(lines(samples(5)))
    started.stdin.flush()
    until(lambda: ("b", 4) in noted(tmp_path)[0], "the first samples")
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0 and "10 samples of 2 nodes" in said and "Traceback" not in said
    assert list(tmp_path.glob("*.icvi"))


def test_metrics_are_of_the_fleet_and_its_worst_nodes():
    pytest.importorskip("prometheus_client")
    from icvi_jax.watch.metrics import serving

    watch = watched(samples(200, [f"n{i}" for i in range(30)]))
    with (
        serving(watch, 0, "127.0.0.1", worst=3) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer,
    ):
        text = answer.read().decode()
    assert "icvi_nodes 30.0" in text and "icvi_samples_total 6000.0" in text and "icvi_old_samples_total 0.0" in text
    assert text.count("icvi_worst_score{") == 3 and 'icvi_worst_score{node="n0",rank="1"}' in text


def test_a_folder_of_other_options_is_refused_and_left_as_it_is(tmp_path):
    watch = watched(samples()[:60], tmp_path)
    watch.end()
    watch.close()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.icvi")}
    other = pipeline_of(Model(clusterer="oec", index=("xb",), standardize=False))
    with pytest.raises(ValueError, match="clusterer is .*SequentialKMeans.* or a new folder"):
        begun(tmp_path, pipe=other)
    assert before == {path.name: path.read_bytes() for path in tmp_path.glob("*.icvi")} and before
