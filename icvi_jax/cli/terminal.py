"""The terminal: one way to print, and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from icvi_jax.text import one_line

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 160  # where the output is not a terminal: a table in a file or a pipe need not wrap
T = TypeVar("T")


def console() -> Console:
    """A console that prints text unchanged."""
    from rich.console import Console

    class Plain(Console):
        """Raises an error when the pipe is closed; rich's own console ends the process."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Plain(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)


def say(text: str) -> None:
    """Print a line, whatever is in it."""
    console().print(one_line(text) if not text.startswith(" ") else "  " + one_line(text))


def tell_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without lines."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*heads, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console().print(table, soft_wrap=False)


def tell_written(paths: Sequence[Path]) -> None:
    """Say where the files are."""
    for path in paths:
        say(f"wrote {path}")


def with_bar(items: Sequence[T], what: str) -> Iterable[T]:
    """Iterate over items with a progress bar, if the output is a terminal."""
    if not sys.stderr.isatty() or len(items) < 2:
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True), transient=True)
