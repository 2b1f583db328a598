"""Where samples come from: one interface for standard input, MQTT and Kafka."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from icvi_jax.watch.json_and_csv import LONGEST_LINE

if TYPE_CHECKING:
    from icvi_jax.watch.loop import Partition, WatchLoop

PIECE, WAIT = 1 << 16, 0.5
ONLY = ""
"""Name of the part of a source that has one part only."""


class Message(NamedTuple):
    """Lines that came together, and how to recognise them if they come again."""

    lines: Sequence[bytes]  # the lines
    node: str = ""  # name of the node of lines without one
    offset: int = -1  # position in a log, or −1 where there is none
    ticket: str = ""  # name of a message that a broker sends again until it is acknowledged; empty where it does not
    again: bool = False  # the broker says that it may have sent this message before
    # topic, digest: of a retained message: topic, and what it says in short
    topic: str = ""
    digest: str = ""
    # in which a retained message came: the first one of its topic in a session may have been counted long ago, in
    # another session; empty where every retained message is such a repeat
    session: str = ""
    handle: tuple[int, int] | None = None  # what the source acknowledges


Batch = Mapping[str, Sequence[Message]]
"""Messages that came together, by part of the source."""


class Source(Protocol):
    """Where samples come from; a source only defines what it does something for.

    The loop takes a batch, writes it to the journal (where a part has one), then calls `acknowledge`, then computes.
    A source that sends a message again says so with `ticket` and `again`, or gives offsets; the loop skips what it has.
    """

    name: str  # for messages to a person

    def open(self, watch: WatchLoop) -> None:
        """Open the parts that this source has from the start, with `watch.open`; others may come and go later."""

    def batches(self) -> Iterator[Batch]:
        """Yield what has come; an empty batch from time to time if there is nothing. May end."""

    def acknowledge(self, batch: Batch) -> None:
        """All of this batch is in the journal: the source may forget it."""
        return

    def saved(self, parts: Sequence[Partition]) -> None:
        """Checkpoints of these parts were written."""
        return

    def close(self) -> None:
        """Leave the source; called after the last checkpoint."""
        return


class Stdin(Source):
    """Lines of standard input: one part, with a journal if there is a folder."""

    name = "standard input"

    def __init__(self, folder: Path | None = None):
        if sys.stdin is None:
            raise ValueError("standard input is closed: nothing to watch")
        self.folder, self._descriptor = folder, sys.stdin.fileno()

    def open(self, watch: WatchLoop) -> None:
        watch.open_journal(self.folder)

    def batches(self) -> Iterator[Batch]:
        for lines in lines_of(self._descriptor):
            yield {ONLY: [Message(lines)]} if lines else {}


def lines_of(descriptor: int) -> Iterator[list[bytes]]:
    """Yield the complete lines that have come; an empty list from time to time if there are none. Ends with the
    input."""
    rest = b""
    while True:
        if os.name != "nt" and not select.select([descriptor], [], [], WAIT)[0]:  # on Windows only for sockets
            yield []
            continue
        piece = os.read(descriptor, PIECE)
        if not piece:
            break
        *whole, rest = (rest + piece).split(b"\n")
        rest = rest[: LONGEST_LINE + 1]
        if whole:
            yield whole
    if rest.strip():
        yield [rest]
