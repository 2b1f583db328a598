"""`icvi indices` and `icvi datasets`: what there is."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def _print(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]], foot: str) -> int:
    """Print a plain table; every row stays one line where the output is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    table = Table(*heads, title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"\n{foot}")
    return 0


def show_indices() -> int:
    """Print the catalogue of indices."""
    from icvi_jax.indices.catalogue import catalogue

    rows = []
    for entry in catalogue():
        low, high = (f"{end:g}".replace("inf", "∞") for end in entry.range)
        rows.append((entry.name, {"min": "small", "max": "large"}[entry.goal], f"{low} … {high}", entry.meaning))
    return _print("Cluster validity indices", ("name", "good is", "range", "what it says"), rows,
                  "Use them with --index, such as: icvi run file.csv --index xb db ch")


def show_datasets() -> int:
    """Print the built-in streams and the published formats that are read."""
    from icvi_jax.streams import catalogue

    rows = [(name, str(entry.k), str(entry.p), str(len(entry.function(seed=0).x)), entry.meaning)
            for name, entry in catalogue().items()]
    rows += [("sensorscope", "", "", "", "a meteo file of the SensorScope project, with --format sensorscope"),
             ("gas", "", "", "", "a file of the UCI gas sensor array under dynamic mixtures, with --format gas")]
    return _print("Streams", ("name", "k", "columns", "samples", "what it is"), rows, "Use them as: icvi run s3 --seed 1")
