"""Where alarms go: one interface for standard output, webhooks, MQTT and Kafka. `retry` sends to all of them."""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Protocol, TextIO

from icvi_jax.watch.journal import Store


class Refusal(OSError):
    """The receiver has answered that it does not take this alarm."""


class Sink(Protocol):
    """A receiver of alarms."""

    name: str  # of the receiver, for marks and messages

    def send(self, line: str) -> None:
        """Send one alarm, a line of JSON; returns when it has arrived.

        Raises `Refusal` if the receiver has answered that it does not want this alarm, OSError if it has not answered.
        """

    def beat(self, muted: Set[str]) -> None:
        """Called by its sender about three times a second, for a receiver that gets more than new alarms: those that
        still stand, or the state of nodes. Leaves out `muted` nodes. Raises what `send` raises."""
        return

    def close(self) -> None:
        """Close connections, if there are any."""
        return


class Printer(Sink):
    """Standard output, as a sink: the loop itself prints alarms, before it goes on."""

    name = "print"

    def __init__(self, out: TextIO):
        self.out = out

    def pass_on(self, store: Store) -> None:
        """Print the alarms that are not printed yet, and mark them."""
        while waiting := store.waiting(self.name):
            for alarm in waiting:
                self.send(alarm.line)
            self.out.flush()
            store.mark(self.name, waiting[-1].number)

    def send(self, line: str) -> None:
        """Print one alarm; what a terminal would execute or turn around is escaped, which is JSON as well."""
        if not line.isprintable():
            line = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
        print(line, file=self.out)
