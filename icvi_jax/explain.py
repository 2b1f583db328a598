"""Explain: which pair or cluster causes the value of an index."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.indices import DaviesBouldin
from icvi_jax.indices.base import divide, given
from icvi_jax.indices.health import CUT, MERGED, Health, logits
from icvi_jax.numerics.arrays import position, smallest, squares
from icvi_jax.panel import Panel, PanelState
from icvi_jax.statistics import Dispersion, Stats, Vitals
from icvi_jax.types import Array, Namespace


class HealthExplanation(NamedTuple):
    """Why health is what it is, for one stream or for each stream of a fleet.

    Attributes
    ----------
    value : (*streams), health; NaN while it is not known.
    reasons : (5, *streams), the chances of `icvi_jax.indices.health.REASONS`: right, merged (several true clusters in
        one), cut (one in several), not learned, nothing to find (one blob).
    reason : (*streams), integer: the likeliest of them; of the last four where health is below ½. −1 while not known.
    cluster : (*streams), integer: the slot to blame: of merged the one whose halves are furthest apart, of cut the one
        with the most members near the border to another. −1 for the other reasons.
    """

    value: Array
    reasons: Array
    reason: Array
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
    """Which pair sets h, which is worst in Davies–Bouldin, and how wide each cluster is.

    Parameters
    ----------
    panel : the panel.
    state : its state; for the state of a pipeline, `state.panel`.

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
