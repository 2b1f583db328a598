"""Compiled programs, kept from one call of the command to the next."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import jax


def remember_programs() -> None:
    """Keep compiled programs in the user's cache: compiling takes longer than most files.

    A folder for each machine, since a program fits the processor it was compiled on. Who has set a cache keeps it;
    an empty `ICVI_CACHE` is none for native code.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    here = Path(home) / "icvi-jax" / platform.node()
    os.environ.setdefault("ICVI_CACHE", str(here / "native"))
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(here))
