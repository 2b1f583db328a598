"""Reports opened in a browser: drawn, clickable, with an empty console."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import browser
import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.cli import main
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.compute import compute
from icvi_jax.cli.options import Model
from icvi_jax.report.page import page
from icvi_jax.tables import Table


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
    assert main(["fleet", str(folder / "f.npz"), "-k", "2", "--no-standardize", "--out", str(folder)]) == 0
    return folder / "report.html"


def painted(driver, selector):
    """How many different colours a canvas shows."""
    script = """const c = document.querySelector(arguments[0]), g = c.getContext('2d');
                return new Set(new Uint32Array(g.getImageData(0, 0, c.width, c.height).data.buffer)).size"""
    return driver.execute_script(script, selector)


def test_one_stream(driver, tmp_path, capsys):
    assert main(["run", "s2", "--out", str(tmp_path)]) == 0
    said, readme = capsys.readouterr().out, Path(__file__).parents[2] / "README.md"
    shown = readme.read_text().partition("```text\n")[2].partition("```")[0].splitlines()
    assert shown and all(line.partition(" (by chance")[0] in said for line in shown), "the README shows what it prints"
    browser.open_report(driver, tmp_path / "report.html")
    assert driver.title == "s2 · icvi" and not browser.errors(driver)
    assert painted(driver, "#curves canvas") > 10 and painted(driver, "#scatter") > 10
    marks = "return [...document.querySelectorAll('#curves canvas')].map((c) => +c.dataset.alarms || 0)"
    xb, _, _, x, y, _ = driver.execute_script(marks)
    assert xb >= 2 and x >= 3 and y >= 3 and 10 <= x + y <= 13  # each step is marked on the column that made it
    told = driver.find_element("id", "story").text
    assert "distress" in told and "x fell from about" in told and "What xb adds" in told
    assert "small" in driver.find_element("id", "meanings").text
    assert (
        "trust" in driver.find_element("id", "trust").text and "the clusters" in driver.find_element("id", "trust").text
    )
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
    assert shown == [True, True, True, False, False, False]  # xb, db and health; no columns
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
        assert main(["fleet", str(folder / "f.npz"), "-k", "3", "--no-standardize", "--out", str(folder)]) == 0
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
    others = []
    for node in (1, 2):
        driver.execute_script(f"icvi.select({node})")
        others.append(legend.text)
    assert not all("change of temp, hum" in text.replace("│", "") for text in others)  # each node has its own
    assert "on the curve of a column, that the column changed" not in driver.find_element("tag name", "body").text


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
    """A column that changes after another one got stuck, and what the terminal said."""
    folder, rng = tmp_path_factory.mktemp("stuck"), np.random.default_rng(0)
    x = rng.normal(size=(800, 2))
    x[300:340, 1], x[600:, 0] = 0.5, x[600:, 0] + 9
    np.savez(folder / "f.npz", X=x, features=["flow", "hum"])
    with redirect_stdout(io.StringIO()) as out:
        assert main(["run", str(folder / "f.npz"), "-k", "2", "--out", str(folder)]) == 0
    return folder / "report.html", out.getvalue()


def test_a_stuck_column_is_no_change_and_events_are_in_time_order(driver, stuck):
    browser.open_report(driver, stuck[0])
    legend = driver.find_element("id", "legend").text.replace("│", "")
    assert "▼ stuck: hum" in legend and "▼ change of flow" in legend and "change of flow, hum" not in legend
    told = [item.text for item in driver.find_elements("css selector", "#story li")]
    at = [int(found[1]) for found in (re.search(r"at sample (\d+) ", text) for text in told) if found]
    assert len(at) >= 3 and at == sorted(at), told


def test_clusters_are_drawn_whatever_their_names(driver, tmp_path):
    x = np.random.default_rng(0).normal(size=(400, 1))
    result = compute(pipeline_of(Model(k=2)), Table("t", ("v",), x))
    text = page(result._replace(label=result.label + 17))  # 17 and 18 of 2 clusters
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    browser.open_report(driver, tmp_path / "report.html")
    script = """const c = document.querySelector('#curves canvas:last-child'), g = c.getContext('2d');
                const d = g.getImageData(0, 0, c.width, c.height).data;
                for (let i = 0; i < d.length; i += 4) if (d[i] === 230 && d[i + 1] === 159 && d[i + 2] === 0) return 1;
                return 0"""
    assert driver.execute_script(script), "the colour of cluster 17"
    assert not driver.find_element("id", "scatterbox").is_displayed(), "one column: nothing to scatter"
    assert not browser.errors(driver)


UNITS = {
    "cpu": (20, 8),
    "bytes of a machine with a very long name 17": (2e9, 3e8),
    "volts": (3.3, 0.01),
    "kelvin": (293, 2),
}


@pytest.fixture(scope="module")
def four_units(tmp_path_factory):
    """Four nodes with four units, each in a month of its own; returns the report and the readings of each node."""
    folder, rng = tmp_path_factory.mktemp("units"), np.random.default_rng(0)
    readings = {}
    for month, (name, (level, scale)) in enumerate(UNITS.items(), 1):
        x = level + scale * 0.3 * rng.normal(size=(700, 2))
        x[500:, 0] += 2 * scale
        times = np.datetime64(f"2024-0{month}-01T00:00") + 10 * np.arange(700)
        rows = [f"{t},{a:.9g},{b:.9g}" for t, (a, b) in zip(times, x)]
        (folder / f"{name}.csv").write_text("\n".join(["time,a,b", *rows]))
        readings[name] = x
    assert main(["fleet", str(folder), "-k", "3", "--out", str(folder / "out")]) == 0
    return folder / "out" / "report.html", readings


def test_each_node_is_drawn_in_its_own_unit_and_time(driver, four_units):
    """What is drawn is within 1 % of the numbers, fills its canvas, and its time axis is that of the node."""
    report, readings = four_units
    browser.open_report(driver, report)
    assert not browser.errors(driver)
    assert driver.find_elements("tag name", "input")[0].get_attribute("id") == "find"
    for node, x in readings.items():
        place = driver.execute_script("return icvi.meta.nodes.indexOf(arguments[0])", node)
        driver.execute_script("icvi.select(arguments[0])", place)
        state = driver.execute_script("return icvi.state()")
        assert 690 <= state["to"] - state["from"] <= 700, "the time axis is that of the node"
        for j, column in enumerate("ab"):
            drawn = np.array(
                driver.execute_script("return icvi.values(arguments[0], arguments[1])", column, place), float
            )
            drawn = drawn[np.isfinite(drawn)]
            assert len(drawn) == 700 and np.abs(drawn / x[:, j] - 1).max() < 0.01
            assert np.abs(drawn - x[:, j]).max() < 0.01 * np.ptp(x[:, j])
        heights = driver.execute_script(
            """const c = document.querySelector('#curves canvas[aria-label="a"]'), g = c.getContext("2d");
            const d = g.getImageData(0, 0, c.width, c.height).data, out = [];
            for (let x = 60; x < c.width - 12; x += 2) { const ys = [];
              for (let y = 22; y < c.height - 8; y++) {
                const i = 4 * (y * c.width + x), [r, gr, b, a] = d.slice(i, i + 4);
                if (a > 100 && Math.max(r, gr, b) - Math.min(r, gr, b) > 60) ys.push(y); }
              if (ys.length) out.push([x, ys.reduce((p, q) => p + q) / ys.length]); } return [c.height, out];"""
        )
        # The picture: after five sevenths of the time the dots are higher by the step, in pixels of the axis.
        height, found = heights[0], np.array(heights[1])
        left = found[found[:, 0] < found[-1, 0] * 0.68, 1]
        right = found[found[:, 0] > found[-1, 0] * 0.76, 1]
        pixels = (height - 28) / (1.12 * np.ptp(x[:, 0]))
        assert np.median(left) - np.median(right) == pytest.approx(
            pixels * (x[500:, 0].mean() - x[:500, 0].mean()), rel=0.15
        )


def test_colours_of_the_map_say_what_is_unusual_for_a_node(driver, four_units):
    """By default each node is compared with its own past; the scale of all nodes is a choice."""
    browser.open_report(driver, four_units[0])
    shades = "const m = document.getElementById('map'), g = m.getContext('2d'); return [0, 1, 2, 3].map((n) => "
    shades += "{ const d = g.getImageData(200, (n + .5) * 20, m.width - 210, 1).data, s = new Set(); "
    shades += "for (let i = 0; i < d.length; i += 4) s.add(d[i] + ',' + d[i + 1]); return s.size; });"
    assert min(driver.execute_script(shades)) > 20, "no row is of one colour"
    before = driver.execute_script("return document.getElementById('map').toDataURL()")
    driver.execute_script("const s = document.getElementById('scaling'); s.selectedIndex = 1; s.onchange({target: s})")
    assert driver.execute_script("return document.getElementById('map').toDataURL()") != before
    assert "dark is good" in driver.find_element("id", "scale").text


def test_samples_are_readings_and_the_table_has_no_empty_rows(four_units, capsys):
    report, readings = four_units
    rows = (report.parent / "readings.csv").read_text().splitlines()
    assert len(rows) == 1 + sum(map(len, readings.values()))
    assert main(["fleet", str(report.parent.parent), "-k", "3", "--out", str(report.parent / "again")]) == 0
    assert "4 nodes, 2,800 samples from" in capsys.readouterr().out


RECORD = """window.labels = []; const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  labels.push([this.canvas.getAttribute("aria-label"), this.textAlign, text]); draw.call(this, text, x, y); };
icvi.zoom(icvi.state().from, icvi.state().to);
CanvasRenderingContext2D.prototype.fillText = draw; return labels;"""


@pytest.mark.parametrize(("level", "spread", "days"), [(101325, 40, 3.5), (2e-4, 1e-6, 2), (5e9, 1e6, 40)])
def test_no_two_labels_of_an_axis_are_the_same(driver, tmp_path, level, spread, days):
    """A pressure in Pa varies in its fourth digit; in three days and a half there are several labels a day."""
    x = level + spread * np.random.default_rng(0).normal(size=(300, 2))
    times = np.datetime64("2024-05-01", "s") + (np.arange(300) * (days * 86400 / 300)).astype("timedelta64[s]")
    rows = [f"{t},{a:.12g},{b:.12g}" for t, (a, b) in zip(times, x)]
    (tmp_path / "in.csv").write_text("\n".join(["time,a,b", *rows]))
    assert main(["run", str(tmp_path / "in.csv"), "-k", "2", "--out", str(tmp_path)]) == 0
    browser.open_report(driver, tmp_path / "report.html")
    axes = {}
    for canvas, aligned, text in driver.execute_script(RECORD):
        axes.setdefault((canvas, aligned), []).append(text)
    assert {"a", "b", "cluster", "readings coloured by cluster"} <= {canvas for canvas, _ in axes}
    for which, texts in axes.items():
        assert len(set(texts)) == len(texts), (which, texts)
    drawn = [float(text) for text in axes["a", "right"]]
    assert len(drawn) > 1 and all(abs(value - level) < 6 * spread for value in drawn)


def test_a_node_is_found_by_a_part_of_its_name(driver, four_units):
    browser.open_report(driver, four_units[0])
    field = driver.find_elements("tag name", "input")[0]
    for typed, node in (("kelv", "kelvin"), ("NAME 17", "bytes of a machine with a very long name 17"), ("cpu", "cpu")):
        field.clear()
        field.send_keys(typed + "\n")
        assert driver.execute_script("return icvi.meta.nodes[icvi.state().chosen]") == node


def test_candidates_in_distress_by_any_index_are_counted(driver, tmp_path):
    x = np.random.default_rng(0).normal((20.0, 5.0), (0.5, 0.2), (1200, 2))
    x[800:, 1] += 1.2
    (tmp_path / "in.csv").write_text("\n".join(["a,b", *(f"{a},{b}" for a, b in x)]))
    command = ["compare", str(tmp_path / "in.csv"), "--clusterer", "fuzzy", "sk-means", "-k", "2", "3"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    browser.open_report(driver, tmp_path / "report.html")
    rows = driver.execute_script("return icvi.meta.alarms.map((a) => [a.index, [...a.spans.row]])")
    indices = driver.execute_script("return icvi.meta.indices.map((s) => s.name)")
    wanted = {row for index, found in rows if index in indices for row in found}
    assert wanted, "some candidate is in distress by some index"
    said = driver.find_element("id", "lead").text
    assert f"{len(wanted)} candidate{' was' if len(wanted) == 1 else 's were'} in distress" in said
