"""Reports opened in a browser: drawn, clickable, with an empty console."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

import browser
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.cli import main


@pytest.fixture(scope="module")
def driver(require):
    require(*browser.NEEDED)
    with browser.chromium() as started:
        yield started


@pytest.fixture(scope="module")
def fleet_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 300, 2))
    x[7, 150:] += 30
    nodes = [f"node {n}" for n in range(120)]
    nodes[3] = "<script>document.title='owned'</script>"
    times = np.datetime64("2024-05-01", "s") + np.arange(300) * np.timedelta64(600, "s")
    np.savez(folder / "f.npz", X=x, nodes=nodes, times=times.astype(np.int64), features=["temp [°C]", "=cmd()"])
    assert main(["fleet", str(folder / "f.npz"), "-k", "2", "--out", str(folder)]) == 0
    return folder / "report.html"


def painted(driver, selector):
    """How many different colours a canvas shows."""
    script = """const c = document.querySelector(arguments[0]), g = c.getContext('2d');
                return new Set(new Uint32Array(g.getImageData(0, 0, c.width, c.height).data.buffer)).size"""
    return driver.execute_script(script, selector)


def test_one_stream(driver, tmp_path):
    assert main(["run", "s2", "--out", str(tmp_path)]) == 0
    browser.open_report(driver, tmp_path / "report.html")
    assert driver.title == "s2 · icvi" and not browser.errors(driver)
    assert painted(driver, "#curves canvas") > 10 and painted(driver, "#scatter") > 10
    marks = "return [...document.querySelectorAll('#curves canvas')].map((c) => +c.dataset.alarms || 0)"
    xb, _, x, y, _ = driver.execute_script(marks)
    assert xb == 2 and x >= 3 and y >= 3 and x + y == 10  # each step is marked on the column that made it
    told = driver.find_element("id", "story").text
    assert "distress" in told and "x fell from about" in told and "What xb adds" in told
    assert "small" in driver.find_element("id", "meanings").text
    assert not driver.find_element("id", "fleet").is_displayed()


def test_zooming_by_dragging_and_back(driver, tmp_path):
    from selenium.webdriver import ActionChains

    assert main(["run", "s3", "-k", "3", "--out", str(tmp_path)]) == 0
    browser.open_report(driver, tmp_path / "report.html")
    canvas = driver.find_element("css selector", "#curves canvas")
    ActionChains(driver).move_to_element_with_offset(canvas, -100, 0).click_and_hold().move_by_offset(
        150, 0
    ).release().perform()
    state = driver.execute_script("return icvi.state()")
    assert 0 < state["from"] < state["to"] < 1999
    ActionChains(driver).double_click(canvas).perform()
    assert driver.execute_script("return icvi.state()")["from"] == 0
    assert not browser.errors(driver)


def test_a_fleet_is_clickable_and_names_are_text(driver, fleet_report):
    from selenium.webdriver import ActionChains

    browser.open_report(driver, fleet_report)
    assert driver.title != "owned" and not browser.errors(driver)
    assert "node 7 " in driver.find_element("id", "who").text, "the troubled node comes first"
    assert painted(driver, "#map") > 50
    chart = driver.find_element("id", "map")
    ActionChains(driver).move_to_element(chart).click().perform()
    assert driver.execute_script("return icvi.state().chosen") > 30
    assert 0 <= driver.execute_script("return icvi.click") < 5000  # ms; benchmarks/command.py says how fast it is
    position = driver.execute_script("return icvi.meta.nodes.findIndex((n) => n.startsWith('<script>'))")
    driver.execute_script("icvi.select(arguments[0])", position)
    assert "<script>" in driver.find_element("id", "who").text
    assert driver.execute_script("return icvi.meta.time.kind") == "date"


def test_a_node_beyond_the_hundred_shows_its_curves_alone(driver, fleet_report):
    browser.open_report(driver, fleet_report)
    driver.execute_script("icvi.select(110)")
    shown = [canvas.is_displayed() for canvas in driver.find_elements("css selector", "#curves canvas")]
    assert shown == [True, True, False, False, False]
    assert not driver.find_element("id", "scatter").is_displayed()
    assert not browser.errors(driver)


def test_what_the_page_says_is_what_the_terminal_says(driver, tmp_path, capsys):
    assert main(["run", "s2", "--out", str(tmp_path)]) == 0
    said = re.findall(r"^alarms of \w+: (\d+)", capsys.readouterr().out, re.M)
    browser.open_report(driver, tmp_path / "report.html")
    assert f". {sum(map(int, said))} alarms." in driver.find_element("id", "lead").text


def test_numbers_of_two_digits_and_long_names_fit(driver, fleet_report):
    browser.open_report(driver, fleet_report)
    room = driver.execute_script("return parseFloat(getComputedStyle(document.getElementById('story')).paddingLeft)")
    size = driver.execute_script("return parseFloat(getComputedStyle(document.getElementById('story')).fontSize)")
    assert room >= 2.5 * size, "the list's own numbers stand in its padding"
    script = """const g = document.createElement('canvas').getContext('2d'); g.font = '11px sans-serif';
                const text = fitted(g, 'x'.repeat(90) + ' 17', 100); return [text, g.measureText(text).width]"""
    text, width = driver.execute_script(script)
    assert text.endswith(" 17") and "…" in text and 60 < width <= 100


def test_the_map_is_in_time_like_the_curves(driver, tmp_path):
    """Half of the samples come in the last tenth of the time: the map gives them a tenth of its width."""
    minutes = np.concatenate([np.arange(100) * 9, 900 + np.arange(100)])
    times = np.datetime64("2024-05-01", "s") + minutes * np.timedelta64(60, "s")
    x = np.random.default_rng(0).normal(size=(3, 200, 1))
    np.savez(tmp_path / "f.npz", X=x, times=times.astype(np.int64))
    assert main(["fleet", str(tmp_path / "f.npz"), "-k", "2", "--out", str(tmp_path)]) == 0
    browser.open_report(driver, tmp_path / "report.html")
    script = """const r = document.getElementById('map').getBoundingClientRect(), seen = [];
                const gutter = 190, y = r.top + 5, at = (part) => {
                  const x = r.left + gutter + part * (r.width - gutter);
                  document.getElementById('map').onpointermove({ clientX: x, clientY: y });
                  return document.getElementById('tip').textContent.split('\\n')[1]; };
                return [at(0.5), at(0.95)]"""
    assert driver.execute_script(script) == ["2024-05-01 08:24:00", "2024-05-01 15:50:00"]


@pytest.fixture(scope="module")
def distressed(tmp_path_factory):
    """A fleet of which one node is in distress, and what the terminal said."""
    folder = tmp_path_factory.mktemp("distressed")
    quiet = np.random.default_rng(0).normal(size=(2, 2500, 2))
    np.savez(folder / "f.npz", X=np.concatenate([quiet, icvi.streams.s2(seed=0).x[None]]), features=["temp", "hum"])
    with redirect_stdout(io.StringIO()) as out:
        assert main(["fleet", str(folder / "f.npz"), "--out", str(folder)]) == 0
    return folder / "report.html", out.getvalue()


def test_nodes_in_distress_are_counted_as_on_the_terminal(driver, distressed):
    page, said = distressed
    assert "in distress at some time (by xb): 1 node;" in said
    browser.open_report(driver, page)
    assert "; 1 node was in distress at some time." in driver.find_element("id", "lead").text


def test_the_legend_says_which_columns_changed(driver, distressed):
    browser.open_report(driver, distressed[0])
    legend = driver.find_element("id", "legend")
    assert "▼ spike" in legend.text and "▼ change of temp, hum" in legend.text.replace("│", "")
    driver.execute_script("icvi.select(2)")
    assert "change" not in legend.text
    assert "on the curve of a column, that the column changed" not in driver.find_element("tag name", "body").text
