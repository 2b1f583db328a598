r"""Contrast: the Calinski–Harabasz index of the partition {before, now} of each feature of a stream.

For one feature and two groups that index is the square of the two-sample t statistic: free of units, with no number of
clusters to choose and no clusterer. "Now" is a mean that forgets quickly (λ_f), "before" one that forgets slowly (λ_s)
and is `lag` samples late, so that the two do not overlap:

.. math:: CH = \frac{(m_f − m_s)^2}{v\,(Q_f/W_f^2 + Q_s/W_s^2)},
   \qquad W = Σ λ^{n−j}, \quad Q = Σ λ^{2(n−j)}, \quad m = Σ λ^{n−j} x_j / W,

with v the variance of a sample about the mean before it. That is one *view*. There may be more of the same feature: a
slower pair of means, which sees small steps and drifts; a view of the distances |x − m_s| instead of x, which sees that
a feature scatters more; and one of the last four values, which holds against memory (`icvi_jax.monitors.jumps`). The
contrast of a feature is the largest over its views: one number for all, so that one threshold is learned and no rate
has to be divided.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from icvi_jax.monitors import jumps
from icvi_jax.monitors.means import SURE, Mean, Variance, blank, follow, learn, share
from icvi_jax.numerics.arrays import advance, larger, namespace, smaller
from icvi_jax.types import Array, Namespace

SETTLED = 10
"""Samples that "before" must have, or could have, before the two are compared."""

WEIGHTY = 5.0
"""The variance is learned when "before" weighs more than this."""

SLOWEST = 0.002
"""The share of repeated values is a mean over about 500 samples."""

SLOWER = 0.97, 0.997
"""λ_f and λ_s of the slower view, and of the view of distances."""

FAR = 4.0
"""A distance counts as at most so many spreads."""

WHITE = {
    (False, False, False): (1.235, 0.225), (True, False, False): (1.257, 0.212),
    (False, True, False): (1.300, 0.200), (True, True, False): (1.315, 0.196),
    (False, False, True): (1.275, 0.206), (True, False, True): (1.291, 0.202),
    (False, True, True): (1.321, 0.193), (True, True, True): (1.333, 0.190),
}  # fmt: skip
"""Where the tails of features begin, by slower means, distances and jumps: mean and spread of the largest of 15
contrasts of white noise."""


class View(NamedTuple):
    """Two means, and the variance v of a value about the earlier one with the number of values it was learned from."""

    now: Mean
    before: Mean
    variance: Array
    learned: Array


class ContrastState(NamedTuple):
    """What is known of each feature.

    Attributes
    ----------
    views : the feature itself; where asked for, the slower view and that of distances.
    age : (p, *streams), rows since the feature's regime began.
    last, repeats, constant : (p, *streams), the last value (NaN: none yet), the share of values that repeat the one
        before, and whether all were the same so far.
    ring : (lag, p, *streams), the last rows, the oldest first; NaN in holes.
    rough : what jumps are measured by; None where they are not asked for.
    """

    views: tuple[View, ...]
    age: Array
    last: Array
    repeats: Array
    constant: Array
    ring: Array
    rough: Variance | None = None


class Settings(NamedTuple):
    """Forgetting of now, of before and of the variance; a feature of which more values are repeats has no contrast."""

    fast: Array
    slow: Array
    steady: Array
    mute: Array


def start(
    views: int, leaps: bool, lag: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object
) -> ContrastState:
    """The state before any sample, with so many views, and that of jumps where `leaps`."""
    zero = xp.zeros((features, *streams), dtype=dtype)
    none = xp.zeros((features, *streams), dtype=xp.int32)
    mean = Mean(zero, zero, zero)
    ring = xp.zeros((lag, features, *streams), dtype=dtype)
    rough = Variance(zero, none) if leaps else None
    return ContrastState((View(mean, mean, zero, none),) * views, none, zero + xp.nan, zero, none == 0, ring, rough)


def take(
    state: ContrastState,
    x: Array,
    there: Array,
    time: Array,
    fresh: Array,
    settings: Settings,
    slower: bool,
    spread: bool,
) -> tuple[ContrastState, Array, Array]:
    """Process a row.

    Parameters
    ----------
    x, there : (p, *streams), the values, and False in holes; a row without any value changes nothing.
    time : (*streams), integer: rows before this one.
    fresh : (*streams), whether a new regime has begun with the row before: means are emptied, variances kept.
    settings : of the first view.
    slower, spread : which other views there are.

    Returns
    -------
    state
    y : (p, *streams), the fourth root of CH; 0 where it has none.
    known : (p, *streams), whether it has one.
    """
    xp = namespace(x)
    lag, row = state.ring.shape[0], xp.any(there, axis=0)

    # Repeated values of a counter that rarely changes do not count; a constant feature begins with its first change.
    same = there & (x == state.last)
    gain = larger(1 / xp.astype(larger(time, xp.ones_like(time)), x.dtype), xp.full_like(x[0, ...], SLOWEST))
    turned = there & (time >= 1)
    repeats = xp.where(turned, state.repeats + gain * (xp.astype(same, x.dtype) - state.repeats), state.repeats)
    wakes = row & state.constant & (time >= lag)
    constant = state.constant & ~(there & ((x < state.last) | (x > state.last)))
    none = xp.zeros_like(state.age)
    age = xp.where(wakes, none, xp.where(fresh, none + 1, state.age))

    z = state.ring[0, ...]
    late = there & (age >= lag) & ~xp.isnan(z)
    z = xp.where(late, z, xp.zeros_like(z))
    old = [_blank(view, wakes | fresh) for view in state.views]
    quick, calm = (xp.full_like(x, fade) for fade in SLOWER)
    slow = settings._replace(fast=quick, slow=calm)
    views = [_look(old[0], x, z, there, late, settings)]
    if slower:
        views.append(_look(old[1], x, z, there, late, slow))
    if spread:
        first = views[0]
        scale = xp.sqrt(xp.where(first.variance > 0, first.variance, xp.ones_like(x)))
        far, ago = (smaller(xp.abs(a - first.before.mean) / scale, xp.full_like(x, FAR)) for a in (x, z))
        sure = (first.before.weight > WEIGHTY) & (first.variance > 0)
        views.append(_look(old[-1], far, ago, there & sure, late & sure, slow))

    able = there & (age >= lag + SETTLED) & ~(repeats > settings.mute)
    y, known = zip(*(_contrast(view, able) for view in views))
    contrast, some, rough = reduce(larger, y), reduce(lambda a, b: a | b, known), state.rough
    if rough is not None:
        moves, v = there & ~constant & (age >= jumps.BACK), views[0].variance
        rough, leap, leaps, scale = jumps.take(rough, x, state.ring, able, moves, v, settings.steady)
        contrast, some = larger(contrast * scale, leap), some | leaps
    new = ContrastState(
        tuple(views),
        advance(age, row),
        xp.where(there, x, state.last),
        repeats,
        constant,
        _pushed(state.ring, xp.where(there, x, xp.full_like(x, xp.nan)), row),
        rough,
    )
    return new, contrast, some


def _look(view: View, x: Array, z: Array, there: Array, late: Array, settings: Settings) -> View:
    """The view after the value x, and after z for the mean before, where they are."""
    now, _ = follow(view.now, x, there, settings.fast)
    before, e = follow(view.before, z, late, settings.slow)
    listens = late & (before.weight > WEIGHTY)
    return View(now, before, *learn(Variance(view.variance, view.learned), e * e, listens, settings.steady))


def _contrast(view: View, able: Array) -> tuple[Array, Array]:
    """The fourth root of CH, 0 where there is none, and where there is one."""
    xp = namespace(view.variance)
    v, one = view.variance, xp.ones_like(view.variance)
    known = able & (view.learned >= SURE) & (v > 0) & (view.before.weight > 0)
    of_means = share(view.now) + share(view.before)
    contrast = (view.now.mean - view.before.mean) ** 2 / xp.where(known, v * of_means, one)
    return xp.where(known, xp.sqrt(xp.sqrt(contrast)), xp.zeros_like(v)), known


def _blank(view: View, where: Array) -> View:
    """The view with empty means; its variance is kept."""
    return view._replace(now=blank(view.now, where), before=blank(view.before, where))


def _pushed(ring: Array, row: Array, where: Array) -> Array:
    """The ring with a new row and without the oldest."""
    xp = namespace(ring)
    return xp.where(where, xp.concat([ring[1:, ...], row[None, ...]], axis=0), ring)
