"""What production needs besides numbers: units, zones, reasons, lasting silences, health; and no lost alarms."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.error
import urllib.request

import jax
import numpy as np
import pytest
from watching import PIPE, begun, messages, samples, taken, until

import icvi_jax as icvi
from icvi_jax.watch import retry
from icvi_jax.watch.batches import LONGEST, blocks
from icvi_jax.watch.json_and_csv import LineFormat, Reader
from icvi_jax.watch.page_data import fleet_view, names_view, node_view, summary
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.sample import Sample
from icvi_jax.watch.shard import Shard
from icvi_jax.watch.silences import Silences
from icvi_jax.watch.webhook import Webhook


def fed(lines, **options):
    buffers = RingBuffers(["xb"], **options)
    watch = begun(None, buffers=buffers)
    watch.take(messages(json.dumps(line).encode() for line in lines))
    return watch, buffers


def dated(t):
    return f"2026-11-17T{11 + t // 60:02d}:{t % 60:02d}:00+01:00"


def test_units_zones_and_names_come_with_the_data():
    rng = np.random.default_rng(0)
    lines = [{"node": "roof", "timestamp": dated(t), "celsius": rng.normal() + 60 * (t > 150)} for t in range(152)]
    lines[0]["units"] = {"celsius": "°C", "unknown": "m"}
    _, buffers = fed(lines)
    view = node_view(buffers, "roof")
    assert view["units"] == {"celsius": "°C"} and view["zone"] == "+01:00" and view["time_name"] == "timestamp"
    assert list(view["features"]) == ["celsius"] and view["time"][1] - view["time"][0] == 60
    (event,) = buffers.events
    assert event["alarm"] == "spike" and "°C, usually about" in event["reason"] and event["time"] == dated(151)
    reader = Reader()
    reader.read(json.dumps(lines[0]))
    assert LineFormat.of(json.loads(json.dumps(reader.form))) == reader.form
    assert LineFormat.of([["v"], [], "t"]) == LineFormat(("v",), (), "t")  # as an older version wrote it


def test_the_map_has_a_state_for_every_name(monkeypatch):
    watch, buffers = fed(
        [{"node": n, "time": t, "v": v} for n, t, v in samples(200, ["b", "a", "c", "d"])], silent_after=60
    )
    buffers.silences.set("c", True)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100)
    watch.take(taken([("b", 999, 60.0), ("d", 999, 1.0)]))
    assert names_view(buffers) == {"names": ["a", "b", "c", "d"]}
    assert fleet_view(buffers, 0)["states"] == "3140"  # silent, alarmed lately, muted, fine
    told = summary(watch, buffers)
    assert (told["nodes"], told["silent"], told["lately"], told["muted"]) == (4, 1, 1, 1)


def test_partitions_with_other_columns_share_a_board():
    buffers = RingBuffers(["xb"])
    for name, features in (("one", ["v"]), ("two", ["w", "v"])):
        shard = Shard(PIPE, features, name)
        shard.accept([Sample(name, t, (float(t),) * len(features)) for t in range(3)])
        for tick in shard.compute():
            buffers.add(shard, tick)
    assert set(node_view(buffers, "one")["features"]) == {"v"} and set(node_view(buffers, "two")["features"]) == {
        "v",
        "w",
    }


def test_mutes_outlast_a_restart_and_are_shared(tmp_path, monkeypatch):
    one, other = Silences(tmp_path), Silences(tmp_path)
    assert other.names == set()
    one.set("a/../b", True)
    one.set("c", True)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 10)
    assert other.names == {"a/../b", "c"} == Silences(tmp_path).names
    other.set("c", False)
    assert one.names == {"a/../b"} or Silences(tmp_path).names == {"a/../b"}
    (tmp_path / "muted.json").write_text("{")
    assert Silences(tmp_path).names == set()


def test_a_watch_that_is_stuck_is_not_healthy(require):
    require("starlette", "uvicorn", "prometheus_client")
    from icvi_jax.watch.server import STUCK, page_served

    watch, busy = begun(), [0.0]
    with page_served(watch, RingBuffers(["xb"]), "127.0.0.1:0", busy=lambda: busy[0]) as where:
        with urllib.request.urlopen(where + "health", timeout=30) as answer:
            assert json.load(answer)["status"] == "ok"
        busy[0] = STUCK + 1
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(where + "health", timeout=30)
        refused.value.close()


def test_a_webhook_that_moves_or_talks_nonsense_has_not_taken_the_alarm(monkeypatch):
    monkeypatch.setattr(retry, "FIRST", 0.01)

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posts.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            if len(posts) == 1:
                self.wfile.write(b"what?\r\n\r\n")
                return
            self.send_response(302 if len(posts) == 2 else 204)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_):
            pass

    posts = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hook = Webhook(f"http://127.0.0.1:{server.server_port}/alarms?key=secret")
    assert "secret" not in hook.name
    watch = begun(sinks=[hook.name])
    watch.take(taken(samples()))
    sender = Sender(hook, lambda: [watch.store]).start()
    until(lambda: not watch.store.waiting(hook.name), "the alarms")
    sender.close()
    server.shutdown()
    server.server_close()
    records = watch.out.getvalue().count("\n")  # alarms, and the end of one
    assert records >= 2 and sender.sent == records and sender.failed == 2
    assert posts == ["/alarms?key=secret"] * (records + 2)


def test_blocks_keep_the_order_of_every_node_and_any_cut_gives_the_same_bits():
    rng = np.random.default_rng(0)
    names = rng.choice(["a", "b", "c"], 400, p=[0.8, 0.15, 0.05])
    items = [(str(name), t, (float(v),)) for t, (name, v) in enumerate(zip(names, rng.normal(size=400)))]
    shard = Shard(PIPE, ["v"])
    accepted = shard.accept([Sample(*item) for item in items])
    shard._make_room(accepted)
    found = list(blocks(accepted, shard.rows))
    assert {block.length for block in found} <= {1 << i for i in range(7)} and max(b.length for b in found) == LONGEST
    for name in shard.rows:
        assert [s for block in found for s in block.samples if s.node == name] == [
            s for s in accepted if s.node == name
        ]
    states = []
    for size in (1, 7, 400):
        one = Shard(PIPE, ["v"])
        for start in range(0, 400, size):
            one.take(items[start : start + size])
        states.append((one.rows, one.counts.tolist(), one.state))
    for rows, counts, state in states[1:]:
        assert (rows, counts) == states[0][:2]
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(states[0][2])):
            np.testing.assert_array_equal(a, b)


def test_the_state_of_a_shard_is_in_the_coordinates_of_its_samples():
    """`run_fleet` goes on from it: the shard has no origin of its own."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 60, 1)) + 1001
    shard = Shard(PIPE, ["v"])
    shard.take([("ab"[n], t, tuple(x[n, t])) for t in range(40) for n in range(2)])
    state = shard.state
    np.testing.assert_allclose(state.anchor.high[0] + state.anchor.low[0], x[:, 0, 0])
    want = icvi.run_fleet(PIPE, x).readings.values["xb"][:, 40:]
    np.testing.assert_allclose(icvi.run_fleet(PIPE, x[:, 40:], state=state).readings.values["xb"], want, rtol=1e-5)
