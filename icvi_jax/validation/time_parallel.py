"""Long recordings without a long scan: time is cut into lanes that run side by side.

The statistics add up, so a stretch of time has a summary that does not depend on what came before. First all lanes run
from nothing, as a fleet, and leave their summaries; then the summaries are joined one after the other, which gives the
state in which each lane really starts; then all lanes run again from there, and the indices are read. Twice the work,
and hundreds of samples a step.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp

from icvi_jax.drive import kernel
from icvi_jax.panel import Panel
from icvi_jax.surgery import join

LANES = 128
"""At most this many lanes: each reads its own stretch of memory, and more of them than this read no faster."""

SHORTEST = 32
"""Samples a lane has at least, and the fewest lanes that are worth their trouble."""

BUDGET = 2**22
"""Numbers that the states of all lanes may take together."""


def lanes_for(panel: Panel, samples: int, k: int, features: int) -> int:
    """How many lanes a recording is cut into; 1 where a plain scan is better, or shards do not combine to the whole."""
    if not all(part.shards for part in panel.statistics):
        return 1
    state = jax.eval_shape(lambda: panel.init(k, features))
    size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(state))
    lanes = min(LANES, samples // SHORTEST, BUDGET // size)
    if lanes < SHORTEST:
        return 1
    even = (n for n in range(lanes, SHORTEST - 1, -1) if samples % n == 0)  # then nothing has to be copied to fill up
    return next(even, lanes)


@partial(jax.jit, static_argnames="lanes")
def recorded_lanes(panel, X, U, V, A, elapsed, lanes):
    """Values (T,) of recorded memberships U (T, k), centres V (T, k, p) or (k, p), slots A (T, k) or (k,)."""
    k, p = U.shape[1], X.shape[1]
    V, v = (V, None) if V.ndim == 3 else (None, V[:, :, None])
    A, a = (A, None) if A.ndim == 2 else (None, A[:, None])

    def feed(source, now):
        x, u, vt, at, gap = now
        centers = jnp.broadcast_to(v, (k, p, lanes)) if vt is None else vt
        return source, (x, u, centers, jnp.broadcast_to(a, (k, lanes)) if at is None else at, gap)

    values = side_by_side(panel, (), feed, cut((X, U, V, A, elapsed), lanes), k, p)
    return jax.tree.map(lambda a: a[: len(X)], values)


@partial(jax.jit, static_argnames=("k", "lanes"))
def labelled_lanes(panel, X, slots, elapsed, k, lanes):
    """Values (T,) of slots (T,), −1 for noise, with the running means as centres."""
    X = X - X[jnp.argmax(jnp.all(jnp.isfinite(X), axis=1))]  # running means lose no digits near the data
    p = X.shape[1]

    def feed(source, now):
        means, counts = source
        x, slot, gap = now
        u = (jnp.arange(k)[:, None] == slot).astype(X.dtype)
        seen = jnp.all(jnp.isfinite(x), axis=0)
        counts = counts + (u * seen).astype(counts.dtype)
        e = jnp.where(seen, x, 0) - means
        means = means + jnp.where(seen, u / jnp.maximum(counts, 1), 0)[:, None] * e
        return (means, counts), (x, u, means, counts > 0, gap)

    inputs = cut((X, slots, elapsed), lanes)
    nothing = jnp.zeros((k, p, lanes), X.dtype), jnp.zeros((k, lanes), jnp.int32)
    means, counts = scan_lanes(lambda _, source, now: (feed(source, now)[0], None), panel, nothing, inputs)[0]

    def add(before, lane):
        mean, count = lane
        total = before[1] + count
        share = count.astype(X.dtype) / jnp.maximum(total, 1)  # two integers would make a float32
        return (before[0] + share[:, None] * (mean - before[0]), total), before

    first = jnp.zeros((k, p), X.dtype), jnp.zeros(k, jnp.int32)
    starts = jax.lax.scan(add, first, lead((means, counts)))[1]
    values = side_by_side(panel, trail(starts), feed, inputs, k, p)
    return jax.tree.map(lambda a: a[: len(X)], values)


def side_by_side(panel, source, feed, inputs, k, features):
    """Values (T,) by name; `feed(source, inputs_t)` gives the next source and what `panel.step` takes."""
    lanes, dtype = inputs[0].shape[0], inputs[0].dtype
    one = jnp.ones(lanes, dtype)

    def summarize(panel, carry, now):
        state, source, span, alive = carry
        source, step = feed(source, now)
        new, _ = panel.step(state, *step)
        seen = new.statistics["count"].samples > state.statistics["count"].samples
        gap = one if step[4] is None else step[4]
        return (new, source, span + jnp.where(seen, gap, 0), alive & (step[3] | ~seen)), None

    def follow(state, lane):
        summary, span, alive = lane
        return join(panel, state, summary, jnp.asarray(panel.forgetting, dtype) ** span, alive), state

    def step(panel, carry, now):
        state, source = carry
        source, step = feed(source, now)
        state, values = panel.step(state, *step)
        return (state, source), values

    nothing = panel.init(k, features, streams=(lanes,), dtype=dtype)
    start = nothing, source, 0 * one, jnp.ones((k, lanes), bool)
    summaries, _, spans, alive = scan_lanes(summarize, panel, start, inputs)[0]
    states = jax.lax.scan(follow, panel.init(k, features, dtype=dtype), lead((summaries, spans, alive)))[1]
    cpu = jax.default_backend() == "cpu"
    values = scan_lanes(step, panel, (trail(states), source), inputs, in_kernel=cpu)[1]
    return jax.tree.map(lambda a: jnp.reshape(a.T, (-1,)), values)


def cut(arrays, lanes):
    """Arrays (T, …) as (lanes, T / lanes, …): consecutive times are in one lane; the end is filled with NaN or 0."""

    def one(a):
        length = -(-a.shape[0] // lanes)
        if lanes * length > a.shape[0]:
            fill = jnp.nan if jnp.issubdtype(a.dtype, jnp.floating) else 0
            a = jnp.pad(a, [(0, lanes * length - a.shape[0]), *[(0, 0)] * (a.ndim - 1)], constant_values=fill)
        return jnp.reshape(a, (lanes, length, *a.shape[1:]))

    return jax.tree.map(one, arrays)


def scan_lanes(body, panel, start, inputs, in_kernel=False):
    """Scan the second axis of arrays (lanes, T, …); `body(panel, carry, now)` gets them as (…, lanes)."""

    def at(inputs, t):
        return trail(jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, t, 1, keepdims=False), inputs))

    times = jnp.arange(jax.tree.leaves(inputs)[0].shape[1], dtype=jnp.int32)
    in_kernel = in_kernel and kernel.loops(len(times))
    quick = kernel.rewritten(body, panel, start, at(inputs, 0))[0] if in_kernel else None

    def whole(panel, start, inputs):
        step = body if quick is None else quick
        return jax.lax.scan(lambda carry, t: step(panel, carry, at(inputs, t)), start, times)

    return whole(panel, start, inputs) if quick is None else kernel.one_kernel(whole, panel, start, inputs)


def lead(tree):
    """The lanes' axis first."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), tree)


def trail(tree):
    """The lanes' axis last."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), tree)
