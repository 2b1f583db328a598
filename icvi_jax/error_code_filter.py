"""Gate: rows with an error code do not reach the clusterer.

One reading of 1e6 among values near 20 takes a centre with it, widens every scale for thousands of rows, and what then
happens to the data is too small for any index. A gate holds back rows that lie far outside everything seen before,
unless more of them follow. What came in the first rows nobody could judge yet: if one of those was a code, everything
begins anew. Ordinary streams pass unchanged; docs/reference/definitions.md has the definition.
"""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.numerics.arrays import advance, extreme, larger, median3, namespace, smaller
from icvi_jax.types import Array, DType, Namespace

FIRST = 9
"""Rows that are judged together, at the last of them."""

FAR = 50.0
"""So many ranges outside of what was seen, or at first so many median distances from the median, is a code. It is much:
a new cluster is to pass at once."""

SUSPECT, CLEARED, BELIEVED = 10, 1, 50
"""What a suspect row adds, what another row takes away, and how much is believed: the fifth in a row, or a tenth of the
rows; not 1 %, which a bad cable may give for ever."""


class GateState(NamedTuple):
    """What was seen so far."""

    first: Array  # (9, p, *streams), the first rows
    rows: Array  # (*streams), how many of them there are
    low: Array  # (p, *streams), the range of all rows that counted, once there are nine
    high: Array
    suspicion: Array  # (*streams), b


def start(features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> GateState:
    """The state before any sample."""
    column, none = xp.zeros((features, *streams), dtype=dtype), xp.zeros(streams, dtype=xp.int32)
    return GateState(xp.zeros((FIRST, features, *streams), dtype=dtype), none, column, column, none)


def step(state: GateState, x: Array, seen: Array) -> tuple[GateState, Array, Array]:
    """The state after the row x (p, *streams), which rows count of those `seen`, and where everything begins anew."""
    xp = namespace(x)
    early = seen & (state.rows < FIRST)
    rows = advance(state.rows, early)
    judged = early & (rows == FIRST)
    first = xp.where(early, xp.concat([state.first[1:, ...], x[None, ...]], axis=0), state.first)

    far = xp.maximum(x - state.high, state.low - x) > FAR * (state.high - state.low)
    suspect = seen & ~early & xp.any(far & (state.high > state.low), axis=0)
    more = xp.where(suspect, state.suspicion + SUSPECT, larger(state.suspicion - CLEARED, xp.zeros_like(rows)))
    believed = more >= BELIEVED
    suspicion = xp.where(seen & ~early, xp.where(believed, xp.zeros_like(more), more), state.suspicion)

    v = [first[i, ...] for i in range(FIRST)]
    c = median3(*(median3(*v[j::3]) for j in range(3)))
    away = [xp.abs(one - c) for one in v]
    r = larger(larger(median3(*away[0::3]), median3(*away[1::3])), median3(*away[2::3]))
    limit = xp.where(r > 0, FAR * r, xp.full_like(r, xp.inf))
    plain = xp.stack(away) <= limit
    counts = seen & xp.where(judged, xp.all(plain[-1, ...], axis=0), ~suspect | believed)
    later = counts & ~early
    low = xp.where(later, smaller(state.low, x), state.low)
    high = xp.where(later, larger(state.high, x), state.high)
    low = xp.where(judged, extreme(smaller, xp.where(plain, first, c)), low)
    high = xp.where(judged, extreme(larger, xp.where(plain, first, c)), high)
    anew = judged & ~xp.all(xp.all(plain, axis=0), axis=0)
    return GateState(first, rows, low, high, suspicion), counts, anew
