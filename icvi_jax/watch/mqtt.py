"""Samples from an MQTT broker, whose connection may break and come back."""

from __future__ import annotations

import hashlib
import os
import queue
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from paho.mqtt.client import Client as PahoClient
    from paho.mqtt.reasoncodes import ReasonCode

from icvi_jax.text import say
from icvi_jax.watch.journal import Store

WAIT, TIMEOUT = 0.5, 10.0


class Message(Protocol):
    """A message as paho gives it."""

    topic: str
    payload: bytes
    mid: int
    qos: int
    dup: bool
    retain: bool


class News(NamedTuple):
    """Messages that were not processed before, their tickets, and the digest of the last one of each topic."""

    messages: list[Message]
    tickets: list[str]
    topics: dict[str, str]


def news(messages: Sequence[Message], store: Store) -> News:
    """The messages without those that were processed before.

    A message that the broker sends again, because it got no acknowledgement, has a known ticket: its identifier there
    and a digest of it. A retained message, which every new subscription gets, is the last one of its topic.
    """
    found = News([], [], {})
    for message in messages:
        digest = hashlib.blake2b(message.payload, digest_size=8).hexdigest()
        ticket = f"{message.mid}:{digest}:{message.topic}"
        if message.dup and (ticket in found.tickets or store.knows(ticket)):
            continue
        if message.retain and found.topics.get(message.topic, store.topics.get(message.topic)) == digest:
            continue
        found.messages.append(message)
        found.topics[message.topic] = digest
        if message.qos:
            found.tickets.append(ticket)
    return found


def lines_in(messages: Sequence[Message]) -> list[tuple[bytes, str]]:
    """The lines of messages; the topic names the node of a line without one."""
    return [(line, message.topic) for message in messages for line in message.payload.split(b"\n")]


class Publisher:
    """An MQTT topic for alarms, with quality of service 1."""

    def __init__(self, host: str, topic: str):
        self.name, self.topic = f"MQTT topic {topic}", topic
        self._client, _ = client(host)
        self._client.loop_start()

    def send(self, line: str) -> None:
        """Publish one alarm and wait until the broker has it."""
        if not self._client.is_connected():
            raise OSError("there is no broker yet")
        sent = self._client.publish(self.topic, line.encode(), qos=1)
        sent.wait_for_publish(TIMEOUT)
        if not sent.is_published():
            raise OSError("the broker does not answer")

    def close(self) -> None:
        """Leave the broker."""
        self._client.loop_stop()
        self._client.disconnect()


def client(host: str, name: str = "", clean: bool = True, **callbacks: object) -> tuple[PahoClient, str]:
    """A client that connects as soon as it can, and the name of its broker.

    Parameters
    ----------
    host : ``host``, ``host:port`` or ``mqtts://host:port``. Name and password are taken from the environment,
        ``ICVI_MQTT_USERNAME`` and ``ICVI_MQTT_PASSWORD``.
    name, clean : of the session; a session that is not clean is kept by the broker.
    callbacks : what to call, such as `on_message`.
    """
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    place = urlsplit(host if "://" in host else f"mqtt://{host}")
    try:
        port = place.port
    except ValueError:
        port = -1
    if place.scheme not in ("mqtt", "mqtts") or not place.hostname or port == -1:
        raise ValueError(f"--mqtt {host}: expected host, host:port or mqtts://host:port")
    secure = place.scheme == "mqtts"
    made = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=clean, manual_ack=True)
    if os.environ.get("ICVI_MQTT_USERNAME"):
        made.username_pw_set(os.environ["ICVI_MQTT_USERNAME"], os.environ.get("ICVI_MQTT_PASSWORD"))
    if secure:
        made.tls_set()
    made.reconnect_delay_set(1, 15)
    for event, callback in callbacks.items():
        setattr(made, event, callback)
    port = port or (8883 if secure else 1883)
    made.connect_async(place.hostname, port, keepalive=30)
    return made, f"{place.hostname}:{port}"


class Subscription:
    """Messages of a topic, in order of arrival.

    With a `folder` the broker keeps messages while the watch is not connected (a persistent session, quality of service
    1), and a message is acknowledged only when it is in the journal. Messages that were not acknowledged come again,
    marked as such, after a break of the connection or a restart: see `news`.

    Parameters
    ----------
    host : as for `client`.
    topic : may have wildcards.
    folder : the checkpoint's, or None.
    """

    def __init__(self, host: str, topic: str, folder: Path | None):
        self.messages: queue.Queue[Message] = queue.Queue(maxsize=100_000)
        self.topic = topic
        name = "icvi-" + hashlib.sha256(f"{folder.resolve()} {topic}".encode()).hexdigest()[:16] if folder else ""
        self.client, self.shown = client(
            host,
            name,
            not folder,
            on_connect=self._connected,
            on_disconnect=lambda *_: self._say("lost the connection, trying again"),
            on_connect_fail=lambda *_: self._say("no broker there yet, trying again"),
            on_message=lambda _client, _data, message: self.messages.put(message),
        )
        self.client.loop_start()

    def _say(self, text: str) -> None:
        say(f"{self.shown}: {text}")

    def _connected(
        self, client: PahoClient, _data: object, _flags: object, reason: ReasonCode, _properties: object
    ) -> None:
        if reason.is_failure:
            self._say(f"the broker refuses the connection ({reason})")
            return
        client.subscribe(self.topic, qos=1)
        self._say(f"listening to {self.topic}")

    def bundles(self) -> Iterator[list[Message]]:
        """Yield all messages that have come, waiting for the first; never ends by itself."""
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

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge these messages to the broker."""
        for message in messages:
            self.client.ack(message.mid, message.qos)

    def close(self) -> None:
        """Leave the broker."""
        self.client.loop_stop()
        self.client.disconnect()
