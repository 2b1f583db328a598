"""Where alarms go: one interface for standard output, webhooks, MQTT and Kafka. `retry` sends to all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from typing import Protocol, TextIO, runtime_checkable

from icvi_jax.terminal_text import say
from icvi_jax.watch.journal import Store


class Sink(Protocol):
    """A receiver of alarms."""

    name: str  # of the receiver, for marks and messages

    def send(self, line: str) -> None:
        """Send one alarm, a line of JSON; returns when it has arrived.

        Raises `Refusal` if the receiver has answered that it does not want this alarm, OSError if it has not answered.
        """

    def close(self) -> None:
        """Close connections, if there are any."""
        return


@runtime_checkable
class Repeating(Protocol):
    """A receiver that gets more than new alarms: those that still stand, or the state of nodes."""

    def beat(self, muted: Set[str]) -> None:
        """Called by its sender about three times a second; leaves out `muted` nodes. Raises what `send` raises."""


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


def open_sinks(
    webhooks: Sequence[str],
    mqtt: tuple[str, str] | None,
    kafka: tuple[str, str] | None,
    more: Sequence[Sink] = (),
    cloudevents: bool = False,
    template: str = "",
) -> list[Sink]:
    """The receivers that the options name, and `more`."""
    from icvi_jax.watch.webhook import Webhook, read_template

    if (cloudevents or template) and not webhooks:
        raise ValueError(f"{'--cloudevents' if cloudevents else '--webhook-text'}: needs --webhook URL")
    if cloudevents and template:
        raise ValueError("--cloudevents and --webhook-text: give only one of them")
    form = read_template(template) if template else None
    found: list[Sink] = [Webhook(url, cloudevents, form) for url in dict.fromkeys(webhooks)]
    if mqtt:
        from icvi_jax.watch.mqtt import Publisher

        found.append(Publisher(*mqtt))
    if kafka:
        from icvi_jax.watch.kafka import Topic

        found.append(Topic(*kafka))
    found += more
    for receiver in found:
        say(f"alarms also go to {receiver.name}")
    return found
