"""The live watch with a real broker, which stops and starts again."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest
from watching import COMMAND, PATIENCE, PIPE, alarms, begun, lines, noted, samples, until

from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Rules, WatchLoop
from icvi_jax.watch.mqtt import Subscription, message_of

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """A Mosquitto on loopback that keeps its messages over a restart."""

    def __init__(self, folder):
        self.port, self.folder = free_port(), folder
        (folder / "m.conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n"
            "user root\nmax_queued_messages 0\nautosave_interval 1\n"
        )
        self.process = None

    def start(self):
        self.process = subprocess.Popen([MOSQUITTO, "-c", str(self.folder / "m.conf")], stderr=subprocess.DEVNULL)
        until(self.answers, "the broker")

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)

    def publish(self, items, *options, topic="farm/x"):
        text = lines(items)
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-t", topic, "-q", "1"]
        subprocess.run(["mosquitto_pub", *where, *options, "-l"], input=text, text=True, check=True, timeout=PATIENCE)


@pytest.fixture
def broker(tmp_path, require):
    require("mosquitto", "mosquitto_pub", "paho")
    broker = Broker(tmp_path)
    yield broker
    if broker.process:
        broker.stop()


class Command:
    """The command on a broker, with a log; it may be started again."""

    def __init__(self, folder, broker):
        self.kept, self.log = folder / "kept", folder / "log"
        where = ["--mqtt", f"127.0.0.1:{broker.port}", "farm/#", "--checkpoint", str(self.kept)]
        self.command = [*COMMAND, *where]
        self.process = None

    def start(self, out=subprocess.PIPE):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, text=True)

    def end(self, number):
        self.process.send_signal(number)
        return self.process.communicate(timeout=PATIENCE)[0]

    def said(self, text, times=1):
        return self.log.exists() and self.log.read_text().count(text) >= times

    def holds(self, node, t):
        return (node, t) in noted(self.kept)[0]


@pytest.fixture
def watch(tmp_path, broker):
    watch = Command(tmp_path, broker)
    yield watch
    watch.process.kill()
    watch.process.communicate()
    assert "Traceback" not in watch.log.read_text()


def test_a_broker_that_goes_away_is_waited_for_and_a_kill_loses_nothing(broker, watch, expected):
    items = samples()
    watch.start()  # before there is a broker
    until(lambda: watch.said("trying again"), "the complaint that there is no broker")
    broker.start()
    until(lambda: watch.said("listening"), "the subscription")
    broker.publish(items[:200])
    until(lambda: watch.holds("b", 99), "the first samples")
    broker.stop()
    broker.start()
    until(lambda: watch.said("listening", 2), "the second subscription")
    broker.publish(items[200:340])
    until(lambda: watch.holds("b", 169), "the samples after the broker came back")
    before = watch.end(signal.SIGKILL)
    broker.publish(items[340:])  # no subscriber: the broker keeps them
    watch.start()
    until(lambda: watch.said("listening", 3) and watch.holds("b", 259), "the samples the broker kept")
    after = watch.end(signal.SIGINT)
    assert watch.process.returncode == 0
    assert watch.said(f"{len(items)} samples of 2 nodes")  # also those the broker did not know to be safe count once
    assert {alarm["id"] for alarm in alarms(before + after)} == {alarm["id"] for alarm in expected}


def test_a_reader_that_goes_away_costs_no_message(broker, watch, expected):
    items = samples()
    broker.start()
    read, write = os.pipe()
    os.close(read)
    watch.start(write)
    os.close(write)
    until(lambda: watch.said("listening"), "the subscription")
    broker.publish(items)
    assert watch.process.wait(PATIENCE) == 0 and watch.said("standard output was closed")
    watch.start()
    until(lambda: watch.said("listening", 2) and watch.holds("b", 259), "the rest")
    after = watch.end(signal.SIGINT)
    assert watch.said(f"{len(items)} samples of 2 nodes")
    assert {alarm["id"] for alarm in alarms(after)} == {alarm["id"] for alarm in expected}


def test_a_retained_message_counts_once(broker, watch):
    broker.start()
    broker.publish([("a", 1, 1.0)], "-r", topic="farm/a")
    for life in (1, 2):
        watch.start()
        until(lambda: watch.said("listening", life), "the subscription")
        broker.publish([("b", life, 2.0)])
        until(lambda: watch.holds("b", life), "a sample")
        watch.end(signal.SIGINT)
    assert watch.said("2 samples of 2 nodes") and watch.said("3 samples of 2 nodes")
    assert watch.said(" 0 old samples", 2)


def message(mid, payload, dup=False, retain=False, qos=1, topic="farm/x"):
    return SimpleNamespace(mid=mid, payload=payload, dup=dup, retain=retain, qos=qos, topic=topic)


def unseen(watch, arrivals, session="s"):
    """Which of these messages a watch would count."""
    found = [message_of(arrival, session)._replace(handle=(n, 1)) for n, arrival in enumerate(arrivals)]
    return [arrivals[message.handle[0]] for message in watch.part.keeper.unseen(found) if message.lines]


def test_a_message_that_comes_again_counts_once(tmp_path):
    first = begun(tmp_path)
    sent = [message(1, b'{"v": 1}'), message(2, b'{"v": 2}'), message(2, b'{"v": 2}', dup=True)]
    sent += [message(0, b'{"v": 0}', qos=0), message(0, b'{"v": 0}', qos=0)]
    assert unseen(first, sent) == [sent[0], sent[1], sent[3], sent[4]]
    first.take([message_of(one) for one in sent])
    assert first.samples == 4
    again = [message(1, b'{"v": 1}', dup=True), message(2, b"other", dup=True), message(1, b'{"v": 1}')]
    assert unseen(first, again) == again[1:]
    first.save()
    first.close()
    assert unseen(begun(tmp_path), again) == again[1:]


def test_a_retained_message_is_known_by_the_last_retained_one_of_its_topic(tmp_path):
    first = begun(tmp_path)
    kept = message(1, b'{"v": 1}', retain=True)
    sent = [kept, message(2, b'{"v": 1}'), message(3, b'{"v": 2}')]  # the last one is not retained
    first.take([message_of(one, "s") for one in sent])
    assert first.samples == 3
    first.close()
    other = [message(3, b'{"v": 1}', retain=True, topic="farm/y"), message(4, b'{"v": 2}', retain=True)]
    again = begun(tmp_path)
    assert unseen(again, [kept, *other], "another session") == other
    assert unseen(again, [kept], "") == []  # MQTT 3.1.1
    assert unseen(again, [kept]) == [kept]  # not a repeat, but a sensor that says the same again


def test_a_broker_without_mqtt_5_is_asked_again_in_the_older_protocol(tmp_path, require, capfd):
    require("paho")
    acknowledged = threading.Event()

    def serve(server):
        while not acknowledged.is_set():
            talk, _ = server.accept()
            with talk:
                while packet := talk.recv(4096):
                    kind = packet[0] >> 4
                    if kind == 1 and packet[8] == 5:  # CONNECT: the version
                        talk.sendall(b"\x20\x02\x00\x01")
                        break
                    if kind == 1:
                        talk.sendall(b"\x20\x02\x00\x00")
                    elif kind == 8:  # SUBSCRIBE; two may come at once
                        talk.sendall(b"\x90\x03" + packet[2:4] + b"\x01")
                        talk.sendall(b'\x32\x11\x00\x06farm/a\x00\x07{"v":1}')
                    elif kind == 4:
                        acknowledged.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=[server], daemon=True).start()
        source = Subscription(f"127.0.0.1:{server.getsockname()[1]}", "farm/#", tmp_path / "kept")
        watch = WatchLoop(PIPE, Reader, Rules(), io.StringIO())
        watch.begin(source)
        end = time.monotonic() + 60
        for batch in source.batches():
            watch.turn(batch)
            if acknowledged.is_set() or time.monotonic() > end:
                break
        source.close()
        watch.close()
    assert watch.samples >= 1 and "the broker has no MQTT 5: using 3.1.1" in capfd.readouterr().err
