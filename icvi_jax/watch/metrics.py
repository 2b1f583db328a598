"""Metrics for Prometheus: of the fleet and of its worst nodes, never one label for every node."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from icvi_jax.terminal_text import say

if TYPE_CHECKING:
    from prometheus_client import Metric

    from icvi_jax.watch.loop import WatchLoop

COUNTERS = (
    ("samples", "samples", "Samples counted", "sample"),
    ("alarms", "alarms", "Alarms raised", "alarm"),
    ("bad", "bad_lines", "Lines that were not valid samples", "line"),
    ("old", "old_samples", "Samples skipped: not later than the last one of their node", "sample"),
    ("refused", "refused_samples", "Samples of nodes beyond the most that there may be", "sample"),
)
"""What is counted, the name of its metric, what it says, and its unit."""
LEVELS, WORST = "Distress score that this share of nodes is within", "Distress score of the worst nodes"


class Scores(NamedTuple):
    """How many nodes there are and are in distress, the score that a share of them is within, and the worst nodes."""

    nodes: int
    distressed: int
    levels: dict[float, float]
    worst: list[tuple[int, str, float]]


def fleet_scores(watch: WatchLoop, worst: int) -> Scores:
    """The scores of a fleet now; of its `worst` nodes also rank, name and score."""
    shards = watch.shards
    names = [name for shard in shards for name in list(shard.rows)]
    score = np.concatenate([np.zeros(0), *(shard.score for shard in shards)])
    standing = np.concatenate([np.zeros(0, bool), *(shard.standing for shard in shards)])
    levels = {share: float(np.quantile(score, share)) if score.size else 0.0 for share in (0.5, 0.9, 0.99, 1.0)}
    order = enumerate(np.argsort(-score, kind="stable")[:worst], 1)
    found = [(rank, names[row], float(score[row])) for rank, row in order if row < len(names)]  # a new one has no score
    return Scores(len(names), int(standing.sum()), levels, found)


def exposition(watch: WatchLoop, worst: int) -> bytes:
    """The metrics now, in the text format of Prometheus; of the `worst` nodes each has its own line."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(watch, worst))
    return generate_latest(registry)


class Collector:
    """The metrics in the classes of the client library."""

    def __init__(self, watch: WatchLoop, worst: int):
        self.watch, self.worst = watch, worst

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        scores = fleet_scores(self.watch, self.worst)
        yield GaugeMetricFamily("icvi_nodes", "Nodes so far", scores.nodes)
        for field, name, about, _ in COUNTERS:
            yield CounterMetricFamily(f"icvi_{name}", about, getattr(self.watch, field))
        yield GaugeMetricFamily("icvi_distressed_nodes", "Nodes in distress now", scores.distressed)
        # not the label `quantile`: that is of summaries, and this is a gauge
        levels = GaugeMetricFamily("icvi_score", LEVELS, labels=["share"])
        for share, level in scores.levels.items():
            levels.add_metric([f"{share:g}"], level)
        yield levels
        worst = GaugeMetricFamily("icvi_worst_score", WORST, labels=["rank", "node"])
        for rank, name, score in scores.worst:
            worst.add_metric([str(rank), name], score)
        yield worst


@contextmanager
def serving(watch: WatchLoop, port: int, address: str, worst: int, token: str = "") -> Iterator[int]:
    """Serve metrics during the `with`, and yield the port.

    On an address that other machines can reach, a scrape needs the token: `authorization: {credentials: …}` in the
    settings of Prometheus.
    """
    if not is_loopback(address):
        token = token or secrets.token_urlsafe(16)

    class Answer(BaseHTTPRequestHandler):
        timeout = 10  # an idle connection has a thread

        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if token and not is_token(given, token):
                status, body = 401, b"needs the token that the watch printed when it started\n"
            elif urlsplit(self.path).path not in ("/", "/metrics"):
                status, body = 404, b"the metrics are at /metrics\n"
            else:
                status, body = 200, exposition(watch, worst)
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: a scrape is no news."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        def handle_error(self, *_: object) -> None:
            """Nothing: the other end has gone."""

    try:
        server = Server((address, port), Answer)
    except (OSError, OverflowError) as error:
        raise ValueError(f"--prometheus {port}: cannot listen on {address} ({error})") from None
    if token:
        say(f"metrics: http://{address}:{server.server_port}/metrics asks for the token {token}")
    thread = threading.Thread(target=server.serve_forever, name="icvi metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_token(given: str, token: str) -> bool:
    """Whether this is the token, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())
