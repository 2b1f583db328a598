"""The clusterer that the options ask for, and `icvi clusterers`, which lists all of them."""

from __future__ import annotations

import dataclasses

from icvi_jax.cli.options import Model
from icvi_jax.cli.summary import say, tell_table
from icvi_jax.clusterers import Clusterer, ClustererEntry, SequentialKMeans, catalogue
from icvi_jax.model_selection import Portfolio
from icvi_jax.pipeline import Pipeline
from icvi_jax.terminal_text import did_you_mean

USUAL = "sk-means"
FOR_FILES = {"memory": 50.0, "seeding": "distinct"}
"""Settings of the default clusterer for files: real sensors repeat readings, and their clusters move. Built-in streams
are those of the paper, and so is the clusterer there."""
AUTO, MANY = range(2, 13), 1000
"""The numbers of clusters that `-k auto` chooses from, and for how many nodes it is the default, in files and live: it
takes more than ten times the time of one k, and several times its memory."""
FLAGS = {"k": "-k", "capacity": "--capacity", "slots": "--slots"}


def entry_of(name: str) -> ClustererEntry:
    """The clusterer of that name."""
    known = {entry.name: entry for entry in catalogue()}
    if name not in known:
        raise ValueError(
            f"--clusterer: there is no {name!r}; {did_you_mean(name, known) or 'icvi clusterers lists them'}"
        )
    return known[name]


def leaves_k_open(model: Model) -> bool:
    """Whether the options do not say how many clusters the default clusterer has."""
    return model.k is None and model.clusterer in (None, USUAL) and not any(one.startswith("k=") for one in model.set)


def choosing_k(model: Model, nodes: int = 1) -> tuple[Model, list[str]]:
    """The model with `-k auto` where the options leave k open and there are not too many nodes, and what to say.

    The rows of a file have no say, so that a recording and a live stream are clustered alike."""
    if not leaves_k_open(model):
        return model, []
    if nodes > MANY:
        usual = SequentialKMeans.usual
        return model, [
            f"k = {usual}, since there are more than {MANY:,} nodes; -k auto chooses k live, at a higher cost"
        ]
    return dataclasses.replace(model, k="auto"), []


def clusterer_of(model: Model, stream_k: int | None = None) -> Clusterer:
    """The clusterer that is asked for; `stream_k` is the number of clusters of a built-in stream, None for a file."""
    entry = entry_of(model.clusterer or USUAL)
    kind, owner = entry.clusterer, f"--clusterer {entry.name}"
    chosen: dict[str, object] = {entry.size: kind.usual}
    if stream_k is not None and not entry.finds_k:
        chosen[entry.size] = stream_k
    elif entry.name == USUAL:
        chosen |= FOR_FILES
    known = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    if model.k == "auto" and (entry.finds_k or entry.size != "k"):
        raise ValueError(f"-k auto: {entry.name} finds the number of clusters itself; leave -k out")
    given_k = None if model.k == "auto" else model.k
    for size, value in (("k", given_k), ("capacity", model.capacity), ("slots", model.slots)):
        if value is None:
            continue
        if size != entry.size:
            found = "finds the number of clusters itself; its limit is" if entry.finds_k else "takes"
            raise ValueError(f"{FLAGS[size]}: {entry.name} {found} {FLAGS.get(entry.size, entry.size)}")
        if value < 1:
            raise ValueError(f"{FLAGS[size]} {value}: needs at least one cluster")
        chosen[size] = value
    given = [text.partition("=") for text in model.set]
    if model.memory is not None:
        given.insert(0, ("memory", "=", str(model.memory)))
    for name, sign, text in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
            raise ValueError(f"{owner}: there is no option {name!r}; {hint}")
        if not sign:
            raise ValueError(f"--set {name}: expected {name}=VALUE")
        chosen[name] = _value(owner, name, text, known[name].default)
    if model.k == "auto":
        return Portfolio(candidates=tuple(kind(**chosen | {entry.size: k}) for k in AUTO))
    return kind(**chosen)


def _value(owner: str, name: str, text: str, default: object) -> object:
    """Convert a text to the type of a field with this default; a field without a default is an integer."""
    if isinstance(default, str):
        return text
    try:
        return float(text) if isinstance(default, float) else int(text)
    except ValueError:
        expected = "a number" if isinstance(default, float) else "an integer"
        raise ValueError(f"{owner}: {name}={text}: expected {expected}") from None


def clusterer_in(pipe: Pipeline) -> Clusterer:
    """The clusterer of a pipeline that the options made: there always is one."""
    if pipe.clusterer is None:
        raise ValueError("a pipeline without a clusterer has no clusters to report")
    return pipe.clusterer


def described(clusterer: Clusterer) -> str:
    """A clusterer in one line: its name, its size, and the options that differ from their defaults."""
    if isinstance(clusterer, Portfolio):
        sizes = [part.slots for part in clusterer.candidates]
        first = clusterer.candidates[0]
        several = f"k = {min(sizes)} … {max(sizes)}, chosen live"
        return described(first).replace(f"k = {first.slots}", several, 1)
    entry = entry_of(clusterer.name)
    parts = [entry.name, f"{entry.size} = {clusterer.slots}"]
    for field in dataclasses.fields(clusterer):  # type: ignore[arg-type]  # every clusterer is a dataclass, its base none
        value = getattr(clusterer, field.name)
        if field.init and field.name != entry.size and value != field.default:
            parts.append(f"{field.name} = {value:g}" if isinstance(value, float) else f"{field.name} = {value}")
    return ", ".join(parts)


def clusterers() -> int:
    """List the clusterers: what each one is for, what it forgets, when not to use it, and its options."""
    tell_table(
        ("name", "clusters", "what it is for", "it forgets", "when not to use it"),
        [
            (entry.name, "found" if entry.finds_k else "given", entry.purpose, entry.forgets, entry.avoid)
            for entry in catalogue()
        ],
    )
    for entry in catalogue():
        fields = [field.name for field in dataclasses.fields(entry.clusterer) if field.init]  # type: ignore[arg-type]
        say(f"{entry.name}: cost a sample {entry.cost}; options {', '.join(fields)}")
    say("Use them with --clusterer, such as: icvi run file.csv --clusterer merge-split --slots 20 --set gain=10")
    return 0
