"""Long recordings without a long scan: time is cut into lanes that are computed in parallel.

Statistics can be combined, so a stretch of time has a summary that does not depend on the samples before it. First all
lanes are computed from an empty state, as a fleet, which gives their summaries. Then the summaries are joined one after
the other, which gives the true start state of each lane. Then all lanes are computed again from there, with the
indices. This is twice the work, but hundreds of samples per step. Running means as centres are found first, in the same
way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.anchor import no_anchor
from icvi_jax.engine.platforms import program_for
from icvi_jax.engine.sample_batch import Feed
from icvi_jax.engine.xla import precise
from icvi_jax.panel import Panel, PanelState
from icvi_jax.panel_ops import join
from icvi_jax.types import Array, Namespace, State
from icvi_jax.validation.follow import Means, Model, Place, Source, unanchored
from icvi_jax.validation.rows import Rows

xp: Namespace = jnp

LANES = 128
"""Most lanes: each reads its own stretch of memory, and more of them are not faster."""

SHORTEST = 32
"""Fewest samples per lane, and fewest lanes for which this is faster."""

BUDGET = 2**22
"""Largest size of the states of all lanes together, in numbers."""


def lanes_for(panel: Panel, samples: int, k: int, features: int) -> int:
    """How many lanes a recording is cut into; 1 where a plain scan is better, or where shards do not combine
    exactly."""
    if not all(part.shards for part in panel.statistics):
        return 1
    state = panel.init(k, features, streams=(0,), xp=np)
    size = sum(math.prod(leaf.shape[:-1]) for leaf in jax.tree.leaves(state))
    lanes = min(LANES, samples // SHORTEST, BUDGET // size)
    if lanes < SHORTEST:
        return 1
    even = (n for n in range(lanes, SHORTEST - 1, -1) if samples % n == 0)  # then no lane ends with missing samples
    return next(even, lanes)


class Summary(NamedTuple):
    """Summary of a lane: its state from an empty start, its length in time, and the slots in use all the time."""

    place: Place
    span: Array
    alive: Array


@dataclass(frozen=True)
class Gather:
    """The step that only computes running means."""

    source: Source

    def __call__(
        self, model: Model, known: Means | None, row: Array, elapsed: Array | None = None
    ) -> tuple[Means | None, tuple[()]]:
        """Take in one row (columns, *streams)."""
        return self.source.feed(model, known, row)[0], ()


@dataclass(frozen=True)
class Summarize:
    """The step that computes the summary of a lane, without indices."""

    source: Source

    def __call__(
        self, model: Model, state: Summary, row: Array, elapsed: Array | None = None
    ) -> tuple[Summary, tuple[()]]:
        """Take in one row (columns, *streams)."""
        known, now = self.source.feed(model, state.place.known, row)
        panel, _ = model.panel.advance(state.place.panel, *now[:4], elapsed, now.names)
        seen = panel.statistics["count"].samples > state.place.panel.statistics["count"].samples
        gap = xp.ones_like(state.span) if elapsed is None else elapsed
        span, alive = state.span + xp.where(seen, gap, 0), state.alive & (now.active | ~seen)
        return Summary(Place(panel, known), span, alive), ()


def starts(source: Source, model: Model, nothing: Place, rows: Rows, dtype: np.dtype) -> Place:
    """The true start states (…, lanes) of the lanes."""
    known = nothing.known
    if known is not None:  # first the centres at the start of each lane, since everything else is relative to them
        known = _chained(_mean, known, (_ran(Gather(source), model, known, rows, dtype),), dtype)
    empty = Summary(Place(nothing.panel, known), np.zeros(rows.lanes, dtype), np.ones((source.k, rows.lanes), bool))
    lanes = _ran(Summarize(source), model, empty, rows, dtype)
    panel = _chained(_panel, nothing.panel, (lanes.place.panel, lanes.span, lanes.alive), dtype, model.panel)
    return Place(panel, known)


def _ran(step: Gather | Summarize, model: Model, start: State, rows: Rows, dtype: np.dtype) -> State:
    """The states (…, lanes) after all rows."""
    one = jax.tree.map(lambda a: a[..., 0], start)
    program = program_for(step, model, one, dtype, rows.columns, rows.timed, rows.lanes)
    words = program.place(start, rows.lanes)
    for piece, gaps in rows:
        words, _ = program.run(model, words, Feed(piece, rows.origin, gaps))
    return program.fetch(words, rows.lanes)


def _chained(
    join_two: Callable[..., State],
    nothing: State,
    lanes: tuple[State, ...],
    dtype: np.dtype,
    panel: Panel | None = None,
) -> State:
    """The state before each lane, (…, lanes): lanes are joined one after the other."""
    with precise(dtype):
        first = jax.tree.map(lambda a: jnp.asarray(a[..., 0]), nothing)
        return jax.tree.map(np.asarray, _scan(join_two, panel, first, lanes))


@partial(jax.jit, static_argnames="join_two")
def _scan(join_two: Callable[..., State], panel: Panel | None, first: State, lanes: tuple[State, ...]) -> State:
    lead = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), lanes)
    before = jax.lax.scan(lambda old, lane: (join_two(panel, old, *lane), old), first, lead)[1]
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), before)


def _mean(panel: None, before: Means, lane: Means) -> Means:
    total = before.counts + lane.counts
    share = xp.astype(lane.counts, lane.means.dtype) / xp.astype(xp.maximum(total, 1), lane.means.dtype)
    return Means(before.means + share[:, None] * (lane.means - before.means), total)


def _panel(panel: Panel, before: PanelState, lane: PanelState, span: Array, alive: Array) -> PanelState:
    origin = no_anchor(before.prototypes.centers.shape[1], (), jnp, span.dtype)  # all lanes have the same
    fade = jnp.asarray(panel.forgetting, span.dtype) ** span
    after = join(panel, before._replace(anchor=origin), lane._replace(anchor=origin), fade, alive)
    return unanchored(after)
