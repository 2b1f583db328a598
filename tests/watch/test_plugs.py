"""Receivers that people have: Alertmanager, Home Assistant, CloudEvents, Slack; none of them needs a pipeline here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from test_broker import Broker, free_port
from watching import PATIENCE, begun, until

from icvi_jax.cli.options import Feed, ServiceOptions
from icvi_jax.cli.watch import open_sinks, page_link
from icvi_jax.watch import retry
from icvi_jax.watch.alertmanager import EVENT_SECONDS, Alertmanager
from icvi_jax.watch.journal import Store
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.silences import Silences
from icvi_jax.watch.webhook import Webhook, read_template


def alarm(word="spike", node="roof", index="xb", cause=None, number=1, at="2026-11-17T11:20:10+01:00"):
    text = f"at 2026-11-17 10:20 {word}"
    known = {"id": f"w-{node}-{number}-{index}", "node": node, "time": at, "alarm": word, "index": index}
    return json.dumps(known | {"cause": cause, "score": 1.5, "value": None, "text": text, "reason": word})


class Receiver:
    """An HTTP server that keeps what it gets, answers silences, and may be down."""

    def __init__(self):
        outer = self
        self.posts, self.silences, self.status = [], [], 200

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.status == 200:
                    outer.posts.append((self.path, self.headers["Content-Type"], json.loads(body)))
                self.answer(b"{}")

            def do_GET(self):
                self.answer(json.dumps(outer.silences).encode())

            def answer(self, body):
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def alerts(self):
        return [alert for path, _, body in self.posts if path == "/api/v2/alerts" for alert in body]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


def when(text):
    return datetime.fromisoformat(text).timestamp()


def test_an_alert_has_its_identity_in_its_labels_and_the_sentence_in_its_annotations(receiver):
    one = Alertmanager(receiver.url, ["xb"], page="http://page/", instance="here")
    one.send(alarm())
    one.send(alarm("distress", number=2))
    one.send(alarm("change", index="change", cause="bar", number=3))
    one.send(alarm("recovered", number=4))
    spike, distress, change, over = receiver.alerts
    assert spike["labels"] == {"alertname": "icvi", "node": "roof", "monitor": "xb", "instance": "here"}
    assert spike["labels"] == distress["labels"] == over["labels"] and change["labels"]["column"] == "bar"
    assert spike["annotations"]["summary"] == "roof: at 2026-11-17 10:20 spike"
    assert spike["generatorURL"] == "http://page/#roof"
    assert spike["startsAt"] == distress["startsAt"] == over["startsAt"] == "2026-11-17T10:20:10.000Z"
    now = time.time()
    assert when(spike["endsAt"]) == pytest.approx(now + 240, abs=20)  # ends by itself if the watch dies
    assert when(over["endsAt"]) == pytest.approx(now, abs=20)
    assert list(one.standing) == [json.dumps(change["labels"], sort_keys=True)]
    assert one.standing[list(one.standing)[0]]["until"] == pytest.approx(now + EVENT_SECONDS, abs=20)


def test_a_standing_alarm_is_sent_again_also_after_a_restart_until_it_is_over(receiver, tmp_path):
    one = Alertmanager(receiver.url, ["xb"], folder=tmp_path, resend=0.1)
    one.send(alarm())
    one.beat(set())
    again = Alertmanager(receiver.url, ["xb"], folder=tmp_path, resend=0.1)
    again.beat(set())
    time.sleep(0.15)
    again.beat(set())
    assert len(receiver.alerts) == 4 and len({a["startsAt"] for a in receiver.alerts}) == 1
    again.send(alarm("recovered", number=2))
    time.sleep(0.15)
    again.beat(set())
    assert len(receiver.alerts) == 5
    assert when(receiver.alerts[-1]["endsAt"]) <= time.time() < when(receiver.alerts[-2]["endsAt"]) + 1
    assert Alertmanager(receiver.url, ["xb"], folder=tmp_path).standing == {}


def test_a_muted_node_is_resolved(receiver):
    one = Alertmanager(receiver.url, ["xb"])
    one.send(alarm())
    one.beat({"roof"})
    assert one.standing == {} and when(receiver.alerts[-1]["endsAt"]) <= time.time()


def test_silences_there_stop_other_receivers_and_not_the_alertmanager(receiver):
    matchers = [{"name": "node", "value": "ro.*", "isRegex": True}, {"name": "column", "value": "", "isRegex": False}]
    receiver.silences = [{"status": {"state": "active"}, "matchers": matchers}]
    receiver.silences += [{"status": {"state": "expired"}, "matchers": [{"name": "node", "value": "cellar"}]}]
    silences = Silences()
    (one,) = open_sinks(Feed(), ServiceOptions(alertmanager=(receiver.url,)), begun(pipe=pipe()), silences)
    one.beat(set())
    for node, cause, stopped in (("roof", None, True), ("roof", "bar", False), ("cellar", None, False)):
        record = json.loads(alarm(node=node, cause=cause))
        assert silences.stop(record, "webhook") is stopped and not silences.stop(record, one.name)


def pipe():
    """Only its monitors are asked for."""
    from icvi_jax import Distress, Pipeline, SequentialKMeans

    return Pipeline(clusterer=SequentialKMeans(k=2), panel=None, monitors={"surprise": Distress()})


def test_an_alertmanager_that_is_down_gets_all_later_and_nobody_waits(receiver, monkeypatch):
    monkeypatch.setattr(retry, "FIRST", 0.01)
    receiver.status = 503
    one = Alertmanager(receiver.url, ["xb"], resend=0.1)
    store = Store(sinks=[one.name])
    sender = Sender(one, lambda: [store]).start()
    start = time.monotonic()
    store.add(1, [(f"a{n}", alarm(number=n, node=f"n{n}")) for n in range(5)])
    assert time.monotonic() - start < 5  # the watch only stores
    until(lambda: sender.failed >= 2, "attempts")
    assert store.left(one.name) == 5
    receiver.status = 200
    until(lambda: store.left(one.name) == 0 and len(receiver.alerts) > 10, "all alarms, and those that stand again")
    sender.close()
    assert {alert["labels"]["node"] for alert in receiver.alerts} == {f"n{n}" for n in range(5)}
    store.close()


def test_a_real_alertmanager_takes_them_and_its_silences_stop_ours(tmp_path):
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("prometheus-alertmanager is not installed")
    (tmp_path / "a.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    port = free_port()
    options = [f"--config.file={tmp_path}/a.yml", f"--storage.path={tmp_path}", "--cluster.listen-address="]
    command = [program, *options, f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def asked(path, body=None):
        header = {"Content-Type": "application/json"}
        with urlopen(Request(f"{url}/api/v2/{path}", body and json.dumps(body).encode(), header), timeout=10) as answer:
            return json.loads(answer.read())

    def there():
        try:
            return asked("status")
        except OSError:
            return None

    try:
        until(there, "the Alertmanager")
        one = Alertmanager(url, ["xb"], resend=0.1)
        one.send(alarm())
        one.send(alarm("change", index="change", cause="bar", number=2, node="cellar"))
        found = {a["labels"]["node"]: a for a in asked("alerts")}
        assert set(found) == {"roof", "cellar"} and found["roof"]["status"]["state"] in ("active", "unprocessed")
        assert found["roof"]["annotations"]["alarm"] == "spike"
        ends = {"startsAt": "2026-01-01T00:00:00Z", "endsAt": "2099-01-01T00:00:00Z"}
        match = [{"name": "node", "value": "cellar", "isRegex": False, "isEqual": True}]
        asked("silences", {"matchers": match, **ends, "createdBy": "a test", "comment": "quiet"})
        one.beat(set())
        assert one.silenced(json.loads(alarm(node="cellar"))) and not one.silenced(json.loads(alarm()))
        one.send(alarm("recovered", number=3))
        until(lambda: "roof" not in {a["labels"]["node"] for a in asked("alerts")}, "the end of the alert")
    finally:
        process.terminate()
        process.wait(30)


def opened(**options):
    return open_sinks(Feed(), ServiceOptions(**options), begun(pipe=pipe()), Silences())


def test_bad_forms_of_webhooks_are_refused_at_the_start(write):
    for text, said in (
        ("{", "expected a file of JSON"),
        ('{"text": "{node"}', "in a text"),
        ('["{node.x}"]', "in a text"),
    ):
        with pytest.raises(ValueError, match=said):
            read_template(str(write(text, "t.json")))
    with pytest.raises(ValueError, match="--cloudevents: needs --webhook"):
        opened(cloudevents=True)
    with pytest.raises(ValueError, match="give only one"):
        opened(webhook=("http://a",), cloudevents=True, webhook_text=str(write("{}", "t.json")))


def test_a_cloudevent_and_a_text_for_slack(receiver, write):
    Webhook(receiver.url, cloudevents=True).send(alarm())
    template = read_template(str(write('{"text": "*{node}*: {text}{trust}", "blocks": [1, "{score}"]}', "slack.json")))
    Webhook(receiver.url, template=template).send(alarm(cause="bar"))
    (_, kind, event), (_, _, slack) = receiver.posts
    assert kind.startswith("application/cloudevents+json")
    assert {name: event[name] for name in ("specversion", "type", "subject", "id", "time")} == {
        "specversion": "1.0",
        "type": "icvi.alarm.spike",
        "subject": "roof",
        "id": "w-roof-1-xb",
        "time": "2026-11-17T10:20:10Z",
    }
    assert event["source"].startswith("/icvi/") and event["data"]["text"] == "at 2026-11-17 10:20 spike"
    assert slack == {"text": "*roof*: at 2026-11-17 10:20 spike", "blocks": [1, "1.5"]}


def test_the_link_to_the_page():
    assert page_link("127.0.0.1:8050") == "http://127.0.0.1:8050/" and page_link(":80") == "http://127.0.0.1:80/"
    assert page_link("") == page_link("127.0.0.1:0") == ""


class Listener:
    """A client of the broker that keeps what was published last on each topic."""

    def __init__(self, port):
        from icvi_jax.watch.mqtt import client

        self.got = {}
        self.client, _ = client(f"127.0.0.1:{port}", on_connect=self.connected, on_message=self.keep)
        self.client.loop_start()

    def connected(self, client, *_):
        client.subscribe("homeassistant/#", qos=0)
        client.subscribe("icvi/#", qos=0)

    def keep(self, _client, _data, message):
        self.got[message.topic] = message.payload

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def broker(tmp_path, require):
    require("mosquitto", "paho")
    broker = Broker(tmp_path)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def buffers():
    """What is shown of one node."""
    from icvi_jax.watch.ring_buffers import RingBuffers

    buffers = RingBuffers(["xb", "health"], 8)
    buffers.names, buffers.rows, buffers.features = ["roof"], {"roof": 0}, ("celsius",)
    buffers._grow(1)
    buffers._rings.values[0, 0], buffers.head[0] = (0.25, 0.5), 1
    buffers.here[0], buffers.heard[0], buffers.alarmed[0] = True, time.monotonic(), -np.inf
    return buffers


def test_a_broker_that_is_down_gets_all_alarms_of_home_assistant_later_and_nobody_waits(broker, buffers, monkeypatch):
    from icvi_jax.watch.home_assistant import HomeAssistant

    monkeypatch.setattr(retry, "FIRST", 0.01)
    broker.stop()
    one = HomeAssistant(f"127.0.0.1:{broker.port}", buffers, every=0.1)
    store = Store(sinks=[one.name])
    sender = Sender(one, lambda: [store]).start()
    for number in (1, 2, 3):
        store.add(number, [(f"a{number}", alarm(number=number))])  # returns: the sender is a thread of its own
    until(lambda: sender.failed >= 1, "an attempt")
    assert store.left(one.name) == 3
    broker.start()
    listener = Listener(broker.port)
    try:
        topic = f"{one.base}/{one.id_of('roof')}/alarm"
        until(lambda: listener.got.get(topic) == alarm(number=3).encode(), "the last alarm")
        until(lambda: store.left(one.name) == 0, "that nothing waits")
    finally:
        sender.close()
        listener.close()


def test_nodes_are_devices_of_home_assistant(broker, buffers):
    from icvi_jax.watch.home_assistant import HomeAssistant

    listener = Listener(broker.port)
    one = HomeAssistant(f"127.0.0.1:{broker.port}", buffers, every=0.1)
    store = Store(sinks=[one.name])
    sender = Sender(one, lambda: [store]).start()
    id = one.id_of("roof")
    config, state = f"homeassistant/device/{id}/config", f"{one.base}/{id}/state"
    try:
        until(lambda: state in listener.got, "the state")
        assert json.loads(listener.got[state]) == {"xb": 0.25, "health": 50.0, "condition": "fine", "alarm": "OFF"}
        device = json.loads(listener.got[config])
        assert device["dev"]["name"] == "roof" and device["availability_topic"] == one.status
        assert set(device["cmps"]) == {"condition", "xb", "health", "alarm"}
        assert device["cmps"]["health"]["unit_of_measurement"] == "%"
        assert len({part["unique_id"] for part in device["cmps"].values()}) == 4
        until(lambda: listener.got.get(one.status) == b"online", "that it is there")
        store.add(1, [("a", alarm())])
        buffers.standing[0], buffers.last[0] = True, "spike"
        until(lambda: json.loads(listener.got[state])["alarm"] == "ON", "the alarm")
        until(lambda: f"{one.base}/{id}/alarm" in listener.got, "what the alarm says")
        buffers.standing[0], buffers.last[0] = False, "recovered"
        until(lambda: json.loads(listener.got[state])["alarm"] == "OFF", "the end")
        listener.got.clear()
        listener.client.publish("homeassistant/status", "online")  # it has started again
        until(lambda: config in listener.got and state in listener.got, "all of it again")
    finally:
        sender.close()
    until(lambda: listener.got.get(one.status) == b"offline", "that it has gone")
    listener.close()
    store.close()


def test_the_demo_of_the_documentation(require):
    require("mosquitto", "paho", "starlette", "uvicorn")
    demo = Path(__file__).parents[2] / "docs" / "howto" / "demo.py"
    done = subprocess.run([sys.executable, str(demo)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("its alarm fires: yes", "sent again: yes", "resolved: yes", "Home Assistant shows that: yes"):
        assert said in done.stdout


def test_no_gauge_of_prometheus_imitates_a_summary(require):
    require("prometheus_client")
    from types import SimpleNamespace

    from prometheus_client.parser import text_string_to_metric_families

    from icvi_jax.watch.metrics import exposition

    shard = SimpleNamespace(rows={"a": 0, "b": 1, "c": 2}, score=np.array([1.0, 2, 4]), standing=np.zeros(3, bool))
    fleet = SimpleNamespace(shards=[shard], samples=3, alarms=0, bad=0, old=0, refused=0)
    families = list(text_string_to_metric_families(exposition(fleet, 1).decode()))
    scores = {s.labels["share"]: s.value for f in families if f.name == "icvi_score" for s in f.samples}
    assert scores["0.5"] == 2 and scores["1"] == 4
    assert not any("quantile" in s.labels for f in families if f.type != "summary" for s in f.samples)
