"""Text of any origin, made safe for one line of a terminal or a log."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Iterable

COMPLAINT_SECONDS = 60.0
"""How often `Complaints` prints."""


def one_line(text: str) -> str:
    """Make text of any origin safe for one line of a terminal: control characters are shown, not executed.

    Examples
    --------
    >>> one_line("a\\nb\\x1b[31m")
    'a b\\\\x1b[31m'
    """
    flat = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in flat)


def counted(number: int, thing: str) -> str:
    """A number and what it counts.

    Examples
    --------
    >>> counted(1, "node"), counted(2000, "node")
    ('1 node', '2,000 nodes')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """A question about the known name that is most like this one; empty if none is.

    Examples
    --------
    >>> did_you_mean("tmep", ["temp", "hum"])
    "did you mean 'temp'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"{before}did you mean {close[0]!r}?" if close else ""


def say(text: str) -> None:
    """Print one line on standard error; errors are ignored, since a closed output is no reason to stop."""
    try:
        print(f"icvi: {one_line(text)[:600]}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


class Complaints:
    """Prints what is wrong, at most once per minute, with the number of messages left out."""

    def __init__(self) -> None:
        self._at, self._unsaid = -COMPLAINT_SECONDS, 0

    def say(self, text: str) -> None:
        """Print this text, or count it."""
        now = time.monotonic()
        if now - self._at < COMPLAINT_SECONDS:
            self._unsaid += 1
            return
        say(text + (f" ({self._unsaid:,} others since the last such message)" if self._unsaid else ""))
        self._at, self._unsaid = now, 0
