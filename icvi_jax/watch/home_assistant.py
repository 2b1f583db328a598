"""Home Assistant: each node is a device there, by MQTT discovery, with its indices, its condition and its alarm.

Discovery messages are retained, and sent again when Home Assistant says that it has started (its birth message). When
the watch is gone, the broker says so (its last will), and the devices are unavailable.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import time
from collections.abc import Set
from typing import TYPE_CHECKING

from icvi_jax.report.health_text import HEALTH
from icvi_jax.terminal_text import say
from icvi_jax.watch.alarms import plain
from icvi_jax.watch.mqtt import client, publish
from icvi_jax.watch.ring_buffers import AWAY, CONDITIONS, DISTRESS, NEWS, SILENT, RingBuffers
from icvi_jax.watch.sinks import Sink

if TYPE_CHECKING:
    from paho.mqtt.client import Client as PahoClient
    from paho.mqtt.client import ConnectFlags, MQTTMessage
    from paho.mqtt.reasoncodes import ReasonCode


BIRTH, PREFIX = "homeassistant/status", "homeassistant/device"
EVERY, MOST_NODES = 5.0, 1000
"""Seconds between two states of a node, and most devices: Home Assistant is not made for more."""


class HomeAssistant(Sink):
    """Devices of Home Assistant, as a receiver of alarms that also gets the state of nodes."""

    def __init__(self, host: str, buffers: RingBuffers, every: float = EVERY):
        self.buffers, self.every = buffers, every
        site = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())
        self.base, self.name = f"icvi/{site}", "Home Assistant"
        self.status = f"{self.base}/status"
        self._heads = dict[str, tuple[object, ...]]()  # what was told of each node
        self._due, self._crowded, self._again = 0.0, False, False
        self._client, _ = client(host, on_connect=self._connected, on_message=self._born)
        self._client.will_set(self.status, "offline", qos=1, retain=True)
        self._client.loop_start()

    def _connected(
        self, client: PahoClient, _data: object, _flags: ConnectFlags, reason: ReasonCode, _properties: object
    ) -> None:
        if not reason.is_failure:
            client.subscribe(BIRTH, qos=0)
            client.publish(self.status, "online", qos=1, retain=True)
            self._again = True

    def _born(self, _client: PahoClient, _data: object, message: MQTTMessage) -> None:
        """Home Assistant has started: it knows nothing."""
        self._again = self._again or message.payload == b"online"

    def id_of(self, node: str) -> str:
        """A name of a node that a topic can have."""
        return f"icvi_{hashlib.blake2b(f'{self.base} {node}'.encode(), digest_size=6).hexdigest()}"

    def device(self, node: str) -> dict[str, object]:
        """The discovery message of a node."""
        id = self.id_of(node)
        topic = f"{self.base}/{id}/state"

        def part(key: str, title: str, **more: object) -> dict[str, object]:
            known = {"p": "sensor", "name": title, "unique_id": f"{id}_{key}"}
            return {**known, "value_template": f"{{{{ value_json.{key} }}}}", **more}

        parts = {"condition": part("condition", "Condition", device_class="enum", options=list(CONDITIONS[:AWAY]))}
        for name in self.buffers.indices:
            unit = {"unit_of_measurement": "%"} if name == HEALTH else {}
            parts[name] = part(name, name.capitalize() if unit else name.upper(), state_class="measurement", **unit)
        attributes = f"{self.base}/{id}/alarm"
        parts["alarm"] = part(
            "alarm", "Alarm", p="binary_sensor", device_class="problem", json_attributes_topic=attributes
        )
        return {
            "dev": {"ids": [id], "name": node, "mf": "icvi", "mdl": "watched node"},
            "o": {"name": "icvi", "url": "https://pypi.org/project/icvi-jax/"},
            "cmps": parts,
            "state_topic": topic,
            "availability_topic": self.status,
            "qos": 1,
        }

    def state(self, node: str, condition: int) -> dict[str, object]:
        past = self.buffers.history(node)
        last = {} if past is None or not len(past.values) else dict(zip(self.buffers.indices, past.values[-1]))
        values: dict[str, object] = {name: plain(100 * v if name == HEALTH else v) for name, v in last.items()}
        recovered = self.buffers.last.get(self.buffers.rows[node]) == "recovered"
        alarm = condition in (DISTRESS, SILENT) or (condition == NEWS and not recovered)
        return values | {"condition": CONDITIONS[condition], "alarm": "ON" if alarm else "OFF"}

    def send(self, line: str) -> None:
        """Publish one alarm as the attributes of the alarm of its node."""
        node = str(json.loads(line)["node"])
        self._publish(f"{self.base}/{self.id_of(node)}/alarm", line, wait=True)
        self._due = 0.0  # its state has changed

    def beat(self, muted: Set[str]) -> None:
        """Publish nodes that are new, and states that are new, if it is time."""
        if time.monotonic() < self._due and not self._again:
            return
        self._due = time.monotonic() + self.every
        if self._again:
            self._again, self._heads = False, {}
        names = list(self.buffers.names)
        conditions = self.buffers.conditions()
        if len(names) > MOST_NODES and not self._crowded:
            self._crowded = True
            say(f"{self.name}: {MOST_NODES:,} devices are the most; nodes after them are not shown there")
        for row, (node, condition) in enumerate(zip(names[:MOST_NODES], conditions.tolist())):
            if condition == AWAY:
                continue
            new = node not in self._heads
            if new:
                self._publish(f"{PREFIX}/{self.id_of(node)}/config", json.dumps(self.device(node)), wait=True)
            told = int(self.buffers.head[row]), condition, self.buffers.last.get(row)
            if new or told != self._heads[node]:
                self._publish(f"{self.base}/{self.id_of(node)}/state", json.dumps(self.state(node, condition)))
                self._heads[node] = told

    def _publish(self, topic: str, text: str, wait: bool = False) -> None:
        publish(self._client, topic, text, retain=True, wait=wait)

    def close(self) -> None:
        """Say that the devices are unavailable, and leave the broker."""
        if self._client.is_connected():
            self._client.publish(self.status, "offline", qos=1, retain=True).wait_for_publish(1.0)
        self._client.disconnect()
        self._client.loop_stop()
