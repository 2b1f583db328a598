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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from icvi_jax.checkpoint import container
from icvi_jax.pipeline import Pipeline
from icvi_jax.watch.json_and_csv import LineFormat
from icvi_jax.watch.locking import locked
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


class JournalEntry(NamedTuple):
    """Samples that came together, and how many samples came before them."""

    number: int
    samples: list[Sample]


class Waiting(NamedTuple):
    """An alarm that is not sent yet: its number in the order, and its line of JSON."""

    number: int
    line: str


class Store:
    """The journal and the alarms in one folder, which no second process can open; without a folder: in memory, only
    alarms.

    Parameters
    ----------
    folder : for the file, or None.
    sinks : names of the receivers; an alarm stays until all of them have marked it.
    """

    def __init__(self, folder: Path | None = None, sinks: Sequence[str] = ()):
        self.folder, self.sinks = folder, tuple(sinks)
        self._guard = threading.RLock()
        self._lock = self._only_here(folder) if folder else None
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
        self._db.execute("COMMIT")
        meta = dict(self._db.execute("SELECT key, value FROM meta"))
        self.id: str = meta["id"]  # a unique name of this watch; ids of alarms begin with it
        self.form = LineFormat.of(json.loads(meta["form"])) if "form" in meta else None  # of the feed, once known
        self._tickets = dict.fromkeys(ticket for (ticket,) in self._db.execute("SELECT ticket FROM tickets"))
        # digest of the last retained message of each topic, and the session in which it came
        self.topics: dict[str, str] = dict(self._db.execute("SELECT topic, digest FROM topics"))
        self._inode = os.stat(self._path).st_ino if self._path else 0

    @staticmethod
    def _only_here(folder: Path) -> sqlite3.Connection:
        container.make_folder(folder)
        return locked(folder / LOCK, f"--checkpoint {folder}: another watch is using this folder")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
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

    def knows(self, ticket: str) -> bool:
        """Whether the message with this ticket was processed before."""
        return ticket in self._tickets

    def note(
        self,
        number: int,
        samples: Sequence[Sample],
        form: LineFormat | None,
        tickets: Sequence[str] = (),
        topics: Mapping[str, str] | None = None,
    ) -> None:
        """Write samples to the journal before they are computed; `number` samples came before them."""
        with self._transaction() as db:
            if form != self.form:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('form', ?)", [json.dumps(form)])
            if samples and self.folder:
                db.execute("INSERT INTO journal VALUES (?, ?)", [number, json.dumps(samples)])
            db.executemany("INSERT INTO tickets (ticket) VALUES (?)", [(ticket,) for ticket in tickets])
            if tickets:
                db.execute("DELETE FROM tickets WHERE number <= (SELECT max(number) FROM tickets) - ?", [TICKETS])
            db.executemany("INSERT OR REPLACE INTO topics VALUES (?, ?)", list((topics or {}).items()))
        self.form = form
        self.topics |= topics or {}
        self._tickets |= dict.fromkeys(tickets)
        while len(self._tickets) > TICKETS:
            del self._tickets[next(iter(self._tickets))]

    def remember(self, key: str, value: str) -> None:
        """Keep a short text under a name, over restarts."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [f"{key}:", value])

    def recall(self, key: str) -> str:
        """The text that was kept under a name, or an empty one."""
        with self._guard:
            found = self._db.execute("SELECT value FROM meta WHERE key = ?", [f"{key}:"]).fetchone()
            return str(found[0]) if found else ""

    def after(self, number: int) -> list[JournalEntry]:
        """The batches of the journal from sample `number` on, in order."""
        found = self._db.execute("SELECT number, samples FROM journal WHERE number >= ? ORDER BY number", [number])
        batches = [
            JournalEntry(first, [Sample(node, time, tuple(x)) for node, time, x in json.loads(text)])
            for first, text in found
        ]
        if batches and batches[0].number > number:
            gap = batches[0].number - number
            raise ValueError(f"--checkpoint {self.folder}: {gap:,} samples are in no checkpoint and not in {FILE}")
        return batches

    def add(self, at: int, alarms: Sequence[tuple[str, str]]) -> None:
        """Store alarms (id, line) for all receivers; an alarm that is already stored is not added again."""
        with self._transaction() as db:
            db.executemany(
                "INSERT OR IGNORE INTO alarms (id, at, line) VALUES (?, ?, ?)", [(id, at, line) for id, line in alarms]
            )

    def waiting(self, sink: str, limit: int = 1000) -> list[Waiting]:
        """The oldest alarms that `sink` has not marked."""
        with self._guard:
            found = self._db.execute(
                "SELECT number, line FROM alarms WHERE number > coalesce((SELECT number FROM marks WHERE sink = ?), 0)"
                " ORDER BY number LIMIT ?",
                [sink, limit],
            )
            return [Waiting(*row) for row in found]

    def left(self, sink: str) -> int:
        """How many alarms `sink` has not marked."""
        with self._guard:
            after = "number > coalesce((SELECT number FROM marks WHERE sink = ?), 0)"
            return int(self._db.execute(f"SELECT count(*) FROM alarms WHERE {after}", [sink]).fetchone()[0])

    def unmarked(self) -> list[tuple[str, str]]:
        """Alarms (id, line) that some receiver has not got."""
        with self._guard:
            out = f"SELECT coalesce(min(number), 0) FROM marks WHERE sink IN ({','.join('?' * len(self.sinks))})"
            rows = f"SELECT id, line FROM alarms WHERE number > ({out}) ORDER BY number"
            return self._db.execute(rows, self.sinks).fetchall()

    def mark(self, sink: str, number: int) -> None:
        """Mark all alarms up to this one as sent to `sink`."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", [sink, number])

    def forget(self, number: int) -> None:
        """Delete the batches before sample `number`, which a checkpoint has, and the alarms before it that are sent."""
        with self._transaction() as db:
            db.execute("DELETE FROM journal WHERE number < ?", [number])
            out = f"SELECT coalesce(min(number), 0) FROM marks WHERE sink IN ({','.join('?' * len(self.sinks))})"
            db.execute(f"DELETE FROM alarms WHERE at <= ? AND number <= ({out})", [number, *self.sinks])

    def close(self) -> None:
        """Close the file and unlock the folder."""
        for connection in (getattr(self, "_db", None), self._lock):
            if connection is not None:
                with suppress(sqlite3.Error):  # otherwise an open cursor would keep the connection and its lock
                    connection.rollback()
                connection.close()


class Restored(NamedTuple):
    """What a restart continues from: the shard of the checkpoint, the form of the feed, and the journal after it."""

    shard: Shard | None
    form: LineFormat | None
    batches: list[JournalEntry]


class Keeper(Protocol):
    """Keeps what a restart of one part of a source needs."""

    id: str  # a unique name; ids of alarms begin with it
    folder: Path | None  # where it is kept, or None
    store: Store  # where alarms wait
    shared: bool  # whether other processes may have had this part before

    def restore(self, pipe: Pipeline, keep_old: bool, late: float) -> Restored:
        """Load what was kept."""

    def unseen(self, messages: Sequence[Message]) -> list[Message]:
        """The messages without those that were processed before."""

    def note(
        self, before: int, samples: Sequence[Sample], form: LineFormat | None, messages: Sequence[Message]
    ) -> None:
        """Keep samples that `before` others came before, and that their messages were processed."""

    def changed(self, shard: Shard, saved: int) -> bool:
        """Whether there is something new since the checkpoint with `saved` samples."""

    def save(self, shard: Shard, form: LineFormat | None, saved: int) -> None:
        """Write a checkpoint; the one before it has `saved` samples."""

    def close(self) -> None:
        """Close files as they are."""


class JournalKeeper:
    """Keeps a part in a folder of its own: a journal and checkpoints. Without a folder nothing is kept.

    Parameters
    ----------
    folder : for journal and checkpoints, or None.
    sinks : names of the receivers of alarms.
    """

    shared = False

    def __init__(self, folder: Path | None, sinks: Sequence[str]):
        self.folder, self.store = folder, Store(folder, sinks)
        self.id = self.store.id

    def restore(self, pipe: Pipeline, keep_old: bool, late: float) -> Restored:
        """The checkpoint and the journal after it."""
        shard = None
        if self.folder and saved_in(self.folder):
            shard = Shard.load(self.folder, pipe, keep_old, late)
            if shard.id != self.id:
                raise ValueError(
                    f"--checkpoint {self.folder}: checkpoint and journal are from different watches; use another folder"
                )
        return Restored(shard, self.store.form, self.store.after(shard.taken if shard else 0))

    def unseen(self, messages: Sequence[Message]) -> list[Message]:
        """Skip a message that the broker sends again; of a retained one that was counted before, only note it."""
        found, tickets, topics = [], set(), dict[str, str]()
        for message in messages:
            if message.again and (message.ticket in tickets or self.store.knows(message.ticket)):
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
        """One transaction with the samples, their tickets and the digests of retained messages."""
        tickets = [message.ticket for message in messages if message.ticket]
        topics = {message.topic: f"{message.digest} {message.session}" for message in messages if message.topic}
        if samples or tickets or topics:
            self.store.note(before, samples, form, tickets, topics)

    def changed(self, shard: Shard, saved: int) -> bool:
        """Whether samples were accepted since."""
        return self.folder is None or shard.taken != saved

    def save(self, shard: Shard, form: LineFormat | None, saved: int) -> None:
        """Write a checkpoint, and delete the journal before the previous one, which is used if the new one is
        damaged."""
        if self.folder is None:
            self.store.forget(shard.taken)  # alarms that all receivers have; there is no restart without a folder
            return
        self.store.check()  # otherwise the checkpoint would make a removed folder again
        shard.save(self.folder)
        self.store.forget(saved)

    def close(self) -> None:
        """Close the journal and unlock the folder."""
        self.store.close()
