"""What a watch must keep between checkpoints, in one SQLite file with atomic transactions.

Samples that came together are written to the journal, with the tickets of the messages they came in, before they are
computed: from then on they count exactly once. A restart loads the checkpoint and computes the journal after it. Alarms
wait here until each receiver (standard output, a webhook, …) has marked them as sent.

Every commit is on the disk (`synchronous=FULL`) before a message is acknowledged to a broker.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from icvi_jax.checkpoint import container
from icvi_jax.pipeline import Pipeline
from icvi_jax.watch.json_and_csv import LineFormat
from icvi_jax.watch.sample import Sample
from icvi_jax.watch.shard import Shard, saved_in
from icvi_jax.watch.source import Message

FILE, LOCK = "watch.db", "watch.lock"
RECEIVE = 10_000
"""Most messages that a broker may send without acknowledgement."""
TICKETS = 4 * RECEIVE
"""How many of the latest tickets are kept."""
TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS journal (number INTEGER PRIMARY KEY, samples TEXT);
CREATE TABLE IF NOT EXISTS tickets (number INTEGER PRIMARY KEY AUTOINCREMENT, ticket TEXT);
CREATE TABLE IF NOT EXISTS topics (topic TEXT PRIMARY KEY, digest TEXT);
CREATE TABLE IF NOT EXISTS alarms (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, at INTEGER, line TEXT);
CREATE TABLE IF NOT EXISTS marks (sink TEXT PRIMARY KEY, number INTEGER);
"""


def locked(path: Path, said: str) -> sqlite3.Connection:
    """Take the lock in this file until the connection is closed; error message `said` if another has it.

    It is that of SQLite: it ends with its process, also after a crash, on every platform.
    """
    lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if "locked" in str(error):
            raise ValueError(said) from None
        raise OSError(f"{path}: cannot be locked ({error})") from None
    return lock


class Waiting(NamedTuple):
    """An alarm that is not sent yet: its number in the order, its id, and its line of JSON."""

    number: int
    id: str
    line: str


class Store:
    """The journal and the alarms in one folder, which no second process can open; without a folder: in memory, only
    alarms. An alarm stays until all `sinks`, which are names, have marked it.
    """

    def __init__(self, folder: Path | None = None, sinks: Sequence[str] = ()):
        self.folder, self.sinks = folder, tuple(sinks)
        self._guard = threading.RLock()
        self._lock = None
        if folder:
            container.make_folder(folder)
            self._lock = locked(folder / LOCK, f"--checkpoint {folder}: another watch is using this folder")
        try:
            self._open()
        except sqlite3.Error as error:
            self.close()
            raise OSError(f"--checkpoint {folder}: {FILE} cannot be used ({error})") from None

    def _open(self) -> None:
        self._path = self.folder / FILE if self.folder else None
        self._db = sqlite3.connect(self._path or ":memory:", isolation_level=None, check_same_thread=False, timeout=10)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("BEGIN IMMEDIATE")
        for statement in TABLES.split(";"):
            self._db.execute(statement)
        self._db.execute("INSERT OR IGNORE INTO meta VALUES ('id', ?)", [secrets.token_hex(4)])
        self._db.executemany("INSERT OR IGNORE INTO marks VALUES (?, 0)", [(sink,) for sink in self.sinks])
        self._sent = f"(SELECT coalesce(min(number), 0) FROM marks WHERE sink IN ({','.join('?' * len(self.sinks))}))"
        self._db.execute("COMMIT")
        meta = dict(self._db.execute("SELECT key, value FROM meta"))
        self.id: str = meta["id"]  # a unique name of this watch; ids of alarms begin with it
        self.form = LineFormat.of(json.loads(meta["form"])) if "form" in meta else None  # of the feed, once known
        self.tickets = dict.fromkeys(ticket for (ticket,) in self._db.execute("SELECT ticket FROM tickets"))
        # digest of the last retained message of each topic, and the session in which it came
        self.topics: dict[str, str] = dict(self._db.execute("SELECT topic, digest FROM topics"))
        self._inode = os.stat(self._path).st_ino if self._path else 0

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """An atomic transaction; an error says what could not be written, and where."""
        with self._guard:
            self.check()
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise OSError(f"--checkpoint {self.folder}: cannot write ({error})") from error
            finally:
                if self._db.in_transaction:
                    with suppress(sqlite3.Error):
                        self._db.rollback()

    def check(self) -> None:
        """Check that the file still exists: a removed file can be written to, and the data would be lost."""
        try:
            here = os.stat(self._path).st_ino if self._path else 0
        except OSError:
            here = None
        if here != self._inode:
            raise OSError(f"--checkpoint {self.folder}: the folder or {FILE} in it has been removed or replaced")

    def remember(self, key: str, value: str) -> None:
        """Keep a short text under a name, over restarts."""
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [f"{key}:", value])

    def recall(self, key: str) -> str:
        """The text that was kept under a name, or an empty one."""
        with self._guard:
            found = self._db.execute("SELECT value FROM meta WHERE key = ?", [f"{key}:"]).fetchone()
            return str(found[0]) if found else ""

    def after(self, number: int) -> list[list[Sample]]:
        """The batches of the journal from sample `number` on, in order."""
        rows = self._db.execute("SELECT number, samples FROM journal WHERE number >= ? ORDER BY number", [number])
        found = rows.fetchall()
        if found and found[0][0] > number:
            gap = found[0][0] - number
            raise ValueError(f"--checkpoint {self.folder}: {gap:,} samples are in no checkpoint and not in {FILE}")
        return [[Sample(node, time, tuple(x)) for node, time, x in json.loads(text)] for _, text in found]

    def add(self, at: int, alarms: Sequence[tuple[str, str]]) -> None:
        """Store alarms (id, line) for all receivers; an alarm that is already stored is not added again."""
        with self.transaction() as db:
            db.executemany(
                "INSERT OR IGNORE INTO alarms (id, at, line) VALUES (?, ?, ?)", [(id, at, line) for id, line in alarms]
            )

    def waiting(self, sink: str, limit: int = 1000) -> list[Waiting]:
        """The oldest alarms that `sink` has not marked."""
        with self._guard:
            after = "number > coalesce((SELECT number FROM marks WHERE sink = ?), 0)"
            rows = f"SELECT number, id, line FROM alarms WHERE {after} ORDER BY number LIMIT ?"
            found = self._db.execute(rows, [sink, limit])
            return [Waiting(*row) for row in found]

    def left(self, sink: str) -> int:
        return len(self.waiting(sink, -1))

    def unmarked(self) -> list[tuple[str, str]]:
        """Alarms (id, line) that some receiver has not got."""
        with self._guard:
            rows = f"SELECT id, line FROM alarms WHERE number > {self._sent} ORDER BY number"
            return self._db.execute(rows, self.sinks).fetchall()

    def mark(self, sink: str, number: int) -> None:
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", [sink, number])

    def forget(self, number: int) -> None:
        """Delete the batches before sample `number`, which a checkpoint has, and the alarms before it that are sent."""
        with self.transaction() as db:
            db.execute("DELETE FROM journal WHERE number < ?", [number])
            db.execute(f"DELETE FROM alarms WHERE at <= ? AND number <= {self._sent}", [number, *self.sinks])

    def close(self) -> None:
        """Close the file and unlock the folder."""
        for connection in (getattr(self, "_db", None), self._lock):
            if connection is not None:
                with suppress(sqlite3.Error):  # otherwise an open cursor would keep the connection and its lock
                    connection.rollback()
                connection.close()


Restored = tuple[Shard | None, LineFormat | None, list[list[Sample]]]
"""What a restart continues from: the shard of the checkpoint, the form of the feed, and the journal after it."""


class JournalKeeper:
    """Keeps what a restart of one part of a source needs in a folder of its own: a journal and checkpoints. Without a
    folder nothing is kept. `LogKeeper` is the same for a part that several processes share."""

    shared = False  # whether other processes may have had this part before

    def __init__(self, folder: Path | None, sinks: Sequence[str]):
        self.folder, self.store = folder, Store(folder, sinks)
        self.id, self.close = self.store.id, self.store.close  # a unique name; ids of alarms begin with it
        self.saved = 0  # how many samples the last checkpoint has

    def restore(self, pipe: Pipeline, keep_old: bool, late: float) -> Restored:
        """The checkpoint and the journal after it."""
        shard = None
        if self.folder and saved_in(self.folder):
            shard = Shard.load(self.folder, pipe, keep_old, late)
            self.saved = shard.taken
            if shard.id != self.id:
                raise ValueError(
                    f"--checkpoint {self.folder}: checkpoint and journal are from different watches; use another folder"
                )
        return shard, self.store.form, self.store.after(self.saved)

    def unseen(self, messages: Sequence[Message]) -> list[Message]:
        """Skip a message that the broker sends again; of a retained one that was counted before, only note it."""
        found, tickets, topics = [], set(), dict[str, str]()
        for message in messages:
            if message.again and (message.ticket in tickets or message.ticket in self.store.tickets):
                continue
            if message.topic:
                known = topics.get(message.topic) or self.store.topics.get(message.topic, "")
                digest, _, session = known.partition(" ")
                topics[message.topic] = f"{message.digest} {message.session}"
                if digest == message.digest and (not message.session or session != message.session):
                    message = message._replace(lines=())
            if message.ticket:
                tickets.add(message.ticket)
            found.append(message)
        return found

    def note(
        self, before: int, samples: Sequence[Sample], form: LineFormat | None, messages: Sequence[Message]
    ) -> None:
        """Keep samples that `before` others came before, with the tickets of their messages and the digests of
        retained ones, in one transaction."""
        store = self.store
        tickets = [message.ticket for message in messages if message.ticket]
        topics = {message.topic: f"{message.digest} {message.session}" for message in messages if message.topic}
        if not (samples or tickets or topics):
            return
        with store.transaction() as db:
            if form != store.form:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('form', ?)", [json.dumps(form)])
            if samples and self.folder:
                db.execute("INSERT INTO journal VALUES (?, ?)", [before, json.dumps(samples)])
            db.executemany("INSERT INTO tickets (ticket) VALUES (?)", [(ticket,) for ticket in tickets])
            if tickets:
                db.execute("DELETE FROM tickets WHERE number <= (SELECT max(number) FROM tickets) - ?", [TICKETS])
            db.executemany("INSERT OR REPLACE INTO topics VALUES (?, ?)", list(topics.items()))
        store.form = form
        store.topics |= topics
        store.tickets |= dict.fromkeys(tickets)
        while len(store.tickets) > TICKETS:
            del store.tickets[next(iter(store.tickets))]

    def save(self, shard: Shard, form: LineFormat | None) -> None:
        """Write a checkpoint, and delete the journal before the previous one, which is used if the new one is
        damaged."""
        if self.folder is None:
            self.store.forget(shard.taken)  # alarms that all receivers have; there is no restart without a folder
        elif shard.taken != self.saved:
            self.store.check()  # otherwise the checkpoint would make a removed folder again
            shard.save(self.folder)
            self.store.forget(self.saved)
            self.saved = shard.taken
