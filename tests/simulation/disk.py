"""A disk as POSIX promises it: what was not synced may be lost, torn or in another order after a crash.

The code under test works on a real folder. Beside it this keeps a model: for each file what is on the disk for certain,
and the writes since the last sync; for each folder the entries for certain, and the changes since. `crash` replaces the
folder by one of the states that a power failure may leave.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import sqlite3
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import apsw

IGNORED = ("-shm",)  # an index in shared memory, which SQLite makes again


class Crash(BaseException):
    """The process ends here, in the middle of what it did."""


class Write(NamedTuple):
    """Bytes at an offset; `data` None: the file is cut there."""

    offset: int
    data: bytes | None


class File:
    """A file: what is on the disk, and writes that may or may not be."""

    def __init__(self, content=b""):
        self.durable, self.pending = bytes(content), []

    def content(self, kept=None):
        """The content with some of the pending writes: all, or pairs of a write and how many of its bytes."""
        out = bytearray(self.durable)
        for write, size in [(write, None) for write in self.pending] if kept is None else kept:
            if write.data is None:
                out[write.offset :] = b""
                out += bytes(write.offset - len(out))
                continue
            data = write.data[:size]
            out += bytes(max(0, write.offset + len(data) - len(out)))
            out[write.offset : write.offset + len(data)] = data
        return bytes(out)

    def sync(self):
        self.durable, self.pending = self.content(), []


class Folder:
    """A folder: entries now, entries on the disk, and changes that may or may not be."""

    def __init__(self):
        self.now, self.durable, self.pending = {}, {}, []

    def change(self, **entries):
        self.change_all(entries)

    def change_all(self, entries):
        self.pending.append(entries)
        for name, node in entries.items():
            self.now.pop(name, None) if node is None else self.now.__setitem__(name, node)

    def sync(self):
        self.durable, self.pending = dict(self.now), []

    def entries(self, kept):
        found = dict(self.durable)
        for change in kept:
            for name, node in change.items():
                found.pop(name, None) if node is None else found.__setitem__(name, node)
        return found


class Disk:
    """Records what is done below `root`, and makes crashes of it.

    Attributes
    ----------
    count : operations so far.
    fail_at : number of the operation at which the process ends; 0: none.
    full : how many of the next writes fail, since the disk is full.
    life : number of the present process; operations of earlier ones do nothing.
    lost_syncs : numbers of syncs that do nothing (a planted fault).
    """

    def __init__(self, root: Path):
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.top, self.rebuilding = Folder(), False
        self.count = self.fail_at = self.full = self.life = 0
        self.syncs, self.skip_sync = 0, lambda path: False
        self.handles: dict[int, str] = {}
        self.log: list[str] = []

    # the model

    def _inside(self, path):
        if self.rebuilding:
            return None
        try:
            return os.path.relpath(os.fspath(path), self.root) if str(path).startswith(str(self.root)) else None
        except (TypeError, ValueError):
            return None

    def _node(self, name):
        node = self.top
        for part in [] if name == "." else name.split("/"):
            node = node.now[part]
        return node

    def _parent(self, name):
        above, _, last = name.rpartition("/")
        return self._node(above or "."), last

    def operation(self, what, life=None, writes=False):
        """Count an operation, and let it fail if its turn has come. Returns whether to do it."""
        if life is not None and life != self.life:
            return False  # the process ended before
        self.count += 1
        if self.fail_at and self.count >= self.fail_at:
            self.fail_at = 0
            self.life += 1
            raise Crash(what)
        if writes and self.full:
            self.full -= 1
            raise OSError(errno.ENOSPC, "no space left (a test)")
        return True

    def states(self):
        """All pending changes: pairs of a node and its change."""
        found = []

        def walk(node, seen):
            if id(node) in seen:
                return
            seen.add(id(node))
            found.extend((node, change) for change in node.pending)
            if isinstance(node, Folder):
                inside = list(node.now.values()) + list(node.durable.values())
                inside += [one for change in node.pending for one in change.values() if one is not None]
                for one in inside:
                    walk(one, seen)

        walk(self.top, set())
        return found

    def tree(self, keep):
        """Content by path after a crash; `keep(node, change)` says how much of it there is: none, all, or bytes."""

        def of(node):
            if isinstance(node, File):
                kept = [(write, keep(node, write)) for write in node.pending]
                return node.content([(write, None if size is True else size) for write, size in kept if size])
            return {name: of(one) for name, one in node.entries([c for c in node.pending if keep(node, c)]).items()}

        return of(self.top)

    def become(self, tree):
        """Replace the folder by this content, all of it durable: the machine has started again."""
        self.rebuilding = True
        shutil.rmtree(self.root, ignore_errors=True)

        def make(path, content):
            if isinstance(content, dict):
                path.mkdir(exist_ok=True)
                folder = Folder()
                folder.now = {name: make(path / name, one) for name, one in content.items()}
                folder.sync()
                return folder
            path.write_bytes(content)
            return File(content)

        self.root.parent.mkdir(parents=True, exist_ok=True)
        self.top = make(self.root, tree)
        self.rebuilding = False
        self.handles.clear()
        self.fail_at = self.full = 0

    def crash(self, rng):
        """A power failure: one of the possible states."""
        self.life += 1
        chance = rng.choice([0.0, 0.3, 0.7, 0.95])

        def keep(_node, change):
            if rng.random() < chance:
                return True
            torn = isinstance(change, Write) and change.data and rng.random() < 0.3
            return rng.randrange(len(change.data)) if torn else False

        self.become(self.tree(keep))

    def kill(self):
        """The process ended, the machine goes on: nothing is lost."""
        self.life += 1
        self.become(self.tree(lambda *_: True))

    # what the code under test calls

    @contextmanager
    def recorded(self):
        """All writes below the root go through the model."""
        real = {name: getattr(os, name) for name in ("open", "close", "write", "fsync", "replace", "link", "unlink")}
        real |= {name: getattr(os, name) for name in ("mkdir", "rmdir")}
        disk = self

        def open_(path, flags, mode=0o777, *, dir_fd=None):
            name = disk._inside(path)
            if name is None or name == ".." or name.startswith("../"):
                return real["open"](path, flags, mode, dir_fd=dir_fd)
            new = flags & os.O_CREAT and not os.path.exists(path)
            if new:
                disk.operation(f"create {name}", writes=True)
            handle = real["open"](path, flags, mode)
            if new:
                folder, last = disk._parent(name)
                folder.change_all({last: File()})
            disk.handles[handle] = name
            return handle

        def close(handle):
            disk.handles.pop(handle, None)
            return real["close"](handle)

        def write(handle, content):
            name = disk.handles.get(handle)
            if name is None:
                return real["write"](handle, content)
            disk.operation(f"write {name}", writes=True)
            file = disk._node(name)
            file.pending.append(Write(len(file.content()), bytes(content)))
            return real["write"](handle, content)

        def fsync(handle):
            name = disk.handles.get(handle)
            if name is None:
                return real["fsync"](handle)
            disk.operation(f"sync {name}")
            disk.sync(name)
            return None

        def both(which):
            def move(a, b):
                first, second = disk._inside(a), disk._inside(b)
                if first is None:
                    return real[which](a, b)
                disk.operation(f"{which} {first} {second}")
                real[which](a, b)
                (folder, last), (_, other) = disk._parent(first), disk._parent(second)
                node = folder.now[last]
                folder.change_all({other: node} if which == "link" else {last: None, other: node})
                return None

            return move

        def one(which):
            def change(path, *args, **options):
                name = disk._inside(path)
                if name is None or options.get("dir_fd") is not None or name == "." or name.startswith(".."):
                    return real[which](path, *args, **options)
                disk.operation(f"{which} {name}")
                real[which](path, *args, **options)
                folder, last = disk._parent(name)
                folder.change_all({last: Folder() if which == "mkdir" else None})
                return None

            return change

        changed = {"open": open_, "close": close, "write": write, "fsync": fsync}
        changed |= {"replace": both("replace"), "link": both("link")}
        changed |= {name: one(name) for name in ("unlink", "mkdir", "rmdir")}
        with ExitStack() as stack:
            for name, function in changed.items():
                stack.enter_context(mock.patch.object(os, name, function))
            stack.enter_context(mock.patch.object(sqlite3, "connect", self._connect))
            yield

    def sync(self, name):
        self.syncs += 1
        if not self.skip_sync(name):
            self._node(name).sync()

    def _connect(self, path, **_options):
        if str(path) == ":memory:":
            return CONNECT(path, isolation_level=None, check_same_thread=False)
        VFS.disk = self
        return Connection(str(path))


CONNECT = sqlite3.connect
NUMBERS = itertools.count()


class VFS(apsw.VFS):
    """SQLite's own files, with a record of what it writes."""

    disk: Disk

    def __init__(self):
        super().__init__("recorded", "")

    def xOpen(self, name, flags):
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return Opened(self.disk, path, name, flags)

    def xDelete(self, path, sync):
        disk, name = self.disk, self.disk._inside(path)
        if not disk.operation(f"delete {name}", Opened.acting):
            return
        super().xDelete(path, sync)
        folder, last = disk._parent(name)
        folder.change_all({last: None})
        if sync:
            folder.sync()


class Opened(apsw.VFSFile):
    """One of SQLite's files."""

    acting = 0  # the process whose connection is at work: a deletion does not say whose it is

    def __init__(self, disk, path, name, flags):
        self.disk, self.name, self.life = disk, disk._inside(path), disk.life
        self.recorded = self.name is not None and not self.name.endswith(IGNORED)
        new = self.recorded and not os.path.exists(path)
        if new:
            disk.operation(f"create {self.name}", self.life)
        super().__init__("", name, flags)
        if new:
            folder, last = disk._parent(self.name)
            folder.change_all({last: File()})
        # As SQLite does: the first sync of a new journal also syncs the folder.
        self.new_journal = new and self.name.endswith(("-wal", "-journal"))
        self.file = disk._node(self.name) if self.recorded else None

    def xWrite(self, data, offset):
        if self.recorded:
            try:
                if not self.disk.operation(f"write {self.name}", self.life, writes=True):
                    return
            except OSError:
                raise apsw.FullError("database or disk is full") from None
            self.file.pending.append(Write(offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size):
        if self.recorded:
            if not self.disk.operation(f"cut {self.name}", self.life):
                return
            self.file.pending.append(Write(size, None))
        super().xTruncate(size)

    def xSync(self, _flags):
        if not self.recorded or not self.disk.operation(f"sync {self.name}", self.life):
            return
        self.disk.syncs += 1
        if not self.disk.skip_sync(self.name):
            self.file.sync()
            if self.new_journal:
                self.disk._parent(self.name)[0].sync()
        self.new_journal = False


class Connection:
    """A connection through the recorder, with what `sqlite3.Connection` has and a watch uses."""

    def __init__(self, path):
        self.life, self.closed = VFS.disk.life, False
        self._db = self._call(apsw.Connection, path, vfs="recorded")

    def _call(self, function, *args, **options):
        Opened.acting = self.life
        try:
            return function(*args, **options)
        except apsw.BusyError:
            raise sqlite3.OperationalError("database is locked") from None
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from None

    def execute(self, text, values=()):
        return self._call(self._db.execute, text, tuple(values))

    def executemany(self, text, rows):
        return self._call(self._db.executemany, text, list(rows))

    @property
    def in_transaction(self):
        return self._db.in_transaction

    def rollback(self):
        if not self.closed and self._db.in_transaction:
            self.execute("ROLLBACK")

    def close(self):
        self.closed = True
        with suppress(sqlite3.Error):  # as in Python's own module: the last checkpoint of a WAL may fail
            self._call(self._db.close, True)


RECORDED = VFS()
