"""The command `icvi`: from a file of readings to a report one can look at."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress

from icvi_jax.terminal_text import one_line, say

USAGE_ERROR, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; an error is one line on standard error and exit code 2, never a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by the process that started the command
        sys.stdout = open(os.devnull, "w")
    try:
        from icvi_jax.cli.app import start

        with warnings.catch_warnings():
            warnings.showwarning = _note
            return start(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The process that read our output has ended.
        _let_go_of_output()
        return 0
    except ImportError as error:
        return _say(f"needs the package {error.name!r}: pip install 'icvi-jax[{_extra(error.name)}]'")
    except MemoryError:
        return _say("not enough memory: take means in windows with --every, or fewer columns with --columns")
    except Exception as error:  # noqa: BLE001 - a person at a terminal has no use for a traceback
        if os.environ.get("ICVI_TRACEBACK"):
            raise
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            return INTERRUPTED
        if isinstance(error, OSError):
            _let_go_of_output()  # what could not be written now cannot be written at exit either
            file = os.fsdecode(error.filename) if error.filename else "standard output"
            return _say(f"{file}: {error.strerror}" if error.strerror else str(error))
        known = isinstance(error, ValueError)
        return _say(str(error) if known else f"{type(error).__name__}: {error} (ICVI_TRACEBACK=1 shows where)")


def _let_go_of_output() -> None:
    """Leave nothing for Python to flush and complain about at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _extra(module: str | None) -> str:
    return {
        "paho": "mqtt",
        "prometheus_client": "prometheus",
        "confluent_kafka": "kafka",
        "opentelemetry": "otlp",
        "starlette": "serve",
        "uvicorn": "serve",
    }.get((module or "").partition(".")[0], "cli")


def _say(text: str) -> int:
    say(text)
    return USAGE_ERROR


def _note(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning for users: what it is about, not where in the code it was raised."""
    print(f"icvi: note: {one_line(str(message))}", file=sys.stderr)
