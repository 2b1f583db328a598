"""Compiled programs, kept from one call of the command to the next."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import jax


def remember_programs() -> None:
    """Keep compiled programs in the user's cache: compiling takes longer than most files.

    A folder for each machine, since a program fits the processor it was compiled on. Who has set a cache keeps it.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(Path(home) / "icvi-jax" / platform.node()))
