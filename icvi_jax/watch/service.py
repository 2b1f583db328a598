"""Run a watch until its input ends or somebody ends it."""

from __future__ import annotations

import sys
from typing import NamedTuple

from icvi_jax.text import say
from icvi_jax.watch.fleet import Watch
from icvi_jax.watch.lines import lines_of
from icvi_jax.watch.metrics import serving
from icvi_jax.watch.signals import Interrupts


class Service(NamedTuple):
    """What goes on around a watch.

    Attributes
    ----------
    mqtt : host and topic of a broker; None reads standard input.
    prometheus, address, worst : port and address of the metrics, and how many nodes have one of their own.
    """

    mqtt: tuple[str, str] | None = None
    prometheus: int | None = None
    address: str = "127.0.0.1"
    worst: int = 10


def serve(watch: Watch, service: Service) -> None:
    """Go on from the last life, then take in what comes."""
    try:
        again = watch.restore()
        if watch.samples:
            known = f"{watch.samples:,} samples of {watch.nodes:,} nodes"
            say(f"going on after {known} ({again:,} since the last checkpoint)")
        interrupts = Interrupts()
        try:
            with serving(watch, service.prometheus, service.address, service.worst):
                if service.mqtt:
                    _from_broker(watch, interrupts, service.mqtt)
                else:
                    for lines in interrupts.between(lines_of(sys.stdin.fileno())):
                        watch.take([(line, "") for line in lines])
        except KeyboardInterrupt:
            pass  # the usual way to end a watch
        finally:
            interrupts.close()
        watch.save()  # not after an error: the folder says how far things came
    except BrokenPipeError:
        say(f"nobody reads the alarms any more{'; a restart prints them again' if watch.folder else ''}")
        raise
    finally:
        watch.close()
    heard = f"{watch.samples:,} samples of {watch.nodes:,} nodes"
    say(f"{heard}, {watch.alarms:,} alarms, {watch.bad:,} bad lines, {watch.old:,} old samples passed over")


def _from_broker(watch: Watch, interrupts: Interrupts, mqtt: tuple[str, str]) -> None:
    """Take in what the broker sends."""
    from icvi_jax.watch.mqtt import Subscription, lines_in, news

    subscription = Subscription(*mqtt, watch.folder)
    try:
        for messages in interrupts.between(subscription.bundles()):
            new = news(messages, watch.store)
            watch.take(lines_in(new.messages), new.tickets, new.topics)
            subscription.acknowledge(messages)
    finally:
        subscription.close()
