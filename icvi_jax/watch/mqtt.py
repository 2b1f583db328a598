"""Samples from an MQTT broker, whose connection may break and come back, and alarms to one.

With a folder the broker keeps messages while the watch is not connected (a persistent session, quality of service 1),
and a message is acknowledged only when it is in the journal. Messages that were not acknowledged come again, marked as
such, after a break of the connection or a restart: the journal has their tickets.

MQTT 5 is used where the broker has it: it sends many messages before it waits for an acknowledgement (receive maximum),
so that a whole group is journaled and acknowledged at once; and it does not repeat retained messages to a session that
has them. With the settings of Mosquitto, MQTT 3.1.1 stops after 20 messages, and bursts overflow the queue.
"""

from __future__ import annotations

import hashlib
import os
import queue
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from icvi_jax.terminal_text import counted, say
from icvi_jax.watch.device_formats import check_pattern
from icvi_jax.watch.journal import RECEIVE, Store
from icvi_jax.watch.sinks import Sink
from icvi_jax.watch.source import ONLY, Batch, Message, Source
from icvi_jax.watch.sparkplug import PREFIX, Births

if TYPE_CHECKING:
    from paho.mqtt.client import Client as PahoClient
    from paho.mqtt.client import ConnectFlags, MQTTMessage
    from paho.mqtt.reasoncodes import ReasonCode

    from icvi_jax.watch.loop import WatchLoop

WAIT, TIMEOUT = 0.5, 10.0
DROPPED = "$SYS/broker/publish/messages/dropped"
"""Where Mosquitto says how many messages to all its clients it has thrown away since it started."""
FOREVER = 0xFFFFFFFF


class Publisher(Sink):
    """An MQTT topic for alarms, with quality of service 1."""

    def __init__(self, host: str, topic: str):
        self.name, self.topic = f"MQTT topic {topic}", topic
        if re.search("[+#\0]", topic):
            raise ValueError(f"--alarms-mqtt {host} {topic}: expected a topic without wildcards")
        self._client, _ = client(host, option="--alarms-mqtt")
        self._client.loop_start()

    def send(self, line: str) -> None:
        publish(self._client, self.topic, line)

    def close(self) -> None:
        self._client.loop_stop()
        self._client.disconnect()


def publish(client: PahoClient, topic: str, text: str, retain: bool = False, wait: bool = True) -> None:
    """Publish a message; `wait` until the broker has it. Raises OSError if there is no broker."""
    if not client.is_connected():
        raise OSError("there is no broker yet")
    sent = client.publish(topic, text.encode(), qos=1, retain=retain)
    if wait:
        sent.wait_for_publish(TIMEOUT)
        if not sent.is_published():
            raise OSError("the broker does not answer")


def client(
    host: str, name: str = "", version: int = 5, option: str = "--mqtt", **callbacks: object
) -> tuple[PahoClient, str]:
    """A client that connects as soon as it can, and the name of its broker.

    Parameters
    ----------
    host : ``host``, ``host:port`` or ``mqtts://host:port``. Name and password are taken from the environment,
        ``ICVI_MQTT_USERNAME`` and ``ICVI_MQTT_PASSWORD``.
    name : of the session, which the broker keeps; empty: it ends with the connection.
    version : 5, or 3 for 3.1.1.
    option : that named the host.
    callbacks : what to call, such as `on_message`.
    """
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    place = urlsplit(host if "://" in host else f"mqtt://{host}")
    try:
        port = place.port
    except ValueError:
        port = -1
    if place.scheme not in ("mqtt", "mqtts") or not place.hostname or port == -1 or any(map(str.isspace, host)):
        raise ValueError(f"{option} {host}: expected host, host:port or mqtts://host:port")
    secure = place.scheme == "mqtts"
    if version == 5:
        made = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5, manual_ack=True)
    else:
        made = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=not name, manual_ack=True)
    if os.environ.get("ICVI_MQTT_USERNAME"):
        made.username_pw_set(os.environ["ICVI_MQTT_USERNAME"], os.environ.get("ICVI_MQTT_PASSWORD"))
    if secure:
        made.tls_set()
    made.reconnect_delay_set(1, 15)
    for event, callback in callbacks.items():
        setattr(made, event, callback)
    port = port or (8883 if secure else 1883)
    if version == 5:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = RECEIVE
        properties.SessionExpiryInterval = FOREVER if name else 0
        made.connect_async(place.hostname, port, keepalive=30, clean_start=not name, properties=properties)
    else:
        made.connect_async(place.hostname, port, keepalive=30)
    return made, f"{place.hostname}:{port}"


class Subscription(Source):
    """Messages of a topic, which may have wildcards, in order of arrival."""

    def __init__(self, host: str, topic: str, folder: Path | None):
        self.host, self.topic, self.folder, self.name = host, topic, folder, host
        check_pattern(topic, f"--mqtt {host}")
        self.arrived: queue.Queue[tuple[MQTTMessage, str]] = queue.Queue(maxsize=100_000)
        self.births = Births(lambda topic, payload: self.client.publish(topic, payload))
        self.dropped = 0  # messages to all clients that the broker says it has thrown away, while this watch knew of it
        self._store = Store()
        self._version, self._older = 5, False
        self._closing = False
        self._session = self._known = ""  # in which messages come; in which the broker has the subscription
        self._told_of_drops, self._connected_at = False, float("inf")

    def open(self, watch: WatchLoop) -> None:
        self._store = watch.open_journal(self.folder).store
        self.connect()

    def connect(self) -> None:
        folder = self.folder.resolve() if self.folder else None
        name = "icvi-" + hashlib.sha256(f"{folder} {self.topic}".encode()).hexdigest()[:16] if folder else ""
        self.client, self.name = client(
            self.host,
            name,
            self._version,
            on_connect=self._connected,
            on_pre_connect=self._before_connect,
            on_subscribe=self._subscribed,
            on_disconnect=self._disconnected,
            on_connect_fail=lambda *_: self._say("no broker there yet, trying again"),
            on_message=self._receive,
        )
        self.client.loop_start()

    def _before_connect(self, *_: object) -> None:
        """From here on the broker may have a new session; a crash before that is written down must not hide it."""
        self._known = self._store.recall("subscribed") or self._known
        if self._store.recall("subscribed"):
            self._store.remember("subscribed", "")

    def _subscribed(self, *_: object) -> None:
        self._known = self._session
        self._store.remember("subscribed", self._session)

    def _say(self, text: str) -> None:
        say(f"{self.name}: {text}")

    def _disconnected(self, *_: object) -> None:
        if not self._closing:
            self._say("lost the connection, trying again")

    def _connected(
        self, client: PahoClient, _data: object, flags: ConnectFlags, reason: ReasonCode, _properties: object
    ) -> None:
        from paho.mqtt.subscribeoptions import SubscribeOptions

        if reason.is_failure:
            self._older = self._version == 5 and "protocol version" in str(reason)
            if not self._older:
                self._say(f"the broker refuses the connection ({reason})")
            return
        if self._version == 5:
            self._session = self._store.recall("session")
            if not (flags.session_present and self._session and self._known == self._session):
                self._session = secrets.token_hex(4)  # a new subscription gets what was retained, perhaps long ago
                self._store.remember("session", self._session)
            asked = SubscribeOptions(qos=1, retainAsPublished=True, retainHandling=1)  # retained: to new ones only
            client.subscribe(self.topic, options=asked)
        else:
            client.subscribe(self.topic, qos=1)
        client.subscribe(DROPPED, qos=0)
        self._connected_at = time.monotonic()
        self._say(f"listening to {self.topic}")

    def _receive(self, _client: PahoClient, _data: object, message: MQTTMessage) -> None:
        """In the thread of the network: only put it into the queue."""
        if message.topic == DROPPED:
            self._note_dropped(bytes(message.payload))
            return
        self.arrived.put((message, self._session))

    def _note_dropped(self, payload: bytes) -> None:
        """Compare the counter of the broker with the last one, also over a restart."""
        try:
            count = int(payload)
        except ValueError:
            return
        known = self._store.recall("dropped")
        before = int(known) if known else count
        lost = count - before if count >= before else count  # the broker was started again
        if lost:
            self.dropped += lost
            self._say(
                f"{lost:,} messages dropped by the broker, of all its clients: its queue was full (Mosquitto: raise "
                "max_queued_messages); samples among them are lost"
            )
        elif not self._told_of_drops:
            self._say(f"the broker drops messages when its queue is full; so far {count:,}, and news of it is said")
        self._told_of_drops = True
        if str(count) != known:
            self._store.remember("dropped", str(count))

    def batches(self) -> Iterator[Batch]:
        """Yield all messages that have come, waiting for the first; never ends by itself."""
        while True:
            self._look_around()
            try:
                found = [self.arrived.get(timeout=WAIT)]
            except queue.Empty:
                yield {}
                continue
            while len(found) < RECEIVE:
                try:
                    found.append(self.arrived.get_nowait())
                except queue.Empty:
                    break
            yield {ONLY: [message_of(arrival, session, self.births) for arrival, session in found]}

    def _look_around(self) -> None:
        """Do what a callback cannot do: change to the older protocol; say once what the broker does not tell."""
        if self._older:
            self._older, self._version = False, 3
            self._say("the broker has no MQTT 5: using 3.1.1, which holds bursts less well")
            self.client.loop_stop()
            self.connect()
        if not self._told_of_drops and time.monotonic() - self._connected_at > 30:
            self._told_of_drops = True
            self._say("the broker does not tell how many messages it drops when its queue is full")

    def acknowledge(self, batch: Batch) -> None:
        for messages in batch.values():
            for message in messages:
                if message.handle is not None:
                    self.client.ack(*message.handle)

    def close(self) -> None:
        """Leave the broker, which keeps what comes from now on."""
        self._closing = True
        if self.dropped:
            self._say(f"{counted(self.dropped, 'message')} dropped by the broker during this watch, of all its clients")
        self.client.disconnect()
        self.client.loop_stop()


def message_of(arrival: MQTTMessage, session: str = "", births: Births | None = None) -> Message:
    """What the loop needs to know of a message; the topic names the node of a line without one.

    In MQTT 5 a retained message is marked whenever it comes, and only the first one of a topic in a session can be a
    repeat. In 3.1.1 (no session named) the mark is on repeats only.
    """
    payload = bytes(arrival.payload)
    digest = hashlib.blake2b(payload, digest_size=8).hexdigest()
    binary = births is not None and arrival.topic.startswith(PREFIX)
    return Message(
        births.lines_of(arrival.topic, payload) if births and binary else payload.split(b"\n"),
        arrival.topic,
        ticket=f"{arrival.mid}:{digest}:{arrival.topic}" if arrival.qos else "",
        again=arrival.dup,
        topic=arrival.topic if arrival.retain else "",
        digest=digest,
        session=session,
        handle=(arrival.mid, arrival.qos),
    )
