"""Tune a memory and a monitor on streams with known changes: descend a smooth surrogate of F1, keep the best F1.

Needs optax (the extra `tuning`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from icvi_jax.engine.xla import scan_steps
from icvi_jax.evaluation import Score, match
from icvi_jax.indices import Index
from icvi_jax.monitors import Distress
from icvi_jax.pipeline import Pipeline
from icvi_jax.spec import changed
from icvi_jax.tuning.descent import Parameters, descend
from icvi_jax.tuning.events import Events, copies, events_of, parts, traced, values_of
from icvi_jax.tuning.soft import SoftDistress, soft_f1
from icvi_jax.types import Array, ArrayLike, Namespace

xp: Namespace = jnp

LONGEST = 2e4
"""In single precision, longer half-lives are the same as never forgetting."""


class Quality(NamedTuple):
    """Means over streams: F1 of spikes, delay of the hits (NaN without any), and false ones per 1000 samples."""

    f1: float
    delay: float
    false_per_1000: float


class Tuned(NamedTuple):
    """What `tune` found.

    Attributes
    ----------
    pipe : the pipeline with the new forgetting, factor and width, and with XB in its exact form; unchanged if nothing
        better was found.
    before, after : quality on the streams used for tuning. Judge it on other streams.
    losses : the losses along the descent, for every start.
    """

    pipe: Pipeline
    before: Quality
    after: Quality
    losses: list[list[float]]


def tune(
    pipe: Pipeline,
    X: ArrayLike,
    changes: Sequence[Sequence[int]],
    tolerance: int,
    half_lives: Sequence[float] = (3.0, 10.0, 35.0),
    steps: int = 40,
    rate: float = 0.05,
    softness: float = 0.05,
) -> Tuned:
    """Fit the panel's forgetting and the monitor's factor and width to known changes.

    The clusterer runs once; then a smooth surrogate of F1 is descended by Adam from several memories, through the
    recursion of the index (with ``normalizer="exact"``, whose gradient in λ means something) and `SoftDistress`. Some
    points along each path are scored with the monitor itself, and the best F1 is kept, a lower delay deciding ties;
    the given pipeline is among the candidates, so on these streams it never gets worse.

    Parameters
    ----------
    pipe : with one monitor, a `Distress`, and without `standardize`.
    X : (N, T, p); rows that are not finite are missing.
    changes : of each stream, the samples at which something new begins.
    tolerance : samples after a change within which an alarm counts.
    half_lives : memories to start from, besides that of the pipeline; each is used twice, with the thresholds of the
        monitor and with low ones.
    steps, rate : of Adam, on the logarithms of half-life, factor − 1 and width.
    softness : how smooth the surrogate is, in units of log index. The smoother, the less it agrees with F1.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> streams = [icvi.streams.s2(seed=seed) for seed in range(2)]
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),), forgetting=0.9)
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel, monitors={"xb": icvi.Distress()})
    >>> tuned = tune(pipe, np.stack([s.x for s in streams]), [s.changes for s in streams], 15, half_lives=(), steps=2)
    >>> tuned.after.f1 >= tuned.before.f1
    True
    """
    import optax

    monitor, index, panel = parts(pipe)
    events, n = events_of(pipe, X), len(np.asarray(X))
    if len(changes) != n:
        raise ValueError(f"tune(changes=…): {len(changes)} lists for {n} streams")
    own = (float(panel.forgetting), float(monitor.factor), float(monitor.width))
    keen = (math.sqrt(own[1]), 1.0)  # the surrogate is flat without alarms: also start with many
    begin = [own, *((0.5 ** (1 / half), *others) for half in half_lives for others in (own[1:], keen))]
    windows, counts = _windows(changes)
    rest = {name: float(getattr(monitor, name)) for name in ("patience", "memory", "warm", "back")}

    def loss(
        parameters: Parameters, data: Events
    ) -> tuple[Array, Array]:  # all starts at once, each a group of streams; the sum keeps their gradients separate
        lam, factor, width = (xp.repeat(a, n) for a in _meaning(parameters))
        soft = SoftDistress(factor=factor, width=width, softness=softness, **rest)
        values = values_of(changed(panel, forgetting=lam), traced(data, panel.fuzzifier))[index.name]
        raised = scan_steps(soft, soft.init(lam.shape), (values,), (index.goal, index.positive))[1]
        raised = xp.concat([raised, xp.zeros((tolerance, lam.shape[0]))])
        times = (lam.shape[0] // n, 1)
        each = soft_f1(raised, xp.tile(windows, times), xp.tile(counts, times), tolerance)
        each = -each.reshape(-1, n).mean(1)
        return each.sum(), each

    path = list(descend(loss, _numbers(begin), copies(events, len(begin)), optax.adam(rate), steps))
    tried = [np.stack([np.asarray(a) for a in _meaning(some)], 1) for some, _ in path[:: -max(1, steps // 5)]]
    points = np.concatenate([np.array([own]), *tried]).astype(np.asarray(events[0]).dtype)
    lam, factor, width = (np.repeat(a, n) for a in points.T)
    values = values_of(changed(panel, forgetting=xp.asarray(lam)), copies(events, len(points)))[index.name]
    judge = changed(monitor, factor=xp.asarray(factor), width=xp.asarray(width))
    found = _matched(judge, index, values, list(changes) * len(points), tolerance)
    scores = [_mean(found[i : i + n]) for i in range(0, len(found), n)]
    best = max(range(len(points)), key=lambda i: (round(scores[i].f1, 6), -np.nan_to_num(scores[i].delay, nan=np.inf)))
    losses = [[float(each[start]) for _, each in path] for start in range(len(begin))]
    if best == 0:
        return Tuned(pipe, scores[0], scores[0], losses)
    forgetting, *thresholds = (float(a) for a in points[best])
    indices = tuple(index if other.name == index.name else other for other in pipe.indices)
    panel = dataclasses.replace(panel, indices=indices, forgetting=forgetting)
    fitted = dataclasses.replace(monitor, factor=thresholds[0], width=thresholds[1])
    monitors = {name: fitted for name in pipe.monitors}
    return Tuned(dataclasses.replace(pipe, panel=panel, monitors=monitors), scores[0], scores[best], losses)


def judge(pipes: Sequence[Pipeline], X: ArrayLike, changes: Sequence[Sequence[int]], tolerance: int) -> list[Quality]:
    """How well pipelines with the same clusterer find the changes of other streams; the clusterer runs once for all.

    Parameters
    ----------
    pipes : for example the pipeline before and after `tune`.
    X, changes, tolerance : as in `tune`.
    """
    if any(pipe.clusterer != pipes[0].clusterer for pipe in pipes):
        raise ValueError("judge(pipes=…): the pipelines must have the same clusterer")
    events, judged = events_of(pipes[0], X), []
    for pipe in pipes:
        monitor, _, panel = parts(pipe)
        index = next(i for i in pipe.indices if i.name == monitor.index)
        values = values_of(dataclasses.replace(panel, indices=pipe.indices), events)[index.name]
        judged.append(_mean(_matched(monitor, index, values, changes, tolerance)))
    return judged


def quality(
    monitor: Distress, index: Index, values: ArrayLike, changes: Sequence[Sequence[int]], tolerance: int
) -> Quality:
    """How well a monitor finds the changes in the values (N, T) of an index, NaN where a sample is missing."""
    return _mean(_matched(monitor, index, xp.asarray(values).T, changes, tolerance))


def _matched(
    monitor: Distress, index: Index, values: Array, changes: Sequence[Sequence[int]], tolerance: int
) -> list[Score]:
    """The match of spikes and changes of each stream, from values (T, N)."""
    start = monitor.init(values.shape[1:], jnp, values.dtype)
    alarms = scan_steps(monitor, start, (values, xp.ones(values.shape, bool)), (index.goal, index.positive))[1]
    codes = np.asarray(alarms.code)
    return [match(np.flatnonzero(c == 1).tolist(), true, tolerance, len(c)) for c, true in zip(codes.T, changes)]


def _mean(found: Sequence[Score]) -> Quality:
    delays = [alarm - change for score in found for change, alarm in score.matched]
    delay = float(np.mean(delays)) if delays else math.nan
    return Quality(float(np.mean([s.f1 for s in found])), delay, float(np.mean([s.false_per_1000 for s in found])))


def _windows(changes: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Changes (N, C) as arrays, and 1 where there is one."""
    most = max(1, max(map(len, changes)))
    windows, counts = np.zeros((len(changes), most), int), np.zeros((len(changes), most))
    for i, some in enumerate(changes):
        windows[i, : len(some)], counts[i, : len(some)] = some, 1
    return xp.asarray(windows), xp.asarray(counts)


def _numbers(points: Sequence[tuple[float, ...]]) -> Parameters:
    """Unbounded parameters of (forgetting, factor, width) each; never forgetting starts at the longest half-life."""
    lam, factor, width = (np.array(a, dtype=float) for a in zip(*points))
    half = np.full_like(lam, LONGEST)
    half[lam < 1] = np.minimum(np.log(0.5) / np.log(lam[lam < 1]), LONGEST)
    parts = {"half": half, "factor": np.maximum(factor - 1.001, 1e-3), "width": width}
    return {name: xp.log(xp.asarray(value)) for name, value in parts.items()}


def _meaning(parameters: Parameters) -> tuple[Array, Array, Array]:
    """Forgetting, factor and width of unbounded parameters."""
    half = xp.clip(xp.exp(parameters["half"]), 0.5, LONGEST)
    return 0.5 ** (1 / half), 1.001 + xp.exp(parameters["factor"]), xp.exp(parameters["width"])
