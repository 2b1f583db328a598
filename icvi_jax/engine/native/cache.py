"""Cache: compiled code in a folder, for the next process. Damaged entries are ignored."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import tempfile

FOLDER = "ICVI_CACHE"
"""An environment variable: the folder for compiled code; unset or empty: none."""

MOST = 256
"""Most entries in a folder; the oldest are removed."""


def folder() -> pathlib.Path | None:
    """The folder that the environment names."""
    name = os.environ.get(FOLDER, "")
    return pathlib.Path(name).expanduser() if name else None


def stored(entry: pathlib.Path) -> bytes | None:
    """What was stored, or None if nothing was, or it is damaged."""
    try:
        data = entry.read_bytes()
    except OSError:
        return None
    digest, code = data[:32], data[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def store(entry: pathlib.Path, code: bytes) -> None:
    """Store code, atomically; if the folder cannot be written, nothing is stored."""
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=entry.parent, delete=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(file.name, entry)
        for old in sorted(entry.parent.glob("*.o"), key=lambda file: file.stat().st_mtime)[:-MOST]:
            old.unlink()
