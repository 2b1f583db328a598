"""Make the n-th write of a watch fail: to its journal, checkpoints, alarms or the broker."""

from __future__ import annotations

import builtins
import os
import sqlite3
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from unittest import mock

from icvi_jax.checkpoint import container

WRITES = ("BEGIN", "COMMIT", "INSERT", "DELETE")


class Faults:
    """Counts the calls that write, and fails one of them: before it does anything, or when it has done its work."""

    def __init__(self, which=0, done=False):
        self.which, self.done, self.count = which, done, 0
        self.failed = ""

    def call(self, name, function, *args, error=OSError(ENOSPC, "no space left (a test)"), **options):
        self.count += 1
        here = self.count == self.which
        if here:
            self.failed = f"{name} {'after' if self.done else 'before'} its work"
        if here and not self.done:
            raise error
        result = function(*args, **options)
        if here:
            raise error
        return result

    @contextmanager
    def everywhere(self):
        """All writes of the process go through `call`."""
        faults = self

        class Connection(sqlite3.Connection):
            def _counted(self, method, text, *args):
                if not text.lstrip().startswith(WRITES):
                    return method(text, *args)
                error = sqlite3.OperationalError("disk I/O error (a test)")
                return faults.call(text[:30], method, text, *args, error=error)

            def execute(self, text, *args):
                return self._counted(super().execute, text, *args)

            def executemany(self, text, *args):
                return self._counted(super().executemany, text, *args)

        write = os.write

        def torn(handle, content):
            half = len(content) // 2
            faults.call("first half of a file", write, handle, bytes(content)[:half])
            return half + faults.call("second half", write, handle, bytes(content)[half:])

        def wrapped(name, function):
            return lambda *args, **options: faults.call(name, function, *args, **options)

        connect = sqlite3.connect
        with (
            mock.patch.object(sqlite3, "connect", lambda *a, **o: connect(*a, **o, factory=Connection)),
            mock.patch.object(container.os, "write", torn),
            mock.patch.object(os, "fsync", wrapped("fsync", os.fsync)),
            mock.patch.object(os, "replace", wrapped("rename", os.replace)),
            mock.patch.object(os, "link", wrapped("link", os.link)),
            mock.patch.object(Path, "unlink", wrapped("unlink", Path.unlink)),
            mock.patch.object(builtins, "print", wrapped("print", print)),
        ):
            yield


class Broker:
    """As a broker with quality of service 1: what is not acknowledged comes again, marked, with the same identifier."""

    def __init__(self, payloads):
        self.queue = [Message(mid, payload) for mid, payload in enumerate(payloads, 1)]

    def send(self, count):
        """The next messages; those that were sent before are marked."""
        out = self.queue[:count]
        for message in out:
            message.dup, message.sent = message.sent, True
        return out

    def acknowledge(self, messages):
        self.queue = [message for message in self.queue if message not in messages]


class Message:
    topic, qos, retain = "farm/x", 1, False

    def __init__(self, mid, payload):
        self.mid, self.payload, self.dup, self.sent = mid, payload, False, False
