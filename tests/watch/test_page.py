"""The live page: the answers of the server, and the page in a browser with a running watch."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress

import browser
import numpy as np
import pytest
from watching import PIPE, begun, messages, samples, taken, until

import icvi_jax as icvi
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.silences import ACKNOWLEDGED, Silences
from icvi_jax.watch.sse import ROOM, Broadcaster

EVIL = "<img src=x onerror=\"document.title='owned'\">"


def shown(items, **options):
    buffers = RingBuffers(["xb"], **options)
    watch = begun(None, buffers=buffers)
    watch.take(taken(items))
    return watch, buffers


@pytest.fixture
def served(require):
    require("starlette", "uvicorn", "prometheus_client")
    from icvi_jax.watch.server import page_served

    return page_served


def get(where, path, **headers):
    request = urllib.request.Request(where + path, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode(), answer.headers


def refusal(request):
    """Code and headers of an answer other than 200."""
    try:
        urllib.request.build_opener(NoMove).open(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers
    raise AssertionError("it was answered")


class NoMove(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def test_rings_hold_the_last_samples_and_no_more():
    items = samples()
    watch, buffers = shown(items, length=50)
    history = buffers.history("a")
    x = np.array([v for node, _, v in items if node == "a"])
    run = icvi.run(PIPE, (x - x[0])[:, None].astype(np.float32), backend="jax")
    np.testing.assert_array_equal(history.values[:, 0], np.asarray(run.readings.values["xb"])[-50:])
    np.testing.assert_array_equal(history.label, np.asarray(run.readings.label)[-50:])
    np.testing.assert_array_equal(history.x[:, 0], x[-50:])
    np.testing.assert_array_equal(history.time, np.arange(210, 260))
    before = [ring.nbytes for ring in buffers._rings]
    watch.take(taken([("a", t, 1.0) for t in range(300, 900)]))
    assert [ring.nbytes for ring in buffers._rings] == before and buffers.samples == len(items) + 600
    assert [buffers.names[row] for row in buffers.ranked()] == ["a", "b"]
    buffers.silences.set("a", True)
    assert [buffers.names[row] for row in buffers.ranked()] == ["b", "a"] and len(buffers.ranked("B")) == 1


def test_a_browser_that_stops_reading_fills_its_own_queue_and_nothing_else():
    async def scene():
        buffers, broadcaster = RingBuffers(["xb"]), Broadcaster()
        slow, quick = broadcaster.join(None), broadcaster.join(None)
        stream = broadcaster.stream(quick)
        assert "retry" in await anext(stream)
        for number in range(10 * ROOM):
            buffers.event({"node": "a", "id": str(number), "alarm": "silent"})
            broadcaster.publish({"samples": number}, buffers)
            assert slow.queue.qsize() <= ROOM
            told = json.loads((await anext(stream)).partition("data: ")[2])
            assert [event["id"] for event in told["events"]] == [str(number)]
        assert broadcaster.clients == {quick} and broadcaster.let_go == 1 and slow.queue.qsize() == 1
        assert [text async for text in broadcaster.stream(slow)] == ["retry: 2000\n\n"]

    asyncio.run(scene())


def test_what_the_server_answers(served):
    watch, buffers = shown(samples())
    with served(watch, buffers, "127.0.0.1:0") as where:
        page, headers = get(where, "")
        assert "script-src 'self'" in headers["content-security-policy"] and "unsafe" not in str(headers)
        assert "http" not in page.replace("http-equiv", "")  # nothing from anywhere else
        fleet = json.loads(get(where, "api/fleet?search=A")[0])
        assert [node["name"] for node in fleet["nodes"]] == ["a"] and fleet["found"] == 1
        assert json.loads(get(where, "health")[0])["samples"] == 520
        assert "icvi_samples_total 520.0" in get(where, "metrics")[0]
        with urllib.request.urlopen(where + "events", timeout=30) as stream:
            told = next(line for line in stream if line.startswith(b"data: "))
        assert {event["node"] for event in json.loads(told[6:])["events"]} == {"a"}
        for path, headers, code in (
            ("api/node?name=nobody", {}, 404),
            ("", {"Host": "evil.example"}, 421),
            ("api/fleet/../../etc/passwd", {}, 404),
        ):
            assert refusal(urllib.request.Request(where + path, headers=headers))[0] == code
        request = urllib.request.Request(where + "api/mute", b'{"name": "a", "muted": true}')
        assert refusal(request)[0] == 403
        request.add_header("X-Icvi", "1")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer) == {"muted": ["a"]} and buffers.silences.names == {"a"}


def test_beyond_this_machine_there_is_a_token(served, capsys):
    watch, buffers = begun(), RingBuffers(["xb"])
    with served(watch, buffers, "0.0.0.0:0") as where:
        where = where.replace("0.0.0.0", "127.0.0.1")
        token = capsys.readouterr().err.split("?token=")[1].split()[0]
        for path in ("", "api/fleet", "metrics", "events", "draw.js", "?token=wrong"):
            assert refusal(where + path)[0] == 401
        assert get(where, "metrics", Authorization=f"Bearer {token}")[0]
        code, headers = refusal(f"{where}?token={token}")  # the cookie comes with the move to the page itself
        cookie = headers["set-cookie"]
        assert code == 303 and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        assert "<title>" in get(where, "", Cookie=cookie.partition(";")[0])[0]
    with pytest.raises(ValueError, match="expected HOST:PORT"), served(watch, buffers, "8050:x"):
        pass


def test_in_a_browser(served, require):
    require(*browser.NEEDED)
    items = samples(200, ["a", EVIL, *[f"n{i}" for i in range(70)]])
    watch, buffers = shown(items[: 72 * 190], silent_after=3600)
    with served(watch, buffers, "127.0.0.1:0") as where, browser.chromium() as driver:
        driver.get(where)

        def until(script, what):
            end = time.monotonic() + 60
            while not driver.execute_script(f"return {script}"):
                assert time.monotonic() < end, what
                time.sleep(0.1)

        until("document.body.dataset.ready === 'yes' && icvi.state().fleet.nodes.length === 50", "the fleet")
        assert driver.execute_script("return document.querySelector('#rows tbody tr').dataset.name") == "a"
        driver.execute_script("document.querySelector('#rows tbody tr').click()")
        until("icvi.state().node && icvi.state().node.name === 'a'", "the node")
        watch.take(taken(items[72 * 190 :]))  # the watch goes on, and the page with it
        until("icvi.state().node.seen === 200", "what came after")
        values = driver.execute_script("return icvi.state().node.indices.xb")
        x = np.array([v for node, _, v in items if node == "a"])
        run = icvi.run(PIPE, (x - x[0])[:, None].astype(np.float32), backend="jax")
        expected = np.asarray(run.readings.values["xb"], float)
        assert values == [value if np.isfinite(value) else None for value in expected]
        until("document.getElementById('tiles').textContent.includes('14,400samples')", "the count")
        tiles = driver.find_element("id", "tiles").text.split("\n")
        assert tiles[:2] == ["72", "nodes"]
        story = driver.find_element("id", "events").text
        assert "spike (xb) a" in story and "something new has arrived; v is" in story
        assert driver.execute_script("return document.getElementById('overview').hidden") is False
        driver.find_element("id", "on").click()
        until("icvi.state().page === 1 && icvi.state().fleet.nodes.length === 22", "the second page")
        driver.find_element("id", "find").send_keys("onerror")
        until("icvi.state().fleet.found === 1", "the search")
        driver.execute_script("document.querySelector('#rows tbody tr').click()")
        until("icvi.state().node.name.startsWith('<img')", "the node with the name")
        assert EVIL in driver.find_element("id", "who").text and driver.title.endswith("icvi watch")
        driver.find_element("id", "mute").click()
        until("icvi.state().node.muted", "the mute")
        assert buffers.silences.names == {EVIL}
        slow = "window.real = window.fetch; window.fetch = (...a) => new Promise((ok) => setTimeout(ok, 900))"
        driver.execute_script(f"{slow}.then(() => real(...a)); icvi.select(icvi.state().node.name)")
        driver.find_element("id", "pause").click()  # while an answer is on its way, with what comes now
        assert driver.execute_script("return icvi.state().paused")
        before = driver.execute_script("return icvi.state().node.seen")
        watch.take(taken([(EVIL, 1000 + t, 0.0) for t in range(5)]))
        time.sleep(3)  # two answers: of the fleet, then of the node
        assert driver.execute_script("return icvi.state().node.seen") == before
        driver.execute_script("window.fetch = window.real")
        driver.find_element("id", "pause").click()
        until(f"icvi.state().node.seen === {before + 5}", "what came while the page paused")
        assert not browser.errors(driver)


def test_alarms_of_several_nodes_are_one_entry_that_is_acknowledged(served, require, tmp_path):
    require(*browser.NEEDED)
    names = [f"plant/building-{n // 2}/floor-2/pump-station-with-a-long-name-{n:03d}" for n in range(8)]
    x = np.random.default_rng(0).normal(size=(200, 8))
    x[150:, 1:5] += 12
    when = np.datetime64("2024-01-01T00:00", "s") + np.arange(200) * np.timedelta64(60, "s")
    made = [{"node": names[n], "time": str(when[t]), "v": x[t, n]} for t in range(200) for n in range(8)]
    buffers = RingBuffers(["xb"], acknowledged=Silences(tmp_path, ACKNOWLEDGED))
    watch = begun(buffers=buffers)
    watch.take(messages(json.dumps(line).encode() for line in made))
    with served(watch, buffers, "127.0.0.1:0") as where, browser.chromium() as driver:
        driver.get(where)
        entry = "[...document.querySelectorAll('#events li')].find((e) => e.textContent.includes('4 of 8 nodes'))"
        until(lambda: driver.execute_script(f"return Boolean({entry})"), "the incident")
        text = driver.execute_script(f"return {entry}.innerText")
        assert ": first plant/" in text and "column v" in text and "more alarm" in text
        cells = driver.execute_script(
            "return [...document.querySelectorAll('#rows tbody td:first-child')].map("
            "(cell) => [cell.textContent, cell.title, cell.scrollWidth <= cell.clientWidth])"
        )
        shown = [cell[0] for cell in cells]
        assert len(set(shown)) == 8 and all("…" in a and a[-3:] == b[-3:] and fits for a, b, fits in cells), cells
        driver.execute_script(f"{entry}.querySelector('.seen').click()")
        until(lambda: driver.execute_script(f"return {entry}.className") == "acknowledged", "that it is acknowledged")
        assert not browser.errors(driver)
    (seen,) = Silences(tmp_path, ACKNOWLEDGED).names  # kept over a restart
    assert seen.endswith("2024-01-01 02:30") and not buffers.acknowledge("no such incident", True)


def test_idle_connections_do_not_keep_others_out(require, monkeypatch):
    require("starlette", "uvicorn", "prometheus_client")
    from icvi_jax.watch import server

    monkeypatch.setattr(server, "HEADER_SECONDS", 1.0)
    monkeypatch.setattr(server, "CONNECTIONS", 100)
    with server.page_served(begun(), RingBuffers(["xb"]), "127.0.0.1:0") as where:
        port = int(where.rstrip("/").rpartition(":")[2])
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
        for one in idle[::2]:
            with suppress(OSError):
                one.sendall(b"GET / HTTP/1.1\r\nHost: 127.")  # the rest never comes
        for path in ("health", "metrics", ""):
            with urllib.request.urlopen(where + path, timeout=30) as answer:
                assert answer.status == 200, path

        def closed(one):
            one.settimeout(0.01)
            try:
                return not one.recv(100)
            except TimeoutError:
                return False
            except OSError:
                return True

        until(lambda: all(map(closed, idle)), "the end of idle connections")
        for one in idle:
            one.close()


def test_numbers_that_are_none_are_no_error_of_the_server(require, capsys):
    require("starlette", "uvicorn", "prometheus_client")
    from icvi_jax.watch.server import address_of, page_served

    with page_served(begun(), RingBuffers(["xb"]), "127.0.0.1:0") as where:
        for number in ("²", "9" * 5000, "-1", "x"):
            with urllib.request.urlopen(f"{where}api/fleet?page={urllib.parse.quote(number)}", timeout=30) as answer:
                assert json.load(answer)["page"] == 0
            asked = urllib.request.Request(where + "events", headers={"Last-Event-ID": number})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                assert answer.status == 200
            with pytest.raises(ValueError, match="expected HOST:PORT"):
                address_of(f"127.0.0.1:{number}")
    assert "Error" not in capsys.readouterr().err


def test_metrics_for_other_machines_ask_for_a_token(require, capsys):
    require("prometheus_client")
    from icvi_jax.watch.metrics import serving

    with serving(begun(), 0, "0.0.0.0", 3, "secret") as port:
        where = f"http://127.0.0.1:{port}/metrics"
        for headers, expected in (
            ({}, 401),
            ({"Authorization": "Bearer no"}, 401),
            ({"Authorization": "Bearer secret"}, 200),
        ):
            try:
                with urllib.request.urlopen(urllib.request.Request(where, headers=headers), timeout=30) as answer:
                    status = answer.status
            except urllib.error.HTTPError as error:
                status = error.code
                error.close()
            assert status == expected
    with serving(begun(), 0, "0.0.0.0", 3):
        assert "asks for the token" in capsys.readouterr().err  # one is made where none is given


def test_times_since_1970_are_dates_on_the_page_and_pressures_have_their_digits(served, require):
    require(*browser.NEEDED)
    x = 101325 + 40 * np.random.default_rng(0).normal(size=200)
    x[150:] += 900
    buffers = RingBuffers(["xb"])
    watch = begun(buffers=buffers)
    watch.take(
        messages(
            json.dumps({"node": "a", "time": str(1_700_000_000 + 60 * t), "Pa": v}).encode() for t, v in enumerate(x)
        )
    )
    with served(watch, buffers, "127.0.0.1:0") as where, browser.chromium() as driver:
        driver.get(where)
        until(lambda: driver.find_element("id", "events").text.count("UTC"), "the alarms")
        said = driver.find_element("id", "events").text
        assert "11-15 00:4" in said and "17000" not in said and "e+05" not in said and "(change)" not in said
        assert driver.find_element("id", "tiles").text.split("\n")[:2] == ["1", "node"]
        assert "change of a column" in driver.find_element("id", "legend").get_attribute("textContent")
        assert not browser.errors(driver)
