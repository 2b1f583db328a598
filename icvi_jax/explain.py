"""Explain: which pair or cluster causes the value of an index."""

from __future__ import annotations

from typing import NamedTuple

from icvi_jax.indices import DaviesBouldin
from icvi_jax.indices.base import divide
from icvi_jax.numerics.arrays import squares
from icvi_jax.panel import Panel, PanelState
from icvi_jax.statistics import Dispersion
from icvi_jax.types import Array, Namespace


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
    """

    closest: Array
    distance: Array
    worst: Array
    ratio: Array
    level: Array
    mass: Array


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
    if Dispersion not in panel.statistics:
        raise ValueError(f"explain(panel=…): expected an index with dispersions, such as {DaviesBouldin.__name__}")
    stats = panel.stats(state.statistics, state.prototypes)
    xp = stats.xp
    v, active, L = stats.centers, stats.active, stats[Dispersion].level
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
    return Explanation(closest, -distance, worst, largest, level, stats[Dispersion].mass)


def _first(xp: Namespace, a: Array) -> tuple[Array, Array]:
    """The pair (2, *streams) at which `a` (k, k, *streams) is largest, and the value; −1 and NaN if there is none."""
    k = a.shape[0]
    flat = xp.reshape(a, (k * k, *a.shape[2:]))
    best, spot = xp.max(flat, axis=0), xp.argmax(flat, axis=0)
    some = best > -xp.inf
    pair = xp.stack([spot // k, spot % k])
    return xp.where(some, pair, -1 * xp.ones_like(pair)), xp.where(some, best, xp.full_like(best, xp.nan))
