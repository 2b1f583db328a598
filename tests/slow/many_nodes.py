"""A million random names of nodes, with the page: memory stays bounded, and the watch goes on.

    python tests/slow/many_nodes.py --names 1e6

Names beyond the most that memory has room for are refused and counted; the nodes that were there before are counted
as ever.
"""

import argparse
import io
import json
import os
import resource
import secrets
import sys
import time
import urllib.request

from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import WatchLoop
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.server import page_served
from icvi_jax.watch.source import Message

BATCH, MOST = 5_000, 2e9


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--names", type=float, default=1e6)
    given = options.parse_args(argv)
    buffers = RingBuffers(["xb", "db"])
    out = io.TextIOWrapper(open(os.devnull, "wb"))
    watch = WatchLoop(pipeline_of(Model(k=3, standardize=False)), Reader, out=out, buffers=buffers)
    watch.open_journal(None)
    start = time.process_time()
    with page_served(watch, buffers, "127.0.0.1:0") as page:
        first = b'{"node": "first", "time": %d, "v": 1.5}'
        for number in range(int(given.names) // BATCH):
            lines = [b'{"node": "%s", "time": 1, "v": 0.5}' % secrets.token_hex(8).encode() for _ in range(BATCH - 1)]
            watch.turn({"": [Message([first % number, *lines])]})
            if number % 10 == 0:
                urllib.request.urlopen(page + "api/fleet", timeout=60).read()
        seen = json.loads(urllib.request.urlopen(page + "api/node?name=first", timeout=60).read())["seen"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    total = int(given.names) // BATCH * BATCH
    print(f"{total:,} samples: {watch.nodes:,} nodes, {watch.refused:,} samples refused", end=", ")
    print(f"{memory / 1e9:.2f} GB at most, {time.process_time() - start:.0f} s of CPU time")
    fine = memory <= MOST and watch.samples + watch.refused == total and seen == total // BATCH
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
