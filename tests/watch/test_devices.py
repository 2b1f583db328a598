"""What devices send: every row of the table in the documentation is read as it says."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from icvi_jax.watch.device_formats import line_protocol
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.mqtt import message_of
from icvi_jax.watch.sparkplug import Births

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "devices.md"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| [A-Zt].*`", line)]


def test_the_table_is_found():
    assert len(ROWS) == 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].split(",")[0] + row[0][-8:-1])
def test_a_row_of_the_table(row):
    form, line, told = row
    lines = [(text.encode(), "") for text in re.findall(r"`([^`]+)`", line)]
    pattern = re.search(r"--node '(.*)'", form)
    if pattern:
        topic, _, text = lines[0][0].decode().partition(" ")
        lines = [(text.encode(), topic)]
    if form == "Sparkplug B":
        topic, _, digits = lines[0][0].decode().partition(" ")
        arrival = SimpleNamespace(topic=topic, payload=bytes.fromhex(digits), mid=1, qos=1, dup=False, retain=False)
        message = message_of(arrival, births=Births())
        lines = [(one, message.node) for one in message.lines]
    reader = Reader(node=pattern[1] if pattern else "node")
    found = [[sample.node, sample.time, list(sample.x)] for sample in reader.samples(lines)]
    assert found == json.loads(told.strip("`")) and not reader.bad


# Written with the official schema (the generated code in pysparkplug 0.6.1)
BIRTH = "0880d095ffbc3112120a0763656c7369757310012009650000a44112110a05666c6f6f721002200350feffffff0f1801"
DATA = "08e8d795ffbc31120910012009650000ac4112061004200a38011801"
TWO_TIMES = "08b8e795ffbc311212100118dcdb95ffbc3120092801650000803f1210100118c4e395ffbc31200965000000401801"


def test_sparkplug_names_by_number_keeps_what_did_not_change_and_asks_for_births():
    asked = []
    births = Births(lambda topic, payload: asked.append((topic, payload)))

    def told(kind, digits):
        return [json.loads(line) for line in births.lines_of(f"spBv1.0/g/{kind}/e/d", bytes.fromhex(digits))]

    assert told("DDATA", DATA) == [] and told("DDATA", DATA) == []
    assert [topic for topic, _ in asked] == ["spBv1.0/g/NCMD/e"] and b"Node Control/Rebirth" in asked[0][1]
    assert told("DBIRTH", BIRTH)[0] == {"node": "g/e/d", "time": 1700000000000, "celsius": 20.5, "floor": -2.0}
    assert told("DDATA", DATA)[0] == {"node": "g/e/d", "time": 1700000001000, "celsius": 21.5, "floor": -2.0}
    assert [(one["time"], one["celsius"]) for one in told("DDATA", TWO_TIMES)] == [
        (1700000001500, 1.0),
        (1700000002500, 2.0),
    ]
    assert told("DDEATH", DATA) == [] and told("STATE", "00") == []
    reader = Reader()
    bad = [births.lines_of("spBv1.0/g/DDATA/e/d", bytes.fromhex(BIRTH)[:cut]) for cut in range(2, 46)]
    assert reader.samples((line, "") for lines in bad for line in lines) is not None  # nothing stops it


def test_arrays_of_different_lengths_and_texts_are_bad_lines():
    reader = Reader()
    lines = ['{"node": "a", "time": [1, 2], "v": [3]}', "[1, 2]", '["a"]', "[[[[[[[[[[1]]]]]]]]]]", '{"v": {}}']
    assert reader.samples((line.encode(), "") for line in lines) == [] and reader.bad == len(lines)
    assert reader.samples([(b'{"node": "a", "time": 1, "v": 3}', "")])[0].x == (3.0,)


def test_line_protocol_has_escapes_and_is_not_taken_for_csv():
    found = line_protocol(r"my\ air,room=a\,b,floor=2 deg\ C=-2e1,n=4u 5000")
    assert found == {"deg C": -20.0, "n": 4.0, "node": "a,b/2", "time": 5}
    for text in ("time;node;v", "a b", "1,2,3", "celsius=3", "a b=c d", ""):
        found = line_protocol(text)
        assert found is None, text
    many = Reader()
    assert many.read("t,device=x v=1 1000").node == "x" and many.read("t,device=y v=2 2000").x == (2.0,)
    with pytest.raises(ValueError, match="not JSON"):
        many.read("nonsense")
    assert math.isnan(Reader().read('{"node": "a", "v": {"x": 1, "y": null}, "w": 2}').x[0]) is False


def test_a_pattern_that_no_topic_can_fit_is_refused():
    for pattern in ("site/a+/x", "#/x", "site/+x"):
        with pytest.raises(ValueError, match="--node"):
            Reader(node=pattern)
