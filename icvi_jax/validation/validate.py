"""Validate: the indices along somebody else's clustering."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.drive.steps import scan_steps
from icvi_jax.kernels.arrays import namespace
from icvi_jax.panel import Panel
from icvi_jax.types import Array
from icvi_jax.validation.time_parallel import labelled_lanes, lanes_for, recorded_lanes


def validate(
    panel: Panel,
    X: Array,
    labels: Array | None = None,
    memberships: Array | None = None,
    centers: Array | None = None,
    active: Array | None = None,
    elapsed: Array | None = None,
    parallel: bool = False,
    clusters: Array | None = None,
) -> dict[str, Array]:
    """Index values after every sample of a recorded clustering.

    Give either `labels`, or `memberships` and `centers`.

    Parameters
    ----------
    panel : the indices.
    X : (T, p), samples; rows that are not finite are missing.
    labels : (T,), crisp integer labels of any values; −1 is noise. Centres are the running means of the members.
    memberships : (T, k), memberships of each sample; all zero is noise.
    centers : (T, k, p), the centres after each sample; (k, p) if they never move.
    active : (T, k), the slots in use after each sample; all by default.
    elapsed : (T,), time since the previous sample, in units of which one fades by the panel's forgetting.
    parallel : cut a long recording into stretches that run side by side; equal up to rounding, and faster from some
        ten thousand samples on. Short recordings, and panels that must know the clusters of slots, are scanned as they
        are.
    clusters : (k,) or (T, k), which cluster each slot belongs to, with `memberships`; see `Panel.step`.

    Returns
    -------
    Values by index name, each (T,).

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> values = icvi.validate(icvi.Panel(indices=(icvi.XieBeni(),)), [[0.0], [4.0], [1.0], [5.0]], labels=[7, 9, 7, 9])
    >>> print(np.round(values["xb"], 4))
    [   inf    nan 0.0136 0.0156]
    """
    X = jnp.asarray(X)
    X = X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.result_type(float))
    if (labels is None) == (memberships is None):
        raise ValueError("validate: give either labels=, or memberships= and centers=")
    if elapsed is not None:
        elapsed = jnp.asarray(elapsed, X.dtype)
        if elapsed.shape != X.shape[:1]:
            raise ValueError(f"validate(elapsed=…): needs one number a sample, {X.shape[:1]}, got {elapsed.shape}")
    if labels is not None:
        if clusters is not None:
            raise ValueError("validate(clusters=…): a label is a cluster; give memberships= and centers= of its slots")
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"validate: X needs the axes (T, p) and at least one sample, got shape {X.shape}")
        slots, k = slots_of(labels, len(X))
        lanes = lanes_for(panel, len(X), k, X.shape[1]) if parallel and not panel.grouped else 1
        if lanes > 1:
            return labelled_lanes(panel, X, jnp.asarray(slots), elapsed, k, lanes)
        return _labelled(panel, X, jnp.asarray(slots), elapsed, k)
    U, V, A = recorded("validate", X, memberships, centers, active)
    names = _named(clusters, U.shape)
    lanes = lanes_for(panel, *U.shape, X.shape[1]) if parallel and not panel.grouped else 1
    if lanes > 1:
        # What never changes need not be read for every sample.
        V = V[0] if jnp.ndim(centers) == 2 else V
        A = A[0] if active is None or jnp.ndim(active) == 1 else A
        return recorded_lanes(panel, X, U, V, A, elapsed, lanes)
    start = panel.init(U.shape[1], X.shape[1], dtype=X.dtype)
    return scan_steps(panel, start, (X, U, V, A, elapsed, names))[1]


def slots_of(labels: Array, samples: int) -> tuple[np.ndarray, int]:
    """Slots 0, 1, … of integer labels in order of their values (−1 stays −1), and how many there are."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or len(labels) != samples:
        raise ValueError(f"validate(labels=…): needs one label a sample, ({samples},), got shape {labels.shape}")
    if not np.issubdtype(labels.dtype, np.integer):
        if not np.issubdtype(labels.dtype, np.floating) or not np.all(labels == np.round(labels)):
            raise ValueError(f"validate(labels=…): labels are whole numbers, −1 for noise; got {labels.dtype}")
        labels = labels.astype(np.int64)
    known = np.unique(labels[labels != -1])
    slots = np.searchsorted(known, labels)
    return np.where(labels == -1, -1, slots).astype(np.int32), max(len(known), 1)


def recorded(caller: str, X: Array, memberships, centers, active) -> tuple[Array, Array, Array]:
    """Memberships (T, k), centres (T, k, p) and active slots (T, k) as arrays that fit X, or an error."""
    xp = namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{caller}: X needs the axes (T, p) and at least one sample, got shape {tuple(X.shape)}")
    U = xp.asarray(memberships, dtype=X.dtype)
    T, p = X.shape
    if U.ndim != 2 or U.shape[0] != T or centers is None:
        raise ValueError(f"{caller}(memberships=…): needs the axes ({T}, k) and centers=; got shape {tuple(U.shape)}")
    if not isinstance(U, jax.core.Tracer) and bool(xp.any(U < 0)):
        raise ValueError(f"{caller}(memberships=…): a membership is 0 or more, got {float(xp.min(U)):g}")
    k = U.shape[1]
    V = xp.asarray(centers, dtype=X.dtype)
    if tuple(V.shape) not in ((k, p), (T, k, p)):
        raise ValueError(f"{caller}(centers=…): needs shape {(k, p)} or {(T, k, p)}, got {tuple(V.shape)}")
    A = xp.ones((T, k), dtype=xp.bool) if active is None else xp.asarray(active, dtype=xp.bool)
    if tuple(A.shape) not in ((k,), (T, k)):
        raise ValueError(f"{caller}(active=…): needs shape {(k,)} or {(T, k)}, got {tuple(A.shape)}")
    return U, xp.broadcast_to(V, (T, k, p)), xp.broadcast_to(A, (T, k))


def _named(clusters, shape):
    """The cluster (T, k) of each slot, or None."""
    if clusters is None:
        return None
    names = jnp.asarray(clusters).astype(jnp.int32)
    if names.shape not in (shape[1:], shape):
        raise ValueError(f"validate(clusters=…): needs shape {shape[1:]} or {shape}, got {names.shape}")
    return jnp.broadcast_to(names, shape)


@jax.jit(static_argnames="k")
def _labelled(panel, X, slots, elapsed, k):
    origin = X[jnp.argmax(jnp.all(jnp.isfinite(X), axis=1))]  # running means lose no digits near the data

    def body(carry, inputs):
        state, means, counts = carry
        x, slot, gap = inputs
        u = (jnp.arange(k) == slot).astype(X.dtype)
        seen = jnp.all(jnp.isfinite(x))
        counts = counts + (u * seen).astype(counts.dtype)
        e = jnp.where(seen, x - origin, 0) - means
        means = means + jnp.where(seen, (u / jnp.maximum(counts, 1))[:, None] * e, 0)
        state, values = panel.step(state, x - origin, u, means, counts > 0, gap)
        return (state, means, counts), values

    start = panel.init(k, X.shape[1], dtype=X.dtype), jnp.zeros((k, X.shape[1]), X.dtype), jnp.zeros(k, jnp.int32)
    return jax.lax.scan(body, start, (X, slots, elapsed))[1]
