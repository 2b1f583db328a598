"""A world for the real code of a watch: clock, disk, brokers, receivers and browsers that obey a seed.

`simulate(seed, source)` drives the watch through samples, late and repeated and hostile ones, kills, power failures, a
full disk, rebalances, frozen workers, retention that keeps nothing committed, steps of the clock, lost connections,
receivers that fail and browsers that do not read, and compares the end with one clean run over the same messages:
states bit for bit, every alarm printed and delivered, nothing counted twice. A failure names its seed:

    python tests/simulation/seeds.py --source mqtt --seed 4711
"""

from __future__ import annotations

import io
import json
import random
import tempfile
import time
import warnings
from contextlib import ExitStack, contextmanager, redirect_stderr
from pathlib import Path
from unittest import mock

import jax
import numpy as np
from brokers import Cluster, MqttBroker
from disk import Crash, Disk

import icvi_jax as icvi
from icvi_jax.checkpoint import container
from icvi_jax.watch import kafka, mqtt
from icvi_jax.watch.fencing import Claim
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Rules, WatchLoop
from icvi_jax.watch.page_data import fleet_view, summary
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.ring_buffers import RingBuffers
from icvi_jax.watch.sinks import Sink
from icvi_jax.watch.source import ONLY, Message
from icvi_jax.watch.sse import ROOM, Broadcaster

SOURCES = ("stdin", "mqtt", "kafka")
PANEL = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
ALERT = icvi.Distress(warm=5, factor=2.0, patience=4)  # short feeds must have alarms
PIPE = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=PANEL, monitors={"xb": ALERT})
HOSTILE = (
    b"\xff\xfe",
    b"{",
    b"[1]",
    b'{"node": "a"}',
    b'{"node": {}, "v": 1}',
    b'{"node": "a", "v": "x"}',
    b"x" * 3000,
)
PARTITIONS = 3
BY_CLOCK = ("-silent", "-clock")
"""Alarms that depend on when samples come, and not only on what they say."""


class Failure(AssertionError):
    """A promise was broken."""


def feed(rng, source):
    """Lines of a few nodes that jump now and then; some late, some twice, some hostile."""
    nodes, ticks = ["a", "b", "c/../d"][: rng.randint(1, 3)], rng.randint(8, 40)
    numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=(ticks, len(nodes)))
    numbers[ticks // 2 :] += rng.choice([0, 60, 60])
    records = [{"node": n, "time": t, "v": float(numbers[t, i])} for t in range(ticks) for i, n in enumerate(nodes)]
    if source != "stdin":  # only identifiers and offsets show what came before
        records = [{"node": record["node"], "v": record["v"]} for record in records]
    lines = [json.dumps(record).encode() for record in records]
    late = 0.0
    if source == "stdin" and rng.random() < 0.3:
        late = 5.0
        order = sorted(range(len(lines)), key=lambda i: records[i]["time"] + rng.uniform(0, 4))
        lines = [lines[i] for i in order]
    for _ in range(rng.randrange(8)):
        lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(HOSTILE))
    if source == "stdin":
        for _ in range(rng.randrange(5)):
            at = rng.randrange(len(lines))
            lines.insert(min(len(lines), at + rng.randrange(1, 9)), lines[at])
    return lines, late


class Lines:
    """Standard input: a file that is read from its first line in every life."""

    name = "lines"

    def __init__(self, world):
        self.world, self.at = world, 0

    def open(self, watch):
        watch.open_journal(self.world.folder)

    def batches(self):
        while True:
            size = self.world.rng.randint(1, 9)
            found = self.world.lines[self.at : min(self.at + size, self.world.published)]
            self.at += len(found)
            yield {ONLY: [Message(found)]} if found else {}

    def acknowledge(self, batch):
        pass

    def saved(self, parts):
        pass

    def close(self):
        pass


class Hook(Sink):
    """A receiver of alarms that is away, or takes an alarm and says that it did not."""

    name = "hook"

    def __init__(self, world):
        self.world = world

    def send(self, line):
        mood = self.world.hook_mood
        if mood == "away":
            raise OSError("nobody there (a test)")
        self.world.delivered.append(json.loads(line)["id"])
        if mood == "lying" and self.world.rng.random() < 0.5:
            raise OSError("taken, and said to have failed (a test)")

    def close(self):
        pass


class Life:
    """One process: a watch, its source, its sender and a browser that does not read."""

    def __init__(self, world, **rules):
        self.world, self.number = world, world.disk.life
        self.buffers, self.broadcaster = RingBuffers(["xb"], length=8), Broadcaster()
        self.browser = self.broadcaster.join(None)
        self.out = io.StringIO()
        self.watch = WatchLoop(PIPE, Reader, Rules(late=world.late, **rules), self.out, ["hook"], self.buffers)
        self.source = world.make_source()
        self.sender = Sender(Hook(world), lambda: self.watch.stores)
        self.watch.begin(self.source)
        self.batches = self.source.batches()
        self.held, self.asleep = None, 0

    def turn(self):
        batch, self.held = (next(self.batches) if self.held is None else self.held), None
        self.watch.turn(batch)

    def show(self):
        self.broadcaster.publish(summary(self.watch, self.buffers), self.buffers)
        json.dumps(fleet_view(self.buffers, 0), allow_nan=False)
        if self.browser.queue.qsize() > ROOM:
            raise Failure("a browser that does not read fills the memory")


class World:
    """All that surrounds a watch."""

    def __init__(self, seed, source, root, faults=True, power=True):
        made = random.Random(f"feed {seed} {source}")
        self.lines, self.late = feed(made, source)
        self.retained = [made.random() < 0.1 for _ in self.lines]
        self.rng, self.name, self.faults, self.power = random.Random(f"{seed} {source}"), source, faults, power
        self.disk, self.folder = Disk(root), root / "kept"
        self.now, self.published = 1000.0, 0
        self.mqtt, self.cluster = MqttBroker(), Cluster(PARTITIONS)
        self.hook_mood, self.delivered, self.printed = "fine", [], []
        self.lives: list[Life] = []
        self.said = io.StringIO()
        self.events: list[str] = []
        self.checked: set[int] = set()

    def make_source(self):
        if self.name == "stdin":
            return Lines(self)
        if self.name == "mqtt":
            return mqtt.Subscription("broker", "farm/#", self.folder)
        return kafka.Worker(kafka.ConsumerGroup("cluster", "readings", "site"), self.folder)

    def publish(self, count):
        """Let the sensors send some more; a broker without a subscription would throw it away."""
        if self.name == "mqtt" and not self.mqtt.subscribed:
            return
        for i in range(self.published, min(self.published + count, len(self.lines))):
            if self.name == "mqtt":
                self.mqtt.publish(f"farm/{i % 3}", self.lines[i], self.retained[i])
            elif self.name == "kafka":
                self.cluster.logs[i % PARTITIONS].append((b"key", self.lines[i]))
        self.published = min(self.published + count, len(self.lines))

    # lives

    def begin(self):
        rules = {"every": self.rng.choice([0.0, 3.0, 30.0]), "most_nodes": self.rng.choice([0, 1000])}
        self._attempt(lambda: self.lives.append(Life(self, **rules)), None)

    def _attempt(self, action, life):
        """Do it; an error ends the process, as the command would."""
        try:
            action()
        except Crash as crash:
            power = self.power and self.rng.random() < 0.6
            self.events.append(f"{'power failure' if power else 'kill'} at {crash}")
            self.end_all(power) if power or len(self.lives) < 2 or life is None else self.end_one(life)
        except OSError as error:
            if "a test" not in str(error) and "full" not in str(error) and "I/O" not in str(error):
                raise
            self.events.append(f"stopped: {error}")
            self.end_all(False) if len(self.lives) < 2 or life is None else self.end_one(life)

    def _bury(self, life):
        self.printed += [json.loads(line)["id"] for line in life.out.getvalue().splitlines() if line.endswith("}")]
        for part in life.watch.parts.values():
            part.store.close()
        if isinstance(life.source, kafka.Worker):
            self.cluster.expel(life.source.consumer)

    def end_all(self, power):
        """All processes end; a power failure also loses what was not synced."""
        self.disk.crash(self.rng) if power else self.disk.kill()
        for life in self.lives:
            self._bury(life)
        self.lives = []
        self.cluster.members, self.cluster.owner = [], {}
        self.mqtt.client = None
        self.check_files()

    def end_one(self, life):
        """One of several workers is killed; the machine and the others go on."""
        self._bury(life)
        self.lives.remove(life)

    def stop(self, life):
        """As asked by SIGTERM."""
        life.watch.end()
        life.source.close()
        self._bury(life)
        self.lives.remove(life)

    def check_files(self):
        """After any crash, a file with the name of a checkpoint is complete."""
        for path in self.folder.rglob("*.icvi"):
            content = b"" if path.name.startswith(".") else path.read_bytes()
            if content and hash(content) not in self.checked:
                container.decode(content)
                self.checked.add(hash(content))

    # what happens

    def step(self):
        rng = self.rng
        self.now += rng.choice([0.01, 0.5, 5.0, 40.0, -3.0 if self.faults else 0.1])
        if not self.lives:
            self.begin()
            return
        for one in self.lives:
            one.asleep = max(0, one.asleep - 1)
        life = rng.choice([one for one in self.lives if not one.asleep] or self.lives)
        happening = rng.random() if self.faults else 1.0
        if happening < 0.04:
            self.disk.fail_at = self.disk.count + rng.randint(1, 40)
        elif happening < 0.07:
            self.events.append("between operations")
            self.end_all(self.power and rng.random() < 0.7)
            return
        elif happening < 0.09:
            self.disk.full = rng.randint(1, 3)
        elif happening < 0.14:
            self.hook_mood = rng.choice(["fine", "away", "lying"])
        elif happening < 0.17:
            self._attempt(lambda: self.stop(life), life)
            return
        elif happening < 0.27:
            self._upset(life)
            if life.asleep:
                return
        self.publish(rng.choice([0, 1, 3, 10]))
        if self.name == "mqtt":
            self._attempt(lambda: self._network(life), life)
        if life in self.lives:
            self._attempt(life.turn, life)
        if life in self.lives and rng.random() < 0.3:
            self._attempt(life.sender.attempt, life)
        if life in self.lives and rng.random() < 0.2:
            life.show()

    def _network(self, life):
        if self.mqtt.client is None and self.rng.random() < 0.7:
            self.mqtt.connect(life.source.client)
        self.mqtt.pump(self.rng.randint(0, 12))

    def _upset(self, life):
        """What only happens to one kind of source."""
        rng = self.rng
        if self.name == "mqtt":
            rng.choice([self.mqtt.lose_connection, self.mqtt.lose_connection, self.mqtt.forget_session])()
        elif self.name == "kafka":
            what = rng.choice(["join", "freeze", "freeze", "deaf", "retention", "retention"])
            if what == "join" and len(self.lives) < 3:
                self.begin()
            elif what == "freeze":  # it has read messages, and does nothing with them for long
                if life.held is None:
                    self._attempt(lambda: setattr(life, "held", next(life.batches)), life)
                if life in self.lives:
                    self.cluster.expel(life.source.consumer)
                    life.asleep = rng.randint(2, 12)
                if len(self.lives) < 2:
                    self.begin()
            elif what == "retention":
                self.cluster.remove_committed()
            else:
                self.cluster.refuses_commits = not self.cluster.refuses_commits

    def settle(self):
        """No more faults: everything is sent, counted and delivered."""
        self.faults, self.hook_mood, self.cluster.refuses_commits = False, "fine", False
        self.disk.fail_at = self.disk.full = 0
        for number in range(400):
            self.now += 1.0
            self.publish(len(self.lines))
            if not self.lives:
                self.begin()
            for life in list(self.lives):
                if self.name == "mqtt":
                    if self.mqtt.client is None:
                        self.mqtt.connect(life.source.client)
                    self.mqtt.pump(50)
                life.turn()
                life.sender.attempt()
            if number > 5 and self.is_done():
                break
        else:
            raise Failure(f"{self.name}: not all messages are counted in the end")
        for life in list(self.lives):
            self.stop(life)

    def is_done(self):
        waiting = any(store.left("hook") for life in self.lives for store in life.watch.stores)
        if self.name == "stdin":
            return not waiting and all(life.source.at >= len(self.lines) for life in self.lives)
        if self.name == "mqtt":
            sent = self.published == len(self.lines)
            return sent and not waiting and not self.mqtt.queue and not self.mqtt.flying
        owned = {n: at for life in self.lives for n, at in life.source.consumer.at.items()}
        return not waiting and owned == {n: len(log) for n, log in self.cluster.logs.items()}

    def result(self):
        """What is on the disk in the end, and what was printed and delivered."""
        found = {}
        if self.name == "kafka":
            for path in sorted(self.folder.iterdir()):
                shard = Claim.newest(path, PIPE)
                found[path.name] = shard
        else:
            last = Life(self)
            found[ONLY] = last.watch.parts[ONLY].shard
            last.watch.close()
        states = {
            name: (shard.taken, shard.samples, list(shard.rows), [np.asarray(a) for a in jax.tree.leaves(shard.state)])
            for name, shard in found.items()
            if shard is not None
        }
        return states, *(
            {_plain(id) for id in ids if not id.endswith(BY_CLOCK)} for ids in (self.printed, self.delivered)
        )

    def run(self, steps):
        for _ in range(steps):
            self.step()
        self.settle()
        return self.result()


def _plain(id):
    """The id of an alarm without the random name of its watch."""
    return id.partition("-")[2]


@contextmanager
def surrounded(world):
    """The real code sees this world."""
    from paho.mqtt.subscribeoptions import SubscribeOptions  # noqa: F401 (imported before clocks are replaced)

    with ExitStack() as stack:
        stack.enter_context(redirect_stderr(world.said))
        stack.enter_context(world.disk.recorded())
        for name in ("monotonic", "time"):
            stack.enter_context(mock.patch.object(time, name, lambda: world.now))
        stack.enter_context(mock.patch.object(mqtt, "client", world.mqtt.make))
        stack.enter_context(mock.patch.object(mqtt, "WAIT", 0.0))
        stack.enter_context(mock.patch.object(kafka, "Consumer", world.cluster.make))
        stack.enter_context(mock.patch.object(kafka, "within", lambda _seconds, call: call() is None))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        yield


def simulate(seed, source, plant=lambda world, stack: None):
    """One world and its clean twin; raises `Failure` where they differ. `plant` may break the code first."""
    with tempfile.TemporaryDirectory() as place:
        clean = World(seed, source, Path(place, "clean"), faults=False)
        with surrounded(clean):
            expected = clean.run(0)
        world = World(seed, source, Path(place, "world"))
        with surrounded(world), ExitStack() as stack:
            plant(world, stack)
            try:
                found = world.run(world.rng.randint(10, 80))
            except Failure as failure:
                raise Failure(f"seed {seed} of {source}: {failure}; {world.events}") from None
            except BaseException as error:
                raise Failure(f"seed {seed} of {source}: {type(error).__name__}: {error}; {world.events}") from error
    compare(seed, source, expected, found, world)
    return world


def compare(seed, source, expected, found, world):
    """The promise: exactly once, bit-equal states, every alarm at least once."""
    where = f"seed {seed} of {source} ({'; '.join(world.events) or 'no crash'})"
    if set(expected[0]) != set(found[0]):
        raise Failure(f"{where}: parts {sorted(found[0])}, expected {sorted(expected[0])}")
    for part, (taken, samples, rows, state) in expected[0].items():
        if found[0][part][:3] != (taken, samples, rows):
            raise Failure(f"{where}: {part} has {found[0][part][:3]}, expected {(taken, samples, rows)}")
        for a, b in zip(state, found[0][part][3]):
            if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                raise Failure(f"{where}: states of {part} differ")
    for what, first, second in zip(("printed", "delivered"), expected[1:], found[1:]):
        if first != second:
            raise Failure(f"{where}: {what}: {len(first - second)} alarms lost, {len(second - first)} invented")
    if "Traceback" in world.said.getvalue():
        raise Failure(f"{where}: a traceback")
