"""Processes meet before JAX starts: one line names the process that is missing or wrong."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from icvi_jax.distributed import PeerLost, start
from icvi_jax.distributed import __main__ as launcher
from icvi_jax.distributed.rendezvous import NotJoined, meet


def meeting(*calls):
    """Let several processes meet in threads; returns the message that each of them got, or an empty text."""

    def told(call):
        try:
            meet(*call)
        except NotJoined as problem:
            return str(problem)
        return ""

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(told, calls))


def test_processes_meet_or_are_told_why_not():
    port = launcher._free_port()
    where = f"127.0.0.1:{port}"
    assert meeting((where, 3, 0, 20, where), (where, 3, 2, 20), (where, 3, 1, 20)) == ["", "", ""]
    assert meeting((where, 2, 0, 20, where), (where, 2, 1, 20)) == ["", ""], "the port is free again at once"
    here, there = meeting((where, 2, 0, 1, where), (where, 3, 1, 1))
    assert "process 1 did not come" in here and there == "process 0 was started with --processes 2, process 1 with 3"
    first, one, other = meeting((where, 3, 0, 2, where), (where, 3, 1, 2), (where, 3, 1, 2))
    assert "process 2 did not come" in first and any("two processes with --id 1" in text for text in (one, other))
    with socket.create_server(("127.0.0.1", port)) as taken:
        (told,) = meeting((where, 2, 0, 1, where))
        assert "choose another port" in told

        def answer():
            line, _ = taken.accept()
            with line:
                line.recv(100)
                line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        (told,) = meeting((where, 2, 1, 5))
        thread.join()
        assert "is not process 0 of a fleet" in told
    for wrong in ("head", "head:", ":7777", "head:99999", "head:x"):
        assert "expected host:port" in meeting((wrong, 2, 1, 1))[0]


def test_a_silent_or_broken_partner_is_a_clear_error():
    group = start()._replace(timeout=0.1)
    with pytest.raises(PeerLost, match="no answer from the others within 0.1 seconds"):
        group.together(lambda: time.sleep(2))

    def torn():
        raise ValueError("UNKNOWN: Gloo AllGather failed: Connection reset by peer")

    with pytest.raises(PeerLost, match="another process has died: .*reset by peer"):
        group.together(torn)
    with pytest.raises(ZeroDivisionError):
        group.together(lambda: 1 / 0)
