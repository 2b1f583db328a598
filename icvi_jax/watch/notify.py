"""Alarms passed on: to a webhook, an MQTT topic, a Kafka topic. Each at least once, with an id to drop repeats by.

An alarm waits in the store until its receiver has taken it, also over a restart. A receiver that fails is tried again
after a second, then after twice as long each time, up to five minutes; the watch itself never waits for it.
"""

from __future__ import annotations

import json
import random
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from icvi_jax.text import say
from icvi_jax.watch.intake import Complaints
from icvi_jax.watch.store import Store

FIRST, LONGEST, TIMEOUT = 1.0, 300.0, 10.0
IDLE = 0.3


class Receiver(Protocol):
    """Whom alarms are passed on to.

    Attributes
    ----------
    name : of the receiver, for marks and messages.
    """

    name: str

    def send(self, line: str) -> None:
        """Pass one alarm on; returns when it has arrived, and raises OSError where it has not."""

    def close(self) -> None:
        """Let go of what is open."""


class Webhook:
    """A POST of the alarm's JSON; the header `Idempotency-Key` has its id."""

    def __init__(self, url: str):
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ValueError(f"--webhook {url}: expected http://… or https://…")
        self.url, self.name = url, f"webhook {urlsplit(url).hostname}"

    def send(self, line: str) -> None:
        """Post one alarm."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(json.loads(line)["id"])}
        request = urllib.request.Request(self.url, line.encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - the scheme was checked
            answer.read(1)

    def close(self) -> None:
        """Nothing is open."""


class Sender:
    """A thread that passes on what waits in the stores.

    Parameters
    ----------
    receiver : whom to pass alarms on to.
    stores : gives the stores as they are now.
    muted : names of nodes whose alarms are not passed on.
    """

    def __init__(self, receiver: Receiver, stores: Callable[[], Iterable[Store]], muted: Callable[[], set[str]] = set):
        self.receiver, self._stores, self._muted = receiver, stores, muted
        self.sent = self.failed = 0
        self._complaints = Complaints()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=receiver.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause = FIRST
        while not self._stop.is_set():
            before = self.sent
            try:
                busy = self._pass_on()
                pause = FIRST
            except (OSError, ValueError) as error:
                self.failed += 1
                self._complaints.say(f"{self.receiver.name}: {error}; alarms wait and are sent again")
                pause = FIRST if self.sent > before else pause  # it works now and then: no need to wait for long
                self._stop.wait(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST)
                continue
            if not busy:
                self._stop.wait(IDLE)

    def _pass_on(self) -> bool:
        """Send what waits, marking each alarm that has arrived; gives whether there was any."""
        busy = False
        for store in list(self._stores()):
            for alarm in store.waiting(self.receiver.name, 100):
                if self._stop.is_set():
                    return False
                if json.loads(alarm.line)["node"] not in self._muted():
                    self.receiver.send(alarm.line)
                    self.sent += 1
                store.mark(self.receiver.name, alarm.number)
                busy = True
        return busy

    def close(self, patience: float = 5.0) -> None:
        """End the thread; what is not out waits for the next start."""
        self._stop.set()
        self._thread.join(patience + TIMEOUT)
        self.receiver.close()


def receivers(webhooks: Sequence[str], mqtt: tuple[str, str] | None, kafka: tuple[str, str] | None) -> list[Receiver]:
    """Those whom the options name."""
    found: list[Receiver] = [Webhook(url) for url in webhooks]
    if mqtt:
        from icvi_jax.watch.mqtt import Publisher

        found.append(Publisher(*mqtt))
    if kafka:
        from icvi_jax.watch.kafka import Topic

        found.append(Topic(*kafka))
    names = [receiver.name for receiver in found]
    if len(set(names)) < len(names):
        for number, receiver in enumerate(found):
            receiver.name += f" ({number + 1})"
    for receiver in found:
        say(f"alarms also go to {receiver.name}")
    return found
