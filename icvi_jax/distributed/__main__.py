"""Start a script in several processes of one fleet: `python -m icvi_jax.distributed --processes 4 script.py …`."""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import traceback

LOST = 75
"""Exit status of a process that lost another one: try again."""


def main(argv: list[str] | None = None) -> int:
    """Run one process of a fleet, or start all of them on this machine and supervise them."""
    options = argparse.ArgumentParser(prog="python -m icvi_jax.distributed", description=__doc__.splitlines()[0])
    options.add_argument("--processes", type=int, required=True, help="how many processes the fleet has")
    options.add_argument("--id", type=int, help="run this one only: one of several machines")
    options.add_argument("--coordinator", help="host:port of process 0; needed with --id")
    options.add_argument(
        "--timeout", type=float, default=60, help="seconds without an answer after which a process counts as lost"
    )
    options.add_argument("--restarts", type=int, default=0, help="how often to start all again after one has died")
    options.add_argument("--devices", type=int, help="CPU devices of each process")
    options.add_argument("program", help="a Python file that calls icvi_jax.distributed.start()")
    options.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    given = options.parse_args(argv)
    if given.processes < 1 or (given.id is not None and not 0 <= given.id < given.processes):
        options.error(f"--id {given.id} is not one of --processes {given.processes}")
    if given.id is not None:
        if given.coordinator is None and given.processes > 1:
            options.error("--id needs --coordinator host:port of process 0")
        return _one(given)
    for attempt in range(given.restarts + 1):
        status = _all(given)
        if status == 0:
            return 0
        if attempt < given.restarts:
            _say(f"starting all again from the checkpoint ({attempt + 1} of {given.restarts})")
    return status


def _one(given: argparse.Namespace) -> int:
    """Run the script in this process; the launcher has set its environment."""
    os.environ.update(
        ICVI_PROCESSES=str(given.processes),
        ICVI_PROCESS=str(given.id),
        ICVI_TIMEOUT=str(given.timeout),
        ICVI_COORDINATOR=given.coordinator or "",
    )
    if given.devices:
        import jax

        jax.config.update("jax_num_cpu_devices", given.devices)
    sys.argv = [given.program, *given.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(given.program)))
    from icvi_jax.distributed import NotJoined, PeerLost

    try:
        runpy.run_path(given.program, run_name="__main__")
    except PeerLost as problem:
        _say(f"{problem}; start all again to continue from the last checkpoint")
        status = LOST
    except NotJoined as problem:
        _say(f"process {given.id}: {problem}")
        status = 1
    except Exception:
        traceback.print_exc()
        status = 1
    else:
        return 0
    # A normal exit would wait for processes that no longer exist.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _all(given: argparse.Namespace) -> int:
    """Start every process here; when one fails, give the others time to notice, then end them."""
    given.coordinator = f"127.0.0.1:{_free_port()}"
    command = [sys.executable, "-m", "icvi_jax.distributed", "--processes", str(given.processes)]
    command += ["--coordinator", given.coordinator, "--timeout", str(given.timeout)]
    command += ["--devices", str(given.devices)] if given.devices else []
    children = [
        subprocess.Popen([*command, "--id", str(i), given.program, *given.arguments]) for i in range(given.processes)
    ]
    told: set[int] = set()

    def tell() -> None:
        """Print the exit status of each process that failed; the first one to die may be noticed last."""
        for i, child in enumerate(children):
            if child.poll() and i not in told:
                told.add(i)
                _say(f"process {i} {_fate(child.returncode)}")

    deadline = None
    try:
        while any(child.poll() is None for child in children):
            tell()
            if told and deadline is None:
                _say(f"the others have {given.timeout:g} s to end")
                deadline = time.monotonic() + given.timeout
            if deadline is not None and time.monotonic() > deadline:
                break
            time.sleep(0.05)
        tell()
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
    failed = [child.returncode for child in children if child.returncode]
    return 0 if not failed else next((status for status in failed if status > 0), 1)


def _fate(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _say(line: str) -> None:
    print(f"icvi_jax.distributed: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
