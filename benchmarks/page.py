"""The live page in a real browser with a running watch: 200 nodes, 50 samples a second in total, for two minutes.

    python benchmarks/page.py

There are also clients that ask for the stream of events and never read it. Afterwards the values that the
page has of every node must be those of `icvi.run` on the same samples, bit for bit. A second part says what browsers
cost a watch that takes in lines as fast as it can: nobody, ten that read (their own work is on the same machine), and a
hundred that asked for events and do not read them.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import icvi_jax as icvi
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import browser  # noqa: E402

COMMAND = [sys.executable, "-m", "icvi_jax.cli", "watch", "-k", "3", "--no-standardize", "--serve", "127.0.0.1:0"]
SELECT = """
const [name, done] = arguments;
const look = () => icvi.state().node?.name === name ? done(icvi.state().node) : setTimeout(look, 5);
icvi.select(name, false);
look();
"""


class Watch:
    """The command with a pipe to it, and the address of its page."""

    def __init__(self):
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.page = next(line for line in self.process.stderr if "http://" in line).split()[-1]
        self.port = int(self.page.rstrip("/").rpartition(":")[2])

    def send(self, lines):
        self.process.stdin.write(lines)
        self.process.stdin.flush()

    def samples(self):
        with urllib.request.urlopen(self.page + "health", timeout=30) as answer:
            return json.load(answer)["samples"]

    def resident(self):
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    def deaf(self, count):
        """Sockets that ask for the events and never read them."""
        found = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        for one in found:
            one.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        return found

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def line(node, t, x):
    return json.dumps({"node": f"n{node:03d}", "time": t, "celsius": x[0], "bar": x[1]}) + "\n"


def in_a_browser(nodes, rate, seconds):
    """Feed at a steady rate with the page open; gives whether all values on it are those of a run."""
    ticks = max(8, round(rate * seconds / nodes))
    x = np.random.default_rng(0).normal(size=(ticks, nodes, 2)) + 5 * (np.arange(ticks) > ticks // 2)[:, None, None]
    watch, late, began = Watch(), [], 0.0
    with browser.chromium() as driver:
        driver.get(watch.page)
        deaf, start = watch.deaf(5), time.monotonic()
        for i in range(ticks * nodes):
            time.sleep(max(0.0, start + i / rate - time.monotonic()))
            watch.send(line(i % nodes, i // nodes, x[i // nodes, i % nodes].tolist()))
            if i == nodes:
                began = watch.resident()
            if i % (10 * nodes) == nodes:
                until_seen(driver, i + 1, late)
        until_seen(driver, ticks * nodes, late)
        last = watch.resident()
        wrong = 0
        for node in range(nodes):
            shown = driver.execute_async_script(SELECT, f"n{node:03d}")
            run = icvi.run(pipeline_of(Model(k=3, standardize=False)), x[:, node])
            for name, values in shown["indices"].items():
                expected = np.asarray(run.readings.values[name], float)
                found = np.array([np.nan if v is None else v for v in values])
                wrong += not np.array_equal(found, np.where(np.isfinite(expected), expected, np.nan), equal_nan=True)
        errors = browser.errors(driver)
    for one in deaf:
        one.close()
    watch.end()
    took = time.monotonic() - start
    print(f"{nodes} nodes, {ticks * nodes:,} samples in {took:.0f} s with the page open:", end=" ")
    print(f"{wrong} curves differ from `run`; errors in the browser: {errors or 'none'};")
    print(f"a sample is on the page after {np.median(late):.2f} s, at most {max(late):.2f};", end=" ")
    print(f"memory of the watch {began / 1e6:.0f} MB at first, {last / 1e6:.0f} MB at last")
    return not wrong and not errors


def until_seen(driver, count, late):
    """Wait until the page says that so many samples came."""
    start = time.monotonic()
    text = f"{count:,}samples"
    while text not in driver.execute_script("return document.getElementById('tiles').textContent"):
        assert time.monotonic() < start + 60, f"the page never said {count:,}"
        time.sleep(0.02)
    late.append(time.monotonic() - start)


def rates(count):
    """Samples a second: with nobody at the page, with browsers that read, and with some that do not."""
    nodes = 200
    x = np.random.default_rng(1).normal(size=(count // nodes, nodes, 2)).round(4).tolist()
    lines = ["".join(line(n, 1_000_000 + t, x[t][n]) for n in range(nodes)) for t in range(count // nodes)]
    watch, found = Watch(), {}
    with ThreadPoolExecutor(10) as readers:
        for name in ("warm-up", "nobody", "ten that read", "a hundred that do not", "nobody again"):
            deaf = watch.deaf(100) if "hundred" in name else []
            going = [True]
            for _ in range(10 if "ten" in name else 0):
                readers.submit(read, watch.page, going)
            time.sleep(1)
            before, start = watch.samples(), time.perf_counter()
            for text in lines:
                watch.send(text.replace('"time": 1', f'"time": {len(found) + 1}'))
            while watch.samples() < before + count // nodes * nodes:
                assert time.perf_counter() < start + 300, f"{name}: the watch did not come to the end"
                time.sleep(0.02)
            found[name] = count / (time.perf_counter() - start)
            going.clear()
            for one in deaf:
                one.close()
    watch.end()
    for name, rate in found.items():
        print(f"  {name}: {rate:,.0f} samples a second, {rate / found['nobody']:.2f} times")


def read(page, going):
    """Read events as a browser does, and ask for the fleet at each."""
    with urllib.request.urlopen(page + "events", timeout=60) as stream:
        for text in stream:
            if not going:
                return
            if text.startswith(b"data"):
                urllib.request.urlopen(page + "api/fleet", timeout=60).read()


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--rate", type=float, default=50)
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--samples", type=int, default=200_000, help="of the second part, for each line")
    given = options.parse_args(argv)
    fine = in_a_browser(given.nodes, given.rate, given.seconds)
    rates(given.samples)
    print("all within bounds" if fine else "out of bounds")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
