"""A pipeline built from the options."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import icvi_jax as icvi
from icvi_jax.cli.alarms import budget_of, in_season, monitors_of, settings_of
from icvi_jax.cli.clusterers import choosing_k, clusterer_of, entry_of
from icvi_jax.cli.options import Alarms, Model
from icvi_jax.indices import catalogue
from icvi_jax.pipeline import SURPRISE
from icvi_jax.spec import changed
from icvi_jax.tables import Fleet, Table
from icvi_jax.terminal_text import did_you_mean

SEVERAL = "needs a clusterer with several prototypes per cluster, such as --clusterer merge-split"
USUAL_ALARMS = Alarms()
USUAL_BUDGET = budget_of(USUAL_ALARMS)
APART, WARMUP = 10, 200
"""The factor between spreads from which the output mentions them, and the samples that set the scale of columns."""


def chosen_indices(model: Model, grouped: bool = False) -> tuple[icvi.indices.Index, ...]:
    """The indices asked for, in that order; some need a clusterer with several prototypes per cluster (`grouped`)."""
    known = {entry.name: entry.index for entry in catalogue()}
    if not model.index:
        raise ValueError("--index: name at least one, or all")
    fit = [entry.name for entry in catalogue() if grouped or not entry.grouped]
    names = fit if "all" in model.index else list(dict.fromkeys(model.index))
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "icvi indices lists them"
            if "." in name or "/" in name:
                hint = "the source goes before --index"
            raise ValueError(f"--index: there is no index {name!r}; {hint}")
        if name not in fit:
            raise ValueError(f"--index {name}: {SEVERAL}")
    return tuple(known[name]() for name in names)


def pipeline_of(
    model: Model,
    stream_k: int | None = None,
    watch_all: bool = False,
    alarms: Alarms = USUAL_ALARMS,
    budget: icvi.Budget | None = USUAL_BUDGET,
) -> icvi.Pipeline:
    """The pipeline. The first index raises alarms, or all of them do; they share the budget with the columns.

    `stream_k` is the k of a built-in stream, None for a file or a feed.
    """
    if not 0 < model.forgetting <= 1:
        raise ValueError(f"--forgetting {model.forgetting:g}: expected a number above 0, at most 1")
    clusterer = clusterer_of(model, stream_k)
    indices = chosen_indices(model, clusterer.grouped and not watch_all)
    if model.forgetting < 1:  # with a short memory n − k may be negative, so these divide by n
        indices = tuple(changed(one, dof="none") if getattr(one, "dof", "") else one for one in indices)
    watched = [index.name for index in (indices if watch_all else indices[:1])]
    if clusterer.finds_k and not watch_all and "change" not in alarms.monitor:
        watched.append(SURPRISE)  # a clusterer that learns a change at once keeps its indices quiet
    return icvi.Pipeline(
        clusterer=clusterer,
        panel=icvi.Panel(indices=indices, forgetting=model.forgetting, of="clusters" if clusterer.grouped else "slots"),
        monitors=monitors_of(alarms, watched, budget),
        standardize=icvi.Standardize(warmup=WARMUP) if standardizes(model, stream_k is not None) else None,
    )


def spreads_of(data: Table | Fleet) -> NDArray[np.float64]:
    """The standard deviation of each column; for a fleet, the median over its nodes."""
    x = data.x[None] if isinstance(data, Table) else data.x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a node without a reading has no spread
        return np.asarray(np.nan_to_num(np.nanmedian(np.nanstd(x, axis=1), axis=0)), np.float64)


def standardizes(model: Model, builtin: bool = False) -> bool:
    """Whether columns are standardized: as the options say; otherwise those of files and feeds are, decided without
    looking at their values, since a watch cannot look ahead; built-in streams have one unit."""
    return not builtin if model.standardize is None else model.standardize


def apart(spreads: NDArray[np.float64]) -> float:
    """Largest spread divided by the smallest; columns that hardly ever change do not count."""
    some = spreads[spreads > 0]
    return float(some.max() / some.min()) if some.size else 1.0


def about_model(model: Model, features: tuple[str, ...], spreads: NDArray[np.float64]) -> list[str]:
    """Sentences about decisions that the command made by itself."""
    notes, times = [], apart(spreads)
    if times > APART:
        most, least = features[int(np.argmax(spreads))], int(np.argmin(np.where(spreads > 0, spreads, np.inf)))
        which = f"the spread of {most!r} is {float(f'{times:.3g}'):,.10g} times that of {features[least]!r}"
        if not standardizes(model):
            notes.append(f"{which}, so it counts for more (--standardize gives all columns equal weight)")
        elif model.standardize is None:
            notes.append(f"{which}; columns are standardized (--no-standardize leaves them as they are)")
    if "all" in model.index and not (model.clusterer and entry_of(model.clusterer).clusterer.grouped):
        left = ", ".join(entry.name for entry in catalogue() if entry.grouped)
        notes.append(f"--index all leaves out {left}, which {SEVERAL}")
    return notes


class Settled(NamedTuple):
    """What is computed, and what to say about it."""

    pipe: icvi.Pipeline
    budget: icvi.Budget | None
    settings: tuple[tuple[str, str], ...]
    notes: list[str]


def settle(data: Table | Fleet, model: Model, alarms: Alarms, stream_k: int | None = None) -> Settled:
    """Choose what the options leave open; `stream_k` is the k of a built-in stream."""
    which: list[str] = []
    if stream_k is None:
        model, which = choosing_k(model, len(data.nodes) if isinstance(data, Fleet) else 1)
    alarms, season = in_season(alarms, data)
    budget = budget_of(alarms, data)
    pipe = pipeline_of(model, stream_k, alarms=alarms, budget=budget)
    notes = [*which, *about_model(model, data.features, spreads_of(data)), *season]
    return Settled(pipe, budget, settings_of(alarms, budget, pipe), notes)
