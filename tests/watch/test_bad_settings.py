"""Every plug refuses a setting that makes no sense: at the start, in one line that names the option."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from icvi_jax.cli import main

KAFKA = ["--kafka", "b:9092", "--topic", "t"]
HOOK = ["--webhook", "http://h/"]
BAD = [
    (["--mqtt", "broker:99999", "t"], "--mqtt broker:99999: expected host"),
    (["--mqtt", "http://b", "t"], "--mqtt http://b: expected host"),
    (["--mqtt", "", "t"], "none of them empty"),
    (["--mqtt", "b", ""], "none of them empty"),
    (["--mqtt", "b", "site/#/x"], "--mqtt b site/#/x: + stands"),
    (["--mqtt", "b", "a+/b"], "--mqtt b a+/b: + stands"),
    (["--node", "site/+/state"], "--node site/+/state: a pattern of topics needs --mqtt"),
    (["--kafka", "b:9092"], "--kafka: name the topic"),
    (KAFKA, "--kafka: needs --checkpoint"),
    ([*KAFKA, "--group", ""], "none of them empty"),
    ([*KAFKA, "--mqtt", "b", "t"], "--kafka and --mqtt: give only one"),
    (["--topic", "t"], "--topic t: needs the address"),
    (["--group", "g"], "--group g: needs the address"),
    (["--columns", ""], "--columns: the name of a column is empty"),
    (["--nodes", "0"], "--nodes 0: expected 1 or more"),
    (["--most-nodes", "-1"], "--most-nodes -1: expected a number"),
    (["--late", "-1"], "--late -1: expected seconds"),
    (["--late", "inf"], "--late inf: expected seconds"),
    (["--silent-after", "nan"], "--silent-after nan: expected seconds"),
    (["--interval", "-1"], "--interval -1: expected the seconds"),
    (["--agree", "0"], "--agree 0: expected 1 node"),
    (["--false-alarms", "2"], "--false-alarms 2: that is an alarm every"),
    (["--checkpoint", "{file}"], "{file}: is a file, expected a folder"),
    (["--serve", "localhost"], "--serve localhost: expected HOST:PORT"),
    (["--serve", "127.0.0.1:99999"], "--serve 127.0.0.1:99999: expected HOST:PORT"),
    (["--history", "1"], "--history 1: expected 2 samples"),
    (["--webhook", "ftp://x"], "--webhook ftp://x: expected http://"),
    (["--webhook", "http://h:0/"], "with a port from 1 to 65535"),
    (["--cloudevents"], "--cloudevents: needs --webhook URL"),
    (["--webhook-text", "{file}"], "--webhook-text: needs --webhook URL"),
    ([*HOOK, "--webhook-text", "{file}"], "expected a file of JSON"),
    ([*HOOK, "--webhook-text", "/nowhere"], "No such file"),
    ([*HOOK, "--webhook-text", "{file}", "--cloudevents"], "give only one of them"),
    (["--alertmanager", "alerts:9093"], "--alertmanager alerts:9093: expected http://"),
    (["--alertmanager", "http://a/?q=1"], "expected an address without ? and #"),
    (["--alertmanager", "http://a", "--resend", "nan"], "--resend nan: expected seconds, from 0.1"),
    (["--resend", "5"], "--resend 5: needs --alertmanager URL"),
    (["--home-assistant"], "--home-assistant: needs a broker"),
    (["--otlp", "collector:4318"], "--otlp collector:4318: expected http://"),
    (["--otlp", "http://c/v1/logs"], "expected the address without /v1/"),
    (["--alarms-mqtt", "b:99999", "t"], "--alarms-mqtt b:99999: expected host"),
    (["--alarms-mqtt", "b", "t/#"], "--alarms-mqtt b t/#: expected a topic without wildcards"),
    (["--alarms-mqtt", "b", ""], "none of them empty"),
    (["--alarms-kafka", "", "t"], "none of them empty"),
    (["--prometheus", "99999"], "--prometheus 99999: cannot listen"),
    (["--prometheus", "0", "--prometheus-address", "no.such.invalid"], "cannot listen on no.such.invalid"),
    (["--worst", "-1"], "--worst -1: expected a number"),
]
NEEDED = {"--mqtt": "paho", "--alarms-mqtt": "paho", "--otlp": "opentelemetry", "--serve": "uvicorn"}


@pytest.mark.parametrize(("options", "said"), BAD, ids=lambda part: "" if isinstance(part, str) else " ".join(part))
def test_bad_settings_are_refused_at_the_start_in_one_line(options, said, tmp_path, capsys, require, monkeypatch):
    if (package := NEEDED.get(options[0])) is not None:
        require(package)
    file = tmp_path / "file"
    file.write_text("{")
    options = [str(file) if option == "{file}" else option for option in options]
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(["watch", "-k", "2", *options]) == 2
    out, err = capsys.readouterr()
    told = [line for line in err.splitlines() if not line.startswith("icvi: to expect: ")]
    assert len(told) == 1 and said.replace("{file}", str(file)) in told[0] and not out
