"""A node fails: `python demo.py` starts Mosquitto, a receiver in the shape of an Alertmanager and `icvi watch`.

Two pumps send samples; one of them fails and is mended. Printed is what arrives: the alarm fires, is sent again while
it stands, and is resolved; Home Assistant's topics and the page follow. Needs mosquitto and extras cli, mqtt, serve.
"""

import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import paho.mqtt.client as paho

PATIENCE, FAILS, DISTRESS, MENDED, END = 300, 300, 410, 420, 480
alerts, topics, chance = [], {}, random.Random(1)


class Receiver(BaseHTTPRequestHandler):
    """Takes alerts as an Alertmanager does."""

    def do_POST(self):
        alerts.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(b"{}")

    def do_GET(self):
        self.answer(b"[]")  # no silences

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def free_port():
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, what):
    """Wait, and say so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.1)
    print(f"{what}: yes", flush=True)


def samples(start, end):
    """One sample a second of each pump; between FAILS and MENDED one of them gives anything."""
    for t in range(start, end):
        for pump in ("pump-1", "pump-2"):
            celsius = 20 + 8 * chance.randint(0, 1) + chance.gauss(0, 1)
            if pump == "pump-1" and FAILS <= t < MENDED:
                celsius = 20 + chance.uniform(-60, 60)
            yield pump, {"time": t, "values": {"celsius": celsius, "bar": chance.gauss(3, 0.1)}}


def of_pump():
    """Alerts of the index of the pump that fails."""
    return [a for a in alerts if a["labels"]["node"] == "pump-1" and a["labels"]["monitor"] == "xb"]


def is_over(alert):
    """Whether an alert is resolved."""
    return datetime.fromisoformat(alert["endsAt"]).timestamp() <= time.time()


def main(folder):
    """Start all, let a pump fail, and stop all."""
    broker, page = free_port(), free_port()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin") or sys.exit("needs mosquitto")
    (folder / "m.conf").write_text(f"listener {broker} 127.0.0.1\nallow_anonymous true\n")
    running = [subprocess.Popen([program, "-c", str(folder / "m.conf")], stderr=subprocess.DEVNULL)]
    options = ["-k", "3", "--index", "xb", "--columns", "celsius", "bar", "--checkpoint", str(folder / "kept")]
    options += ["--mqtt", f"127.0.0.1:{broker}", "site/+/state", "--node", "site/+/state", "--home-assistant"]
    options += ["--alertmanager", f"http://127.0.0.1:{server.server_port}", "--resend", "1"]  # a minute in production
    watch = [sys.executable, "-m", "icvi_jax.cli", "watch", *options, "--serve", f"127.0.0.1:{page}"]
    with (folder / "log").open("w") as log:
        running.append(subprocess.Popen(watch, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.on_connect = lambda *_: client.subscribe([("homeassistant/#", 0), ("icvi/#", 0)])
    client.on_message = lambda _client, _data, message: topics.update({message.topic: message.payload})
    client.reconnect_delay_set(1, 1)
    client.connect_async("127.0.0.1", broker)
    client.loop_start()

    def publish(start, end):
        for pump, sample in samples(start, end):
            client.publish(f"site/{pump}/state", json.dumps(sample), qos=1).wait_for_publish(PATIENCE)

    def states():
        return [json.loads(text) for topic, text in topics.items() if topic.endswith("/state")]

    try:
        until(client.is_connected, "the broker answers")
        until(lambda: "listening to site/+/state" in (folder / "log").read_text(), "the watch listens")
        publish(0, FAILS)
        until(lambda: len([t for t in topics if t.endswith("/config")]) == 2, "Home Assistant has two devices")
        publish(FAILS, DISTRESS)
        until(lambda: of_pump(), "pump-1 fails, and its alarm fires")
        until(lambda: any(state["alarm"] == "ON" for state in states()), "Home Assistant shows the alarm")
        before = len(of_pump())
        until(lambda: len(of_pump()) >= before + 2, "the alarm is sent again")
        assert not is_over(of_pump()[-1])
        publish(DISTRESS, END)
        until(lambda: is_over(of_pump()[-1]), "pump-1 is mended, and its alarm is resolved")
        assert len({alert["startsAt"] for alert in of_pump()}) == 1
        until(lambda: all(state["condition"] != "distress" for state in states()), "Home Assistant shows that")
        with urlopen(f"http://127.0.0.1:{page}/api/fleet", timeout=30) as answer:
            assert "pump-1" in answer.read().decode()
        print(f"the page shows both pumps: http://127.0.0.1:{page}/")
        print(of_pump()[0]["annotations"]["summary"])
    finally:
        client.disconnect()
        client.loop_stop()
        for process in reversed(running):
            process.terminate()
            process.wait(60)
        server.shutdown()
        server.server_close()
    until(lambda: True, "all is stopped")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
