"""A webhook as a receiver of alarms."""

from __future__ import annotations

import hashlib
import json
import socket
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, quote, urlsplit

from icvi_jax.watch.alarms import Record, begun_at
from icvi_jax.watch.sinks import Refusal, Sink

TIMEOUT = 10.0
LONGEST_ANSWER = 1 << 24


class Webhook(Sink):
    """A POST of the alarm's JSON, or of an envelope of CloudEvents 1.0 (structured JSON), or of a template that
    `read_template` has read; the header `Idempotency-Key` has its id. Any answer but 2xx is a failure.
    """

    def __init__(self, url: str, cloudevents: bool = False, template: object = None):
        self.cloudevents, self.template = cloudevents, template
        place = checked_url("--webhook", url)
        # Two hooks of one host have different names, and the rest of the address, which may be secret, is not shown.
        digest = hashlib.blake2b(url.encode(), digest_size=3).hexdigest()
        self.url, self.name = url, f"webhook {place.hostname} ({digest})"

    def send(self, line: str) -> None:
        alarm = json.loads(line)
        headers = {"Idempotency-Key": quote(str(alarm["id"]))}
        if self.template is not None:
            line = json.dumps(filled(self.template, alarm))
        if self.cloudevents:
            line = json.dumps(enveloped(alarm))
            headers["Content-Type"] = "application/cloudevents+json; charset=utf-8"
        post_json(self.url, line, headers)


def enveloped(alarm: Record) -> dict[str, object]:
    """An alarm in an envelope of CloudEvents: id and source together are unique, so that repeats are recognised."""
    found: dict[str, object] = {
        "specversion": "1.0",
        "id": str(alarm["id"]),
        "source": f"/icvi/{quote(socket.gethostname())}",
        "type": f"icvi.alarm.{alarm['alarm']}",
        "subject": str(alarm["node"]) or "-",
        "datacontenttype": "application/json",
        "data": alarm,
    }
    if (begun := begun_at(alarm)) is not None:
        found["time"] = datetime.fromtimestamp(begun, UTC).isoformat().replace("+00:00", "Z")
    return found


def read_template(path: str) -> object:
    """What webhooks get: JSON in whose texts `{node}`, `{text}` and other keys of an alarm are filled in."""
    try:
        template = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"--webhook-text {path}: expected a file of JSON ({error})") from None
    try:
        filled(template, defaultdict(str))
    except (ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"--webhook-text {path}: {error} in a text (write {{{{ for a brace)") from None
    return template


def filled(template: object, alarm: Mapping[str, object]) -> object:
    """A template with the values of an alarm; a key that this alarm does not have is empty.

    Examples
    --------
    >>> filled({"text": "*{node}* {text}{cause}"}, {"node": "roof", "text": "flow rose"})
    {'text': '*roof* flow rose'}
    """
    if isinstance(template, str):
        known = {name: "" if value is None else value for name, value in alarm.items()}
        return template.format_map(defaultdict(str, known))
    if isinstance(template, dict):
        return {name: filled(value, alarm) for name, value in template.items()}
    return [filled(value, alarm) for value in template] if isinstance(template, list) else template


def checked_url(option: str, url: str) -> SplitResult:
    """The parts of an address; an error that names the option if it cannot be one."""
    place = urlsplit(url)
    try:
        usable = place.port != 0  # a port that cannot be is an error
    except ValueError:
        usable = False
    if place.scheme not in ("http", "https") or not place.hostname or not usable or not url.isprintable():
        raise ValueError(f"{option} {url}: expected http://… or https://…, with a port from 1 to 65535")
    if any(map(str.isspace, url)):
        raise ValueError(f"{option} {url}: expected http://… without blanks (write them as %20)")
    return place


class _NoMove(urllib.request.HTTPRedirectHandler):
    """Refuses redirections: the POST would become a GET, and the alarm would be lost."""

    def redirect_request(self, *_: object) -> None:
        """Nowhere."""


OPENER = urllib.request.build_opener(_NoMove)


def post_json(url: str, text: str, headers: Mapping[str, str] | None = None) -> None:
    """Post a text of JSON; raises `Refusal` for any answer but 2xx."""
    _answer(urllib.request.Request(url, text.encode(), {"Content-Type": "application/json", **(headers or {})}), 0)


def get_json(url: str) -> Any:
    """What an address answers, read as JSON."""
    return json.loads(_answer(urllib.request.Request(url)))


def _answer(request: urllib.request.Request, most: int = LONGEST_ANSWER) -> bytes:
    """At most so many bytes of an answer: a receiver may keep the connection open behind what it says."""
    request.add_header("User-Agent", "icvi-watch")
    try:
        with OPENER.open(request, timeout=TIMEOUT) as answer:
            return bytes(answer.read(most))
    except HTTPError as error:
        error.close()  # it holds the connection
        raise Refusal(str(error)) from None
