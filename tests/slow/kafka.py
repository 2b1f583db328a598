"""Kill, stop, freeze and add workers on a Kafka topic; compare with an uninterrupted run.

    PYTHONPATH=benchmarks python tests/slow/kafka.py --samples 1e6 --kills 60

Each worker is the command `icvi watch --kafka …`; the broker is librdkafka's mock cluster on loopback. Of four,
two are killed, one is asked to leave, and one is frozen until the group has given its partitions to others, and then
continues. In the end every sample must have counted once, the states of all nodes must be those of one run
over the same samples, bit for bit, and every alarm must have been printed.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from broker import AHEAD, cluster
from confluent_kafka import Consumer, Producer, TopicPartition

from icvi_jax.cli import main as command
from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.watch.fencing import Claim
from icvi_jax.watch.shard import Shard

WORKERS, PARTITIONS, NODES = 3, 12, 240
TOPIC, GROUP = "readings", "site"
SIZE = 150  # bytes of a message with all that is kept beside it, at most
MODEL = ("-k", "2", "--index", "xb", "--no-standardize")
QUICK = {"SESSION_TIMEOUT_MS": "3000", "HEARTBEAT_INTERVAL_MS": "500"}
FROZEN, SLOWLY, PATIENCE = 5.0, 4.0, 600.0


def readings(count):
    """(partition, node, time, x) of nodes that jump now and then."""
    rng = np.random.default_rng(0)
    ticks = -(-count // NODES)
    x = rng.normal(size=(ticks, NODES, 2)) + 30 * (
        (np.arange(ticks)[:, None, None] + np.arange(NODES)[:, None]) // 700 % 2
    )
    for i in range(count):
        t, n = divmod(i, NODES)
        yield n % PARTITIONS, f"pump-{n:03d}", t, tuple(x[t, n].round(4).tolist())


def feed(count, allowed, read, where):
    """Run the broker and send: never more than allowed, and never further ahead of the group than the broker keeps."""
    with cluster(TOPIC, PARTITIONS) as servers:
        where.send(servers)
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        reader = Consumer({"bootstrap.servers": servers, "group.id": GROUP, "log_level": 0})
        sent, done = [0] * PARTITIONS, [0] * PARTITIONS

        def look():
            found = reader.committed([TopicPartition(TOPIC, n) for n in range(PARTITIONS)], timeout=30)
            done[:] = [max(one.offset, 0) for one in found]
            read.value = sum(done)

        for i, (partition, node, t, x) in enumerate(readings(count)):
            while i >= allowed.value or (sent[partition] - done[partition]) * SIZE > AHEAD:
                producer.flush()
                time.sleep(0.1)
                look()
            line = json.dumps({"node": node, "time": t, "celsius": x[0], "bar": x[1]})
            producer.produce(TOPIC, line.encode(), node, partition)
            sent[partition] += 1
            producer.poll(0)
        producer.flush()
        while done != sent:
            time.sleep(0.3)
            look()
        where.send("all read")
        where.recv()
        reader.close()


def work(number, servers, folder):
    """Be a worker: the command itself, with its output in files."""
    for stream, name in ((1, "alarms"), (2, "log")):
        os.dup2(os.open(folder / f"{number}.{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
    os.environ |= {f"ICVI_KAFKA_{name}": value for name, value in QUICK.items()} | {"XDG_CACHE_HOME": str(folder)}
    kept = ("--checkpoint", str(folder / "kept"))
    sys.exit(command(["watch", "--kafka", servers, "--topic", TOPIC, "--group", GROUP, *kept, *MODEL]))


def upset(workers, join, rng):
    """End one of the workers in one of three ways, and add another one; returns which way."""
    gone = rng.choice(workers)
    way = rng.choice(["killed", "killed", "left", "frozen"])
    if way == "frozen":
        os.kill(gone.pid, signal.SIGSTOP)
        time.sleep(FROZEN)
        os.kill(gone.pid, signal.SIGCONT)
        return way
    os.kill(gone.pid, signal.SIGKILL if way == "killed" else signal.SIGTERM)
    gone.join(PATIENCE)
    if way == "left":
        assert gone.exitcode == 0, f"a worker that was asked to leave ended with {gone.exitcode}"
    workers.remove(gone)
    time.sleep(rng.uniform(0, 3))
    join()
    return way


def compare(folder, count):
    """Check the results of the workers; returns whether all are right."""
    pipe = pipeline_of(Model(k=2, index=("xb",), standardize=False))
    whole = [Shard(pipe, ["celsius", "bar"], f"{GROUP}.{TOPIC}-{n}") for n in range(PARTITIONS)]
    batches = [[] for _ in whole]
    for partition, *sample in readings(count):
        batches[partition].append(tuple(sample))
    expected = {alarm["id"] for shard, batch in zip(whole, batches) for alarm in shard.take(batch)}
    counted, equal = 0, True
    for n, shard in enumerate(whole):
        found = Claim(folder / "kept" / f"{TOPIC}-{n}").load(pipe)
        counted += found.samples
        equal &= found.rows == shard.rows and found.counts.tolist() == shard.counts.tolist()
        pairs = zip(jax.tree.leaves(found.state), jax.tree.leaves(shard.state))
        equal &= all(np.array_equal(a, b, equal_nan=True) and a.dtype == b.dtype for a, b in pairs)
    printed = [line for path in folder.glob("*.alarms") for line in path.read_text().splitlines() if line.endswith("}")]
    alarms = [json.loads(line)["id"] for line in printed]
    lost, strange = expected - set(alarms), set(alarms) - expected
    print(f"{counted:,} of {count:,} samples counted, states {'equal bit for bit' if equal else 'DIFFERENT'}", end="; ")
    print(f"{len(expected)} alarms, {len(lost)} lost, {len(strange)} strange, {len(alarms) - len(set(alarms))} repeats")
    return counted == count and equal and not lost and not strange


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=float, default=1e6)
    options.add_argument("--kills", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args(argv)
    count, rng = int(given.samples), random.Random(given.seed)
    fork = multiprocessing.get_context("fork")
    allowed, read, (ours, theirs) = fork.Value("q", count // (given.kills + 1)), fork.Value("q", 0), fork.Pipe()
    feeder = fork.Process(target=feed, args=(count, allowed, read, theirs), daemon=True)
    feeder.start()
    servers, workers, joined = ours.recv(), [], 0

    def join():
        nonlocal joined
        joined += 1
        workers.append(fork.Process(target=work, args=(joined, servers, folder), name=str(joined), daemon=True))
        workers[-1].start()

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder, start = Path(place), time.monotonic()
        for _ in range(WORKERS):
            join()
        ways = []
        for number in range(given.kills):
            time.sleep(rng.uniform(1, 6))
            end = time.monotonic() + SLOWLY
            while read.value < count * (number - 2) // (given.kills + 1) and time.monotonic() < end:
                time.sleep(0.1)  # so that they are spread over all samples
            ways.append(upset(workers, join, rng))
            allowed.value = count * (number + 2) // (given.kills + 1)
            print(f"{time.monotonic() - start:6.0f} s: {ways[-1]}", file=sys.stderr, flush=True)
            for worker in workers:
                assert worker.is_alive(), f"ended by itself:\n{(folder / f'{worker.name}.log').read_text()}"
        allowed.value = count
        assert ours.poll(PATIENCE) and ours.recv() == "all read", "the workers did not come to the end"
        for worker in workers:
            os.kill(worker.pid, signal.SIGTERM)
        for worker in workers:
            worker.join(PATIENCE)
            assert worker.exitcode == 0, f"a worker ended with {worker.exitcode}"
        logs = "".join(path.read_text() for path in folder.glob("*.log"))
        assert "Traceback" not in logs, logs[logs.index("Traceback") :]
        print(f"{WORKERS} workers, {PARTITIONS} partitions, {time.monotonic() - start:.0f} s:", end=" ")
        print(", ".join(f"{ways.count(way)} {way}" for way in sorted(set(ways))), end=f", {joined} joined, ")
        print(f"{logs.count('another worker has')} writes refused to one who came too late")
        fine = compare(folder, count)
    ours.send("end")
    feeder.join(PATIENCE)
    print("all within bounds" if fine else "out of bounds")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
