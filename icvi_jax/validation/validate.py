"""Validate: the indices along any recorded clustering."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.anchor import no_anchor
from icvi_jax.engine import inputs
from icvi_jax.engine.origin import Origin
from icvi_jax.engine.platforms import program_for
from icvi_jax.engine.sample_batch import Feed
from icvi_jax.engine.xla import scan_traced
from icvi_jax.numerics.arrays import namespace, usable
from icvi_jax.panel import Panel
from icvi_jax.types import Array, ArrayLike, DType, State
from icvi_jax.validation.follow import Follow, Labelled, Model, Place, Recorded, Source, unanchored
from icvi_jax.validation.rows import Rows
from icvi_jax.validation.time_parallel import lanes_for, starts


def validate(
    panel: Panel,
    X: ArrayLike,
    labels: ArrayLike | None = None,
    memberships: ArrayLike | None = None,
    centers: ArrayLike | None = None,
    active: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    parallel: bool = False,
    clusters: ArrayLike | None = None,
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
    elapsed : (T,), time since the previous sample; the panel's forgetting is per unit of this time.
    parallel : cut a long recording into stretches that are computed in parallel; equal up to rounding, and faster from
        about ten thousand samples on. Short recordings, and panels that need the clusters of slots, are not cut.
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
    if (labels is None) == (memberships is None):
        raise ValueError("validate: give either labels=, or memberships= and centers=")
    given = inputs.given("validate", X)
    x = given.x
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"validate(X=…): expected the axes (T, p) and at least one sample, got shape {tuple(x.shape)}")
    gaps = inputs.gaps("validate", elapsed, x.shape[:1])
    host = given.host and not inputs.traced(panel, memberships, centers, active, gaps)
    source: Source
    fixed: tuple[Array | None, Array | None, Array | None] = (None, None, None)
    parts: list[Array]
    if labels is not None:
        if clusters is not None:
            raise ValueError("validate(clusters=…): not with labels=; give memberships= and centers= of the slots")
        slots, k = slots_of(labels, len(x))
        source, parts = Labelled(k, x.shape[1]), [slots[:, None]]
    else:
        U, V, A = recorded("validate", x if host else jnp.asarray(x), memberships, centers, active)
        names = _named(clusters, tuple(U.shape), panel)
        # Values that never change are not in the rows.
        still = centers is not None and np.ndim(centers) == 2, active is None or np.ndim(active) == 1
        moving = names is not None and names.ndim == 2
        source = Recorded(U.shape[1], x.shape[1], moving)
        fixed = V[0] if still[0] else None, A[0] if still[1] else None, None if moving else names
        parts = [U, *([] if still[0] else [V.reshape(len(x), -1)]), *([] if still[1] else [A])]
        parts += [names] if names is not None and moving else []
    if host:
        times = None if gaps is None else np.asarray(gaps)
        host_parts = [np.asarray(part) for part in (x, *parts)]
        values: State = inputs.returned(
            _on_host(source, panel, fixed, host_parts, times, given.dtype, parallel), given.library
        )
        found: dict[str, Array] = values
        return found
    return _elsewhere(source, panel, fixed, x, parts, gaps)


def _on_host(
    source: Source,
    panel: Panel,
    fixed: tuple[Array | None, ...],
    parts: list[np.ndarray],
    elapsed: np.ndarray | None,
    dtype: np.dtype,
    parallel: bool,
) -> dict[str, np.ndarray]:
    """Compute the panel over a recording, cut into lanes or in one."""
    k, p = source.k, source.features
    anchor = Origin(no_anchor(p, (1,), np, dtype), by_column=False)
    anchor.meet(parts[0][None])
    origin = anchor.value[0]
    centers, active, names = fixed
    model = Model(panel, None if centers is None else np.asarray(centers - origin).astype(dtype), active, names)
    columns = np.zeros(source.columns(model))
    columns[:p] = origin
    if centers is None and isinstance(source, Recorded):
        columns[p + k : p + k + k * p] = np.tile(origin, k)
    lanes = lanes_for(panel, len(parts[0]), k, p) if parallel and not panel.grouped else 1
    rows = Rows(parts, columns, elapsed, lanes)
    state = Place(unanchored(panel.init(k, p, (lanes,), np, dtype)), source.start((lanes,), dtype))
    if lanes > 1:
        state = starts(source, model, state, rows, dtype)
    one = jax.tree.map(lambda a: a[..., 0], state)
    program = program_for(Follow(source), model, one, dtype, rows.columns, elapsed is not None, lanes)
    pieces: list[State] = []
    words = program.place(state, lanes)
    for piece, gaps in rows:
        values: State
        words, values = program.run(model, words, Feed(piece, rows.origin, gaps))
        pieces.append(values)
    return {name: rows.joined([piece[name] for piece in pieces]) for name in pieces[0]}


def _elsewhere(
    source: Source,
    panel: Panel,
    fixed: tuple[Array | None, ...],
    X: Array,
    parts: list[Array],
    elapsed: Array | None,
) -> dict[str, Array]:
    """Scan a recording that is traced or on another device, without moving it."""
    X = jnp.asarray(X)
    fit: jax.Array = jnp.asarray(usable(X))
    origin = X[jnp.argmax(jnp.all(fit, axis=1))]
    centers, active, names = fixed
    if centers is None and isinstance(source, Recorded):
        parts = [
            parts[0],
            (jnp.reshape(jnp.asarray(parts[1]), (len(X), source.k, -1)) - origin).reshape(len(X), -1),
            *parts[2:],
        ]
    model = Model(panel, None if centers is None else centers - origin, active, names)
    rows = jnp.concatenate([X - origin, *(jnp.asarray(part, X.dtype) for part in parts)], axis=1)
    start = jax.tree.map(jnp.asarray, source.start((), X.dtype))
    state = Place(unanchored(panel.init(source.k, source.features, dtype=X.dtype)), start)
    gaps = None if elapsed is None else jnp.asarray(elapsed, X.dtype)
    values: dict[str, Array] = scan_traced(Follow(source), model, state, rows, gaps)[1]
    return values


def slots_of(labels: ArrayLike, samples: int) -> tuple[np.ndarray, int]:
    """Slots 0, 1, … of integer labels in order of their values (−1 stays −1), and how many there are."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or len(labels) != samples:
        raise ValueError(f"validate(labels=…): expected one label per sample, ({samples},), got shape {labels.shape}")
    if not np.issubdtype(labels.dtype, np.integer):
        if not np.issubdtype(labels.dtype, np.floating) or not np.all(labels == np.round(labels)):
            raise ValueError(f"validate(labels=…): expected integers, −1 for noise; got {labels.dtype}")
        labels = labels.astype(np.int64)
    known = np.unique(labels[labels != -1])
    slots = np.searchsorted(known, labels)
    return np.where(labels == -1, -1, slots).astype(np.int32), max(len(known), 1)


def recorded(
    caller: str, X: Array, memberships: ArrayLike | None, centers: ArrayLike | None, active: ArrayLike | None
) -> tuple[Array, Array, Array]:
    """Memberships (T, k), centres (T, k, p) and active slots (T, k) as arrays that fit X, or an error."""
    xp = namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{caller}(X=…): expected the axes (T, p) and at least one sample, got shape {tuple(X.shape)}")
    wide = _widest(X, memberships, centers)
    U = xp.asarray(memberships, dtype=wide)
    T, p = X.shape
    if U.ndim != 2 or U.shape[0] != T or centers is None:
        raise ValueError(
            f"{caller}(memberships=…): expected the axes ({T}, k), and centers=; got shape {tuple(U.shape)}"
        )
    if not isinstance(U, jax.core.Tracer) and bool(xp.any(U < 0)):
        raise ValueError(f"{caller}(memberships=…): expected numbers of 0 or more, got {float(xp.min(U)):g}")
    k = U.shape[1]
    V = xp.asarray(centers, dtype=wide)
    if tuple(V.shape) not in ((k, p), (T, k, p)):
        raise ValueError(f"{caller}(centers=…): expected shape {(k, p)} or {(T, k, p)}, got {tuple(V.shape)}")
    A = xp.ones((T, k), dtype=xp.bool) if active is None else xp.asarray(active, dtype=xp.bool)
    if tuple(A.shape) not in ((k,), (T, k)):
        raise ValueError(f"{caller}(active=…): expected shape {(k,)} or {(T, k)}, got {tuple(A.shape)}")
    return U, xp.broadcast_to(V, (T, k, p)), xp.broadcast_to(A, (T, k))


def _named(clusters: ArrayLike | None, shape: tuple[int, ...], panel: Panel) -> np.ndarray | None:
    """The cluster of each slot, (k,) or (T, k), or None."""
    if clusters is None:
        if panel.of == "clusters":
            raise ValueError('validate(clusters=None): Panel(of="clusters") needs the cluster of each slot')
        return None
    names = np.asarray(clusters).astype(np.int32)
    if names.shape not in (shape[1:], shape):
        raise ValueError(f"validate(clusters=…): expected shape {shape[1:]} or {shape}, got {names.shape}")
    return names


def _widest(X: Array, *others: ArrayLike | None) -> DType:
    """The type of X; float64 if X is NumPy's and the centres are float64, which matters near a large offset."""
    if isinstance(X, np.ndarray) and any(np.result_type(np.asarray(a)) == np.float64 for a in others if a is not None):
        return np.float64
    return X.dtype
