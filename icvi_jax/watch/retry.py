"""Retries with backoff: a thread for each receiver of alarms, webhooks and all others.

Each alarm is sent at least once, with an id to recognise repeats.

An alarm waits in the store until its receiver has it, also over a restart. If sending fails, it is tried again after a
second, then after twice as long each time, up to five minutes; the watch itself never waits for it.

An alarm that failed eight times (about two minutes) may be one that the receiver does not want. So the next ones are
tried: if one of them is taken, the refused one is written to a file and given up. If none is accepted, the receiver is
assumed to be down, and all of them are retried.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterable

from icvi_jax.checkpoint import container
from icvi_jax.terminal_text import Complaints, counted, say
from icvi_jax.watch.journal import Store, Waiting
from icvi_jax.watch.silences import Silences
from icvi_jax.watch.sinks import Refusal, Sink
from icvi_jax.watch.webhook import TIMEOUT

FIRST, LONGEST = 1.0, 300.0
IDLE = 0.3
TRIES, PROBES = 8, 10
"""Attempts before an alarm may be given up, and how many of the next ones are tried then."""
REFUSED = "refused.jsonl"
"""File in the folder of a checkpoint with the alarms that were given up, one JSON object a line."""


class Sender:
    """A thread that sends the alarms that wait in the stores, but those that `silences` stop."""

    def __init__(self, receiver: Sink, stores: Callable[[], Iterable[Store]], silences: Silences | None = None):
        self.receiver, self._stores, self._silences = receiver, stores, silences or Silences()
        # alarms that have arrived, attempts that failed, and alarms that were given up
        self.sent = self.failed = self.refused = 0
        self._tries: dict[str, int] = {}
        self._early: set[str] = set()  # arrived before an alarm that the receiver refuses
        self._unwanted: set[str] = set()  # refused while others are taken
        self._complaints, self._pause = Complaints(), FIRST
        self._ending, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Sender:
        self._thread = threading.Thread(target=self._run, name=self.receiver.name, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.is_set():
            ending = self._ending.is_set()
            pause = self.attempt()
            if pause:
                if ending:
                    return
                self._ending.wait(pause)

    def attempt(self) -> float:
        """Send what waits; returns how many seconds to wait until the next attempt."""
        before = self.sent
        try:
            busy = self._pass_on()
            if not self._ending.is_set():
                self.receiver.beat(self._silences.names)
        except Exception as error:  # any error: this must not end while alarms wait
            self.failed += 1
            if not self._ending.is_set():
                self._complaints.say(f"{self.receiver.name}: {_why(error)}; alarms wait and are sent again")
            pause = FIRST if self.sent > before else self._pause  # some alarms arrived: no need to wait for long
            self._pause = min(2 * pause, LONGEST)
            return pause * random.uniform(0.5, 1.0)  # so that many senders do not come at once
        self._pause = FIRST
        return 0.0 if busy else IDLE

    def _pass_on(self) -> bool:
        """Send the alarms that wait, and mark each one that has arrived; returns whether there were any."""
        busy = False
        trouble: Exception | None = None
        for store in list(self._stores()):
            try:
                busy = self._empty(store) or busy
            except Refusal as error:  # alarms in other stores may be taken
                trouble = error
        if trouble is not None:
            raise trouble
        return busy

    def _empty(self, store: Store) -> bool:
        waiting = store.waiting(self.receiver.name, 100)
        for place, alarm in enumerate(waiting):
            if self._stop.is_set():
                return False
            key = alarm.id
            if key not in self._early:
                self._deliver(store, alarm, waiting[place + 1 : place + 1 + PROBES])
            store.mark(self.receiver.name, alarm.number)
            self._early.discard(key)
            self._unwanted.discard(key)
            self._tries.pop(key, None)
        return bool(waiting)

    def _deliver(self, store: Store, alarm: Waiting, others: Iterable[Waiting]) -> None:
        """Send an alarm, or give it up if it was refused often and the receiver takes one of the `others`."""
        key = alarm.id
        try:
            self._send(alarm)
            return
        except Exception:
            self._tries[key] = self._tries.get(key, 0) + 1
            if key not in self._unwanted and (self._tries[key] < TRIES or not self._takes(others)):
                raise
        self._unwanted.add(key)
        try:
            self._send(alarm)  # the receiver may have been in trouble until a moment ago
        except Exception as error:
            self._give_up(store, alarm, error)

    def _send(self, alarm: Waiting) -> bool:
        if self._silences.stop(json.loads(alarm.line), self.receiver.name):
            return False
        self.receiver.send(alarm.line)
        self.sent += 1
        return True

    def _takes(self, others: Iterable[Waiting]) -> bool:
        """Whether the receiver takes one of these alarms: then it works, and what it refuses it does not want."""
        for alarm in others:
            try:
                if alarm.id not in self._early and self._send(alarm):
                    self._early.add(alarm.id)
                    return True
            except Refusal:
                continue
            except Exception:  # it cannot be reached
                return False
        return False

    def _give_up(self, store: Store, alarm: Waiting, error: Exception) -> None:
        """Write a refused alarm to a file, so that the others can go on."""
        place = "standard output has it"
        if store.folder is not None:
            path = store.folder / REFUSED
            letter = {"receiver": self.receiver.name, "error": _why(error), "alarm": json.loads(alarm.line)}
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | container.NOFOLLOW, 0o666)
            try:
                container.write_all(handle, (json.dumps(letter) + "\n").encode())
                os.fsync(handle)
            finally:
                os.close(handle)
            container.sync_folder(store.folder)
            place = f"it is in {path}"
        self.refused += 1
        what = f"refused alarm {alarm.id} {self._tries[alarm.id]} times ({_why(error)}) and takes others"
        say(f"{self.receiver.name}: {what}: given up; {place}")

    def close(self, patience: float = 10.0) -> None:
        """Flush the queue as long as alarms arrive, and end the thread; reports how many are left."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(patience)
            self._stop.set()
            self._thread.join(TIMEOUT + 1)
        self.receiver.close()
        for store in self._stores():
            left = store.left(self.receiver.name)
            if left:
                later = "--checkpoint keeps such alarms; standard output has them"
                later = f"the next start sends them ({store.folder})" if store.folder else later
                say(f"{counted(left, 'alarm')} did not reach {self.receiver.name}: {later}")


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
