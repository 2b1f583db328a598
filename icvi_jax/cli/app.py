"""All commands in one program: parsing, errors in one line, options from a file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from icvi_jax import __version__
from icvi_jax.cli.clusterers import clusterers
from icvi_jax.cli.compare import compare
from icvi_jax.cli.fleet import fleet
from icvi_jax.cli.options import STDIN
from icvi_jax.cli.run import calibrate, run
from icvi_jax.cli.summary import datasets, indices, monitors
from icvi_jax.cli.watch import watch
from icvi_jax.terminal_text import did_you_mean, one_line

app = App(
    name="icvi",
    help="Live validation of stream clustering: how well do the clusters fit, and when did they stop fitting?",
    version=__version__,
    default_parameter=Parameter(consume_multiple=True, negative=(), show_default=lambda value: _shown(value)),
    help_format="markdown",
)
for command in (run, calibrate, fleet, watch, compare, indices, clusterers, monitors, datasets):
    app.command(command)
ONE = "expected one SOURCE, before all options"
TOO_MANY = {
    "run": ONE,
    "compare": ONE,
    "fleet": f"{ONE}; for several files give the folder that has them",
    "watch": "watch reads standard input: cat FILE | icvi watch",
}
"""What to say about an argument that belongs to no option."""


def _shown(value: object) -> object:
    """Defaults as a user would type them; None where there is nothing to show."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or None
    return None if value is False or value == "" else value


def start(arguments: Sequence[str]) -> int:
    """Parse the arguments, call the command and return the exit code."""
    from icvi_jax.cli import _say

    try:
        tokens = [STDIN if token == "-" else token for token in apply_config(app, arguments)]
        result = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except UnusedCliTokensError as error:
        wanted = TOO_MANY.get(next(iter(arguments), ""), "this command takes no source")
        return _say(one_line(f"{(error.unused_tokens or ['?'])[0]}: {wanted}"))
    except CycloptsError as error:
        return _say(one_line(str(error)))
    return result if isinstance(result, int) else 0


FLAG = "--config"


def apply_config(app: App, arguments: Sequence[str]) -> list[str]:
    """Put the options of a ``--config`` file before those of the command line, which take precedence.

    Options at the top level are for every command that has them, those under ``[run]`` for that command only.
    """
    tokens = list(arguments)
    where = next((n for n, token in enumerate(tokens) if token == FLAG or token.startswith(f"{FLAG}=")), None)
    if where is None or not tokens or tokens[0].startswith("-"):
        return tokens
    if tokens[where] == FLAG and where + 1 == len(tokens):
        return tokens  # the parser says what is missing
    path = Path(tokens[where].partition("=")[2] if "=" in tokens[where] else tokens[where + 1])
    command = tokens[0]
    known = {name: _options(app[name]) for name in app if not name.startswith("-")}
    if command not in known:
        return tokens
    given = {token.partition("=")[0] for token in tokens}
    extra: list[str] = []
    for key, value in _load(path, known, command).items():
        flag = f"-{key}" if len(key) == 1 else f"--{key}"
        if {flag, f"--no-{key}"} & given or key not in known[command]:
            continue
        if isinstance(value, bool):
            extra += [flag] if value else [f"--no-{key}"] if f"no-{key}" in known[command] else []
        else:
            extra += [flag, *map(str, value if isinstance(value, list) else [value])]
    return [*tokens, *extra]


def _options(command: App) -> set[str]:
    arguments = command.assemble_argument_collection()
    return {name.lstrip("-") for argument in arguments for name in argument.names if name.startswith("-")} - {"config"}


def _load(path: Path, known: dict[str, set[str]], command: str) -> dict[str, object]:
    """Read the file; an option that no command has is an error with a suggestion."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{FLAG} {path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{FLAG} {path}: {error}") from None
    chosen: dict[str, object] = {}
    every = set().union(*known.values())
    for key, value in content.items():
        inside = value if isinstance(value, dict) else {key: value}
        allowed = known.get(key, set()) if isinstance(value, dict) else every
        if isinstance(value, dict) and key not in known:
            raise ValueError(f"{FLAG} {path}: there is no command {key!r}{did_you_mean(key, known, '; ')}")
        for name in inside:
            if name not in allowed:
                raise ValueError(f"{FLAG} {path}: there is no option {name!r}{did_you_mean(name, allowed, '; ')}")
        if not isinstance(value, dict) or key == command:
            chosen |= inside
    return chosen
