"""Meet: all processes of a fleet find each other before JAX starts, which would end the process if they do not.

A wrong port, a port in use or a process that never comes would be a stack trace of C++ and SIGABRT. So process 0 first
listens at the address of the coordinator, the others connect and give their numbers, and only when all are there does
JAX's own service get the port.
"""

from __future__ import annotations

import socket
import time

HELLO = "icvi-fleet"
LONGEST = 200  # bytes of a greeting or an answer
PAUSE = 0.1


class NotJoined(RuntimeError):
    """The processes of a fleet did not find each other; the message says which are missing and what to do."""


def meet(coordinator: str, processes: int, process: int, timeout: float, bind: str | None = None) -> None:
    """Wait until all processes are there; raises `NotJoined` with one line."""
    host, port = address(coordinator)
    deadline = time.monotonic() + timeout
    if process:
        _say_hello(host, port, f"{HELLO} {process} of {processes}", deadline, timeout)
    else:
        _wait_for_all(*(address(bind) if bind else ("", port)), processes, deadline, timeout)


def address(text: str) -> tuple[str, int]:
    """Split ``host:port``.

    Examples
    --------
    >>> address("head:7777"), address("[::1]:7777")
    (('head', 7777), ('::1', 7777))
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise NotJoined(f"--coordinator {text!r}: expected host:port such as head:7777, with a port below 65536")
    return host.strip("[]"), int(port)


def _say_hello(host: str, port: int, hello: str, deadline: float, timeout: float) -> None:
    """Send the number of this process to process 0, until all are there."""
    where = f"{host}:{port}"
    while True:
        left = deadline - time.monotonic()
        try:
            with socket.create_connection((host, port), max(left, PAUSE)) as line:
                line.sendall(f"{hello}\n".encode())
                answer = _line(line, deadline)
        except socket.gaierror:
            raise NotJoined(f"there is no host {host!r}: give the address of process 0 as --coordinator") from None
        except OSError:
            answer = ""
            if deadline - time.monotonic() < PAUSE:
                raise NotJoined(
                    f"process 0 does not answer at {where} within {timeout:g} s: start it, and check --coordinator"
                ) from None
        if answer == "go":
            return
        if answer.startswith("no: "):
            raise NotJoined(answer[4:])
        if answer:
            raise NotJoined(f"what answers at {where} is not process 0 of a fleet: check --coordinator")
        if deadline - time.monotonic() < PAUSE:
            raise NotJoined(f"not all processes came to {where} within {timeout:g} s: start the others")
        time.sleep(PAUSE)


def _wait_for_all(host: str, port: int, processes: int, deadline: float, timeout: float) -> None:
    """Listen until every other process has connected, then tell all to continue."""
    here: dict[int, socket.socket] = {}
    try:
        with _listener(host, port) as door:
            while len(here) < processes - 1:
                door.settimeout(max(deadline - time.monotonic(), 0.001))
                line, _ = door.accept()
                process, problem = _heard(_line(line, min(deadline, time.monotonic() + 5)), processes, here)
                if problem:
                    line.sendall(f"no: {problem}\n".encode())
                if process is None:
                    line.close()
                else:
                    here[process] = line
    except TimeoutError:
        absent = ", ".join(str(n) for n in range(1, processes) if n not in here)
        raise NotJoined(f"process {absent} did not come within {timeout:g} s: start all {processes}") from None
    finally:
        ready = len(here) == processes - 1
        for line in here.values():
            _part(line, "go" if ready else f"no: not all {processes} processes came within {timeout:g} s: start all")


def _heard(hello: str, processes: int, here: dict[int, socket.socket]) -> tuple[int | None, str]:
    """Which process this is, or why it cannot join; neither for a connection from elsewhere."""
    words = hello.split()
    if len(words) != 4 or words[0] != HELLO or not (words[1] + words[3]).isdecimal():
        return None, ""
    process, theirs = int(words[1]), int(words[3])
    if theirs != processes:
        return None, f"process 0 was started with --processes {processes}, process {process} with {theirs}"
    if process in here:
        return None, f"there are two processes with --id {process}: give each its own"
    return process, ""


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says what is wrong with the address."""
    everywhere = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=everywhere)
    except OSError as problem:
        shown = f"{host or '*'}:{port}"
        raise NotJoined(f"process 0 cannot listen at {shown} ({problem.strerror}): choose another port") from None


def _line(line: socket.socket, deadline: float) -> str:
    """One line of text; if the other side ends or the time is over, what was received so far."""
    got = b""
    try:
        while b"\n" not in got and len(got) < LONGEST:
            line.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = line.recv(LONGEST)
            if not piece:
                break
            got += piece
    except OSError:
        pass
    return got.partition(b"\n")[0].decode("utf-8", errors="replace").strip()


def _part(line: socket.socket, word: str) -> None:
    """Send the last word, and let the other side close first, so that the port is free at once."""
    try:
        line.sendall(f"{word}\n".encode())
        line.settimeout(1)
        line.recv(1)
    except OSError:
        pass
    line.close()
