"""Propose: the index values if a sample joined each cluster, or made its own."""

from __future__ import annotations

from icvi_jax.numerics.arrays import cast, namespace, slots, usable
from icvi_jax.origin import about
from icvi_jax.panel import Panel, PanelState
from icvi_jax.pipeline import Pipeline, PipelineState
from icvi_jax.types import Array, Event, Prototypes


def propose(
    panel: Panel | Pipeline, state: PanelState | PipelineState, x: Array, means: bool = False
) -> dict[str, Array]:
    """The values the panel would have after the sample `x`, for every cluster it may join; the state does not change.

    The centre of the cluster it joins moves towards it by g = 1/(λM + 1), where M is the mass of the cluster. Its own
    cluster is computed with one more slot, so also when all slots are used.

    Parameters
    ----------
    panel, state : a panel and its state, or a pipeline and its state, which scales the sample as its next step would.
        With `Standardize` only the latter has the right units.
    x : (p, *streams), the sample. Not finite: all values are NaN.
    means : no effect any more.

    Returns
    -------
    By index name (k + 1, *streams): `x` joins slot 0 … k − 1, NaN where it is not active; the last: its own cluster.

    Examples
    --------
    A nearest-centre clusterer that only accepts samples that do not make the index worse; the others are noise:

    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.CalinskiHarabasz(),))
    >>> state, centers, counts, best = panel.init(k=2, features=1, xp=np), np.zeros((2, 1)), np.zeros(2), np.nan
    >>> for x in ([0.0], [9.0], [1.0], [8.0], [30.0], [0.5], [-4.0], [8.5]):
    ...     x, used = np.array(x), int((counts > 0).sum())
    ...     near = ((x - centers) ** 2).sum(1)
    ...     c = used if used < 2 else int(near.argmin())
    ...     if used == 2 and icvi.propose(panel, state, x)["ch"][c] < best:
    ...         print("refused", x[0])
    ...         continue
    ...     counts[c] += 1
    ...     centers[c] += (x - centers[c]) / counts[c]
    ...     state, values = panel.step(state, x, np.eye(2)[c], centers, counts > 0)
    ...     best = values["ch"]
    refused 30.0
    refused -4.0
    >>> print(centers[:, 0].tolist(), counts.tolist())
    [0.5, 8.5] [3.0, 3.0]
    """
    anchor = state.anchor
    xp, dtype = namespace(anchor.high), anchor.high.dtype
    x = xp.asarray(x, dtype=dtype)
    if tuple(x.shape) != tuple(anchor.high.shape):
        raise ValueError(f"propose(x=…): expected shape {tuple(anchor.high.shape)}, got {tuple(x.shape)}")
    seen = xp.all(usable(x), axis=0)
    z = xp.where(seen, about(anchor, x), xp.zeros_like(x))
    if isinstance(state, PipelineState):
        if not isinstance(panel, Pipeline) or panel.panel is None:
            raise ValueError("propose: for the state of a pipeline, give the pipeline, and one that has a panel")
        if panel.standardize is not None and state.scaler is not None:
            _, z = panel.standardize.step(state.scaler, z, seen)
        panel, state = panel.panel, state.panel
    elif isinstance(panel, Pipeline):
        raise ValueError("propose: for a pipeline, give the state of the pipeline, not that of its panel")
    active = xp.concat([state.prototypes.active, xp.ones_like(state.prototypes.active[:1, ...])])
    values = _stepped(panel, state, z)
    return {name: xp.where(active & seen, a, xp.full_like(a, xp.nan)) for name, a in values.items()}


def _stepped(panel: Panel, state: PanelState, z: Array) -> dict[str, Array]:
    """Every proposal as a separate stream: one update and one computation of the indices for all."""
    xp = namespace(z)
    k, features, *streams = state.prototypes.centers.shape
    room = panel.start(k + 1, features, tuple(streams), xp, z.dtype)
    old = {
        name: type(fresh)(*(_each(_padded(a, b.shape), k) for a, b in zip(state.statistics[name], fresh)))
        for name, fresh in room.items()
    }
    centers, active, names, masses = state.prototypes
    wide = tuple(active.shape[1:])
    before = Prototypes(
        _each(_padded(centers, (k + 1, features, *wide)), k), _each(_padded(active, (k + 1, *wide)), k), None
    )
    choice = slots(before.active, k + 1) == xp.arange(k + 1, dtype=xp.int32)  # (k + 1, …, k + 1)
    choice = choice & xp.ones_like(before.active)
    mass = old["dispersion"].mass if "dispersion" in old else xp.zeros_like(before.centers[:, 0, ...])
    rate = xp.where(choice, 1 / (cast(panel.forgetting, z) * mass + 1), xp.zeros_like(mass))
    x = _each(z, k)
    after = Prototypes(before.centers + rate[:, None, ...] * (x - before.centers), before.active | choice, None)
    if names is not None:
        own = xp.max(names, axis=0)[None, ...] + 1
        named = _each(xp.concat([names, own]), k)
        before, after = before._replace(names=named), after._replace(names=named)
    if masses is not None:
        weights = _each(xp.concat([masses, xp.ones_like(masses[:1, ...])]), k)
        before, after = before._replace(masses=weights), after._replace(masses=weights)
    yes = xp.ones_like(x[0, ...], dtype=xp.bool)
    event = Event(x, xp.astype(choice, z.dtype), before, after, yes, yes)
    statistics = panel.update(old, event, crisp=True)
    return {name: xp.moveaxis(a, -1, 0) for name, a in panel.values(statistics, after, yes).items()}


def _padded(a: Array, shape: tuple[int, ...]) -> Array:
    """`a` with zeros at the ends of its axes, up to `shape`."""
    xp = namespace(a)
    for axis, length in enumerate(shape):
        if a.shape[axis] < length:
            more = list(a.shape)
            more[axis] = length - a.shape[axis]
            a = xp.concat([a, xp.zeros(tuple(more), dtype=a.dtype)], axis=axis)
    return a


def _each(a: Array, k: int) -> Array:
    """`a` (…) once for each of k + 1 proposals: (…, k + 1)."""
    return namespace(a).broadcast_to(a[..., None], (*a.shape, k + 1))
