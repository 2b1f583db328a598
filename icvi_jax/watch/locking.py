"""A lock that ends with its process, also after a crash, on every platform: that of SQLite."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def locked(path: Path, said: str) -> sqlite3.Connection:
    """Take the lock in this file until the connection is closed; error message `said` if another has it."""
    lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if "locked" in str(error):
            raise ValueError(said) from None
        raise OSError(f"{path}: cannot be locked ({error})") from None
    return lock
