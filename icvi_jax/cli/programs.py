"""Keep compiled programs from one call of the command to the next."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import jax


def remember_programs() -> None:
    """Keep compiled programs in the user's cache folder: compiling takes longer than computing most files.

    There is one folder per machine, since a program fits the processor it was compiled on. A cache that the user has
    set is left as it is; an empty `ICVI_CACHE` means no cache for native code.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    here = Path(home) / "icvi-jax" / platform.node()
    os.environ.setdefault("ICVI_CACHE", str(here / "native"))
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(here))
