"""The commands and their help; each one is implemented in its own file, imported when it is called."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from icvi_jax.cli.options import DATA, MODEL, Alarms, Config, Data, Feed, Model, Output, PanelOptions, ServiceOptions
from icvi_jax.text import one_line

app = App(
    name="icvi",
    help="Live validation of stream clustering: how well do the clusters fit, and when did they stop fitting?",
    version=lambda: _version(),
    default_parameter=Parameter(consume_multiple=True, negative=(), show_default=lambda value: _shown(value)),
    help_format="markdown",
)
STDIN = "stdin:"
"""Replaces `-` while parsing: if SOURCE could begin with a hyphen, a mistyped option would be taken for it."""
Source = Annotated[str, Parameter(converter=lambda _type, tokens: tokens[0].value.replace(STDIN, "-"), group=DATA)]
InData = Parameter(group=DATA)
ONE = "expected one SOURCE, before all options"
TOO_MANY = {
    "run": ONE,
    "compare": ONE,
    "fleet": f"{ONE}; for several files give the folder that has them",
    "watch": "watch reads standard input: cat FILE | icvi watch",
}
"""What to say about an argument that belongs to no option."""
DATA_OPTIONS, MODEL_OPTIONS, PANEL_OPTIONS = Data(), Model(), PanelOptions()
OUTPUT_OPTIONS, CONFIG_OPTIONS = Output(), Config()
FEED_OPTIONS, SITE_OPTIONS, ALARM_OPTIONS = Feed(), ServiceOptions(), Alarms()


def _shown(value: object) -> object:
    """Defaults as a user would type them; None where there is nothing to show."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or None
    return None if value is False or value == "" else value


def _version() -> str:
    from icvi_jax import __version__

    return __version__


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


@app.command
def run(
    source: Source = "s2",
    /,
    *,
    seed: Annotated[int, InData] = 0,
    label: Annotated[str, InData] = "",
    format: Annotated[Literal["auto", "sensorscope", "gas"], InData] = "auto",
    data: Data = DATA_OPTIONS,
    model: Model = MODEL_OPTIONS,
    alarms: Alarms = ALARM_OPTIONS,
    output: Output = OUTPUT_OPTIONS,
    config: Config = CONFIG_OPTIONS,
) -> int:
    """Validate the clustering of one stream and write readings, a plot and a report.

    Parameters
    ----------
    source
        A file (CSV, TSV, Parquet, NPY, NPZ; `-` is standard input) or a built-in stream: `s1`, `s2`, `s3`.
    seed
        Seed of a built-in stream.
    label
        Column with the true class of each row, or 1 in events; if not given, a column called `label`. Terminal and
        report say how many true changes the alarms found, how late, how many were false, and what chance would get.
    format
        `sensorscope`: a meteo file of that project. `gas`: a file of the UCI gas sensor array. `auto`: a plain table.
    """
    from icvi_jax.cli.run import run_command

    return run_command(source, seed, label, format, data, model, alarms, output)


@app.command
def calibrate(
    source: Source,
    /,
    *,
    replicas: Annotated[int, InData] = 200,
    data: Data = DATA_OPTIONS,
    model: Model = MODEL_OPTIONS,
    alarms: Alarms = ALARM_OPTIONS,
    config: Config = CONFIG_OPTIONS,
) -> int:
    """Measure the false-alarm rate on quiet streams made like the rows of a file, and say which rate to ask for.

    Parameters
    ----------
    source
        A file (CSV, TSV, Parquet, NPY, NPZ; `-` is standard input) or a built-in stream: `s1`, `s2`, `s3`.
    replicas
        Number of quiet streams that are made.
    """
    from icvi_jax.cli.run import calibrate_command

    return calibrate_command(source, replicas, data, model, alarms)


@app.command
def fleet(
    source: Source,
    /,
    *,
    node: Annotated[str, InData] = "",
    query: Annotated[str, Parameter(group=DATA, metavar="SQL")] = "",
    large: Annotated[bool | None, Parameter(group=DATA, negative="--no-large")] = None,
    data: Data = DATA_OPTIONS,
    model: Model = MODEL_OPTIONS,
    alarms: Alarms = ALARM_OPTIONS,
    output: Output = OUTPUT_OPTIONS,
    config: Config = CONFIG_OPTIONS,
) -> int:
    """Validate many nodes at once, rank them by distress, and write readings and a report.

    Parameters
    ----------
    source
        A long table with a node column, a wide table (`node_variable` columns), a folder with one file per node, or
        an NPZ file with an array (nodes, steps, features). Or a database, with --query: `duckdb:///data/plant.db`,
        `postgres://host/db`.
    node
        Column that names the node; if not given, it is found by its name (`node`, `station_id`, …).
    query
        What to ask the database: `SELECT node, time, celsius FROM readings`.
    large
        Never have the whole table in memory: all alarms are written, and readings and curves of the worst thousand
        nodes. The default for databases, and for Parquet with a node column that would take a quarter of the memory or
        is in several files. A run that was stopped goes on where it was.
    """
    from icvi_jax.cli.fleet import fleet_command
    from icvi_jax.cli.large import goes_large, large_command

    if goes_large(source, node, query, large):
        return large_command(source, query, node, data, model, alarms, output)
    return fleet_command(source, node, data, model, alarms, output)


@app.command
def watch(
    *,
    feed: Feed = FEED_OPTIONS,
    model: Model = MODEL_OPTIONS,
    alarms: Alarms = ALARM_OPTIONS,
    site: ServiceOptions = SITE_OPTIONS,
    config: Config = CONFIG_OPTIONS,
) -> int:
    """Validate live samples and print every alarm as a line of JSON.

    Reads JSON objects or CSV with a header, one sample per line, from standard input: `mosquitto_sub … | icvi watch`.
    """
    from icvi_jax.cli.watch import watch_command

    return watch_command(feed, site, model, alarms)


@app.command
def compare(
    source: Source = "s2",
    /,
    *,
    clusterer: Annotated[tuple[str, ...], Parameter(group=MODEL, metavar="NAME")] = (),
    k: Annotated[tuple[int, ...], Parameter(name="-k", group=MODEL)] = (2, 3, 4, 6, 8),
    seed: Annotated[int, InData] = 0,
    label: Annotated[str, InData] = "",
    data: Data = DATA_OPTIONS,
    panel: PanelOptions = PANEL_OPTIONS,
    alarms: Alarms = ALARM_OPTIONS,
    output: Output = OUTPUT_OPTIONS,
    config: Config = CONFIG_OPTIONS,
) -> int:
    """Run several clusterers on one stream: which k fits best, and which index raises the first alarm?

    Parameters
    ----------
    source
        A file or a built-in stream, as for `run`.
    clusterer
        Clusterers to try; all of them if not given. `icvi clusterers` lists them.
    k
        Numbers of clusters to try with `sk-means`, and with those of `--clusterer` that take a k.
    seed
        Seed of a built-in stream.
    label
        Column with the true class of each row: alarms are compared with its changes.
    """
    from icvi_jax.cli.compare import compare_command

    return compare_command(source, clusterer, k, seed, label, data, panel, alarms, output)


@app.command
def indices() -> int:
    """List the indices, which direction is good, and what each one says."""
    from icvi_jax.cli.summary import show_indices

    return show_indices()


@app.command
def clusterers() -> int:
    """List the clusterers: what each one is for, what it forgets, when not to use it, and its options."""
    from icvi_jax.cli.clusterers import show_clusterers

    return show_clusterers()


@app.command
def monitors() -> int:
    """List the monitors, what each one listens to, and what it says."""
    from icvi_jax.cli.summary import show_monitors

    return show_monitors()


@app.command
def datasets() -> int:
    """List the built-in streams."""
    from icvi_jax.cli.summary import show_datasets

    return show_datasets()


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
