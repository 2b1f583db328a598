"""Send alarms to a webhook, an MQTT topic or a Kafka topic: each at least once, with an id to recognise repeats.

An alarm waits in the store until its receiver has it, also over a restart. If sending fails, it is tried again after a
second, then after twice as long each time, up to five minutes; the watch itself never waits for it.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from urllib.parse import quote, urlsplit

from icvi_jax.text import say
from icvi_jax.watch.intake import Complaints
from icvi_jax.watch.mutes import Mutes
from icvi_jax.watch.store import Store

FIRST, LONGEST, TIMEOUT = 1.0, 300.0, 10.0
IDLE = 0.3


class Receiver(Protocol):
    """A receiver of alarms.

    Attributes
    ----------
    name : of the receiver, for marks and messages.
    """

    name: str

    def send(self, line: str) -> None:
        """Send one alarm; returns when it has arrived, and raises OSError if it has not."""

    def close(self) -> None:
        """Close connections."""


class Webhook:
    """A POST of the alarm's JSON; the header `Idempotency-Key` has its id. Any answer but 2xx is a failure."""

    def __init__(self, url: str):
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise ValueError(f"--webhook {url}: expected http://… or https://…")
        # Two hooks of one host have different names, and the rest of the address, which may be secret, is not shown.
        digest = hashlib.blake2b(url.encode(), digest_size=3).hexdigest()
        self.url, self.name = url, f"webhook {place.hostname} ({digest})"
        self._opener = urllib.request.build_opener(_NoMove)

    def send(self, line: str) -> None:
        """Post one alarm."""
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": quote(str(json.loads(line)["id"])),
            "User-Agent": "icvi-watch",
        }
        request = urllib.request.Request(self.url, line.encode(), headers, method="POST")
        with self._opener.open(request, timeout=TIMEOUT) as answer:
            answer.read(1)

    def close(self) -> None:
        """Nothing is open."""


class _NoMove(urllib.request.HTTPRedirectHandler):
    """Refuses redirections: the POST would become a GET, and the alarm would be lost."""

    def redirect_request(self, *_: object) -> None:
        """Nowhere."""


class Sender:
    """A thread that sends the alarms that wait in the stores.

    Parameters
    ----------
    receiver : where to send alarms.
    stores : returns the present stores.
    mutes : nodes whose alarms are not sent.
    """

    def __init__(self, receiver: Receiver, stores: Callable[[], Iterable[Store]], mutes: Mutes | None = None):
        self.receiver, self._stores, self._mutes = receiver, stores, mutes or Mutes()
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
            except Exception as error:  # any error: this thread must not end while alarms wait
                self.failed += 1
                why = str(error) or type(error).__name__
                self._complaints.say(f"{self.receiver.name}: {why}; alarms wait and are sent again")
                pause = FIRST if self.sent > before else pause  # some alarms arrived: no need to wait for long
                self._stop.wait(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST)
                continue
            if not busy:
                self._stop.wait(IDLE)

    def _pass_on(self) -> bool:
        """Send the alarms that wait, and mark each one that has arrived; returns whether there were any."""
        busy = False
        for store in list(self._stores()):
            for alarm in store.waiting(self.receiver.name, 100):
                if self._stop.is_set():
                    return False
                if json.loads(alarm.line)["node"] not in self._mutes.names:
                    self.receiver.send(alarm.line)
                    self.sent += 1
                store.mark(self.receiver.name, alarm.number)
                busy = True
        return busy

    def close(self, patience: float = 5.0) -> None:
        """End the thread; alarms that are not sent wait for the next start."""
        self._stop.set()
        self._thread.join(patience + TIMEOUT)
        self.receiver.close()


def receivers(webhooks: Sequence[str], mqtt: tuple[str, str] | None, kafka: tuple[str, str] | None) -> list[Receiver]:
    """The receivers that the options name."""
    found: list[Receiver] = [Webhook(url) for url in dict.fromkeys(webhooks)]
    if mqtt:
        from icvi_jax.watch.mqtt import Publisher

        found.append(Publisher(*mqtt))
    if kafka:
        from icvi_jax.watch.kafka import Topic

        found.append(Topic(*kafka))
    for receiver in found:
        say(f"alarms also go to {receiver.name}")
    return found
