"""`icvi watch`: live samples from standard input or a broker, alarms on standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from icvi_jax.cli import one_line
from icvi_jax.cli.feed import Reader, Sample, lines_of
from icvi_jax.cli.interrupts import Interrupts
from icvi_jax.cli.metrics import serving
from icvi_jax.cli.model import pipeline_of
from icvi_jax.cli.options import Model
from icvi_jax.cli.programs import remember_programs
from icvi_jax.cli.watcher import Watcher


def watch_command(
    reader: Reader,
    mqtt: tuple[str, str] | None,
    checkpoint: Path | None,
    prometheus: int | None,
    address: str,
    worst: int,
    model: Model,
) -> int:
    """Watch until the input ends or somebody ends it."""
    if checkpoint is not None and checkpoint.exists() and not checkpoint.is_dir():
        raise ValueError(f"--checkpoint {checkpoint}: wants a folder")
    remember_programs()
    watcher = Watcher(pipeline_of(model), checkpoint)
    again = watcher.restore()
    if watcher.form:
        if reader.features and reader.features != watcher.form.features:
            raise ValueError(f"--checkpoint {checkpoint}: was made with the columns {', '.join(watcher.form.features)}")
        reader.go_on(watcher.form)
        _say(f"going on after {watcher.samples:,} samples of {len(watcher.rows):,} nodes ({again:,} from the journal)")
    interrupts = Interrupts()
    try:
        with serving(watcher, prometheus, address, worst):
            if mqtt:
                _from_broker(watcher, reader, interrupts, mqtt, checkpoint)
            else:
                for lines in interrupts.between(lines_of(sys.stdin.fileno())):
                    _take(watcher, reader, [(line, "") for line in lines])
    except KeyboardInterrupt:
        pass  # the usual way to end a watch
    finally:
        watcher.close()
        interrupts.close()
    heard = f"{watcher.samples:,} samples of {len(watcher.rows):,} nodes"
    _say(f"{heard}, {watcher.alarms:,} alarms, {watcher.bad:,} bad lines")
    return 0


def _from_broker(
    watcher: Watcher, reader: Reader, interrupts: Interrupts, mqtt: tuple[str, str], checkpoint: Path | None
) -> None:
    """Take in what the broker sends; a message without a node is of the node its topic names."""
    from icvi_jax.cli.mqtt import Subscription

    subscription = Subscription(*mqtt, checkpoint)
    try:
        for messages in interrupts.between(subscription.bundles()):
            new, tickets = _not_again(watcher, messages)
            lines = [
                (line, message.topic)
                for message in new
                for line in message.payload.decode("utf-8", errors="replace").splitlines()
            ]
            _take(watcher, reader, lines, tickets)
            subscription.acknowledge(messages)
    finally:
        subscription.close()


def _not_again(watcher: Watcher, messages: list) -> tuple[list, list[str]]:
    """Messages without those that were taken in before and came again, and their tickets."""
    from icvi_jax.cli.mqtt import ticket_of

    new, tickets = [], []
    for message in messages:
        ticket = ticket_of(message)
        if not (message.dup and (ticket in tickets or watcher.knows(ticket))):
            new.append(message)
            tickets.append(ticket)
    return new, tickets


def _take(watcher: Watcher, reader: Reader, lines: list[tuple[str, str]], tickets: Sequence[str] = ()) -> None:
    """Understand lines and hand on the samples; a bad line is said and skipped."""
    samples: list[Sample] = []
    for line, topic in lines:
        try:
            sample = reader.read(line, topic)
        except ValueError as error:
            watcher.bad += 1
            _say(f"line {reader.count}: {error}: skipped")
            continue
        if sample is not None:
            samples.append(sample)
    if samples:
        watcher.take(samples, reader.form, tickets)


def _say(text: str) -> None:
    print(f"icvi: {one_line(text)}", file=sys.stderr, flush=True)
