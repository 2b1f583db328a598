"""A webhook as a receiver of alarms."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

TIMEOUT = 10.0


class Refusal(OSError):
    """The receiver has answered that it does not take this alarm."""


class Webhook:
    """A POST of the alarm's JSON; the header `Idempotency-Key` has its id. Any answer but 2xx is a failure."""

    def __init__(self, url: str):
        place = urlsplit(url)
        try:
            usable = place.port != 0  # a port that cannot be is an error
        except ValueError:
            usable = False
        if place.scheme not in ("http", "https") or not place.hostname or not usable or not url.isprintable():
            raise ValueError(f"--webhook {url}: expected http://… or https://…, with a port from 1 to 65535")
        if any(map(str.isspace, url)):
            raise ValueError(f"--webhook {url}: expected http://… without blanks (write them as %20)")
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
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                answer.read(1)
        except HTTPError as error:
            error.close()  # it holds the connection
            raise Refusal(str(error)) from None

    def close(self) -> None:
        """Nothing is open."""


class _NoMove(urllib.request.HTTPRedirectHandler):
    """Refuses redirections: the POST would become a GET, and the alarm would be lost."""

    def redirect_request(self, *_: object) -> None:
        """Nowhere."""
