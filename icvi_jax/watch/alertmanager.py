"""Alarms to a Prometheus Alertmanager: fired, sent again while they stand, resolved when they are over.

An alarm of an index stands until its monitor says that it has recovered; an alarm of a column has no end of its own and
stands for ten minutes. What stands is sent again every minute with an end some minutes ahead, as Prometheus does: if
this watch dies, its alarms end by themselves. Silences of the Alertmanager also stop what goes to other receivers.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import time
from collections.abc import Collection, Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from icvi_jax.checkpoint import container
from icvi_jax.watch.alarms import Record, begun_at
from icvi_jax.watch.sinks import Sink
from icvi_jax.watch.webhook import checked_url, get_json, post_json

RESEND = 60.0
"""Seconds between two times that a standing alarm is sent."""
GRACE = 4
"""An alarm that is not sent again ends after so many times that."""
EVENT_SECONDS = 600.0
"""How long an alarm without an end of its own stands."""
MOST_AT_ONCE = 500
Alert = dict[str, Any]


class Alertmanager(Sink):
    """An Alertmanager as a receiver of alarms (`POST /api/v2/alerts`).

    Parameters
    ----------
    url : its address, such as ``http://alerts:9093``.
    ending : names of the monitors that say when an alarm is over.
    page : address of the live page, for links back; empty: none.
    folder : where standing alarms are kept over a restart, or None.
    resend : seconds between two times that a standing alarm is sent.
    instance : the label of that name; default the name of this machine.
    """

    def __init__(
        self,
        url: str,
        ending: Collection[str] = (),
        page: str = "",
        folder: Path | None = None,
        resend: float = RESEND,
        instance: str = "",
    ):
        place = checked_url("--alertmanager", url)
        if place.query or place.fragment:
            raise ValueError(f"--alertmanager {url}: expected an address without ? and #")
        if not 0.1 <= resend <= 3600:
            raise ValueError(f"--resend {resend:g}: expected seconds, from 0.1 to 3600")
        self.url = url.rstrip("/") + "/api/v2/"
        digest = hashlib.blake2b(url.encode(), digest_size=3).hexdigest()
        self.name = f"Alertmanager {place.hostname} ({digest})"
        self.ending, self.page, self.resend = frozenset(ending), page, resend
        self.instance = instance or socket.gethostname()
        self._path = folder / f"standing-{digest}.json" if folder else None
        self.standing: dict[str, Alert] = self._kept()  # the alerts that are not over, by the text of their labels
        self._silences: list[list[Mapping[str, object]]] = []
        self._due = 0.0  # at once: what stood before a restart

    def send(self, line: str) -> None:
        alert = self.alert_of(json.loads(line))
        key = json.dumps(alert["labels"], sort_keys=True)
        known = self.standing.get(key)
        if known is not None:
            alert["startsAt"] = known["startsAt"]  # a spike that becomes distress is one alert
        self._post([alert])
        if alert["until"] <= time.time():
            self.standing.pop(key, None)
        else:
            self.standing[key] = alert
        self._keep()

    def alert_of(self, record: Record) -> Alert:
        """The alert that an alarm is: what identifies it is in the labels, all else in the annotations.

        `until` is when it is over by itself, in seconds since 1970; it is not sent.
        """
        now = time.time()
        monitor, word = str(record.get("index") or record["alarm"]), str(record["alarm"])
        labels = {"alertname": "icvi", "node": str(record["node"]), "monitor": monitor, "instance": self.instance}
        if record.get("cause"):
            labels["column"] = str(record["cause"])
        told = {name: record.get(name) for name in ("alarm", "text", "id", "score", "value", "from", "to", "nodes")}
        annotations = {name: str(value) for name, value in told.items() if value is not None}
        annotations["summary"] = f"{record['node']}: {record.get('text') or record.get('reason')}"
        begun = min(begun_at(record) or now, now)  # a time that is no date, or of a clock that is wrong
        until = now if word == "recovered" else now + EVENT_SECONDS if monitor not in self.ending else float("inf")
        alert: Alert = {"labels": labels, "annotations": annotations, "startsAt": _stamp(begun), "until": until}
        if self.page:
            alert["generatorURL"] = f"{self.page}#{record['node']}"
        return alert

    def _post(self, alerts: list[Alert]) -> None:
        now = time.time()
        for first in range(0, len(alerts), MOST_AT_ONCE):
            body = [alert.copy() for alert in alerts[first : first + MOST_AT_ONCE]]
            for alert in body:
                alert["endsAt"] = _stamp(min(alert.pop("until"), now + GRACE * self.resend))
            post_json(self.url + "alerts", json.dumps(body))

    def beat(self, muted: Set[str]) -> None:
        """Send again what stands, if it is time; alarms of muted nodes and those without an end of their own are over
        after their time. Then ask for silences."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self.resend
        now = time.time()
        for alert in self.standing.values():
            if alert["labels"]["node"] in muted:
                alert["until"] = now
        if self.standing:
            self._post(list(self.standing.values()))
            left = {key: alert for key, alert in self.standing.items() if alert["until"] > now}
            if len(left) < len(self.standing):
                self.standing = left
                self._keep()
        found = get_json(self.url + "silences")
        self._silences = [
            silence["matchers"] for silence in found if silence.get("status", {}).get("state") == "active"
        ]

    def silenced(self, record: Record) -> bool:
        """Whether somebody has silenced this alarm there."""
        labels = self.alert_of(record)["labels"]
        return any(all(_matches(one, labels) for one in matchers) for matchers in self._silences if matchers)

    def _kept(self) -> dict[str, Alert]:
        try:
            found: dict[str, Alert] = json.loads(self._path.read_text()) if self._path else {}
        except (OSError, ValueError):
            return {}
        return found

    def _keep(self) -> None:
        if self._path is not None:
            container.make_folder(self._path.parent)
            container.write(self._path, json.dumps(self.standing).encode())


def _matches(matcher: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    """Whether labels fit a matcher of a silence; a label that is not there is empty, as in Alertmanager."""
    value, wanted = labels.get(str(matcher["name"]), ""), str(matcher["value"])
    try:
        same = bool(re.fullmatch(wanted, value)) if matcher.get("isRegex") else value == wanted
    except re.error:  # its regular expressions are those of Go
        return False
    return same == bool(matcher.get("isEqual", True))


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
