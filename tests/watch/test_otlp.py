"""OpenTelemetry: what a receiver of OTLP gets, read with the official schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from test_plugs import alarm
from watching import COMMAND, PATIENCE, lines, samples, until

from icvi_jax.cli import main
from icvi_jax.watch import retry
from icvi_jax.watch.journal import Store
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.sinks import Refusal

NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


def test_without_the_package_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith("opentelemetry.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["watch", "-k", "2", "--otlp", "http://127.0.0.1:4318"]) == 2
    assert "pip install 'icvi-jax[otlp]'" in capsys.readouterr().err.splitlines()[-1]


class Receiver:
    """A receiver of OTLP over HTTP; it answers `status`, or for one path another one."""

    def __init__(self):
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        kinds = {"/v1/logs": ExportLogsServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
        outer = self
        self.got, self.tried, self.status, self.headers = {path: [] for path in kinds}, [], {}, []

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.tried.append(self.path)
                status = outer.status.get(self.path, 200)
                if status == 200:
                    outer.got[self.path].append(kinds[self.path].FromString(body))
                    outer.headers.append(dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.server.daemon_threads = True  # exporters keep connections open
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def events(self):
        return [
            (attributes(of.resource.attributes), record)
            for request in list(self.got["/v1/logs"])
            for of in request.resource_logs
            for scope in of.scope_logs
            for record in scope.log_records
        ]

    @property
    def metrics(self):
        """The metrics of the last export, by name."""
        (of,) = self.got["/v1/metrics"][-1].resource_metrics
        assert attributes(of.resource.attributes)["service.name"] == "icvi"
        return {metric.name: metric for scope in of.scope_metrics for metric in scope.metrics}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def points(metric):
    """Values by attributes."""
    data = metric.sum if metric.HasField("sum") else metric.gauge
    return {tuple(attributes(p.attributes).values()): p.as_double or float(p.as_int) for p in data.data_points}


@pytest.fixture
def receiver():
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the exporter of OTLP is not installed")
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def plug(receiver, monkeypatch):
    """Makes sinks for the receiver, and closes them."""
    from icvi_jax.watch.otlp import Otlp

    monkeypatch.setattr("icvi_jax.watch.otlp.TIMEOUT", 0.5)  # no time to try again: the sender does
    made = []

    def make(fleet=None, **env):
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        made.append(Otlp(receiver.url, fleet or a_fleet(), 2))
        return made[-1]

    yield make
    for one in made:
        one.close()


def a_fleet():
    shard = SimpleNamespace(
        rows={"a": 0, "b": 1, "c": 2}, score=np.array([1.0, 4, 2]), standing=np.array([0, 1, 0], bool)
    )
    return SimpleNamespace(shards=[shard], samples=30, alarms=4, bad=3, old=2, refused=1)


def test_an_alarm_is_an_event(plug, receiver):
    one = plug(OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test,service.name=pumps")
    one.send(alarm(cause="bar"))
    one.send(alarm("recovered", number=2, at=17))
    (resource, event), (_, over) = receiver.events
    assert resource["service.name"] == "pumps" and resource["deployment.environment.name"] == "test"
    assert {"service.instance.id", "host.name", "telemetry.sdk.name"} <= set(resource)
    assert event.event_name == "icvi.node.alarm" and NAME.fullmatch(event.event_name)
    assert event.body.string_value == "at 2026-11-17 10:20 spike"
    assert (event.severity_text, event.severity_number, over.severity_text) == ("WARN", 13, "INFO")
    assert event.time_unix_nano == 1794910810 * 10**9 and over.time_unix_nano == 0  # 17 is no date
    assert abs(event.observed_time_unix_nano / 1e9 - time.time()) < 60
    found = attributes(event.attributes)
    assert found == {
        "icvi.alarm.id": "w-roof-1-xb",
        "icvi.node.name": "roof",
        "icvi.alarm.type": "spike",
        "icvi.alarm.monitor": "xb",
        "icvi.alarm.column": "bar",
        "icvi.alarm.score": 1.5,
        "icvi.alarm.reason": "spike",
    }
    assert all(NAME.fullmatch(name) for name in found)


def test_metrics_are_those_of_prometheus_under_names_of_opentelemetry(plug, receiver, require):
    require("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    from icvi_jax.watch.metrics import exposition

    plug().beat(set())
    found = receiver.metrics
    assert all(NAME.fullmatch(name) and re.fullmatch(r"\{[a-z]+\}", metric.unit) for name, metric in found.items())
    nodes = found.pop("icvi.node.count")
    assert points(nodes) == {("fine",): 2.0, ("distress",): 1.0} and not nodes.sum.is_monotonic
    assert [attributes(p.attributes) for p in nodes.sum.data_points][0] == {"icvi.node.state": "fine"}
    theirs = {}
    for family in text_string_to_metric_families(exposition(a_fleet(), 2).decode()):
        theirs[family.name] = {tuple(sample.labels.values()): sample.value for sample in family.samples}
    assert theirs.pop("icvi_nodes") == {(): 3.0} and theirs.pop("icvi_distressed_nodes") == {(): 1.0}
    assert set(theirs) == {name.replace(".", "_") for name in found}
    for name, metric in found.items():
        counts = metric.HasField("sum")
        assert not counts or (metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2)  # cumulative
        ours = {tuple(f"{v:g}" if isinstance(v, float) else str(v) for v in k): x for k, x in points(metric).items()}
        expected = {tuple(sorted(key)): value for key, value in theirs[name.replace(".", "_")].items()}
        assert {tuple(sorted(key)): value for key, value in ours.items()} == expected, name


def test_a_receiver_that_is_down_gets_all_later_and_nobody_waits(plug, receiver, monkeypatch):
    monkeypatch.setattr(retry, "FIRST", 0.01)
    monkeypatch.setattr(retry, "LONGEST", 0.02)
    receiver.status = {"/v1/logs": 503, "/v1/metrics": 503}
    one = plug(OTEL_METRIC_EXPORT_INTERVAL="100")
    store = Store(sinks=[one.name])
    sender = Sender(one, lambda: [store]).start()
    begun = time.monotonic()
    store.add(1, [(f"a{n}", alarm(number=n)) for n in range(5)])
    assert time.monotonic() - begun < 5  # the watch only stores
    until(lambda: sender.failed >= 2, "attempts")
    assert store.left(one.name) == 5 and not receiver.events
    receiver.status = {}
    until(lambda: store.left(one.name) == 0 and receiver.got["/v1/metrics"], "all alarms, and metrics")
    sender.close()
    ids = [attributes(event.attributes)["icvi.alarm.id"] for _, event in receiver.events]
    assert ids == [f"w-roof-{n}-xb" for n in range(5)]
    store.close()


def test_a_refusal_is_told_from_silence_and_metrics_that_nobody_wants_stop_no_alarm(plug, receiver, capsys):
    receiver.status = {"/v1/metrics": 404}
    one = plug(OTEL_METRIC_EXPORT_INTERVAL="100")
    one.beat(set())
    time.sleep(0.15)
    one.beat(set())
    assert receiver.tried == ["/v1/metrics"] * 2 and capsys.readouterr().err.count("does not take metrics") == 1
    one.send(alarm())
    assert len(receiver.events) == 1
    receiver.status = {"/v1/logs": 400}
    with pytest.raises(Refusal, match="400"):
        one.send(alarm())
    receiver.close()
    with pytest.raises(OSError) as error:
        one.send(alarm())
    assert not isinstance(error.value, Refusal) and "\n" not in str(error.value)


def test_one_kind_can_be_left_out(plug, receiver):
    one = plug(OTEL_LOGS_EXPORTER="none", OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20x")
    one.send(alarm())
    one.beat(set())
    assert receiver.tried == ["/v1/metrics"] and receiver.headers[0]["authorization"] == "Bearer x"


@pytest.mark.parametrize(
    ("url", "env", "said"),
    [
        ("collector:4318", {}, "--otlp collector:4318: expected http://"),
        ("http://c:4318/v1/metrics", {}, "expected the address without /v1/"),
        (
            "http://c:4318",
            {"OTEL_METRIC_EXPORT_INTERVAL": "1m"},
            "OTEL_METRIC_EXPORT_INTERVAL=1m: expected milliseconds",
        ),
        ("http://c:4318", {"OTEL_LOGS_EXPORTER": "console"}, "OTEL_LOGS_EXPORTER=console: expected otlp or none"),
        ("http://c:4318", {"OTEL_EXPORTER_OTLP_COMPRESSION": "zip"}, "ompression type: zip"),
    ],
)
def test_bad_settings_are_refused_at_the_start(receiver, monkeypatch, url, env, said):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    from icvi_jax.watch.otlp import Otlp

    with pytest.raises(ValueError) as error:
        Otlp(url, a_fleet())
    assert said in str(error.value) and "\n" not in str(error.value)


def test_the_command_sends_alarms_and_at_its_end_the_last_metrics(receiver):
    command = [*COMMAND, "--otlp", receiver.url]
    done = subprocess.run(command, input=lines(samples()), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    printed = [json.loads(line)["id"] for line in done.stdout.splitlines()]
    assert [attributes(event.attributes)["icvi.alarm.id"] for _, event in receiver.events] == printed != []
    assert points(receiver.metrics["icvi.samples"]) == {(): 520.0}
    assert points(receiver.metrics["icvi.worst_score"])
