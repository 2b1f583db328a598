"""Faults planted on purpose: the simulation must find each of them."""

from __future__ import annotations

import os
from unittest import mock

from icvi_jax.checkpoint import container
from icvi_jax.watch.fencing import Claim
from icvi_jax.watch.journal import JournalKeeper
from icvi_jax.watch.loop import WatchLoop


def skip_sync_of_journal(world, _stack):
    """The journal is not synced before messages are acknowledged."""
    world.disk.skip_sync = lambda path: path.endswith("-wal")


def skip_sync_of_checkpoints(world, _stack):
    """Checkpoints are renamed without a sync of their content."""
    world.disk.skip_sync = lambda path: path.endswith(container.UNFINISHED)


def skip_sync_of_folders(world, _stack):
    """A renamed checkpoint is not made durable."""
    world.disk.skip_sync = lambda path: "." not in path.rpartition("/")[2]


def rename_before_sync(world, stack):
    """Rename and sync change places."""

    def write(path, content, fresh=False):
        beside = path.with_name(f".{path.name}.{os.urandom(8).hex()}{container.UNFINISHED}")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        container.write_all(handle, content)
        world.disk.handles[handle] = world.disk.handles[handle].rpartition("/")[0] + f"/{path.name}"
        file = world.disk._node(os.path.relpath(beside, world.disk.root))
        container._move(beside, path, fresh)
        world.disk.operation("sync after the rename")
        file.sync()
        os.close(handle)
        container.sync_folder(path.parent)

    stack.enter_context(mock.patch.object(container, "write", write))


def acknowledge_before_the_journal(_world, stack):
    """A batch is acknowledged before it is in the journal."""
    turn = WatchLoop.turn

    def early(self, batch):
        if batch and self.source is not None:
            self.source.acknowledge(batch)
        turn(self, batch)

    stack.enter_context(mock.patch.object(WatchLoop, "turn", early))


def forget_a_ticket(_world, stack):
    """The journal forgets by what a message is recognised when it comes again."""
    note = JournalKeeper.note

    def short(self, before, samples, form, messages):
        note(self, before, samples, form, [message._replace(ticket="") for message in messages])

    stack.enter_context(mock.patch.object(JournalKeeper, "note", short))


def forget_retained_messages(_world, stack):
    """The journal forgets which retained messages were counted."""
    note = JournalKeeper.note

    def short(self, before, samples, form, messages):
        note(self, before, samples, form, [message._replace(topic="") for message in messages])

    stack.enter_context(mock.patch.object(JournalKeeper, "note", short))


def mark_before_delivery(_world, stack):
    """Alarms are marked as delivered before they are."""
    from icvi_jax.watch.retry import Sender

    def early(self, store):
        waiting = store.waiting(self.receiver.name, 100)
        for alarm in waiting:
            store.mark(self.receiver.name, alarm.number)
            self._deliver(store, alarm, [])
        return bool(waiting)

    stack.enter_context(mock.patch.object(Sender, "_empty", early))


def share_one_folder(_world, stack):
    """Workers do not fence: all write into one folder, whoever has the partition now."""

    def claim(self, folder):
        container.make_folder(folder)
        self.folder, self._saves, self.number, self.own = folder, 0, 1, folder / "00000001"
        if not self.own.is_dir():
            self.own.mkdir()
            container.sync_folder(folder)

    stack.enter_context(mock.patch.object(Claim, "__init__", claim))
    stack.enter_context(mock.patch.object(Claim, "check", lambda self: None))


FAULTS = {
    skip_sync_of_journal: "mqtt",
    skip_sync_of_checkpoints: "stdin",
    skip_sync_of_folders: "stdin",
    rename_before_sync: "stdin",
    acknowledge_before_the_journal: "mqtt",
    forget_a_ticket: "mqtt",
    forget_retained_messages: "mqtt",
    mark_before_delivery: "kafka",
    share_one_folder: "kafka",
}
"""Each fault, and a source that shows it."""
