"""Samples from an MQTT broker, which may go away and come back."""

from __future__ import annotations

import hashlib
import os
import queue
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

WAIT = 0.5


def ticket_of(message: object) -> str:
    """What a message is known by when the broker sends it again: its identifier there, and a digest of it."""
    digest = hashlib.blake2b(message.payload, key=message.topic.encode()[:64], digest_size=8).hexdigest()
    return f"{message.mid}:{digest}"


class Subscription:
    """Messages of a topic, in the order in which they come.

    With a `folder` the broker keeps messages for us while we are away (a persistent session, quality of service 1), and
    a message is acknowledged only when the journal has it. What was not yet acknowledged comes again, marked as such,
    after a break of the connection or a restart: see `ticket_of`.

    Parameters
    ----------
    host
        ``host``, ``host:port`` or ``mqtts://host:port``. Name and password are taken from the environment,
        ``ICVI_MQTT_USERNAME`` and ``ICVI_MQTT_PASSWORD``.
    topic
        Topic, with wildcards if one likes.
    folder
        The checkpoint's folder, or None.
    """

    def __init__(self, host: str, topic: str, folder: Path | None):
        import paho.mqtt.client as paho

        place = urlsplit(host if "://" in host else f"mqtt://{host}")
        try:
            port = place.port
        except ValueError:
            port = -1
        if place.scheme not in ("mqtt", "mqtts") or not place.hostname or port == -1:
            raise ValueError(f"--mqtt {host}: wants a host, host:port or mqtts://host:port")
        secure = place.scheme == "mqtts"
        self.messages: queue.Queue = queue.Queue(maxsize=100_000)
        self.topic, self.shown = topic, f"{place.hostname}:{port or (8883 if secure else 1883)}"
        name = "icvi-" + hashlib.sha256(f"{folder.resolve()} {topic}".encode()).hexdigest()[:16] if folder else ""
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=not folder, manual_ack=True
        )
        if os.environ.get("ICVI_MQTT_USERNAME"):
            self.client.username_pw_set(os.environ["ICVI_MQTT_USERNAME"], os.environ.get("ICVI_MQTT_PASSWORD"))
        if secure:
            self.client.tls_set()
        self.client.reconnect_delay_set(1, 15)
        self.client.on_connect = self._connected
        self.client.on_disconnect = lambda *_: self._say("lost the broker, waiting for it")
        self.client.on_connect_fail = lambda *_: self._say("there is no broker yet, waiting for it")
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.connect_async(place.hostname, port or (8883 if secure else 1883), keepalive=30)
        self.client.loop_start()

    def _say(self, text: str) -> None:
        print(f"icvi: {self.shown}: {text}", file=sys.stderr, flush=True)

    def _connected(self, client: object, _data: object, _flags: object, reason: object, _properties: object) -> None:
        if reason.is_failure:
            self._say(f"the broker refuses ({reason})")
            return
        client.subscribe(self.topic, qos=1)
        self._say(f"listening to {self.topic}")

    def bundles(self) -> Iterator[list]:
        """Give all messages that are there, waiting for the first; never ends by itself."""
        while True:
            try:
                found = [self.messages.get(timeout=WAIT)]
            except queue.Empty:
                yield []
                continue
            while len(found) < 4096:
                try:
                    found.append(self.messages.get_nowait())
                except queue.Empty:
                    break
            yield found

    def acknowledge(self, messages: list) -> None:
        """Tell the broker that these are safe."""
        for message in messages:
            self.client.ack(message.mid, message.qos)

    def close(self) -> None:
        """Leave the broker."""
        self.client.loop_stop()
        self.client.disconnect()
