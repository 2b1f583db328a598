"""Alarms that a receiver refuses, and alarms that wait when a watch ends."""

from __future__ import annotations

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from watching import COMMAND, PATIENCE, lines, samples, until

from icvi_jax.watch import retry
from icvi_jax.watch.journal import Store
from icvi_jax.watch.retry import Sender
from icvi_jax.watch.silences import Silences
from icvi_jax.watch.webhook import Webhook

NAMES = [f"w-0-{n}-xb" for n in range(12)]


class Hook(ThreadingHTTPServer):
    """A webhook that refuses alarms by their ids; `got` has those it took, `posts` all of them."""

    def __init__(self):
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                key = self.headers["Idempotency-Key"]
                hook.posts.append(key)
                fine = not hook.refuses(key)
                hook.got += [key] * fine
                self.send_response(200 if fine else 400)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.posts, self.got, self.refuses = [], [], lambda key: False
        self.url = f"http://127.0.0.1:{self.server_port}/"


@pytest.fixture
def hook(monkeypatch):
    monkeypatch.setattr(retry, "FIRST", 0.002)
    monkeypatch.setattr(retry, "LONGEST", 0.01)
    server = Hook()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def kept(folder, hook, names=NAMES):
    """A store with alarms for the hook."""
    store = Store(folder, [Webhook(hook.url).name])
    store.add(1, [(name, json.dumps({"id": name, "node": name})) for name in names])
    return store


def sent(hook, store, silences=None):
    """Send until nothing waits."""
    sender = Sender(Webhook(hook.url), lambda: [store], silences).start()
    until(lambda: not store.waiting(sender.receiver.name), "the alarms")
    sender.close()
    return sender


def set_aside(folder):
    path = folder / retry.REFUSED
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_refused_alarm_does_not_hold_up_the_others(hook, tmp_path, capsys):
    bad = [NAMES[3], NAMES[4], NAMES[9]]
    hook.refuses = bad.__contains__
    sender = sent(hook, kept(tmp_path, hook))
    assert set(hook.got) == set(NAMES) - set(bad) and len(hook.got) == len(set(hook.got))
    tries = [hook.posts.count(name) for name in bad]
    assert retry.TRIES <= min(tries) and max(tries) <= retry.TRIES + 2 and sender.refused == 3
    letters = set_aside(tmp_path)
    assert [letter["alarm"]["id"] for letter in letters] == bad
    assert all(letter["receiver"] == sender.receiver.name and "400" in letter["error"] for letter in letters)
    told = [line for line in capsys.readouterr().err.splitlines() if "given up" in line]
    assert len(told) == 3 and bad[0] in told[0] and retry.REFUSED in told[0]


def test_the_last_alarm_waits_until_another_one_shows_that_the_receiver_works(hook, tmp_path):
    hook.refuses = NAMES[1].__eq__
    store = kept(tmp_path, hook, NAMES[:2])
    sender = Sender(Webhook(hook.url), lambda: [store]).start()
    until(lambda: hook.posts.count(NAMES[1]) > 2 * retry.TRIES, "attempts")
    assert len(store.waiting(sender.receiver.name)) == 1 and not set_aside(tmp_path)
    store.add(2, [(NAMES[2], json.dumps({"id": NAMES[2], "node": "a"}))])
    until(lambda: not store.waiting(sender.receiver.name), "the last one")
    sender.close()
    assert hook.got == [NAMES[0], NAMES[2]] and len(set_aside(tmp_path)) == 1


def test_a_receiver_that_refuses_everything_for_a_while_gets_everything(hook, tmp_path):
    hook.refuses = lambda key: len(hook.posts) < 10 * retry.TRIES
    sent(hook, kept(tmp_path, hook))
    assert sorted(set(hook.got)) == sorted(NAMES) and not set_aside(tmp_path)


def test_a_muted_alarm_shows_nothing(hook, tmp_path):
    """It is not sent, so it is no sign that the receiver works."""
    silences = Silences()
    for name in NAMES[1:]:
        silences.set(name, True)
    hook.refuses = lambda key: len(hook.posts) < 3 * retry.TRIES
    sent(hook, kept(tmp_path, hook), silences)
    assert hook.got == NAMES[:1] and not set_aside(tmp_path)


def test_without_a_folder_the_output_has_it(hook, capsys):
    hook.refuses = NAMES[0].__eq__
    sent(hook, kept(None, hook))
    assert "given up; standard output has it" in capsys.readouterr().err and sorted(hook.got) == sorted(NAMES[1:])


def test_a_disk_that_is_full_loses_nothing(hook, tmp_path):
    """An alarm that cannot be set aside goes on waiting."""
    hook.refuses = NAMES[0].__eq__
    (tmp_path / retry.REFUSED).mkdir()
    store = kept(tmp_path, hook)
    sender = Sender(Webhook(hook.url), lambda: [store]).start()
    until(lambda: hook.posts.count(NAMES[0]) > 2 * retry.TRIES, "attempts")
    assert store.waiting(sender.receiver.name)[0].line.count(NAMES[0])
    (tmp_path / retry.REFUSED).rmdir()
    until(lambda: not store.waiting(sender.receiver.name), "the others")
    sender.close()
    assert len(set_aside(tmp_path)) == 1


def test_what_waits_at_the_end_is_sent(hook, capsys):
    store = kept(None, hook)
    Sender(Webhook(hook.url), lambda: [store]).start().close()
    assert hook.got == NAMES and not capsys.readouterr().err


@pytest.mark.parametrize("folder", [True, False])
def test_what_cannot_be_sent_at_the_end_is_said(tmp_path, capsys, folder):
    hook = Webhook("http://127.0.0.1:9/")
    store = Store(tmp_path if folder else None, [hook.name])
    store.add(1, [(name, json.dumps({"id": name, "node": name})) for name in NAMES])
    Sender(hook, lambda: [store]).start().close()
    told = capsys.readouterr().err
    assert f"12 alarms did not reach {hook.name}" in told
    assert ("the next start sends them" in told) is folder and ("--checkpoint keeps such alarms" in told) is not folder


def test_a_file_that_is_watched_reaches_the_webhook_to_its_end(hook):
    """Also the alarms of samples that were held back for late ones."""
    feed = lines(samples(152, ["a", "b"]))
    ended = subprocess.run(
        [*COMMAND, "--late", "1000", "--webhook", hook.url],
        input=feed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    printed = [json.loads(line)["id"] for line in ended.stdout.splitlines()]
    assert printed and hook.got == printed
