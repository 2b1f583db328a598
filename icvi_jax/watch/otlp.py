"""OpenTelemetry: metrics of the fleet, and alarms as events, to whatever takes OTLP over HTTP.

The metrics are those for Prometheus, under names by OpenTelemetry's conventions. They are sent once a minute and are
cumulative, so that the next ones make good what was lost. An alarm is a log record with an event name; it is sent by
itself, and waits until the receiver has it, as with every receiver. Headers, certificates, compression and attributes
of the resource come from the environment, as with every program that uses OpenTelemetry.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator, Set
from importlib import metadata
from typing import TYPE_CHECKING

from icvi_jax.terminal_text import say
from icvi_jax.watch.alarms import Record, begun_at
from icvi_jax.watch.metrics import COUNTERS, LEVELS, WORST, fleet_scores
from icvi_jax.watch.sinks import Refusal, Sink
from icvi_jax.watch.webhook import checked_url

if TYPE_CHECKING:
    from opentelemetry._logs import LogRecord
    from opentelemetry.sdk.metrics.export import Metric

    from icvi_jax.watch.loop import WatchLoop

TIMEOUT = 5.0
"""Seconds for one export with its repetitions."""
INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
RENAMED = {"alarm": "icvi.alarm.type", "index": "icvi.alarm.monitor", "cause": "icvi.alarm.column"}
RENAMED |= {"node": "icvi.node.name"}
Attributes = dict[str, str | int | float]


class Otlp(Sink):
    """A receiver of OTLP: metrics go to ``/v1/metrics`` at its address, alarms to ``/v1/logs``; each of the `worst`
    nodes has its own data point."""

    def __init__(self, url: str, watch: WatchLoop, worst: int = 10):
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        place = checked_url("--otlp", url)
        if re.search(r"/v1/(metrics|logs|traces)/*$", place.path) or place.query or place.fragment:
            raise ValueError(f"--otlp {url}: expected the address without /v1/…, such as http://collector:4318")
        self.name, self.watch, self.worst = f"OTLP {place.hostname}", watch, worst
        self.every, self._due, self._said = _interval(), 0.0, False
        self._began, self._logger = time.time_ns(), logging.getLogger("opentelemetry")
        self._heard = _LastError()
        self._logger.addHandler(self._heard)
        self._logger.propagate = False  # the sender reports what goes wrong, once
        base = url.rstrip("/")
        self._logs = OTLPLogExporter(f"{base}/v1/logs", timeout=TIMEOUT) if _is_wanted("LOGS") else None
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics", timeout=TIMEOUT) if _is_wanted("METRICS") else None
        version = _version()
        known = {"service.name": "icvi", "service.instance.id": str(uuid.uuid4()), "host.name": socket.gethostname()}
        known |= {"service.version": version} if version else {}
        self.resource = Resource.create(known).merge(OTELResourceDetector().detect())  # what the user says wins
        self.scope = InstrumentationScope("icvi_jax.watch", version)
        if self._heard.last:
            raise ValueError(f"--otlp: {self._heard.last}")  # a setting in the environment that makes no sense

    def send(self, line: str) -> None:
        if self._logs is not None:
            from opentelemetry.sdk._logs import ReadableLogRecord

            record = ReadableLogRecord(event_of(json.loads(line)), self.resource, self.scope)
            self._check(self._logs.export([record]).name)

    def beat(self, muted: Set[str]) -> None:
        if self._metrics is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self.every
        try:
            self._export()
        except Refusal as error:  # it is there, and takes alarms: they need not wait for the metrics
            if not self._said:
                self._said = True
                say(f"{self.name}: does not take metrics ({error}); OTEL_METRICS_EXPORTER=none sends none")

    def _export(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics

        if self._metrics is not None:
            found = ScopeMetrics(self.scope, list(metrics_of(self.watch, self.worst, self._began)), "")
            data = MetricsData([ResourceMetrics(self.resource, [found], "")])
            self._check(self._metrics.export(data).name)

    def _check(self, result: str) -> None:
        if result != "SUCCESS":
            answered = re.search(r"code: \d", self._heard.last)
            raise (Refusal if answered else OSError)(self._heard.last or "the receiver does not answer")
        self._heard.last = ""

    def close(self) -> None:
        """Send the last metrics, if the receiver took the ones before, and close connections."""
        if self._due and not self._heard.last:
            try:
                self._export()
            except OSError as error:
                say(f"{self.name}: {error}; the last metrics are lost")
        for exporter in (self._logs, self._metrics):
            if exporter is not None:
                exporter.shutdown()
        self._logger.removeHandler(self._heard)
        self._logger.propagate = True


def event_of(alarm: Record) -> LogRecord:
    """An alarm as an event: its sentence is the body, the other keys are attributes.

    Its name is `icvi.node.alarm`. It is a warning, and when it tells that a node has recovered, information.
    """
    from opentelemetry._logs import LogRecord, SeverityNumber

    attributes: Attributes = {}
    for name, value in alarm.items():
        if value is not None and name not in ("text", "time"):
            plain = isinstance(value, str | int | float)
            attributes[RENAMED.get(name, f"icvi.alarm.{name}")] = value if plain else json.dumps(value)
    begun = begun_at(alarm)
    severity = SeverityNumber.INFO if alarm["alarm"] == "recovered" else SeverityNumber.WARN
    return LogRecord(
        timestamp=round(begun * 1e9) if begun else None,
        observed_timestamp=time.time_ns(),
        severity_number=severity,
        severity_text=severity.name,
        body=str(alarm.get("text") or alarm.get("reason")),
        attributes=attributes,
        event_name="icvi.node.alarm",
    )


def metrics_of(fleet: WatchLoop, worst: int, began: int) -> Iterator[Metric]:
    """The metrics of a fleet now; `began` is when its counters did, in nanoseconds since 1970."""
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum

    now, scores = time.time_ns(), fleet_scores(fleet, worst)

    def point(value: float, **attributes: str | int | float) -> NumberDataPoint:
        named = {f"icvi.{name.replace('__', '.')}": one for name, one in attributes.items()}
        return NumberDataPoint(named, began, now, value)

    states = {"fine": scores.nodes - scores.distressed, "distress": scores.distressed}
    nodes = [point(count, node__state=state) for state, count in states.items()]
    cumulative = AggregationTemporality.CUMULATIVE
    yield Metric("icvi.node.count", "Nodes so far", "{node}", Sum(nodes, cumulative, is_monotonic=False))
    for field, name, about, unit in COUNTERS:
        counted = Sum([point(getattr(fleet, field))], cumulative, is_monotonic=True)
        yield Metric(f"icvi.{name}", about, f"{{{unit}}}", counted)
    levels = [point(level, share=share) for share, level in scores.levels.items()]
    yield Metric("icvi.score", LEVELS, "{score}", Gauge(levels))
    each = [point(score, node__name=name, node__rank=rank) for rank, name, score in scores.worst]
    yield Metric("icvi.worst_score", WORST, "{score}", Gauge(each))


class _LastError(logging.Handler):
    """Keeps the last complaint of the SDK: its exporters return that they failed, and log why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it; that it has given up tells less than why it tried again."""
        text = record.getMessage()
        if "due to timeout" not in text or not self.last.startswith("Transient"):
            self.last = text


def _is_wanted(name: str) -> bool:
    kind = os.environ.get(f"OTEL_{name}_EXPORTER", "otlp")
    if kind not in ("otlp", "none"):
        raise ValueError(f"OTEL_{name}_EXPORTER={kind}: expected otlp or none")
    return kind == "otlp"


def _interval() -> float:
    given = os.environ.get(INTERVAL, "60000")
    if not given.isdecimal() or not 100 <= int(given) <= 86_400_000:
        raise ValueError(f"{INTERVAL}={given}: expected milliseconds, from 100 to 86400000")
    return int(given) / 1000


def _version() -> str | None:
    try:
        return metadata.version("icvi-jax")
    except metadata.PackageNotFoundError:  # a checkout
        return None
