"""The live watch: bad lines, kills and restarts, metrics."""

from __future__ import annotations

import io
import signal
import subprocess
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from watching import COMMAND, FORM, PATIENCE, alarms, lines, samples, until, watched

from icvi_jax.cli.feed import Reader, Sample
from icvi_jax.cli.journal import Journal
from icvi_jax.cli.model import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.cli.watch import _not_again
from icvi_jax.cli.watcher import Watcher


def test_lines_good_and_bad():
    reader = Reader()
    assert reader.read('{"node": "a", "time": "2024-01-01", "v": 1, "w": "2.5", "note": "x"}') == Sample(
        "a", "2024-01-01", (1, 2.5)
    )
    assert np.isnan(reader.read('{"v": null, "w": 1}').x[0]) and reader.read("") is None
    for bad in (
        '{"v": 1}',
        '{"v": "x", "w": 1}',
        '{"v": 1e99, "w": 1}',
        "[1]",
        "{",
        "1,2",
        '{"v": true, "w": 1}',
        "\x00",
    ):
        with pytest.raises(ValueError):
            reader.read(bad)
    table = Reader(columns=["w"], node="unit")
    assert table.read("unit,v,w") is None and table.read("n1,1,2") == Sample("n1", None, (2.0,))
    with pytest.raises(ValueError, match="2 fields where the header has 3"):
        table.read("n1,1")
    with pytest.raises(ValueError, match="header"):
        Reader().read("1,2,3")
    again = Reader(node="unit")
    again.go_on(table.form)
    assert again.read("n1,1,3") == Sample("n1", None, (3.0,)) and again.read("unit,v,w") is None
    after_garbage = Reader()
    assert after_garbage.read("garbage") is None and after_garbage.read('{"v": 1}') == Sample("", None, (1.0,))


def test_batches_of_any_size_give_the_same_alarms(expected):
    for size in (1, 7, 1000):
        out = io.StringIO()
        watcher = Watcher(pipeline_of(Model(k=2, index=("xb",))), None, out)
        items = [Sample(node, t, (v,)) for node, t, v in samples()]
        for start in range(0, len(items), size):
            watcher.take(items[start : start + size], FORM)
        assert alarms(out.getvalue()) == expected


def test_going_on_from_checkpoint_and_journal_prints_nothing_twice(tmp_path, expected):
    items = samples()
    first, out = watched(items[:330], tmp_path)
    first.save()
    first.take([Sample(node, t, (v,)) for node, t, v in items[330:400]], FORM)  # in the journal alone, as after a kill
    again, more = watched(items[400:], tmp_path)
    assert alarms(out.getvalue()) + alarms(more.getvalue()) == expected
    assert again.samples == len(items)


def test_a_line_cut_short_by_a_kill_is_passed_over(tmp_path):
    journal = Journal(tmp_path)
    journal.begin(0, FORM)
    journal.write(1, [Sample("a", 0, (1.0,))])
    journal.close()
    with next(tmp_path.glob("journal-*")).open("a") as file:
        file.write('{"number": 2, "sam')
    assert journal.replay(0) == ([(1, [Sample("a", 0, (1.0,))])], 0, FORM)


def test_a_message_that_comes_again_counts_once(tmp_path):
    def message(mid, payload, dup=False):
        return SimpleNamespace(mid=mid, payload=payload, dup=dup, topic="farm/x")

    watcher = Watcher(pipeline_of(Model(k=2, index=("xb",))), tmp_path)
    watcher.restore()
    first = [message(1, b"v1"), message(2, b"v2"), message(2, b"v2", dup=True), *[message(0, b"s")] * 2]
    new, tickets = _not_again(watcher, first)
    assert new == [first[0], first[1], first[3], first[4]]
    watcher.take([Sample("a", 0, (1.0,))], FORM, tickets)
    for then in (watcher, Watcher(pipeline_of(Model(k=2, index=("xb",))), tmp_path)):
        if then is not watcher:
            watcher.save()  # tickets outlive the journal they were written to
            then.restore()
        again = [message(1, b"v1", dup=True), message(2, b"other", dup=True), message(1, b"v1")]
        assert _not_again(then, again)[0] == again[1:]


def test_killed_and_restarted_loses_nothing(tmp_path, expected):
    items, folder = samples(), tmp_path / "kept"
    command = [*COMMAND, "--checkpoint", str(folder)]
    first = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    first.stdin.write(lines(items[:340]))
    first.stdin.flush()

    def noted():
        held = "".join(path.read_text() for path in folder.glob("journal-*"))
        return f'["b", {items[339][1]}, ' in held and '"printed"' in held

    until(noted, "the journal")
    first.send_signal(signal.SIGKILL)
    before = first.communicate()[0]
    second = subprocess.run(
        command, input="garbage\n" + lines(items[340:]), capture_output=True, text=True, timeout=PATIENCE
    )
    assert second.returncode == 0 and "line 1: " in second.stderr and "Traceback" not in second.stderr
    assert f"{len(items)} samples of 2 nodes" in second.stderr
    assert alarms(before) + alarms(second.stdout) == expected


def test_ctrl_c_ends_cleanly(tmp_path):
    started = subprocess.Popen([*COMMAND, "--checkpoint", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    started.stdin.write(lines(samples(5)))
    started.stdin.flush()
    until(lambda: any('["b", 4, ' in path.read_text() for path in tmp_path.glob("journal-*")), "the first samples")
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0 and "10 samples of 2 nodes" in said and "Traceback" not in said
    assert list(tmp_path.glob("*.icvi"))


def test_metrics_are_of_the_fleet_and_its_worst_nodes():
    pytest.importorskip("prometheus_client")
    from icvi_jax.cli.metrics import serving

    watcher, _ = watched(samples(200, [f"n{i}" for i in range(30)]))
    with (
        serving(watcher, 0, "127.0.0.1", worst=3) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer,
    ):
        text = answer.read().decode()
    assert "icvi_nodes 30.0" in text and "icvi_samples_total 6000.0" in text
    assert text.count("icvi_worst_score{") == 3 and 'icvi_worst_score{node="n0",rank="1"}' in text
