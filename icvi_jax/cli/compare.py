"""`icvi compare`: several clusterers on one stream, side by side."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from icvi_jax.cli.alarms import budget_of, in_season, settings_of
from icvi_jax.cli.build_pipeline import about_model, pipeline_of, spreads_of
from icvi_jax.cli.clusterers import USUAL, clusterer_in, entry_of
from icvi_jax.cli.compute import RAISED, compute
from icvi_jax.cli.options import MODEL, Alarms, Config, Data, InData, Model, Output, PanelOptions, Source
from icvi_jax.cli.outputs import check_output, write_all
from icvi_jax.cli.run import check_length, table_of
from icvi_jax.cli.summary import MOST_SENTENCES, say, tell_source, tell_table, tell_written
from icvi_jax.clusterers import catalogue
from icvi_jax.report.alarm_text import alarm_sentences, at, count_alarms
from icvi_jax.report.result import GOOD, ONE_CLUSTER, Result, by_truth, columns_of, listeners, true_changes
from icvi_jax.types import State

OF_EACH = "x label k seen outlier overflow surprise values codes standing score causes chances".split()
MOST_ACROSS = 6  # with more indices than this, they are the rows of the printed table and not the columns


def compare(
    source: Source = "s2",
    /,
    *,
    clusterer: Annotated[tuple[str, ...], Parameter(group=MODEL, metavar="NAME")] = (),
    k: Annotated[tuple[int, ...], Parameter(name="-k", group=MODEL)] = (2, 3, 4, 6, 8),
    seed: Annotated[int, InData] = 0,
    label: Annotated[str, InData] = "",
    panel: PanelOptions = PanelOptions(),
    data: Data = Data(),
    alarms: Alarms = Alarms(),
    output: Output = Output(),
    config: Config = Config(),
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
    check_output(output)
    table, stream_k = table_of(source, seed, label, "auto", data)
    model = Model(**asdict(panel))
    spreads = spreads_of(table)
    alarms, season = in_season(alarms, table)
    table = table._replace(notes=(*table.notes, *about_model(model, table.features, spreads), *season))
    candidates = candidates_of(model, clusterer, k)
    results, budget = [], budget_of(alarms, table)
    for candidate in candidates.values():
        pipe = pipeline_of(candidate, stream_k, watch_all=True, alarms=alarms, budget=budget)
        check_length(table, clusterer_in(pipe).least(table.x.shape[1]) + 1)
        results.append(compute(pipe, table, budget, settings_of(alarms, budget, pipe)))
    result = _merge(tuple(candidates), results)
    _summarize(result, write_all(result, output))
    return 0


def candidates_of(model: Model, names: tuple[str, ...], ks: tuple[int, ...]) -> dict[str, Model]:
    """What is compared, by name: the default clusterer with every k and all others once, or those named.

    A named clusterer that takes a k is tried with every k; options that a clusterer does not have are ignored.
    """
    found: dict[str, Model] = {}
    for name in names or [entry.name for entry in catalogue()]:
        entry = entry_of(name)
        own = {field.name for field in fields(entry.clusterer)}  # type: ignore[arg-type]
        rest = {option: None for option in ("capacity", "slots", "memory") if option not in own}
        mine = replace(model, clusterer=name, set=model.set if names else (), **rest)  # type: ignore[arg-type]
        if entry.finds_k or not (names or name == USUAL):
            found[name] = mine
        else:
            found |= {f"k = {k}" if name == USUAL else f"{name} k = {k}": replace(mine, k=k) for k in ks}
    return found


def _merge(names: tuple[str, ...], results: list[Result]) -> Result:
    """Make one result of many, each candidate a node."""
    first, slots = results[0], max(result.centers.shape[2] for result in results)

    def joined(field: str) -> State:
        each = [getattr(result, field) for result in results]
        if isinstance(each[0], dict):
            return {name: np.concatenate([one[name] for one in each]) for name in each[0]}
        return np.concatenate(each)

    shots = max((result.snapshots for result in results), key=len)
    centers = np.full((len(results), len(shots), slots, len(first.features)), np.nan)
    for n, result in enumerate(results):
        at = np.minimum(np.searchsorted(result.snapshots, shots), len(result.snapshots) - 1)
        centers[n, :, : result.centers.shape[2]] = result.centers[0, at]
    settings = [("candidates", ", ".join(names)), *(pair for pair in first.settings[1:] if pair[0] != RAISED)]
    if len(settings) < len(first.settings):
        each = ", ".join(f"{name}: {count_alarms(result.codes)[0]:,}" for name, result in zip(names, results))
        settings.append((RAISED, f"{each} alarms, true ones among them"))
    return first._replace(
        nodes=names,
        snapshots=shots,
        centers=centers,
        settings=tuple(settings),
        trust=tuple(trust for result in results for trust in result.trust),
        **{field: joined(field) for field in OF_EACH},
    )


def preferred(result: Result, name: str) -> tuple[int, NDArray[np.float64]]:
    """The candidate an index prefers (−1: none), and its median for each candidate (NaN where it has no value)."""
    values = result.values[name].astype(np.float64)
    rows = [row[np.isfinite(row) & seen] for row, seen in zip(values, result.seen)]
    medians = np.array([np.median(row) if row.size else np.nan for row in rows])
    ranked = np.where(alone(result), np.nan, medians if result.about[name].goal == "min" else -medians)
    known = ranked[np.isfinite(ranked)]
    apart = known.size == 1 or (known.size > 1 and known.min() < known.max())
    return (int(np.nanargmin(ranked)) if apart else -1), medians


def alone(result: Result) -> NDArray[np.bool_]:
    """Candidates that never have a second cluster: their index values cannot be compared."""
    return np.asarray(result.k.max(axis=1) <= 1)


def first_words(result: Result, n: int) -> tuple[str, str]:
    """The index of candidate n with the first spike, and the one that finds true changes first, if they are known."""
    heard = {name: result.codes[name] for name in listeners(result)}  # columns: the same for all
    spoke = {name: int(np.argmax(codes[n] == 1)) for name, codes in heard.items() if (codes[n] == 1).any()}
    changes = len(true_changes(result))
    if not spoke:
        return "none", f"none of {changes}" if changes else ""
    name, sample = min(spoke.items(), key=lambda item: item[1])
    first = f"{name} ({at(result.times, sample)})"
    if not changes:
        return first, ""
    scores = {key: by_truth(result, np.flatnonzero(codes[n] == 1)) for key, codes in heard.items()}
    best = max(scores, key=lambda key: np.nan_to_num(scores[key].f1))
    score = scores[best]
    after = f", after {score.delay:g} samples" if score.matched else ""
    return first, f"{best}: {len(score.matched)} of {changes}, {len(score.false)} false{after}"


def _summarize(result: Result, written: list[Path]) -> None:
    tell_source(result, "candidates")
    choice = {name: preferred(result, name) for name in result.values}
    columns = {f"median {name}": _medians(*found) for name, found in choice.items()}
    columns["clusters"] = [str(int(k)) for k in result.k[:, -1]]
    first, about_changes = zip(*(first_words(result, n) for n in range(len(result.nodes))))
    columns["first spike"] = list(first)
    if result.truth is not None:
        columns["first at true changes"] = list(about_changes)
    if len(choice) <= MOST_ACROSS:
        tell_table(("candidate", *columns), zip(result.nodes, *columns.values()))
    else:  # candidates are the columns: there are few of them
        tell_table(("candidate", *result.nodes), [(head, *cells) for head, cells in columns.items()])
    if any(best >= 0 for best, _ in choice.values()):
        say("* the candidate that the index prefers")
    for name, (best, _) in choice.items():
        verdict = f"prefers {result.nodes[best]}" if best >= 0 else "has no preference"
        say(f"{name} ({GOOD[result.about[name].goal]} is good) {verdict}")
    lone = [node for node, one in zip(result.nodes, alone(result)) if one]
    if lone:
        say(f"{', '.join(lone)}: {ONE_CLUSTER} (–: not defined for a single cluster)")
    if columns_of(result):
        sentences = alarm_sentences(result, 0, columns_of(result))
        say(f"alarms of columns, the same for all clusterers: {len(sentences) or 'none'}")
        for _, _, sentence in sentences[:MOST_SENTENCES]:
            say(f"  {sentence}")
    tell_written(written)


def _medians(best: int, medians: NDArray[np.float64]) -> list[str]:
    """One cell per candidate; the preferred one has a star."""
    return [f"{value:.3g}{'*' if n == best else ''}" if np.isfinite(value) else "–" for n, value in enumerate(medians)]
