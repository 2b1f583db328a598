"""A real Mosquitto: kills of the watch with retained messages among others, and bursts with the broker's defaults.

    python tests/slow/mqtt.py --kills 30

Messages have no time, so that only what the broker and the journal know shows which ones came before; every 50th is
retained. All must count once. Then 3,000 nodes send five bursts to a watch whose broker drops what its queue cannot
hold: what is counted and what the watch says was dropped must be all.
"""

import argparse
import json
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

MOSQUITTO = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
COMMAND = [sys.executable, "-m", "icvi_jax.cli", "watch", "-k", "2", "--index", "xb", "--no-standardize"]
PATIENCE = 300
NODES, BURSTS = 3_000, 5


def until(condition, what):
    """Wait for it."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


class Bench:
    """A broker, a publisher, and a watch that is started and ended again and again."""

    def __init__(self, folder, settings):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.kept, self.log, self.published = folder / "kept", folder / "log", 0
        conf = folder / "m.conf"
        conf.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser root\n{settings}")
        self.broker = subprocess.Popen([MOSQUITTO, "-c", str(conf)], stderr=subprocess.DEVNULL)
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.max_inflight_messages_set(1000)
        until(self.answers, "the broker")
        self.client.connect("127.0.0.1", self.port)
        self.client.loop_start()

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def start(self):
        """Start the watch, and wait until it listens."""
        before = self.said("listening")
        where = ["--mqtt", f"127.0.0.1:{self.port}", "farm/#", "--checkpoint", str(self.kept)]
        with self.log.open("a") as log:
            self.watch = subprocess.Popen(
                [*COMMAND, *where], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        until(lambda: self.said("listening") > before or self.watch.poll() is not None, "the subscription")

    def end(self, number):
        self.watch.send_signal(number)
        self.watch.wait(PATIENCE)

    def said(self, text):
        return self.log.read_text().count(text) if self.log.exists() else 0

    def publish(self, node, value, retain=False):
        self.published += 1
        topic = f"farm/{node}"
        return self.client.publish(topic, json.dumps({"node": node, "v": value}), qos=1, retain=retain)

    def journaled(self, node):
        """Whether a sample of this node is in the journal."""
        with closing(sqlite3.connect(self.kept / "watch.db")) as db:
            found = db.execute("SELECT count(*) FROM journal WHERE samples LIKE ?", [f'%"{node}"%'])
            return found.fetchone()[0] > 0

    def counted(self):
        """How many samples the watch said it had counted when it ended."""
        return int(re.findall(r"([\d,]+) samples? of", self.log.read_text())[-1].replace(",", ""))

    def close(self):
        self.client.loop_stop()
        self.watch.kill()
        self.watch.wait()
        self.broker.terminate()
        self.broker.wait()


def with_kills(kills, rng):
    """Kill the watch at random moments while messages come."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bench = Bench(folder, f"persistence true\npersistence_location {folder}/\nmax_queued_messages 0\n")
        stop = threading.Event()

        def send():
            while not stop.is_set():
                for _ in range(20):
                    number = bench.published
                    bench.publish(f"n{number % 7}", float(number), retain=number % 50 == 49)
                time.sleep(0.1)

        sender = threading.Thread(target=send)
        try:
            bench.start()
            sender.start()
            for _ in range(kills):
                time.sleep(0.2 + rng.random())
                bench.end(signal.SIGKILL)
                bench.start()
            stop.set()
            sender.join()
            bench.publish("last", 0.0).wait_for_publish(PATIENCE)
            until(lambda: bench.journaled("last"), "the last message")
            bench.end(signal.SIGINT)
            print(f"{kills} kills: {bench.published:,} published, {bench.counted():,} counted", flush=True)
            return bench.published == bench.counted() and not bench.said("Traceback")
        finally:
            stop.set()
            bench.close()


def with_bursts():
    """All nodes send at the same moment, five times, to a broker with its defaults."""
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place), "sys_interval 2\n")
        try:
            bench.start()
            begin = time.monotonic()
            for burst in range(BURSTS):
                for node in range(NODES):
                    info = bench.publish(f"n{node}", float(burst))
                info.wait_for_publish(PATIENCE)
            seconds = time.monotonic() - begin
            while not bench.journaled("last"):  # until one of these comes through, earlier messages may wait
                bench.publish("last", 0.0).wait_for_publish(PATIENCE)
                time.sleep(1)
            time.sleep(6)  # the broker tells what it dropped every two seconds
            bench.end(signal.SIGTERM)
            told = re.findall(r"([\d,]+) messages? dropped by the broker during", bench.log.read_text())
            dropped, counted = int(told[-1].replace(",", "")) if told else 0, bench.counted()
            print(f"{BURSTS} bursts of {NODES:,} in {seconds:.0f} s: {counted:,} of {bench.published:,}", end=" ")
            print(f"counted, {dropped:,} said to be dropped", flush=True)
            return counted + dropped == bench.published and not bench.said("lost the connection")
        finally:
            bench.close()


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=30)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args(argv)
    fine = [with_bursts(), with_kills(given.kills, random.Random(given.seed))]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
