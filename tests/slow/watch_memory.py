"""Memory of a watch with its page, notes and checkpoints, over 10⁷ samples.

    python tests/slow/watch_memory.py --samples 1e7

Lines of 200 nodes go through the whole watch: read, noted, counted, shown on a page that one browser reads and five
others have stopped reading; alarms go to a webhook that nobody answers for the first half. Memory is that of the
process, as the operating system tells it, and so are its files, on the disk.
"""

import argparse
import io
import os
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from soak import resident

from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import WatchLoop
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.server import page_served
from icvi_jax.watch.source import Message
from icvi_jax.watch.webhook import Webhook

NODES, TICKS = 200, 10
GROWTH = 0.02


class Answers(BaseHTTPRequestHandler):
    """A webhook that is broken until it is mended."""

    mended, got = False, 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Answers.got += Answers.mended
        self.send_response(200 if Answers.mended else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def batch(number):
    """Lines of all nodes, which jump now and then, each at its own time."""
    rng = np.random.default_rng([3, number])
    first = number * TICKS
    x = rng.normal(size=(TICKS, NODES, 2)).round(4)
    t = first + np.arange(TICKS)[:, None]
    x[..., 0] += 30 * ((t + 97 * np.arange(NODES)) // 4000 % 2)
    return [
        b'{"node": "n%d", "time": %d, "celsius": %.4f, "bar": %.4f}' % (n, first + i, *x[i, n])
        for i in range(TICKS)
        for n in range(NODES)
    ]


def follow(page):
    """A browser that reads, until the page is gone."""
    with suppress(OSError), urllib.request.urlopen(page + "events", timeout=600) as stream:
        for text in stream:
            if text.startswith(b"data"):
                urllib.request.urlopen(page + "api/fleet", timeout=60).read()


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=float, default=1e7)
    options.add_argument("--minutes", type=float, default=30, help="stop after so long, and say how far it came")
    given = options.parse_args(argv)
    batches, memory, disk = max(40, round(given.samples / NODES / TICKS)), [], []
    hook = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    receiver = Webhook(f"http://127.0.0.1:{hook.server_port}/")
    with tempfile.TemporaryDirectory() as folder:
        buffers = RingBuffers(["xb", "db"], silent_after=3600)
        pipe = pipeline_of(Model(k=3, standardize=False))
        out = io.TextIOWrapper(open(os.devnull, "wb"))
        watch = WatchLoop(pipe, Reader, out=out, sinks=[receiver.name], buffers=buffers)
        watch.open_journal(Path(folder))
        sender = Sender(receiver, lambda: watch.stores).start()
        with page_served(watch, buffers, "127.0.0.1:0") as page:
            threading.Thread(target=follow, args=[page], daemon=True).start()
            port = int(page.rstrip("/").rpartition(":")[2])
            deaf = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
            for one in deaf:
                one.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            start = time.monotonic()
            for number in range(batches):
                watch.turn({"": [Message(batch(number))]})
                Answers.mended = number > batches // 2
                if number % 5 == 0:
                    memory.append(resident())
                    disk.append(sum(path.stat().st_size for path in Path(folder).iterdir()))
                if time.monotonic() > start + 60 * given.minutes:
                    break
            seconds = time.monotonic() - start
        sender.close()
        watch.close()
    hook.shutdown()
    quarters = [np.mean(part) / 1e6 for part in np.array_split(memory, 4)]
    files = [np.max(part) / 1e6 for part in np.array_split(disk, 4)]
    growth = quarters[3] / quarters[1] - 1
    print(f"{watch.samples:,} samples in {seconds:.0f} s ({watch.samples / seconds:,.0f} a second)", end=", ")
    print(f"{watch.alarms:,} alarms, {Answers.got:,} of them passed on")
    print(f"memory by quarters: {', '.join(f'{q:.0f}' for q in quarters)} MB", end="; ")
    print(f"from the second to the last {growth:+.2%} (shall: at most {GROWTH:.0%})")
    print(f"files by quarters: {', '.join(f'{q:.0f}' for q in files)} MB")
    print("all within bounds" if growth < GROWTH else "out of bounds")
    return 0 if growth < GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
