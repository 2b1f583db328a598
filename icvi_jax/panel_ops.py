"""Operations on the state of a panel: read, remove, merge, combine, and explain its values."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.indices import DaviesBouldin
from icvi_jax.indices.base import divide, given
from icvi_jax.indices.health import CUT, MERGED, Health, logits
from icvi_jax.numerics.arrays import COUNT_LIMIT, cast, namespace, position, slots, smallest, squares, usable
from icvi_jax.numerics.moments import weights
from icvi_jax.origin import Anchor, about
from icvi_jax.panel import Panel, PanelState
from icvi_jax.spec import made, whole
from icvi_jax.statistics import Dispersion, States, Stats, Step, Vitals, pick
from icvi_jax.types import Array, Merge, Namespace, Prototypes


def read(panel: Panel, state: PanelState) -> dict[str, Array]:
    """The index values of a panel's state, by name.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),))
    >>> state, centers = panel.init(k=2, features=1, xp=np), np.array([[0.5], [4.5]])
    >>> for x, label in [(0.0, 0), (4.0, 1), (1.0, 0), (5.0, 1), (9.0, 1)]:
    ...     state, _ = panel.step(state, np.array([x]), np.eye(2)[label], centers)
    >>> state = icvi.remove(panel, state, np.array([9.0]), np.eye(2)[1])
    >>> round(float(icvi.read(panel, state)["xb"]), 9)
    0.015625
    """
    xp, high = namespace(state.anchor.high), state.anchor.high
    return panel.values(state.statistics, state.prototypes, xp.ones_like(high[0, ...], dtype=xp.bool))


def remove(panel: Panel, state: PanelState, x: Array, u: Array, age: float | Array = 0.0) -> PanelState:
    """Remove a sample, as if it had never come.

    Exact up to rounding; a spread that rounding makes negative is 0. Centres stay where they are: the next step gives
    their new places. Two things cannot be undone: the reach of a single cluster, which replaces the separation while
    k = 1; and the fading at the step of the sample, so that with forgetting the samples before it stay one step older.

    Parameters
    ----------
    x : (p, *streams), the sample. Not finite: nothing changes.
    u : (k, *streams), its memberships as they were.
    age : samples seen since then (or the time, if steps were given `elapsed`): with forgetting λ the sample has
        λ^age of its weight left. Without forgetting it has no effect.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.DaviesBouldin(),))
    >>> state = panel.init(k=2, features=1, xp=np)
    >>> for x, label in [(0.0, 0), (4.0, 1), (1.0, 0), (5.0, 1)]:
    ...     state, values = panel.step(state, np.array([x]), np.eye(2)[label], np.array([[0.5], [4.5]]))
    >>> less = icvi.remove(panel, state, np.array([5.0]), np.eye(2)[1])
    >>> int(less.statistics["count"].samples)
    3
    """
    xp = namespace(state.anchor.high)
    x, u = (xp.asarray(a, dtype=state.anchor.high.dtype) for a in (x, u))
    seen = xp.all(usable(x), axis=0) & xp.all(usable(u), axis=0)
    left = cast(panel.forgetting, x) ** cast(age, x)
    left = xp.where(seen, left, xp.zeros_like(x[0, ...]))
    u = xp.where(seen & state.prototypes.active, u, xp.zeros_like(u))
    place = panel.seen_by(xp.where(seen, about(state.anchor, x), xp.zeros_like(x)))
    w = left * weights(u, cast(panel.fuzzifier, u))
    step = Step(place, u, w, left, seen, state.prototypes, state.prototypes)
    return state._replace(
        statistics={part.name: part.remove(States(state.statistics), step) for part in panel.statistics}
    )


def merge(panel: Panel, state: PanelState, i: int, j: int, center: Array | None = None) -> PanelState:
    """Merge cluster `j` into cluster `i`: slot i has the members of both, slot j is free.

    Members keep their weights, u_i^m and u_j^m; for crisp clusters the result is the same as with one cluster from the
    start. Memberships of past samples, which `PartitionCoefficient` and `PartitionEntropy` use, do not change.

    Parameters
    ----------
    center : (p, *streams), the centre of the merged cluster, in the units of the samples. None: the mean of the two
        centres, weighted with their masses where an index has them, or else the plain mean of those in use.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.DaviesBouldin(),))
    >>> state = panel.init(k=2, features=1, xp=np)
    >>> for x, label in [(0.0, 0), (4.0, 1), (1.0, 0), (5.0, 1)]:
    ...     state, values = panel.step(state, np.array([x]), np.eye(2)[label], np.array([[0.5], [4.5]]))
    >>> one = icvi.merge(panel, state, 0, 1)
    >>> one.prototypes.active.tolist()
    [True, False]
    """
    xp = namespace(state.anchor.high)
    old = state.prototypes
    k = old.active.shape[0]
    for field, slot in (("i", i), ("j", j)):
        whole("merge", field, slot, 0)
        if slot >= k:
            raise ValueError(f"merge({field}={slot}): the slots are 0 … {k - 1}")
    if i == j:
        raise ValueError(f"merge(i={i}, j={j}): expected two different slots")
    if center is None:
        place = _between(state, i, j)
    else:
        place = about(state.anchor, xp.asarray(center, dtype=state.anchor.high.dtype))
    either = old.active[i, ...] | old.active[j, ...]
    index, everywhere = slots(old.active, k), xp.ones_like(old.active)
    into, gone = ((index == s) & everywhere for s in (i, j))

    def merged(a: Array, both: Array, into: Array = into, gone: Array = gone) -> Array:
        return xp.where(into, both, xp.where(gone, xp.zeros_like(a), a))

    place = xp.where(either, place, xp.zeros_like(place))
    centers = merged(old.centers, place, into[:, None, ...], gone[:, None, ...])
    masses = None if old.masses is None else merged(old.masses, old.masses[i, ...] + old.masses[j, ...])
    prototypes = Prototypes(centers, merged(old.active, either), old.names, masses)
    return state._replace(prototypes=prototypes, statistics=panel.merged(state.statistics, Merge(into, gone)))


def combine(panel: Panel, earlier: PanelState, later: PanelState, elapsed: Array | None = None) -> PanelState:
    """Join two shards with the same clusters into the state of one that saw the samples of both.

    Parameters
    ----------
    earlier, later : the states. Without forgetting the order only matters for the centres, which are those of
        `later`. A slot that `later` does not use is forgotten; one that was freed and used again within `later` must
        not be in use in `earlier`.
    elapsed : the time that `later` covers, by which `earlier` has faded; its number of samples by default.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.DaviesBouldin(),))
    >>> state = panel.init(k=2, features=1, xp=np)
    >>> for x, label in [(0.0, 0), (4.0, 1), (1.0, 0), (5.0, 1)]:
    ...     state, values = panel.step(state, np.array([x]), np.eye(2)[label], np.array([[0.5], [4.5]]))
    >>> both = icvi.combine(panel, state, state)
    >>> int(both.statistics["count"].samples)
    8
    """
    _own("combine", panel, earlier, later)
    xp, high = namespace(earlier.anchor.high), earlier.anchor.high
    first, second = (tuple(state.prototypes.centers.shape) for state in (earlier, later))
    if first != second:
        raise ValueError(f"combine: the states differ in slots, features or streams: centres {first} and {second}")
    count = later.statistics["count"].samples
    span = xp.astype(count, high.dtype) if elapsed is None else cast(elapsed, high)
    alive = later.prototypes.active | (count == 0)
    return join(panel, earlier, later, cast(panel.forgetting, high) ** span, alive)


def join(panel: Panel, earlier: PanelState, later: PanelState, fade: Array, alive: Array) -> PanelState:
    """`combine` where `earlier` has faded by `fade` (*streams) and keeps only the slots `alive` (k, *streams)."""
    xp = namespace(earlier.anchor.high)
    empty = later.statistics["count"].samples == 0
    anchor = pick(earlier.statistics["count"].samples == 0, later.anchor, earlier.anchor)
    past, present = (
        {part.name: part.shift(state.statistics[part.name], by) for part in panel.statistics}
        for state, by in ((s, panel.seen_by(_gap(s, anchor))) for s in (earlier, later))
    )
    past = {part.name: part.fade(past[part.name], fade, alive) for part in panel.statistics}
    old, new = (
        xp.where(state.prototypes.active[:, None, ...], state.prototypes.centers + _gap(state, anchor), 0 * anchor.high)
        for state in (earlier, later)
    )
    names, masses = (
        None if later_one is None else xp.where(empty, earlier_one, later_one)
        for earlier_one, later_one in zip(earlier.prototypes[2:], later.prototypes[2:])
    )
    prototypes = Prototypes(
        xp.where(empty, old, new), xp.where(empty, earlier.prototypes.active, later.prototypes.active), names, masses
    )
    room = COUNT_LIMIT - earlier.missing
    missing = earlier.missing + xp.where(later.missing < room, later.missing, room)
    statistics = {part.name: part.combine(States(past), States(present)) for part in panel.statistics}
    return PanelState(anchor, missing, prototypes, statistics)


def _gap(state: PanelState, anchor: Anchor) -> Array:
    """The difference between the anchor of a state and another one: (p, *streams)."""
    return (state.anchor.high - anchor.high) + (state.anchor.low - anchor.low)


def _between(state: PanelState, i: int, j: int) -> Array:
    """The mean of two centres (p, *streams), relative to the anchor."""
    xp = namespace(state.anchor.high)
    centers, active = state.prototypes[:2]
    use = [xp.astype(active[s, ...], centers.dtype) for s in (i, j)]
    if "dispersion" in state.statistics:
        mass = state.statistics["dispersion"].mass
        some = mass[i, ...] + mass[j, ...] > 0
        use = [xp.where(some, mass[s, ...], a) for s, a in zip((i, j), use)]
    total = use[0] + use[1]
    share = use[1] / xp.where(total > 0, total, xp.ones_like(total))
    first = xp.where(use[0] > 0, centers[i, ...], centers[j, ...])  # the centre of a free slot is undefined
    return first + share * (centers[j, ...] - first)


class HealthExplanation(NamedTuple):
    """Why health is what it is, for one stream or for each stream of a fleet."""

    value: Array  # (*streams), health; NaN while it is not known
    # (5, *streams), the chances of `icvi_jax.indices.health.REASONS`: right, merged (several true clusters in one), cut
    # (one in several), not learned, nothing to find (one blob)
    reasons: Array
    # (*streams), integer: the likeliest of them; of the last four where health is below ½. −1 while not known
    reason: Array
    # (*streams), integer: the slot to blame: of merged the one whose halves are furthest apart, of cut the one with the
    # most members near the border to another. −1 for the other reasons
    cluster: Array


class Explanation(NamedTuple):
    """The causes, for one stream or for each stream of a fleet.

    Attributes
    ----------
    closest : (2, *streams), the pair of slots whose centres are nearest: it sets h. −1 with fewer than two clusters.
    distance : (*streams), its squared distance; NaN with fewer than two clusters.
    worst : (2, *streams), the pair with the largest ratio (L_i + L_j) / D_ij: it counts most in Davies–Bouldin.
    ratio : (*streams), that ratio.
    level : (k, *streams), each cluster's mean squared distance from its centre, L_i = C_i / M_i; NaN where inactive.
    mass : (k, *streams), each cluster's faded membership; 0 where inactive.
    health : why `Health` says what it says; None unless it is on the panel.

    A panel with `Health` and no index of dispersions has NaN in `ratio`, `level` and `mass`.
    """

    closest: Array
    distance: Array
    worst: Array
    ratio: Array
    level: Array
    mass: Array
    health: HealthExplanation | None = None


def explain(panel: Panel, state: PanelState) -> Explanation:
    """Which pair sets h, which is worst in Davies–Bouldin, and how wide each cluster is; of a pipeline: `state.panel`.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.DaviesBouldin(),))
    >>> state = panel.init(k=2, features=1, xp=np)
    >>> for x, label in [(0.0, 0), (4.0, 1), (1.0, 0), (5.0, 1)]:
    ...     state, values = panel.step(state, np.array([x]), np.eye(2)[label], np.array([[0.5], [4.5]]))
    >>> [int(slot) for slot in icvi.explain(panel, state).worst]
    [0, 1]
    """
    _own("explain", panel, state)
    if Dispersion not in panel.statistics and Vitals not in panel.statistics:
        raise ValueError(f"explain(panel=…): expected an index with dispersions, such as {DaviesBouldin.__name__}")
    stats = panel.stats(state.statistics, state.prototypes)
    xp = stats.xp
    v, active = stats.centers, stats.active
    L = mass = xp.full_like(v[:, 0, ...], xp.nan)
    if Dispersion in panel.statistics:
        L, mass = stats[Dispersion].level, stats[Dispersion].mass
    k = v.shape[0]
    both = active[:, None, ...] & active[None, ...]
    index = xp.arange(k)
    upper = xp.reshape(index[:, None] < index[None, :], (k, k) + (1,) * (active.ndim - 1))
    d = squares(v[:, None, ...] - v[None, ...], 2)
    ok = both & upper
    ratio = divide(L[:, None, ...] + L[None, ...], d, xp.inf)
    closest, distance = _first(xp, xp.where(ok, -d, xp.full_like(d, -xp.inf)))
    worst, largest = _first(xp, xp.where(ok, ratio, xp.full_like(d, -xp.inf)))
    level = xp.where(active, L, xp.full_like(L, xp.nan))
    health = _health(stats) if Vitals in panel.statistics else None
    return Explanation(closest, -distance, worst, largest, level, mass, health)


def _health(stats: Stats) -> HealthExplanation:
    """The reasons for the value of `Health`."""
    xp, view = stats.xp, stats[Vitals]
    value = Health().value(stats, stats.n)
    outputs = xp.stack(logits(view.signs, 6)[1:])
    weight = xp.exp(outputs - xp.max(outputs, axis=0))
    reasons = weight / xp.sum(weight, axis=0)
    known = value == value
    wrong = xp.concat([xp.where(value < 0.5, -xp.ones_like(reasons[:1, ...]), reasons[:1, ...]), reasons[1:, ...]])
    reason = xp.where(known, position(smallest(-wrong)), xp.full_like(position(smallest(-wrong)), -1))
    worst = {MERGED: view.gains, CUT: view.state.edge}
    cluster = xp.full_like(reason, -1)
    for why, blame in worst.items():
        blame = xp.where(view.heavy, blame, -xp.ones_like(blame))
        cluster = xp.where((reason == why) & xp.any(view.heavy, axis=0), position(smallest(-blame)), cluster)
    return HealthExplanation(value, given(known, reasons), reason, cluster)


def _first(xp: Namespace, a: Array) -> tuple[Array, Array]:
    """The pair (2, *streams) at which `a` (k, k, *streams) is largest, and the value; −1 and NaN if there is none."""
    k = a.shape[0]
    flat = xp.reshape(a, (k * k, *a.shape[2:]))
    best, spot = xp.max(flat, axis=0), xp.argmax(flat, axis=0)
    some = best > -xp.inf
    pair = xp.stack([spot // k, spot % k])
    return xp.where(some, pair, -1 * xp.ones_like(pair)), xp.where(some, best, xp.full_like(best, xp.nan))


def _own(caller: str, panel: Panel, *states: PanelState) -> None:
    """Raise a ValueError unless these are a panel and states of panels."""
    made(caller, "panel", panel, Panel, "icvi.Panel(indices=(icvi.XieBeni(),))")
    for state in states:
        if not isinstance(state, PanelState):
            got = type(state).__name__
            raise ValueError(f"{caller}: expected the state of a panel, such as run(…).state.panel, got {got}")
