"""The live watch on a real broker, which goes away and comes back."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess

import pytest
from watching import COMMAND, PATIENCE, alarms, lines, samples, until

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """A Mosquitto of our own on loopback that keeps its messages over a restart."""

    def __init__(self, folder):
        self.port, self.folder = free_port(), folder
        (folder / "m.conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n"
            "user root\nmax_queued_messages 0\nautosave_interval 1\n")  # fmt: skip
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

    def publish(self, items):
        text = lines(items)
        subprocess.run(["mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.port), "-t", "farm/x", "-q", "1", "-l"],
                       input=text, text=True, check=True, timeout=PATIENCE)  # fmt: skip


@pytest.mark.skipif(not (MOSQUITTO and shutil.which("mosquitto_pub")), reason="there is no Mosquitto broker")
def test_a_broker_that_goes_away_is_waited_for_and_a_kill_loses_nothing(tmp_path, expected):
    pytest.importorskip("paho.mqtt.client")
    items, broker, kept = samples(), Broker(tmp_path), tmp_path / "kept"
    log = (tmp_path / "log").open("w+")
    command = [*COMMAND, "--mqtt", f"127.0.0.1:{broker.port}", "farm/#", "--checkpoint", str(kept)]

    def start():
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)

    def held(node, t):
        return any(f'["{node}", {t}, ' in path.read_text() for path in kept.glob("journal-*"))

    def said(text, times=1):
        return (tmp_path / "log").read_text().count(text) >= times

    watch = start()  # before there is a broker
    try:
        until(lambda: said("waiting for it"), "the complaint that there is no broker")
        broker.start()
        until(lambda: said("listening"), "the subscription")
        broker.publish(items[:200])
        until(lambda: held("b", 99), "the first samples")
        broker.stop()
        broker.start()
        until(lambda: said("listening", 2), "the second subscription")
        broker.publish(items[200:340])
        until(lambda: held("b", 169), "the samples after the broker came back")
        watch.send_signal(signal.SIGKILL)
        before = watch.communicate()[0]
        broker.publish(items[340:])  # nobody listens: the broker keeps them
        watch = start()
        until(lambda: held("b", 259), "the samples the broker kept")
        watch.send_signal(signal.SIGINT)
        after = watch.communicate(timeout=PATIENCE)[0]
        assert watch.returncode == 0
    finally:
        watch.kill()
        broker.stop()
        log.close()
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert said(f"{len(items)} samples of 2 nodes")  # also those the broker did not know to be safe count once
    found = alarms(before) + alarms(after)
    keys = {(alarm["node"], alarm["time"], alarm["alarm"]) for alarm in found}
    assert keys == {(alarm["node"], alarm["time"], alarm["alarm"]) for alarm in expected}
