"""How fast one worker on a Kafka topic is, compared with a consumer that only parses the same messages.

    python benchmarks/kafka_speed.py

The broker is librdkafka's mock cluster on loopback, in its own process, with all messages in it. Both read with
the same settings and are timed from their first message to their last; they take turns, and ratios are of neighbours.
The worker makes ellipsoidal clusters, the command's usual model, and sequential k-means; its first turn, in which
programs are compiled, does not count.
"""

import argparse
import io
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from broker import AHEAD, cluster
from confluent_kafka import Consumer, Producer

from icvi_jax.cli.build_pipeline import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.kafka import BATCH, WAIT, ConsumerGroup, Worker, settings
from icvi_jax.watch.loop import WatchLoop

PARTITIONS, NODES, TOPIC, SIZE = 12, 240, "readings", 200
ENOUGH = 0.3
MODELS = {"k-means, k = 3": Model(k=3), "ellipsoidal": Model()}


def hold(count, where):
    """Run the broker with all messages in it."""
    x = np.random.default_rng(0).normal(size=(count, 2)).round(4)
    with cluster(TOPIC, PARTITIONS) as servers:
        producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 2 * count, "log_level": 0})
        for i in range(count):
            t, n = divmod(i, NODES)
            reading = {"node": f"pump-{n:03d}", "time": t, "celsius": x[i, 0], "bar": x[i, 1]}
            producer.produce(TOPIC, json.dumps(reading).encode(), f"pump-{n:03d}", n % PARTITIONS)
        producer.flush()
        where.send(servers)
        where.recv()


def parse(place, count):
    """Messages a second of a consumer that only parses."""
    consumer = Consumer(settings(place), logger=None)
    consumer.subscribe([place.topic])
    seen, start = 0, 0.0
    while seen < count:
        messages = consumer.consume(BATCH, WAIT)
        start = start or (time.perf_counter() if messages else 0.0)
        for message in messages:
            json.loads(message.value())
        seen += len(messages)
    seconds = time.perf_counter() - start
    consumer.close()
    return count / seconds


def work(place, count, pipe):
    """Messages a second of a worker, its checkpoints included."""
    with tempfile.TemporaryDirectory() as folder:
        watch, worker, start = WatchLoop(pipe, Reader, out=io.StringIO()), Worker(place, Path(folder)), 0.0
        watch.begin(worker)
        batches = worker.batches()
        while watch.samples < count:
            batch = next(batches)
            start = start or (time.perf_counter() if batch else 0.0)
            watch.turn(batch)
        watch.save()
        seconds = time.perf_counter() - start
        worker.close()
    return count / seconds


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=int, default=PARTITIONS * AHEAD // SIZE)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args(argv)
    ours, theirs = multiprocessing.Pipe()
    broker = multiprocessing.Process(target=hold, args=(given.samples, theirs), daemon=True)
    broker.start()
    servers, fine = ours.recv(), True
    for name, model in MODELS.items():
        pipe, found = pipeline_of(model), []
        for number in range(given.rounds + 1):
            place = ConsumerGroup(servers, TOPIC, f"{name} {number}")
            pair = work(place._replace(group=f"{place.group} work"), given.samples, pipe), parse(place, given.samples)
            found += [pair] if number else []
        worked, parsed = (statistics.median(column) for column in zip(*found))
        ratio = statistics.median(a / b for a, b in found)
        fine &= ratio >= ENOUGH
        print(
            f"{name}: {worked:,.0f} messages a second, parsing alone {parsed:,.0f}: {ratio:.2f} times (shall: {ENOUGH})"
        )
    ours.send("end")
    broker.join(10)
    print("all within bounds" if fine else "out of bounds")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
