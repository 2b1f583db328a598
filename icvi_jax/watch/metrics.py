"""Metrics for Prometheus: of the fleet and of its worst nodes, never one label for every node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from icvi_jax.watch.shard import Shard

if TYPE_CHECKING:
    from prometheus_client import Metric


class Fleet(Protocol):
    """Where the metrics come from."""

    @property
    def shards(self) -> list[Shard]: ...
    @property
    def samples(self) -> int: ...
    @property
    def alarms(self) -> int: ...
    @property
    def bad(self) -> int: ...
    @property
    def old(self) -> int: ...


class Metrics:
    """The metrics of the watch at the moment of a scrape.

    Parameters
    ----------
    watch
        The live fleet.
    worst
        How many of the worst nodes have their own line.
    """

    def __init__(self, watch: Fleet, worst: int):
        self.watch, self.worst = watch, worst

    def collect(self) -> Iterator[Metric]:
        """Make the metrics; called by the client library."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        watch, shards = self.watch, self.watch.shards
        names = [name for shard in shards for name in list(shard.rows)]
        score = np.concatenate([np.zeros(0), *(shard.score for shard in shards)])
        standing = np.concatenate([np.zeros(0, bool), *(shard.standing for shard in shards)])
        yield GaugeMetricFamily("icvi_nodes", "Nodes so far", len(names))
        yield CounterMetricFamily("icvi_samples", "Samples counted", watch.samples)
        yield CounterMetricFamily("icvi_alarms", "Alarms raised", watch.alarms)
        yield CounterMetricFamily("icvi_bad_lines", "Lines that were not valid samples", watch.bad)
        yield CounterMetricFamily(
            "icvi_old_samples", "Samples skipped: not later than the last one of their node", watch.old
        )
        yield GaugeMetricFamily("icvi_distressed_nodes", "Nodes in distress now", int(standing.sum()))
        levels = GaugeMetricFamily("icvi_score", "Distress score over all nodes", labels=["quantile"])
        for quantile in (0.5, 0.9, 0.99, 1.0):
            levels.add_metric([f"{quantile:g}"], float(np.quantile(score, quantile)) if score.size else 0.0)
        yield levels
        worst = GaugeMetricFamily("icvi_worst_score", "Distress score of the worst nodes", labels=["rank", "node"])
        for rank, row in enumerate(np.argsort(-score, kind="stable")[: self.worst], 1):
            if row < len(names):  # a new node has no score yet
                worst.add_metric([str(rank), names[row]], float(score[row]))
        yield worst


def exposition(fleet: Fleet, worst: int) -> bytes:
    """The metrics in the text format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics(fleet, worst))
    return generate_latest(registry)


@contextmanager
def serving(watch: Fleet, port: int | None, address: str, worst: int) -> Iterator[int | None]:
    """Serve metrics during the `with`, and yield the port; nothing if `port` is None."""
    if port is None:
        yield None
        return
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics(watch, worst))
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise ValueError(f"--prometheus {port}: cannot listen on {address} ({error.strerror})") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
