"""Alarms sent to receivers: at least once, and once without repeats."""

from __future__ import annotations

import io
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from watching import alarms, begun, samples, taken, until

from icvi_jax.watch import retry, webhook
from icvi_jax.watch.journal import Store
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.silences import Silences
from icvi_jax.watch.sinks import Printer
from icvi_jax.watch.webhook import Webhook, post_json


@pytest.fixture
def receiver():
    """A webhook that fails every other time: before it has read the alarm, or after."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            server.posts += 1
            if server.posts % 4 == 1:
                self.connection.close()  # nothing was taken
                return
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.got.append((self.headers["Idempotency-Key"], json.loads(body)))
            self.send_response(503 if server.posts % 4 == 3 else 200)  # taken, and said to have failed
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.posts, server.got = 0, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, f"http://127.0.0.1:{server.server_port}/alarms"
    server.shutdown()
    server.server_close()


def test_an_answer_that_does_not_end_counts(monkeypatch):
    """A receiver that has said 200 has the alarm, even if it keeps the connection open."""
    monkeypatch.setattr(webhook, "TIMEOUT", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            connection.recv(10_000)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            done.wait(10)
            connection.close()

        done, thread = threading.Event(), threading.Thread(target=answer, daemon=True)
        thread.start()
        post_json(f"http://127.0.0.1:{server.getsockname()[1]}/", "{}")
        done.set()
        thread.join()


def jumping(count=40):
    """A feed with many alarms."""
    return [(f"n{n}", t, v + 60 * (t >= 150)) for n in range(count) for _, t, v in samples(152, ["x"])]


def test_a_webhook_that_fails_half_the_time_gets_every_alarm(receiver, monkeypatch, tmp_path):
    server, url = receiver
    monkeypatch.setattr(retry, "FIRST", 0.01)
    hook = Webhook(url)
    watch = begun(tmp_path, sinks=[hook.name])
    watch.take(taken(jumping()))
    expected = [alarm["id"] for alarm in map(json.loads, watch.out.getvalue().splitlines())]
    assert len(expected) >= 40
    sender = Sender(hook, lambda: [watch.store]).start()
    until(lambda: sender.sent >= 5, "the first alarms")
    sender.close()
    watch.close()
    watch = begun(tmp_path, sinks=[hook.name])  # the others wait over a restart
    sender = Sender(hook, lambda: [watch.store]).start()
    until(lambda: not watch.store.waiting(hook.name), "the others")
    sender.close()
    watch.close()
    assert all(key == alarm["id"] for key, alarm in server.got)
    assert list(dict.fromkeys(key for key, _ in server.got)) == expected and len(server.got) > len(expected)


def test_a_receiver_that_is_away_does_not_hold_up_the_watch(monkeypatch):
    monkeypatch.setattr(retry, "FIRST", 0.01)
    hook = Webhook("http://127.0.0.1:9/")
    watch = begun(sinks=[hook.name])
    sender = Sender(hook, lambda: [watch.store]).start()
    watch.take(taken(samples()))
    until(lambda: sender.failed >= 3, "attempts")
    assert len(alarms(watch.out.getvalue())) == len(watch.store.waiting(hook.name)) >= 2
    sender.close()
    assert watch.store.waiting(hook.name)


def test_a_muted_node_is_not_passed_on(receiver):
    server, url = receiver
    server.posts = 1
    hook, silences = Webhook(url), Silences()
    store = Store(None, [hook.name])
    silences.set("a", True)
    store.add(1, [(name, json.dumps({"id": name, "node": name})) for name in ("a", "b")])
    sender = Sender(hook, lambda: [store], silences).start()
    until(lambda: not store.waiting(hook.name), "the alarms")
    sender.close()
    assert [key for key, _ in server.got] == ["b"]


def test_alarms_to_a_kafka_topic(require):
    require("confluent_kafka")
    from confluent_kafka import Consumer, Producer

    from icvi_jax.watch.kafka import Topic

    cluster = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1})
    broker = next(iter(cluster.list_topics("alarms", timeout=60).brokers.values()))
    servers = f"{broker.host}:{broker.port}"
    topic = Topic(servers, "alarms")
    watch = begun(sinks=[topic.name])
    watch.take(taken(samples()))
    sender = Sender(topic, lambda: [watch.store]).start()
    until(lambda: not watch.store.waiting(topic.name), "the alarms")
    sender.close()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["alarms"])
    found = []
    until(lambda: found.extend(consumer.consume(10, 0.5)) or len(found) >= watch.out.getvalue().count("\n"), "them")
    consumer.close()
    assert [json.loads(m.value()) for m in found] == [json.loads(line) for line in watch.out.getvalue().splitlines()]
    assert {m.key() for m in found} == {b"a"}


def test_alarms_to_an_mqtt_topic(require, tmp_path, capsys):
    require("mosquitto", "paho")
    from test_broker import Broker

    from icvi_jax.watch.mqtt import Publisher, Subscription
    from icvi_jax.watch.source import ONLY

    broker = Broker(tmp_path)
    broker.start()
    where = f"127.0.0.1:{broker.port}"
    listener = Subscription(where, "site/alarms", None)
    listener.connect()
    until(lambda: "listening" in capsys.readouterr().err, "the subscription")
    topic = Publisher(where, "site/alarms")
    watch = begun(sinks=[topic.name])
    watch.take(taken(samples()))
    sender = Sender(topic, lambda: [watch.store]).start()
    expected = [json.loads(line) for line in watch.out.getvalue().splitlines()]
    found = []
    until(lambda: found.extend(next(listener.batches()).get(ONLY, ())) or len(found) >= len(expected), "the alarms")
    until(lambda: not watch.store.waiting(topic.name), "the marks")
    sender.close()
    listener.close()
    broker.stop()
    assert [json.loads(message.lines[0]) for message in found] == expected


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "file:///x",
        "x",
        "http://",
        "http://h:99999/",
        "http://h:0/",
        "http://h:x/",
        "http://h/a b",
        "http://h\n/",
    ],
)
def test_what_is_no_webhook_is_refused(url):
    with pytest.raises(ValueError, match="expected http"):
        Webhook(url)


def test_a_printed_alarm_cannot_drive_a_terminal():
    out = io.StringIO()
    name = "a\u009b31m\u202e\U000e0001b"
    Printer(out).send(json.dumps({"node": name}, ensure_ascii=False))
    assert out.getvalue().strip().isprintable() and json.loads(out.getvalue()) == {"node": name}
