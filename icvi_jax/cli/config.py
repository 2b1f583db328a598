"""Options from a TOML file."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App

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
    """Names of a command's options, without dashes."""
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
            raise ValueError(f"{FLAG} {path}: there is no command {key!r}{_suggest(key, known)}")
        for name in inside:
            if name not in allowed:
                raise ValueError(f"{FLAG} {path}: there is no option {name!r}{_suggest(name, allowed)}")
        if not isinstance(value, dict) or key == command:
            chosen |= inside
    return chosen


def _suggest(name: str, known: Sequence[str] | set[str] | dict[str, set[str]]) -> str:
    """Suggest a known name that is similar."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
