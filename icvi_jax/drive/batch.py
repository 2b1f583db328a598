"""Batch: the definition of every index, from the whole recording at once."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from icvi_jax.drive.validate import recorded
from icvi_jax.panel import Panel, weights
from icvi_jax.statistics import Recording
from icvi_jax.types import Array, Prototypes


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
    X : (T, p), samples; rows that are not finite are missing.
    memberships : (T, k); all zero is noise.
    centers : (k, p) or (T, k, p); the last counts. A lone cluster needs the path, since h depends on it.
    active : (k,) or (T, k), slots in use; all by default. Samples before a slot's last birth are not its members.
    elapsed : (T,), time since the previous sample.

    Returns
    -------
    Values by index name, each a scalar.
    """
    X = jnp.asarray(X)
    X = X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.result_type(float))
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"batch: X needs the axes (T, p) and at least one sample, got shape {X.shape}")
    U, V, A = recorded("batch", X, memberships, centers, active)
    seen = np.asarray(jnp.all(jnp.isfinite(X), axis=1) & jnp.all(jnp.isfinite(U), axis=1))
    seen &= np.asarray(jnp.all(jnp.isfinite(V) | ~A[:, :, None], axis=(1, 2)))
    if not seen.any():
        raise ValueError("batch: every sample is missing")
    gaps = jnp.ones(len(X), X.dtype) if elapsed is None else jnp.asarray(elapsed, X.dtype)
    X, U, V, A, gaps = (a[seen] for a in (X, U, V, A, gaps))
    anchor = X[0]
    X, V = X - anchor, jnp.where(A[:, :, None], V - anchor, 0)
    since_birth = jnp.cumprod(A[::-1], axis=0)[::-1].astype(bool)
    U = jnp.where(since_birth, U, 0)
    ages = jnp.concatenate([jnp.cumsum(gaps[:0:-1])[::-1], jnp.zeros(1, X.dtype)])
    V = panel.seen_by(V.T).T if panel.factor is not None else V
    X = panel.seen_by(X.T).T
    recording = Recording(X, U, weights(U, panel.fuzzifier), panel.forgetting**ages, V, A)
    states = {part.name: part.batch(recording) for part in panel.statistics}
    plain = Panel(indices=panel.indices, forgetting=panel.forgetting, fuzzifier=panel.fuzzifier)
    return plain.values(states, Prototypes(V[-1], A[-1]), jnp.ones((), bool))
