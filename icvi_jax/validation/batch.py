"""Batch: the definition of every index, from all samples at once."""

from __future__ import annotations

import dataclasses

import array_api_compat
import numpy as np

from icvi_jax.engine import inputs
from icvi_jax.numerics.arrays import cast, library, namespace
from icvi_jax.numerics.moments import weights
from icvi_jax.panel import Panel, complete
from icvi_jax.statistics import Dispersion, Recording
from icvi_jax.statistics.groups import gathered
from icvi_jax.types import Array, ArrayLike, Prototypes, State
from icvi_jax.validation.validate import recorded


def batch(
    panel: Panel,
    X: ArrayLike,
    memberships: ArrayLike,
    centers: ArrayLike,
    active: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> dict[str, Array]:
    """Index values after the last sample, from the sums that define them: O(n k), nothing incremental.

    Parameters
    ----------
    panel : the indices.
    X : (T, p), samples; rows that are not finite are missing. Its array library is used; lists become NumPy.
    memberships : (T, k); all zero is noise.
    centers : (k, p) or (T, k, p); the last counts. With a single cluster h depends on the path, so give (T, k, p).
    active : (k,) or (T, k), slots in use; all by default. Samples before a slot's last birth are not its members.
    elapsed : (T,), time since the previous sample.
    clusters : (k,) or (T, k), which cluster each slot belongs to; the last counts. See `Panel.step`.

    Returns
    -------
    Values by index name, each a scalar.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),))
    >>> exact = icvi.batch(panel, [[0.0], [4.0], [1.0], [5.0]], [[1, 0], [0, 1], [1, 0], [0, 1]], [[0.5], [4.5]])
    >>> float(exact["xb"])
    0.015625
    """
    recording = record(panel, X, memberships, centers, active, elapsed, clusters)
    if panel.of == "clusters" and recording.names is None:
        raise ValueError('batch(clusters=None): Panel(of="clusters") needs the cluster of each slot; give clusters=')
    xp = namespace(recording.x)
    states = {part.name: part.batch(recording) for part in panel.statistics}
    now = _last(recording)
    if panel.of == "clusters" and int(xp.sum(xp.astype(gathered((), {}, now)[1].active, xp.int32))) == 1:
        path = _cluster_path(recording)
        states |= {part.name: part.batch(path) for part in panel.statistics if part.follows}
    plain = dataclasses.replace(panel, norm=None)  # the recording is already in this norm
    return plain.values(states, now, xp.ones_like(recording.active[-1, 0]))


def _last(recording: Recording) -> Prototypes:
    """The prototypes at the end of a recording."""
    names = None if recording.names is None else recording.names[-1, :]
    return Prototypes(recording.centers[-1, ...], recording.active[-1, :], names)


def _cluster_path(recording: Recording) -> Recording:
    """The recording with the path of its clusters instead of its slots: O(n²), and only needed for a single cluster."""
    xp = namespace(recording.x)
    centers, active = [], []
    for end in range(1, recording.x.shape[0] + 1):
        names = None if recording.names is None else recording.names[:end, ...]
        x, u, w, fades, path, active_path, given = (a[:end, ...] for a in recording[:7])
        part = Recording(x, u, w, fades, path, active_path, given, names)
        part = part._replace(fades=part.fades / part.fades[-1], w=_since_birth(part.active, part.given))
        now = gathered((Dispersion,), {"dispersion": Dispersion.batch(part)}, _last(part))[1]
        centers.append(now.centers)
        active.append(now.active)
    return recording._replace(centers=xp.stack(centers), active=xp.stack(active))


def _since_birth(active: Array, weights: Array) -> Array:
    """Weights (n, k), 0 for samples before the last birth of their slot."""
    xp = namespace(weights)
    time = xp.arange(active.shape[0])[:, None]
    born = xp.max(xp.where(active, -xp.ones_like(time), time), axis=0)  # the last moment a slot was not in use
    return xp.where(time > born, weights, xp.zeros_like(weights))


def record(
    panel: Panel,
    X: ArrayLike,
    memberships: ArrayLike,
    centers: ArrayLike,
    active: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Recording:
    """A recorded clustering for batch definitions: without missing samples, relative to the first sample, faded."""
    raw: State = X
    own = array_api_compat.is_array_api_obj(X) and not isinstance(X, np.ndarray)
    x: Array = raw if own else inputs.given("batch", X).x
    times = inputs.gaps("batch", elapsed, x.shape[:1])
    xp = namespace(x)
    x = x if xp.isdtype(x.dtype, "real floating") else xp.astype(x, library(xp).asarray(0.0).dtype)
    U, V, A = recorded("batch", x, memberships, centers, active)
    whole = complete(x.T, U.T, xp.permute_dims(V, (1, 2, 0)), A.T)
    if not bool(xp.any(whole)):
        raise ValueError("batch(X=…): every sample is missing (not finite, or larger than 1e15)")
    anchor = x[xp.argmax(xp.astype(whole, xp.int32)), :]
    x, V = x - anchor, V - anchor
    seen = complete(x.T, U.T, xp.permute_dims(V, (1, 2, 0)), A.T)
    gaps = xp.ones_like(x[:, 0]) if times is None else xp.asarray(times, dtype=x.dtype)
    spots = xp.nonzero(seen)[0]
    T, k = U.shape
    names = None
    if clusters is not None:
        names = xp.astype(xp.asarray(clusters), xp.int32)
        if tuple(names.shape) not in ((k,), (T, k)):
            raise ValueError(f"batch(clusters=…): expected shape {(k,)} or {(T, k)}, got {tuple(names.shape)}")
        names = xp.take(xp.broadcast_to(names, (T, k)), spots, axis=0)
    x, U, V, A, gaps = (xp.take(a, spots, axis=0) for a in (x, U, V, A, gaps))
    V = xp.where(A[:, :, None], V, xp.zeros_like(V))
    U = xp.where(A, U, xp.zeros_like(U))
    given = weights(U, cast(panel.fuzzifier, x))
    clock = xp.cumulative_sum(gaps)
    x = panel.seen_by(x.T).T
    V = xp.permute_dims(panel.seen_by(xp.permute_dims(V, (2, 0, 1))), (1, 2, 0))
    fades = cast(panel.forgetting, x) ** (clock[-1] - clock)
    return Recording(x, U, _since_birth(A, given), fades, V, A, given, names)
