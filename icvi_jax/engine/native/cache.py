"""Cache: compiled code in a folder, for the next process.

What is in the folder is executed. So only a folder and files of this user that nobody else may write are used; anything
else is said once and left alone. Damaged entries are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
import stat
import tempfile
import time
from functools import lru_cache

from icvi_jax.text import say

FOLDER = "ICVI_CACHE"
"""An environment variable: the folder for compiled code; unset or empty: none."""

MOST = 256
"""Most entries in a folder; the oldest are removed."""
LARGEST = 1 << 28
ENTRY, UNFINISHED = re.compile(r"[0-9a-f]{64}\.o"), ".icvi-"
ABANDONED_SECONDS = 3600.0
POSIX = os.name == "posix"


def folder() -> pathlib.Path | None:
    """The folder that the environment names, if it is safe to use."""
    name = os.environ.get(FOLDER, "")
    place = pathlib.Path(name).expanduser() if name else None
    return place if place is not None and _is_safe_folder(str(place)) else None


@lru_cache(maxsize=64)
def _is_safe_folder(name: str) -> bool:
    """Whether a folder belongs to this user alone; it is made if it is not there. What is wrong is said once."""
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700)
        found = os.stat(name)
    except OSError:
        return False  # nothing can be stored there: as without a cache
    why = "it is not a folder" if not stat.S_ISDIR(found.st_mode) else _whose(found)
    if why:
        say(f"{FOLDER}={name}: not used, since {why}: what is in it would be executed")
    return not why


def _whose(found: os.stat_result) -> str:
    """Why a file or folder may be the work of somebody else; empty if it is ours alone."""
    if not POSIX:
        return ""
    if found.st_uid != os.geteuid():
        return f"it belongs to another user ({found.st_uid})"
    return "others may write to it (chmod go-w)" if found.st_mode & 0o022 else ""


def stored(entry: pathlib.Path) -> bytes | None:
    """What was stored, or None if nothing was, or it is damaged or not ours."""
    try:
        # A FIFO must not block, a symbolic link may point anywhere.
        handle = os.open(entry, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or _whose(found) or found.st_size > LARGEST:
            return None
        data = file.read()
    digest, code = data[:32], data[32:]
    return code if _digest(entry, code) == digest else None


def store(entry: pathlib.Path, code: bytes) -> None:
    """Store code, atomically; if the folder cannot be written, nothing is stored."""
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=entry.parent, prefix=UNFINISHED)
        try:
            with open(handle, "wb") as file:
                file.write(_digest(entry, code) + code)
            os.replace(name, entry)
        except BaseException:
            os.unlink(name)
            raise
        _remove_old(entry.parent)


def _remove_old(place: pathlib.Path) -> None:
    """Remove the oldest entries beyond `MOST`, and files that a killed process left; only names that are ours."""
    ours = [path for path in place.iterdir() if ENTRY.fullmatch(path.name)]
    for old in sorted(ours, key=lambda path: path.lstat().st_mtime)[:-MOST]:
        old.unlink(missing_ok=True)
    for path in place.glob(f"{UNFINISHED}*"):
        if path.lstat().st_mtime < time.time() - ABANDONED_SECONDS:
            path.unlink(missing_ok=True)


def _digest(entry: pathlib.Path, code: bytes) -> bytes:
    """Of the code and its name: code of another program under this name is refused."""
    return hashlib.sha256(entry.name.encode() + code).digest()
