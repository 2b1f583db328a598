"""`icvi indices`, `icvi monitors` and `icvi datasets`: lists of what is built in."""

from __future__ import annotations

from icvi_jax.cli.terminal import say, tell_table


def show_indices() -> int:
    """Print the catalogue of indices."""
    from icvi_jax.indices import catalogue

    rows = []
    for entry in catalogue():
        low, high = (f"{end:g}".replace("inf", "∞") for end in entry.range)
        rows.append((entry.name, {"min": "small", "max": "large"}[entry.goal], f"{low} … {high}", entry.meaning))
    tell_table(("name", "good is", "range", "what it says"), rows)
    say("Use them with --index, such as: icvi run file.csv --index xb db ch")
    return 0


def show_monitors() -> int:
    """Print the monitors."""
    from icvi_jax.cli.alarms import KINDS
    from icvi_jax.monitors import SampleMonitor

    rows = []
    for name, kind in KINDS.items():
        hears = "the columns" if issubclass(kind, SampleMonitor) else "an index"
        rows.append((name, hears, (kind.__doc__ or "").strip().splitlines()[0]))
    tell_table(("name", "listens to", "what it does"), rows)
    say("Use them with --monitor, such as: icvi run file.csv --monitor change --false-alarms 1/day")
    return 0


def show_datasets() -> int:
    """Print the built-in streams and the published file formats that can be read."""
    from icvi_jax.streams import catalogue

    rows = [
        (name, str(entry.k), str(entry.p), str(len(entry.function(seed=0).x)), entry.meaning)
        for name, entry in catalogue().items()
    ]
    rows += [
        ("sensorscope", "", "", "", "a meteo file of the SensorScope project, with --format sensorscope"),
        ("gas", "", "", "", "a file of the UCI gas sensor array under dynamic mixtures, with --format gas"),
    ]
    tell_table(("name", "k", "columns", "samples", "what it is"), rows)
    say("Use them as: icvi run s3 --seed 1")
    return 0
