"""Batch: the definition of every index, from the whole recording at once."""

from __future__ import annotations

import array_api_compat
import numpy as np

from icvi_jax.kernels.arrays import cast, library, namespace
from icvi_jax.kernels.moments import weights
from icvi_jax.panel import Panel
from icvi_jax.statistics import Recording
from icvi_jax.types import Array, Prototypes
from icvi_jax.validation.validate import recorded


def batch(
    panel: Panel,
    X: Array,
    memberships: Array,
    centers: Array,
    active: Array | None = None,
    elapsed: Array | None = None,
) -> dict[str, Array]:
    """Index values after the last sample, from the sums that define them: O(n k), nothing incremental.

    Parameters
    ----------
    panel : the indices.
    X : (T, p), samples; rows that are not finite are missing. Its array library does the work; lists become NumPy.
    memberships : (T, k); all zero is noise.
    centers : (k, p) or (T, k, p); the last counts. A lone cluster needs the path, since h depends on it.
    active : (k,) or (T, k), slots in use; all by default. Samples before a slot's last birth are not its members.
    elapsed : (T,), time since the previous sample.

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
    recording = record(panel, X, memberships, centers, active, elapsed)
    xp = namespace(recording.x)
    states = {part.name: part.batch(recording) for part in panel.statistics}
    plain = Panel(indices=panel.indices, forgetting=panel.forgetting, fuzzifier=panel.fuzzifier)  # already in its norm
    now = Prototypes(recording.centers[-1, ...], recording.active[-1, :])
    return plain.values(states, now, xp.ones_like(recording.active[-1, 0]))


def record(panel: Panel, X: Array, memberships, centers, active=None, elapsed=None) -> Recording:
    """A recorded clustering as batch definitions want it: missing samples left out, about the first one, faded."""
    X = X if array_api_compat.is_array_api_obj(X) else np.asarray(X, dtype=float)
    xp = namespace(X)
    X = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, library(xp).asarray(0.0).dtype)
    U, V, A = recorded("batch", X, memberships, centers, active)
    seen = xp.all(xp.isfinite(X), axis=1) & xp.all(xp.isfinite(U), axis=1)
    seen = seen & xp.all(xp.all(xp.isfinite(V) | ~A[:, :, None], axis=2), axis=1)
    if not bool(xp.any(seen)):
        raise ValueError("batch: every sample is missing")
    gaps = xp.ones_like(X[:, 0]) if elapsed is None else xp.asarray(elapsed, dtype=X.dtype)
    spots = xp.nonzero(seen)[0]
    X, U, V, A, gaps = (xp.take(a, spots, axis=0) for a in (X, U, V, A, gaps))
    anchor = X[0, :]
    X, V = X - anchor, xp.where(A[:, :, None], V - anchor, xp.zeros_like(V))
    time = xp.arange(X.shape[0])[:, None]
    born = xp.max(xp.where(A, -xp.ones_like(time), time), axis=0)  # the last moment a slot was not in use
    U = xp.where(A, U, xp.zeros_like(U))
    W = xp.where(time > born, weights(U, cast(panel.fuzzifier, X)), xp.zeros_like(U))
    clock = xp.cumulative_sum(gaps)
    X = panel.seen_by(X.T).T
    V = xp.permute_dims(panel.seen_by(xp.permute_dims(V, (2, 0, 1))), (1, 2, 0))
    fades = cast(panel.forgetting, X) ** (clock[-1] - clock)
    return Recording(X, U, W, fades, V, A)
